//! Locks on single bytes of a file, which need not be there, that belong to an open file: no other thread or process lets go
//! of them by accident, and the kernel does when the last descriptor of the open file is closed, in whatever way its process
//! ends (`F_OFD_SETLK`, Linux 3.15).

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

use libc::{c_int, c_short};

/// What a lock keeps out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Locks of exclusive access.
    Shared,
    /// All other locks.
    Exclusive,
}

impl Access {
    fn kind(self) -> c_int {
        match self {
            Self::Shared => libc::F_RDLCK,
            Self::Exclusive => libc::F_WRLCK,
        }
    }
}

/// Locks a byte without waiting, or changes the lock that this open file has on it; false where a lock of another open file
/// is in the way.
///
/// # Errors
/// The answer of fcntl(2).
pub fn try_lock(file: impl AsFd, byte: u32, access: Access) -> io::Result<bool> {
    match fcntl(file, libc::F_OFD_SETLK, byte, access.kind()) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Lets go of a byte.
///
/// # Errors
/// The answer of fcntl(2).
pub fn unlock(file: impl AsFd, byte: u32) -> io::Result<()> {
    fcntl(file, libc::F_OFD_SETLK, byte, libc::F_UNLCK).map(drop)
}

/// Whether another open file has a lock on a byte.
///
/// # Errors
/// The answer of fcntl(2).
pub fn is_locked(file: impl AsFd, byte: u32) -> io::Result<bool> {
    fcntl(file, libc::F_OFD_GETLK, byte, libc::F_WRLCK).map(|found| found != libc::F_UNLCK)
}

/// Does something with a lock; the kind of lock that the kernel answers.
fn fcntl(file: impl AsFd, command: c_int, byte: u32, kind: c_int) -> io::Result<c_int> {
    // SAFETY: the structure is numbers alone, for which zeros are values.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as c_short;
    lock.l_whence = libc::SEEK_SET as c_short;
    lock.l_start = byte.into();
    lock.l_len = 1;
    // SAFETY: the descriptor is open as long as it is borrowed, and the structure lives during the call, which may write to it.
    let result = unsafe { libc::fcntl(file.as_fd().as_raw_fd(), command, &raw mut lock) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(lock.l_type.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn bytes_are_locked_for_an_open_file_until_it_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let open = || {
            let mut options = File::options();
            let options = options.read(true).write(true).create(true).truncate(false);
            options.open(folder.path().join("locks")).unwrap()
        };
        let (first, second) = (open(), open());
        assert!(try_lock(&first, 7, Access::Shared).unwrap());
        assert!(try_lock(&second, 7, Access::Shared).unwrap());
        assert!(!try_lock(&second, 7, Access::Exclusive).unwrap());
        assert!(try_lock(&second, 8, Access::Exclusive).unwrap());
        assert!(is_locked(&first, 8).unwrap() && !is_locked(&second, 8).unwrap());

        drop(first);
        assert!(try_lock(&second, 7, Access::Exclusive).unwrap());
        unlock(&second, 7).unwrap();
        assert!(!is_locked(open(), 7).unwrap());
    }
}
