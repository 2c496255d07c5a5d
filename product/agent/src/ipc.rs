//! The focused window of sway or i3, over the IPC that i3 began with and both speak.
//!
//! sway says which process a window belongs to. i3 says which window of its X server it is, and leaves the rest to the
//! server ([`Windows`]).

use std::ffi::OsStr;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use swayipc::{CommandType, Error, Event, Node, Success, WindowChange};

use super::Heard;
use super::x11::{Windows, X11Error};

/// Longest payload of a message, in bytes. A tree of a thousand windows takes about 1 MiB.
const MAX_PAYLOAD_BYTES: u32 = 16 << 20;

/// The events that are asked for.
const SUBSCRIPTION: &str = r#"["window"]"#;

/// The window manager cannot be followed any more.
#[derive(Debug, thiserror::Error)]
pub enum IpcError {
    /// The socket cannot be connected to.
    #[error("socket {}: {source}", path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// What came over it is not understood, or it ended.
    #[error("{0}")]
    Ipc(#[from] swayipc::Error),
    /// It announces a message that is too long.
    #[error("a message of {bytes} bytes is announced, and {MAX_PAYLOAD_BYTES} are the most")]
    TooLong {
        /// Bytes of its payload.
        bytes: u32,
    },
    /// The X server does not say whose windows they are.
    #[error("{0}")]
    X11(#[from] X11Error),
}

/// `$SWAYSOCK`, or the youngest socket of sway in the folders of `sessions` (`/run/user`).
#[must_use]
pub fn sway_socket(sessions: &Path) -> Option<PathBuf> {
    let sessions = folders(sessions);
    told("SWAYSOCK").or_else(|| {
        youngest(&sessions, |name| {
            name.starts_with("sway-ipc.") && name.ends_with(".sock")
        })
    })
}

/// `$I3SOCK`, or the youngest socket of i3 in the folders of `sessions` (`/run/user`). Where a user has no session, i3's
/// is in a folder of `/tmp`, where anybody could put one: that has to be configured.
#[must_use]
pub fn i3_socket(sessions: &Path) -> Option<PathBuf> {
    let of_session = |folder: PathBuf| folder.join("i3");
    let places: Vec<PathBuf> = folders(sessions).into_iter().map(of_session).collect();
    told("I3SOCK").or_else(|| youngest(&places, |name| name.starts_with("ipc-socket.")))
}

/// The socket that a variable of the environment names.
fn told(variable: &str) -> Option<PathBuf> {
    let path = std::env::var_os(variable)?;
    (!path.is_empty()).then(|| path.into())
}

fn folders(of: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(of).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn name(path: &Path) -> std::borrow::Cow<'_, str> {
    path.file_name()
        .map(OsStr::to_string_lossy)
        .unwrap_or_default()
}

/// The file in these folders that has such a name and was changed last.
fn youngest(folders: &[PathBuf], is_socket: impl Fn(&str) -> bool) -> Option<PathBuf> {
    let files = folders.iter().flat_map(|folder| self::folders(folder));
    files
        .filter(|file| is_socket(&name(file)))
        .max_by_key(|file| {
            // A link may lead to a file system that does not answer.
            let found = file.symlink_metadata();
            found.and_then(|found| found.modified()).ok()
        })
}

fn send(stream: &mut UnixStream, message: &[u8]) -> Result<(), IpcError> {
    Ok(stream.write_all(message).map_err(Error::from)?)
}

/// The next message: its kind and its payload. swayipc's own reader allocates whatever length the header announces, and
/// the window manager may be any program.
fn receive(stream: &mut UnixStream) -> Result<(u32, Vec<u8>), IpcError> {
    let mut header = [0; 14];
    stream.read_exact(&mut header).map_err(Error::from)?;
    let [magic @ .., l0, l1, l2, l3, k0, k1, k2, k3] = header;
    if magic != swayipc::MAGIC {
        return Err(Error::InvalidMagic(magic).into());
    }
    let bytes = u32::from_ne_bytes([l0, l1, l2, l3]);
    if bytes > MAX_PAYLOAD_BYTES {
        return Err(IpcError::TooLong { bytes });
    }
    // The room grows with what arrives.
    let mut payload = Vec::new();
    let read = stream.take(bytes.into()).read_to_end(&mut payload);
    if read.map_err(Error::from)? < bytes as usize {
        return Err(Error::from(io::Error::from(io::ErrorKind::UnexpectedEof)).into());
    }
    Ok((u32::from_ne_bytes([k0, k1, k2, k3]), payload))
}

/// Tells whose window is focused, now and whenever that changes, until `tell` returns false. Sleeps meanwhile. Of
/// windows that come without their process, `windows` is asked for it, once it is there.
///
/// # Errors
/// [`IpcError`].
pub fn follow(
    path: &Path,
    mut windows: impl FnMut() -> Result<Windows, X11Error>,
    tell: impl Fn(Heard) -> bool,
) -> Result<(), IpcError> {
    let connect = || {
        UnixStream::connect(path).map_err(|source| IpcError::Connect {
            path: path.to_owned(),
            source,
        })
    };
    // What comes between the subscription and the look at the tree is told twice, and nothing is missed.
    let mut events = connect()?;
    let subscribe = CommandType::Subscribe;
    send(&mut events, &subscribe.encode_with(SUBSCRIPTION))?;
    let subscribed: Success = subscribe.decode(receive(&mut events)?)?;
    if !subscribed.success {
        return Err(Error::SubscriptionFailed(SUBSCRIPTION.to_owned()).into());
    }
    let mut once = connect()?;
    send(&mut once, &CommandType::GetTree.encode())?;
    let tree: Node = CommandType::GetTree.decode(receive(&mut once)?)?;
    drop(once);
    let mut known = None;
    let mut process = |node: &Node| -> Result<Option<u32>, X11Error> {
        if let Some(pid) = node.pid {
            return Ok(u32::try_from(pid).ok());
        }
        let Some(window) = node.window.and_then(|id| u32::try_from(id).ok()) else {
            return Ok(None);
        };
        let windows = match &known {
            Some(windows) => windows,
            None => known.insert(windows()?),
        };
        windows.process(window)
    };
    let is_window = |node: &Node| node.pid.is_some() || node.window.is_some();
    let focused = tree.find_focused_as_ref(is_window);
    let focused = focused.map(&mut process).transpose()?.flatten();
    let live = Heard::Live(format!("socket {}", path.display()));
    if !tell(live) || focused.is_some_and(|pid| !tell(Heard::Window(pid))) {
        return Ok(());
    }
    loop {
        if let Event::Window(window) = Event::decode(receive(&mut events)?)?
            && window.change == WindowChange::Focus
            && let Some(pid) = process(&window.container)?
            && !tell(Heard::Window(pid))
        {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files in a folder of their own, with their ages in seconds.
    fn place(files: &[(&str, u64)]) -> tempfile::TempDir {
        let place = tempfile::tempdir().unwrap();
        for (file, age_seconds) in files {
            let path = place.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let file = std::fs::File::create(path).unwrap();
            let time = std::time::SystemTime::now() - std::time::Duration::from_secs(*age_seconds);
            file.set_modified(time).unwrap();
        }
        place
    }

    #[test]
    fn the_youngest_socket_of_any_session_is_taken() {
        if std::env::var_os("SWAYSOCK").is_some() {
            warmswap_testkit::skip!(
                "the_youngest_socket_of_any_session_is_taken",
                "SWAYSOCK is set, and wins"
            );
        }
        let place = place(&[
            ("1000/sway-ipc.1000.7.sock", 50),
            ("1001/sway-ipc.1001.9.sock", 10),
            ("1001/other.sock", 0),
            ("1001/i3/ipc-socket.7", 0),
        ]);

        let found = sway_socket(place.path()).unwrap();

        assert_eq!(found, place.path().join("1001/sway-ipc.1001.9.sock"));
        assert_eq!(sway_socket(&place.path().join("1000/none")), None);
    }

    #[test]
    fn the_youngest_socket_of_i3_is_taken() {
        if std::env::var_os("I3SOCK").is_some() {
            warmswap_testkit::skip!(
                "the_youngest_socket_of_i3_is_taken",
                "I3SOCK is set, and wins"
            );
        }
        let place = place(&[
            ("1000/i3/ipc-socket.7", 50),
            ("1001/i3/ipc-socket.9", 10),
            ("1001/sway-ipc.1001.9.sock", 0),
        ]);

        let found = i3_socket(place.path()).unwrap();

        assert_eq!(found, place.path().join("1001/i3/ipc-socket.9"));
        assert_eq!(i3_socket(&place.path().join("1000/none")), None);
    }
}
