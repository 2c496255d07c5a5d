//! The control socket, served by a thread that asks the daemon's.

use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use warmswap_protocol::{Access, Server, ServerError, Switches};
use warmswap_sys::runtime::Reach;
use warmswap_sys::{FileError, Root, file};

use crate::event::Events;

/// The socket cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// It cannot be made.
    #[error("control socket: {0}; is another daemon running?")]
    InUse(#[source] ServerError),
    /// It cannot be made for another reason.
    #[error("control socket: {0}")]
    Server(#[source] ServerError),
    /// Its folder, or the list of groups, cannot be used.
    #[error("control socket: {0}")]
    File(#[from] FileError),
    /// There is no such group.
    #[error("control socket: there is no group {0:?}; make one, or leave socket-group empty")]
    NoGroup(String),
    /// Its thread cannot be started.
    #[error("control socket: cannot start a thread: {0}")]
    Thread(#[source] std::io::Error),
}

/// A socket that is bound, and not yet served: the process that holds it is the only daemon here.
#[derive(Debug)]
pub struct Socket {
    server: Server,
    access: Access,
}

impl Socket {
    /// Makes the socket at `path`, and its folder; members of `group` may use it too.
    ///
    /// # Errors
    /// [`ControlError`].
    pub fn bind(root: &Root, path: &Path, group: Option<&str>) -> Result<Self, ControlError> {
        let access = match group {
            Some(name) => Access::Group(group_number(root, name)?),
            None => Access::Owner,
        };
        if let Some(folder) = path.parent() {
            make_folder(root, folder, access)?;
        }
        match Server::bind_for(path, access) {
            Ok(server) => Ok(Self { server, access }),
            Err(error @ ServerError::InUse { .. }) => Err(ControlError::InUse(error)),
            Err(error) => Err(ControlError::Server(error)),
        }
    }

    /// Where programs that may connect to it hear of switches.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn switches(&self) -> Result<Switches, FileError> {
        Switches::make(self.server.path(), self.access)
    }

    /// Serves it from a thread of its own.
    ///
    /// # Errors
    /// [`ControlError::Thread`].
    pub fn serve(self, events: Events) -> Result<Control, ControlError> {
        let Self { mut server, .. } = self;
        let path = server.path().to_owned();
        let ended = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&ended);
        let serve = move || {
            while !end.load(Relaxed) {
                if server
                    .poll_peers(None, |peer, request| events.ask(peer, request))
                    .is_err()
                {
                    // For want of memory: a moment later there may be some.
                    std::thread::sleep(Duration::from_secs(1));
                }
            }
        };
        let thread = std::thread::Builder::new().name("control".to_owned());
        Ok(Control {
            thread: Some(thread.spawn(serve).map_err(ControlError::Thread)?),
            ended,
            path,
        })
    }
}

/// The thread that serves the socket. Dropping it ends the thread and removes the socket.
#[derive(Debug)]
pub struct Control {
    thread: Option<JoinHandle<()>>,
    ended: Arc<AtomicBool>,
    path: PathBuf,
}

impl Drop for Control {
    fn drop(&mut self) {
        self.ended.store(true, Relaxed);
        // It sleeps until a client connects.
        let woken = UnixStream::connect(&self.path).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}

/// Makes the folder. All users may reach the socket in the system folder, and in one that is made for a group's socket;
/// the socket's own mode says which users may connect. An existing folder elsewhere stays as its owner made it.
fn make_folder(root: &Root, folder: &Path, access: Access) -> Result<(), FileError> {
    let system = Reach::of(root, folder);
    let reach = match folder.exists() {
        true => system,
        false if access == Access::Owner => system,
        false => Reach::Everyone,
    };
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(reach.mode())
        .create(folder)
        .map_err(|error| FileError::new("make", folder, error))?;
    reach
        .grant(folder)
        .map_err(|error| FileError::new("set the permissions of", folder, error))
}

/// The number of a group in `/etc/group`, or of one that is a number.
fn group_number(root: &Root, name: &str) -> Result<u32, ControlError> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let text = file::read(&root.path("/etc/group"))?;
    text.lines()
        .find_map(|line| {
            let mut fields = line.split(':');
            let found = fields.next() == Some(name);
            found.then(|| fields.nth(1)?.parse().ok())?
        })
        .ok_or_else(|| ControlError::NoGroup(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;
    use std::os::unix::fs::MetadataExt as _;
    use warmswap_protocol::{Answer, Client, ClientError, Refusal, RefusalKind, Request};

    const TIMEOUT: Duration = Duration::from_secs(60);

    #[test]
    fn requests_reach_the_daemon_and_answers_the_client() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("deep/daemon.sock");
        let (events, heard) = Events::new();
        let socket = Socket::bind(&Root::machine(), &path, None).unwrap();
        let second = Socket::bind(&Root::machine(), &path, None).unwrap_err();
        assert!(second.to_string().contains("another daemon"), "{second}");
        let control = socket.serve(events).unwrap();
        let daemon = std::thread::spawn(move || {
            for event in heard.iter().take(2) {
                let Event::Request {
                    peer,
                    request,
                    answer,
                } = event
                else {
                    panic!("{event:?}")
                };
                assert_eq!(peer.user, rustix::process::geteuid().as_raw());
                let reply = match request {
                    Request::Daemon => Err(Refusal::new(RefusalKind::NotNow, "not yet")),
                    _ => Ok(Answer::Done),
                };
                answer.send(reply).unwrap();
            }
        });

        let mut client = Client::connect(&path, TIMEOUT).unwrap();
        let refused = client.daemon().unwrap_err();
        assert!(matches!(refused, ClientError::Refused { .. }), "{refused}");
        client.tell(&Request::Background).unwrap();
        daemon.join().unwrap();

        // The daemon's end is gone: it is ending.
        let ending = client.tell(&Request::Background).unwrap_err();
        assert!(ending.to_string().contains("ending"), "{ending}");
        drop(control);
        assert!(!path.exists());
    }

    #[test]
    fn all_may_ask_whether_the_socket_is_there() {
        let place = tempfile::tempdir().unwrap();
        let root = Root::at(place.path());
        let path = root.path(warmswap_protocol::DAEMON_SOCKET);
        let folder = path.parent().unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o7777;

        drop(Socket::bind(&root, &path, None).unwrap());
        assert_eq!(mode(folder), 0o711);
        // One of an older version.
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(folder, private).unwrap();
        let _socket = Socket::bind(&root, &path, None).unwrap();
        assert_eq!((mode(folder), mode(&path)), (0o711, 0o600));

        let elsewhere = root.path("/run/other/daemon.sock");
        let _other = Socket::bind(&root, &elsewhere, None).unwrap();
        assert_eq!(mode(elsewhere.parent().unwrap()), 0o700);
    }

    #[test]
    fn a_group_may_be_let_in() {
        let place = tempfile::tempdir().unwrap();
        let own = rustix::process::getegid().as_raw();
        std::fs::create_dir(place.path().join("etc")).unwrap();
        let groups = format!("root:x:0:\nwheel:x:{own}:someone\n");
        std::fs::write(place.path().join("etc/group"), groups).unwrap();
        let root = Root::at(place.path());
        let path = place.path().join("a/daemon.sock");

        let socket = Socket::bind(&root, &path, Some("wheel")).unwrap();

        let found = std::fs::metadata(&path).unwrap();
        assert_eq!((found.mode() & 0o777, found.gid()), (0o660, own));
        let folder = std::fs::metadata(path.parent().unwrap()).unwrap();
        assert_eq!(folder.mode() & 0o777, 0o711);
        drop(socket);
        let unknown = Socket::bind(&root, &path, Some("nobody-here")).unwrap_err();
        assert!(unknown.to_string().contains("nobody-here"), "{unknown}");
    }
}
