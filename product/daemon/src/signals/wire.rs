//! What the daemon and a helper say to each other: messages of bounded length, each with its length before it.
//!
//! | bytes | what |
//! |---|---|
//! | 2 | length of what follows, little-endian: 1 to [`MAX_BYTES`] |
//! | 1 | kind |
//! | the others | a text in UTF-8, or a process number of 4 bytes, little-endian |
//!
//! The daemon trusts no helper: a malformed message ends it, and control characters in text are replaced.

use std::io::{self, ErrorKind, Read, Write};

/// Longest message, in bytes without its length: a path, or the reason why something failed.
pub const MAX_BYTES: usize = 1024;

/// Longest text that is kept of a helper's, in bytes.
const MAX_SHOWN_BYTES: usize = 300;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// To the helper: follow the active window of this display.
    FollowX11(String),
    /// To the helper: follow the focused window of the window manager with this socket.
    FollowIpc(String),
    /// To the helper, before [`Message::FollowIpc`]: this display says whose windows they are.
    Display(String),
    /// To the daemon: it is listened to from now on; where it is.
    Live(String),
    /// To the daemon: a window of this process is looked at.
    Window(u32),
    /// To the daemon: it cannot be followed any more; why.
    Failed(String),
}

/// What comes from the other end is no message.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The length is not one that a message has.
    #[error("a message of {0} bytes")]
    Length(usize),
    /// There is no such kind, or its content is none.
    #[error("a message of kind {0} that cannot be understood")]
    Content(u8),
    /// It ended within a message, or cannot be read.
    #[error("{0}")]
    Read(#[from] io::Error),
}

impl Message {
    /// Writes it; text that is too long loses its end.
    ///
    /// # Errors
    /// The writer's.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let number;
        let (kind, content) = match self {
            Self::FollowX11(text) => (1, text.as_bytes()),
            Self::FollowIpc(text) => (2, text.as_bytes()),
            Self::Display(text) => (3, text.as_bytes()),
            Self::Live(text) => (4, text.as_bytes()),
            Self::Window(pid) => {
                number = pid.to_le_bytes();
                (5, &number[..])
            }
            Self::Failed(text) => (6, text.as_bytes()),
        };
        let content = &content[..content.len().min(MAX_BYTES - 1)];
        let len = content.len() as u16 + 1;
        let mut bytes = len.to_le_bytes().to_vec();
        bytes.push(kind);
        bytes.extend_from_slice(content);
        to.write_all(&bytes)
    }

    /// Reads the next one; `None` when the other end closed between two messages. Holds at most [`MAX_BYTES`].
    ///
    /// # Errors
    /// [`WireError`]; there is no telling then where the next one begins.
    pub fn read(from: &mut impl Read) -> Result<Option<Self>, WireError> {
        let mut len = [0; 2];
        loop {
            match from.read(&mut len[..1]) {
                Ok(0) => return Ok(None),
                Ok(_) => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        from.read_exact(&mut len[1..])?;
        let len = usize::from(u16::from_le_bytes(len));
        if !(1..=MAX_BYTES).contains(&len) {
            return Err(WireError::Length(len));
        }
        let mut bytes = [0; MAX_BYTES];
        let bytes = &mut bytes[..len];
        from.read_exact(bytes)?;
        let (kind, content) = (bytes[0], &bytes[1..]);
        let text = || match std::str::from_utf8(content) {
            Ok(text) if !text.contains('\0') => Ok(text.to_owned()),
            _ => Err(WireError::Content(kind)),
        };
        let message = match kind {
            1 => Self::FollowX11(text()?),
            2 => Self::FollowIpc(text()?),
            3 => Self::Display(text()?),
            4 => Self::Live(shown(content)),
            5 => {
                let number = content.try_into().map_err(|_| WireError::Content(kind))?;
                Self::Window(u32::from_le_bytes(number))
            }
            6 => Self::Failed(shown(content)),
            _ => return Err(WireError::Content(kind)),
        };
        Ok(Some(message))
    }
}

/// A text that a terminal can be sent.
fn shown(text: &[u8]) -> String {
    let text = &text[..text.len().min(MAX_SHOWN_BYTES)];
    let text = String::from_utf8_lossy(text);
    let fit = |c: char| if c.is_control() { '?' } else { c };
    text.chars().map(fit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(message: &Message) -> Vec<u8> {
        let mut bytes = Vec::new();
        message.write(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn messages_are_read_back_one_after_the_other() {
        let messages = [
            Message::FollowX11(":7".to_owned()),
            Message::Display(":8".to_owned()),
            Message::FollowIpc("/run/user/1000/sway.sock".to_owned()),
            Message::Live("display :7".to_owned()),
            Message::Window(4711),
            Message::Failed(String::new()),
        ];
        let all: Vec<u8> = messages.iter().flat_map(bytes).collect();
        let mut from = &all[..];
        for message in messages {
            assert_eq!(Message::read(&mut from).unwrap(), Some(message));
        }
        assert_eq!(Message::read(&mut from).unwrap(), None);
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        let length = |bytes: [u8; 2]| Message::read(&mut &bytes[..]).unwrap_err();
        assert!(matches!(length([0, 0]), WireError::Length(0)));
        assert!(matches!(length([255, 255]), WireError::Length(65_535)));
        assert!(matches!(length([4, 0]), WireError::Read(_)));
        for content in [
            &[1, 0, 9][..],
            &[2, 0, 5, 1],
            &[3, 0, 1, 255, 255],
            &[2, 0, 2, 0],
        ] {
            let error = Message::read(&mut &content[..]).unwrap_err();
            assert!(
                matches!(error, WireError::Content(_)),
                "{content:?}: {error}"
            );
        }
    }

    #[test]
    fn text_of_a_helper_is_made_fit_to_be_shown() {
        let evil = Message::Failed(format!("\u{1b}[2J\n{}", "x".repeat(5000)));
        let Ok(Some(Message::Failed(text))) = Message::read(&mut &bytes(&evil)[..]) else {
            panic!("a text");
        };
        assert!(text.starts_with("?[2J?xxx"), "{text}");
        assert_eq!(text.len(), MAX_SHOWN_BYTES);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let mut from = &bytes[..];
            while let Ok(Some(_)) = Message::read(&mut from) {}
        }
    }
}
