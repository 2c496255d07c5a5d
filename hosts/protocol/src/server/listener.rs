//! A Unix socket that is listened on, and its file.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, Gid, Mode, chmod, chown, fchmod, flock};
use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, bind, listen};
use warmswap_sys::FileError;

use crate::socket::{failed, is_dead, stream_socket};

/// Connections that the kernel holds until they are accepted.
const BACKLOG: i32 = 16;

/// How often and how long a lock on the socket's folder is waited for.
const LOCK_TRIES: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// The users that may connect, besides root.
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
    #[error(transparent)]
    System(#[from] FileError),
}

/// A socket with its file. It does not block.
///
/// Dropping it removes the file, unless that is another process's by now, or this is a forked child.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    path: PathBuf,
    /// Device and inode of the socket file.
    identity: (u64, u64),
    owner_pid: u32,
}

impl Listener {
    /// Listens at `path`, with a socket that only this user (mode 0600), or the group that `access` names, can open.
    /// A socket file that no process listens on is replaced; one in use, and any other file, is left alone. The folder
    /// must exist.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn bind(path: &Path, access: Access) -> Result<Self, ServerError> {
        let address = SocketAddrUnix::new(path).map_err(failed("use", path))?;
        // Between looking at a dead file and removing it no other server may do the same.
        let _lock = lock_folder(path)?;
        remove_dead(path)?;
        let socket = stream_socket().map_err(failed("make a socket for", path))?;
        // Linux gives the file this mode, less the umask, at once: there is no moment at which others could
        // connect.
        fchmod(&socket, Mode::RUSR | Mode::WUSR).map_err(failed("make a socket for", path))?;
        bind(&socket, &address).map_err(failed("bind", path))?;
        let listening = listen(&socket, BACKLOG)
            .map_err(|errno| failed("listen on", path)(errno).into())
            .and_then(|()| admit(path, access))
            .and_then(|()| identity(path));
        match listening {
            Ok(identity) => Ok(Self {
                socket,
                path: path.to_owned(),
                identity,
                owner_pid: std::process::id(),
            }),
            Err(error) => {
                let _ = fs::remove_file(path);
                Err(error)
            }
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The same socket for a server that waits in accept(2): it blocks from now on. The file stays this listener's.
    ///
    /// # Errors
    /// The error of dup(2).
    pub fn blocking(&self) -> io::Result<UnixListener> {
        let listener = UnixListener::from(self.socket.try_clone()?);
        listener.set_nonblocking(false)?;
        Ok(listener)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
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
        .map_err(failed("set the permissions of", path))?;
    Ok(())
}

fn identity(path: &Path) -> Result<(u64, u64), ServerError> {
    let found = fs::symlink_metadata(path).map_err(failed("look at", path))?;
    Ok((found.dev(), found.ino()))
}

/// Locks the folder of `path` among servers, without a file of its own, until the result is dropped.
fn lock_folder(path: &Path) -> Result<File, ServerError> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let file = File::open(folder).map_err(failed("open", folder))?;
    let mut tries = LOCK_TRIES;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::AGAIN | Errno::INTR) if tries > 0 => std::thread::sleep(LOCK_PAUSE),
            Err(errno) => return Err(failed("lock", folder)(errno).into()),
        }
        tries -= 1;
    }
}

/// Removes the socket file at `path` if no process listens on it, nor is about to.
pub(crate) fn remove_if_dead(path: &Path) -> Result<(), ServerError> {
    // Between bind(2) and listen(2) a server looks dead.
    let _lock = lock_folder(path)?;
    remove_dead(path)
}

/// Removes the socket file at `path` if no process listens on it. The folder has to be locked.
fn remove_dead(path: &Path) -> Result<(), ServerError> {
    let Ok(found) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !found.file_type().is_socket() {
        return Err(ServerError::NotASocket {
            path: path.to_owned(),
        });
    }
    if !is_dead(path).map_err(failed("connect to", path))? {
        return Err(ServerError::InUse {
            path: path.to_owned(),
        });
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(failed("remove", path)(error).into())
        }
        _ => Ok(()),
    }
}
