//! Sockets as both ends make them.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use warmswap_sys::FileError;

/// Sockets are closed at exec, and never block a thread.
pub(crate) const NONBLOCKING: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// A new Unix socket.
pub(crate) fn stream_socket() -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, SocketType::STREAM, NONBLOCKING, None)
}

/// Connects to the socket at `path`. A blocking connect would wait for ever where the backlog is full; this one fails
/// with EAGAIN.
pub(crate) fn connect_to(path: &Path) -> Result<OwnedFd, Errno> {
    let address = SocketAddrUnix::new(path)?;
    let socket = stream_socket()?;
    connect(&socket, &address)?;
    Ok(socket)
}

/// Whether no process listens on the socket file at `path`.
pub(crate) fn is_dead(path: &Path) -> Result<bool, Errno> {
    match connect_to(path) {
        Ok(_) | Err(Errno::AGAIN) => Ok(false),
        Err(Errno::CONNREFUSED | Errno::NOENT) => Ok(true),
        Err(errno) => Err(errno),
    }
}

/// What the system answered when `action` was tried on `path`.
pub(crate) fn failed<E: Into<std::io::Error>>(
    action: &'static str,
    path: &Path,
) -> impl FnOnce(E) -> FileError {
    let path = path.to_owned();
    move |error| FileError::new(action, &path, error.into())
}
