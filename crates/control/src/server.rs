//! The end of the protocol that lives in a paged program.

mod connection;

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, Gid, Mode, chmod, chown, fchmod, flock};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    socket_with,
};

use self::connection::{Connection, Next};
use crate::{Reply, Request};

/// Clients at the same time. Another one takes the place of the one that was quiet for longest.
pub const MAX_CLIENTS: usize = 16;

/// Connections that the kernel holds until they are accepted.
const BACKLOG: i32 = 16;

/// How often and how long a lock on the socket's folder is waited for.
const LOCK_TRIES: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

const NONBLOCKING: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// Who may connect, besides root.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// The user of the server.
    #[default]
    Owner,
    /// The members of a group, by its number, too.
    Group(u32),
}

/// A server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Another process listens there.
    #[error("{} is in use by another process", path.display())]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// Something else is there, and is left alone.
    #[error("{} is there and is no socket", path.display())]
    NotASocket {
        /// The file.
        path: PathBuf,
    },
    /// The system refuses.
    #[error("cannot {action} {}: {source}", path.display())]
    System {
        /// What was tried, as a verb.
        action: &'static str,
        /// The socket or its folder.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
}

impl ServerError {
    fn system(action: &'static str, path: &Path) -> impl FnOnce(Errno) -> Self {
        let path = path.to_owned();
        move |errno| Self::System {
            action,
            path,
            source: errno.into(),
        }
    }
}

/// Listens on a Unix socket and answers. It has no thread: the host calls [`Server::poll_once`] from one of its
/// own. Memory is bounded: [`MAX_CLIENTS`] times one request and one answer.
///
/// Dropping it removes the socket file, unless that is another's by now, or this is a forked child.
#[derive(Debug)]
pub struct Server {
    listener: OwnedFd,
    path: PathBuf,
    /// Device and inode of the socket file.
    identity: (u64, u64),
    owner_pid: u32,
    clients: Vec<Connection>,
    /// Counts calls of `poll_once`: the clock by which clients are quiet.
    turn: u64,
    /// The last accept found no free descriptor; the listener rests for one turn.
    exhausted: bool,
}

impl Server {
    /// Listens at `path`, with a socket that only this user can open (mode 0600). A socket file that nobody
    /// listens on is replaced; one in use, and any other file, is left alone. The folder must exist.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn bind(path: &Path) -> Result<Self, ServerError> {
        Self::bind_for(path, Access::Owner)
    }

    /// As [`Server::bind`], for those whom `access` names.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn bind_for(path: &Path, access: Access) -> Result<Self, ServerError> {
        let address = SocketAddrUnix::new(path).map_err(ServerError::system("use", path))?;
        // Between looking at a dead file and removing it nobody else may do the same.
        let _lock = lock_folder(path)?;
        remove_dead(path, &address)?;
        let new = socket_with(AddressFamily::UNIX, SocketType::STREAM, NONBLOCKING, None);
        let listener = new.map_err(ServerError::system("make a socket for", path))?;
        // Linux gives the file this mode, less the umask, at once: there is no moment at which others could
        // connect.
        fchmod(&listener, Mode::RUSR | Mode::WUSR)
            .map_err(ServerError::system("make a socket for", path))?;
        bind(&listener, &address).map_err(ServerError::system("bind", path))?;
        let listening = listen(&listener, BACKLOG)
            .map_err(ServerError::system("listen on", path))
            .and_then(|()| admit(path, access))
            .and_then(|()| identity(path));
        let identity = match listening {
            Ok(identity) => identity,
            Err(error) => {
                let _ = fs::remove_file(path);
                return Err(error);
            }
        };
        Ok(Self {
            listener,
            path: path.to_owned(),
            identity,
            owner_pid: std::process::id(),
            clients: Vec::new(),
            turn: 0,
            exhausted: false,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for clients, at most `timeout` (`None`: for ever), then serves all that are ready, once, and
    /// returns the number of requests that `handler` was given. A signal ends the wait early.
    ///
    /// # Errors
    /// Those of poll(2), for want of memory. What goes wrong with a client ends that client only.
    pub fn poll_once(
        &mut self,
        timeout: Option<Duration>,
        mut handler: impl FnMut(Request) -> Reply,
    ) -> io::Result<usize> {
        self.turn += 1;
        let timeout = timeout.map(|time| Timespec {
            tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        });
        let accepting = if std::mem::take(&mut self.exhausted) {
            PollFlags::empty()
        } else {
            PollFlags::IN
        };
        let mut fds = vec![PollFd::new(&self.listener, accepting)];
        let clients = self.clients.iter();
        fds.extend(clients.map(|client| PollFd::from_borrowed_fd(client.fd(), client.interest())));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(0) | Err(Errno::INTR) => return Ok(0),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
        let newcomers = ready.next() == Some(true);
        let ready: Vec<bool> = ready.collect();
        drop(fds);

        let mut served = 0;
        let mut ready = ready.into_iter();
        let turn = self.turn;
        self.clients.retain_mut(|client| {
            if ready.next() != Some(true) {
                return true;
            }
            client.last_active = turn;
            let (next, requests) = client.serve(&mut handler);
            served += requests;
            next == Next::Open
        });
        if newcomers {
            self.accept();
        }
        Ok(served)
    }

    fn accept(&mut self) {
        for _ in 0..MAX_CLIENTS {
            let fd = match accept_with(&self.listener, NONBLOCKING) {
                Ok(fd) => fd,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => {
                    self.exhausted = true;
                    return;
                }
                // Nobody is left, or one who gave up meanwhile.
                Err(_) => return,
            };
            if self.clients.len() == MAX_CLIENTS {
                let quiet = self.clients.iter().enumerate();
                if let Some((index, _)) = quiet.min_by_key(|(_, client)| client.last_active) {
                    self.clients.swap_remove(index);
                }
            }
            self.clients.push(Connection::new(fd, self.turn));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let ours = self.owner_pid == std::process::id()
            && identity(&self.path).is_ok_and(|found| found == self.identity);
        if ours {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Opens the socket's file to more than its owner.
fn admit(path: &Path, access: Access) -> Result<(), ServerError> {
    let Access::Group(group) = access else {
        return Ok(());
    };
    // The group first: it is never one that was not asked for.
    chown(path, None, Some(Gid::from_raw(group)))
        .and_then(|()| {
            let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP;
            chmod(path, mode)
        })
        .map_err(ServerError::system("set the permissions of", path))
}

fn identity(path: &Path) -> Result<(u64, u64), ServerError> {
    let found = fs::symlink_metadata(path).map_err(|source| ServerError::System {
        action: "look at",
        path: path.to_owned(),
        source,
    })?;
    Ok((found.dev(), found.ino()))
}

/// Locks the folder of `path` among servers, without a file of its own, until the result is dropped.
fn lock_folder(path: &Path) -> Result<File, ServerError> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let file = File::open(folder).map_err(|source| ServerError::System {
        action: "open",
        path: folder.to_owned(),
        source,
    })?;
    let mut tries = LOCK_TRIES;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::AGAIN | Errno::INTR) if tries > 0 => std::thread::sleep(LOCK_PAUSE),
            Err(errno) => return Err(ServerError::system("lock", folder)(errno)),
        }
        tries -= 1;
    }
}

/// Removes the socket file at `path` if nobody listens on it.
fn remove_dead(path: &Path, address: &SocketAddrUnix) -> Result<(), ServerError> {
    let Ok(found) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !found.file_type().is_socket() {
        return Err(ServerError::NotASocket {
            path: path.to_owned(),
        });
    }
    if !is_dead(address).map_err(ServerError::system("connect to", path))? {
        return Err(ServerError::InUse {
            path: path.to_owned(),
        });
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(ServerError::System {
            action: "remove",
            path: path.to_owned(),
            source: error,
        }),
        _ => Ok(()),
    }
}

/// Whether nobody listens on the socket file at `address`.
pub(crate) fn is_dead(address: &SocketAddrUnix) -> Result<bool, Errno> {
    let probe = socket_with(AddressFamily::UNIX, SocketType::STREAM, NONBLOCKING, None)?;
    match connect(&probe, address) {
        Ok(()) | Err(Errno::AGAIN) => Ok(false),
        Err(Errno::CONNREFUSED | Errno::NOENT) => Ok(true),
        Err(errno) => Err(errno),
    }
}
