//! The focused window of sway, over its IPC socket.
//!
//! i3 speaks the same protocol and leaves out the process of a window; it is an X11 window manager, whose active
//! window [`super::x11`] follows.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use swayipc::{Connection, Event, EventType, Node, WindowChange};

use super::Heard;

/// sway cannot be followed any more.
#[derive(Debug, thiserror::Error)]
pub enum SwayError {
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
}

/// `$SWAYSOCK`, or the youngest socket of sway in the folders of `sessions` (`/run/user`).
#[must_use]
pub fn socket(sessions: &Path) -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("SWAYSOCK").filter(|path| !path.is_empty()) {
        return Some(path.into());
    }
    let sessions = std::fs::read_dir(sessions).ok()?.flatten();
    let files = sessions.filter_map(|session| std::fs::read_dir(session.path()).ok());
    files
        .flatten()
        .flatten()
        .filter(|file| {
            let name = file.file_name();
            let name = name.to_string_lossy();
            name.starts_with("sway-ipc.") && name.ends_with(".sock")
        })
        .max_by_key(|file| file.metadata().and_then(|found| found.modified()).ok())
        .map(|file| file.path())
}

/// Tells whose window is focused, now and whenever that changes, until `tell` returns false. Sleeps meanwhile.
///
/// # Errors
/// [`SwayError`].
pub fn follow(path: &Path, tell: impl Fn(Heard) -> bool) -> Result<(), SwayError> {
    let connect = || {
        UnixStream::connect(path).map_err(|source| SwayError::Connect {
            path: path.to_owned(),
            source,
        })
    };
    // What comes between the subscription and the look at the tree is told twice, and nothing is missed.
    let events = Connection::from(connect()?).subscribe([EventType::Window])?;
    let tree = Connection::from(connect()?).get_tree()?;
    let focused = tree.find_focused_as_ref(|node| node.pid.is_some());
    let live = Heard::Live(format!("socket {}", path.display()));
    if !tell(live) || !tell_window(focused, &tell) {
        return Ok(());
    }
    for event in events {
        if let Event::Window(window) = event?
            && window.change == WindowChange::Focus
            && !tell_window(Some(&window.container), &tell)
        {
            return Ok(());
        }
    }
    Ok(())
}

fn tell_window(node: Option<&Node>, tell: impl Fn(Heard) -> bool) -> bool {
    let pid = node.and_then(|node| node.pid);
    let pid = pid.and_then(|pid| u32::try_from(pid).ok());
    pid.is_none_or(|pid| tell(Heard::Window(pid)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_youngest_socket_of_any_session_is_taken() {
        if std::env::var_os("SWAYSOCK").is_some() {
            warmswap_testkit::skip!(
                "the_youngest_socket_of_any_session_is_taken",
                "SWAYSOCK is set, and wins"
            );
        }
        let place = tempfile::tempdir().unwrap();
        assert_eq!(socket(place.path()), None);
        for (file, age_seconds) in [
            ("1000/sway-ipc.1000.7.sock", 50),
            ("1001/sway-ipc.1001.9.sock", 10),
            ("1001/other.sock", 0),
        ] {
            let path = place.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let file = std::fs::File::create(path).unwrap();
            let time = std::time::SystemTime::now() - std::time::Duration::from_secs(age_seconds);
            file.set_modified(time).unwrap();
        }

        let found = socket(place.path()).unwrap();

        assert_eq!(found, place.path().join("1001/sway-ipc.1001.9.sock"));
    }
}
