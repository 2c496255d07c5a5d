//! The active window of an X server.
//!
//! Window managers keep the property `_NET_ACTIVE_WINDOW` of the root window (Extended Window Manager Hints).
//! The process behind a window comes from the X-Resource extension, which asks the kernel for the process at the other
//! end of the socket; where it has none, from the window's own `_NET_WM_PID`.

mod bounded;

use std::borrow::Cow;
use std::io::IoSlice;
use std::path::Path;

use x11rb::connection::{Connection as _, RequestConnection as _};
use x11rb::cookie::Cookie;
use x11rb::errors::{ConnectError, ConnectionError, ReplyError};
use x11rb::protocol::Event;
use x11rb::protocol::res::{
    self, ClientIdMask, ClientIdSpec, QueryClientIdsReply, QueryClientIdsRequest,
};
use x11rb::protocol::xproto::{
    AtomEnum, ChangeWindowAttributesAux, ConnectionExt as _, EventMask, Window,
};
use x11rb::rust_connection::RustConnection;

use super::Heard;
use bounded::BoundedStream;

x11rb::atom_manager! {
    /// The names that are asked for.
    Atoms: AtomsCookie {
        _NET_ACTIVE_WINDOW,
        _NET_WM_PID,
    }
}

/// An X server cannot be followed any more.
#[derive(Debug, thiserror::Error)]
pub enum X11Error {
    /// There is none, or it does not let this process in.
    #[error("display {display}: {source}; is XAUTHORITY set?")]
    Connect {
        /// The display.
        display: String,
        /// Why.
        #[source]
        source: ConnectError,
    },
    /// None is configured, and none was found.
    #[error("no display says whose windows they are")]
    NoDisplay,
    /// It ended.
    #[error("display closed: {0}")]
    Closed(#[from] ConnectionError),
    /// It refuses what every X server does.
    #[error("the display refuses: {0}")]
    Refused(#[from] ReplyError),
    /// It has no such screen.
    #[error("the display has no screen {0}")]
    NoScreen(usize),
}

/// `$DISPLAY`, or the first display with a socket in `sockets` (`/tmp/.X11-unix`).
#[must_use]
pub fn display(sockets: &Path) -> Option<String> {
    if let Some(display) = std::env::var("DISPLAY").ok().filter(|d| !d.is_empty()) {
        return Some(display);
    }
    let entries = std::fs::read_dir(sockets).ok()?;
    let names = entries.flatten().map(|entry| entry.file_name());
    names
        .filter_map(|name| name.to_str()?.strip_prefix('X')?.parse::<u32>().ok())
        .min()
        .map(|number| format!(":{number}"))
}

/// A connection to an X server that says which process a window belongs to.
#[derive(Debug)]
pub struct Windows {
    connection: RustConnection<BoundedStream>,
    atoms: Atoms,
    screen: usize,
    /// What requests of X-Resource begin with; `None` where the server has no such extension.
    resource_opcode: Option<u8>,
}

impl Windows {
    /// The windows of a display.
    ///
    /// # Errors
    /// [`X11Error`].
    pub fn connect(display: &str) -> Result<Self, X11Error> {
        let (connection, screen) =
            bounded::connect(display).map_err(|source| X11Error::Connect {
                display: display.to_owned(),
                source,
            })?;
        let atoms = Atoms::new(&connection)?.reply()?;
        let resource_opcode = resource_opcode(&connection)?;
        Ok(Self {
            connection,
            atoms,
            screen,
            resource_opcode,
        })
    }

    fn root(&self) -> Result<Window, X11Error> {
        let root = self.connection.setup().roots.get(self.screen);
        Ok(root.ok_or(X11Error::NoScreen(self.screen))?.root)
    }

    /// The process behind a window; `None` for one of another machine, or one that is gone.
    ///
    /// # Errors
    /// [`X11Error`].
    pub fn process(&self, window: Window) -> Result<Option<u32>, X11Error> {
        let by_server = self.server_says(window)?;
        if by_server.is_some() {
            return Ok(by_server);
        }
        let by_client = self.number(window, self.atoms._NET_WM_PID, AtomEnum::CARDINAL)?;
        Ok(by_client.filter(|&pid| pid != 0))
    }

    /// What the X-Resource extension says.
    fn server_says(&self, window: Window) -> Result<Option<u32>, X11Error> {
        let Some(opcode) = self.resource_opcode else {
            return Ok(None);
        };
        let spec = ClientIdSpec {
            client: window,
            mask: ClientIdMask::LOCAL_CLIENT_PID,
        };
        let request = QueryClientIdsRequest {
            specs: Cow::Borrowed(&[spec]),
        };
        let (bytes, fds) = request.serialize(opcode);
        let parts = bytes.each_ref().map(|bytes| IoSlice::new(bytes));
        let asked: Cookie<'_, _, QueryClientIdsReply> =
            self.connection.send_request_with_reply(&parts, fds)?;
        match asked.raw_reply() {
            Ok(reply) => Ok(local_pid(&reply)),
            Err(ReplyError::X11Error(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn active(&self, root: Window) -> Result<Option<Window>, X11Error> {
        let found = self.number(root, self.atoms._NET_ACTIVE_WINDOW, AtomEnum::WINDOW)?;
        Ok(found.filter(|&window| window != 0))
    }

    /// One number of 32 bits that a property holds.
    fn number(
        &self,
        window: Window,
        property: u32,
        kind: AtomEnum,
    ) -> Result<Option<u32>, X11Error> {
        let asked = self
            .connection
            .get_property(false, window, property, kind, 0, 1)?;
        match asked.reply() {
            Ok(reply) => Ok(reply.value32().and_then(|mut values| values.next())),
            // The window is gone.
            Err(ReplyError::X11Error(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Asks for X-Resource. The library's own search holds a lock while it waits, for which it can wait itself.
fn resource_opcode(
    connection: &RustConnection<BoundedStream>,
) -> Result<Option<u8>, ConnectionError> {
    let asked = connection.query_extension(res::X11_EXTENSION_NAME.as_bytes())?;
    match asked.reply() {
        Ok(reply) => Ok(reply.present.then_some(reply.major_opcode)),
        Err(ReplyError::X11Error(_)) => Ok(None),
        Err(ReplyError::ConnectionError(error)) => Err(error),
    }
}

/// The process of a client in a reply to QueryClientIds. The library's own parser sets memory aside for as many identities
/// as the server claims to send: up to 128 GiB.
fn local_pid(reply: &[u8]) -> Option<u32> {
    let word = |at: usize| {
        let bytes = reply.get(at..)?.first_chunk()?;
        Some(u32::from_ne_bytes(*bytes))
    };
    // After the header each has client, mask, length in bytes, and as many values.
    let mut at = 32;
    for _ in 0..word(8)? {
        let (mask, bytes) = (word(at + 4)?, word(at + 8)? as usize);
        if mask == u32::from(ClientIdMask::LOCAL_CLIENT_PID) && bytes >= size_of::<u32>() {
            return word(at + 12).filter(|&pid| pid != 0);
        }
        at += 12 + bytes / size_of::<u32>() * size_of::<u32>();
    }
    None
}

/// Tells whose window is active, now and whenever that changes, until `tell` returns false. Sleeps meanwhile.
///
/// # Errors
/// [`X11Error`].
pub fn follow(display: &str, tell: impl Fn(Heard) -> bool) -> Result<(), X11Error> {
    let windows = Windows::connect(display)?;
    let root = windows.root()?;
    let events = ChangeWindowAttributesAux::new().event_mask(EventMask::PROPERTY_CHANGE);
    windows
        .connection
        .change_window_attributes(root, &events)?
        .check()?;
    if !tell(Heard::Live(format!("display {display}"))) {
        return Ok(());
    }
    let mut last = None;
    loop {
        let active = windows.active(root)?;
        if active != last {
            last = active;
            if let Some(window) = active
                && let Some(pid) = windows.process(window)?
                && !tell(Heard::Window(pid))
            {
                return Ok(());
            }
        }
        loop {
            if let Event::PropertyNotify(event) = windows.connection.wait_for_event()?
                && event.atom == windows.atoms._NET_ACTIVE_WINDOW
            {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_is_found_in_what_the_server_sent_and_nowhere_else() {
        let reply = |claimed: u32, ids: &[&[u32]]| {
            let mut words = vec![1, 0, claimed, 0, 0, 0, 0, 0];
            ids.iter().for_each(|id| words.extend_from_slice(id));
            let bytes = words.iter().flat_map(|word: &u32| word.to_ne_bytes());
            bytes.collect::<Vec<_>>()
        };
        let (of_xid, of_pid) = ([7, 1, 0].as_slice(), [7, 2, 4, 4711].as_slice());
        assert_eq!(local_pid(&reply(2, &[of_xid, of_pid])), Some(4711));
        assert_eq!(local_pid(&reply(1, &[of_xid, of_pid])), None);
        assert_eq!(local_pid(&reply(u32::MAX, &[of_xid])), None);
        assert_eq!(local_pid(&reply(1, &[&[7, 2, 4, 0]])), None);
        assert_eq!(local_pid(&reply(1, &[&[7, 2, 0, 4711]])), None);
        assert_eq!(local_pid(&reply(1, &[&[7, 1, u32::MAX, 0], of_pid])), None);
        assert_eq!(local_pid(&reply(0, &[])[..8]), None);
    }

    #[test]
    fn the_first_display_with_a_socket_is_taken() {
        if std::env::var_os("DISPLAY").is_some() {
            warmswap_testkit::skip!(
                "the_first_display_with_a_socket_is_taken",
                "DISPLAY is set, and wins"
            );
        }
        let place = tempfile::tempdir().unwrap();
        assert_eq!(display(place.path()), None);
        for name in ["X12", "X3", "Xa", "other"] {
            std::fs::write(place.path().join(name), "").unwrap();
        }

        assert_eq!(display(place.path()).as_deref(), Some(":3"));
        assert_eq!(display(Path::new("/nonexistent")), None);
    }
}
