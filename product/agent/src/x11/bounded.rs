//! A connection to an X server that announces no packet longer than [`MAX_PACKET_BYTES`].
//!
//! x11rb makes room for a packet as soon as its header says how long it is, which can be 16 GiB. Any user can put a
//! socket where the first display is looked for, so the headers are read here first, and a long one ends the connection.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};

use x11rb::errors::{ConnectError, DisplayParsingError};
use x11rb::protocol::xproto::GE_GENERIC_EVENT;
use x11rb::reexports::x11rb_protocol::parse_display::{ParsedDisplay, parse_display};
use x11rb::reexports::x11rb_protocol::xauth::{Family, get_auth};
use x11rb::rust_connection::{DefaultStream, PollMode, RustConnection, Stream};
use x11rb::utils::RawFdContainer;

/// Longest packet behind its header, in bytes. The replies that are asked for have less than 100.
const MAX_PACKET_BYTES: u64 = 1 << 20;

/// Bytes of the header of the answer to the connection's setup.
const SETUP_HEADER_BYTES: usize = 8;

/// Bytes of the header of any other packet.
const HEADER_BYTES: usize = 32;

/// Kind of a packet that is a reply.
const REPLY: u8 = 1;

/// The last display, whose port of TCP, 6000 above its number, is the last that there is.
const LAST_DISPLAY: u16 = u16::MAX - 6000;

/// Follows where packets begin in the bytes that are read.
#[derive(Debug, Default)]
struct Framing {
    is_set_up: bool,
    header: [u8; HEADER_BYTES],
    /// Bytes of the header that were seen.
    seen: usize,
    /// Bytes until the next header.
    body: u64,
}

impl Framing {
    /// Goes on by `bytes`.
    ///
    /// # Errors
    /// When they announce a packet that is too long.
    fn advance(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let skipped = usize::try_from(self.body).map_or(bytes.len(), |n| n.min(bytes.len()));
            bytes = &bytes[skipped..];
            self.body -= skipped as u64;
            let needed = if self.is_set_up {
                HEADER_BYTES
            } else {
                SETUP_HEADER_BYTES
            };
            let taken = bytes.len().min(needed - self.seen);
            self.header[self.seen..][..taken].copy_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            self.seen += taken;
            if self.seen == needed {
                self.body = self.announced();
                self.seen = 0;
                self.is_set_up = true;
            }
            if self.body > MAX_PACKET_BYTES {
                let what = format!("a packet of {} bytes is announced", self.body);
                return Err(Error::new(ErrorKind::InvalidData, what));
            }
        }
        Ok(())
    }

    /// Bytes that follow the header.
    fn announced(&self) -> u64 {
        let [kind, _, _, _, l0, l1, l2, l3, ..] = self.header;
        let words = if !self.is_set_up {
            u16::from_ne_bytes([l2, l3]).into()
        } else if kind == REPLY || kind & 0x7f == GE_GENERIC_EVENT {
            u32::from_ne_bytes([l0, l1, l2, l3])
        } else {
            0
        };
        u64::from(words) * 4
    }
}

/// A stream whose headers are read before anybody else sees them.
#[derive(Debug)]
pub struct BoundedStream {
    inner: DefaultStream,
    framing: Mutex<Framing>,
}

impl Stream for BoundedStream {
    fn poll(&self, mode: PollMode) -> Result<()> {
        self.inner.poll(mode)
    }

    fn read(&self, buffer: &mut [u8], fds: &mut Vec<RawFdContainer>) -> Result<usize> {
        let mut framing = self.framing.lock().unwrap_or_else(PoisonError::into_inner);
        let read = self.inner.read(buffer, fds)?;
        framing.advance(&buffer[..read])?;
        Ok(read)
    }

    fn write(&self, bytes: &[u8], fds: &mut Vec<RawFdContainer>) -> Result<usize> {
        self.inner.write(bytes, fds)
    }

    fn write_vectored(
        &self,
        buffers: &[IoSlice<'_>],
        fds: &mut Vec<RawFdContainer>,
    ) -> Result<usize> {
        self.inner.write_vectored(buffers, fds)
    }
}

/// Connects to a display as [`RustConnection::connect`] does; returns its screen, too.
///
/// # Errors
/// [`ConnectError`].
pub fn connect(
    display: &str,
) -> std::result::Result<(RustConnection<BoundedStream>, usize), ConnectError> {
    let parsed = parse_display(Some(display))?;
    // x11rb would add beyond the largest number.
    if parsed.display > LAST_DISPLAY {
        return Err(DisplayParsingError::MalformedValue(display.into()).into());
    }
    let (inner, (family, peer)) = stream(&parsed)?;
    // Where authority cannot be read, the server says whether it is needed.
    let authority = get_auth(family, &peer, parsed.display).ok().flatten();
    let (name, data) = authority.unwrap_or_default();
    let stream = BoundedStream {
        inner,
        framing: Mutex::default(),
    };
    let screen = parsed.screen.into();
    let connection = RustConnection::connect_to_stream_with_auth_info(stream, screen, name, data)?;
    Ok((connection, screen))
}

/// A stream to the first address of a display that answers, and what authority over it goes by.
fn stream(
    display: &ParsedDisplay,
) -> std::result::Result<(DefaultStream, (Family, Vec<u8>)), ConnectError> {
    // x11rb 0.14 takes the path of a socket for a display, and would connect to display 0.
    if display.host.starts_with('/') {
        let stream = UnixStream::connect(&display.host).and_then(DefaultStream::from_unix_stream);
        return stream.map_err(ConnectError::IoError);
    }
    let mut error = DisplayParsingError::Unknown.into();
    for address in display.connect_instruction() {
        match DefaultStream::connect(&address) {
            Ok(connected) => return Ok(connected),
            Err(failed) => error = ConnectError::IoError(failed),
        }
    }
    Err(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a server sends: the answer to the setup, a reply with a body, an event.
    fn packets(reply_words: u32) -> Vec<u8> {
        let mut bytes = vec![1, 0, 11, 0, 0, 0];
        bytes.extend(2u16.to_ne_bytes());
        bytes.extend([7; 8]);
        let mut reply = [0; HEADER_BYTES];
        reply[0] = REPLY;
        reply[4..8].copy_from_slice(&reply_words.to_ne_bytes());
        bytes.extend(reply);
        // The bytes of a body look like a header that announces much.
        bytes.resize(bytes.len() + reply_words.min(30) as usize * 4, 1);
        bytes.extend([28; HEADER_BYTES]);
        bytes
    }

    #[test]
    fn a_display_without_a_port_is_malformed() {
        for display in [":59536", "localhost:65535", "unix/host:60000.0"] {
            let error = connect(display).unwrap_err();
            assert!(error.to_string().contains(display), "{error}");
        }
        let error = connect("unix/:59535").unwrap_err();
        assert!(matches!(error, ConnectError::IoError(_)), "{error}");
    }

    #[test]
    fn headers_are_found_however_the_bytes_come() {
        let bytes = packets(30);
        for part in 1..bytes.len() {
            let mut framing = Framing::default();
            for bytes in bytes.chunks(part) {
                framing.advance(bytes).unwrap();
            }
            assert_eq!((framing.seen, framing.body), (0, 0), "in parts of {part}");
        }
    }

    #[test]
    fn a_long_packet_is_refused_when_its_header_is_complete() {
        let bytes = packets(u32::MAX);
        let header_end = 16 + HEADER_BYTES;
        let mut framing = Framing::default();
        framing.advance(&bytes[..header_end - 1]).unwrap();
        let error = framing.advance(&bytes[header_end - 1..]).unwrap_err();
        assert!(error.to_string().contains("17179869180 bytes"), "{error}");
    }
}
