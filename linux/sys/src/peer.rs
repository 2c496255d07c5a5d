//! Which user is at the other end of a Unix socket, and whose a process is.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};

use rustix::fs::{Mode, OFlags, open, openat};

use crate::process::Stat;
use crate::{FileError, Root};

/// The effective user of the process that connected the other end of a Unix socket, at that time (`SO_PEERCRED`).
///
/// # Errors
/// The system's answer, where `socket` is no connected Unix socket.
pub fn user(socket: impl AsFd) -> io::Result<u32> {
    let mut credentials = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `credentials`, a live `ucred` of that size, for which any bytes
    // are valid, and the new length to `len`. The descriptor is open as long as it is borrowed.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &raw mut len,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    if len as usize != size_of::<libc::ucred>() || credentials.uid == u32::MAX {
        return Err(io::Error::from_raw_os_error(libc::ENOTCONN));
    }
    Ok(credentials.uid)
}

/// A process, and the users whose rights it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    /// Its status line.
    pub stat: Stat,
    /// Real, effective and saved user.
    pub users: [u32; 3],
}

impl Owned {
    /// Reads both of one process: its folder in `/proc` stays that process's when another one gets the number.
    /// Costs about 20 µs.
    ///
    /// # Errors
    /// [`FileError`]; [`FileError::is_gone`] when it ended.
    pub fn read(root: &Root, pid: u32) -> Result<Self, FileError> {
        let path = root.path(format!("/proc/{pid}"));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = open(&path, flags, Mode::empty())
            .map_err(|errno| FileError::new("open", &path, errno.into()))?;
        let text = |name: &str| {
            read_in(&folder, name).map_err(|error| FileError::new("read", &path.join(name), error))
        };
        let stat = Stat::parse(&text("stat")?).ok_or_else(|| {
            FileError::unexpected(&path.join("stat"), "not a process status line")
        })?;
        let users = users(&text("status")?)
            .ok_or_else(|| FileError::unexpected(&path.join("status"), "no users"))?;
        Ok(Self { stat, users })
    }

    /// Whether it has the rights of this user and no others: what ptrace(2) asks for, too.
    #[must_use]
    pub fn is_of(&self, user: u32) -> bool {
        self.users == [user; 3]
    }
}

fn read_in(folder: &OwnedFd, name: &str) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let mut bytes = Vec::new();
    File::from(openat(folder, name, flags, Mode::empty())?).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The line `Uid:` of a status file: real, effective, saved and file system's user.
fn users(status: &str) -> Option<[u32; 3]> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let mut users = line.split_ascii_whitespace().map(|user| user.parse().ok());
    Some([users.next()??, users.next()??, users.next()??])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_other_end_of_a_pair_is_ours() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(user(&one).unwrap(), rustix::process::geteuid().as_raw());
        assert!(user(File::open("/dev/null").unwrap()).is_err());
    }

    #[test]
    fn a_process_is_of_a_user_whose_rights_alone_it_has() {
        let status = |users: &str| format!("Name:\tUid:\nUid:\t{users}\nGid:\t0\t0\t0\t0\n");
        assert_eq!(users(&status("7\t8\t9\t7")), Some([7, 8, 9]));
        assert_eq!(users(&status("7\t8")), None);
        assert_eq!(users("Name: x\n"), None);
        let own = Owned::read(&Root::machine(), std::process::id()).unwrap();
        let user = rustix::process::geteuid().as_raw();
        assert!(own.is_of(user) && !own.is_of(user + 1), "{own:?}");
        let passwd = Owned {
            users: [user + 1, user, user],
            ..own
        };
        assert!(!passwd.is_of(user) && !passwd.is_of(user + 1));
    }

    #[test]
    fn one_that_ended_is_gone() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        assert!(Owned::read(&Root::machine(), pid).unwrap_err().is_gone());
    }
}
