//! Groups of programs that share one budget: a small file in the folder of this user's sockets, which every member reads and
//! writes under a lock for a moment. No process has to be there for it.
//!
//! A member is alive as long as it has the lock of its place, which the kernel takes away at its end, however that comes; the
//! next that asks gives its share to all. All that shares are made of is in one page of the file, and is written at once: a
//! member that is killed in between leaves it as it was, or as it is to be. A process that is stopped while it has the lock
//! of the table holds no other up: these go on within what they have.

mod shares;

use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::process::geteuid;
use warmswap_sys::byte_lock::{Access, is_locked, try_lock, unlock};
use warmswap_sys::{FileError, monotonic_ns};

use crate::Request;
use crate::client::notify;
use crate::places::{PlaceError, socket_folder};
use crate::socket::failed;

pub use self::shares::{LEAST_SHARE_BYTES, MOST_MEMBERS, Member, Shares};

/// Ends the name of a group's file.
const EXTENSION: &str = "group";
/// Longest name of a group.
const MOST_NAME_BYTES: usize = 64;

/// How the file begins; another version's begins otherwise.
const MAGIC: u64 = u64::from_le_bytes(*b"wswgrp01");
/// Numbers of a member, and before the members.
const MEMBER_NUMBERS: usize = 7;
const HEAD_NUMBERS: usize = 3;
const TABLE_BYTES: usize = 8 * (HEAD_NUMBERS + MEMBER_NUMBERS * MOST_MEMBERS);
const _: () = assert!(TABLE_BYTES <= 4096, "a page is written at once");
/// Where the members' sockets are, and room for the path of one behind its length.
const SOCKETS_AT: u64 = 4096;
const SOCKET_BYTES: usize = 128;

/// The bytes whose locks say something: from the first on, that a member is alive; that the group is used; that the table is.
const MEMBER_LOCKS: u32 = 0;
const USED_LOCK: u32 = 4096;
const TABLE_LOCK: u32 = 4097;

/// How often and how long the lock of the table is waited for: by what would hold its program up, and by others. It is held for
/// microseconds, unless the thread that has it waits for a processor.
const LOCK_TRIES: u32 = 20;
const PATIENT_LOCK_TRIES: u32 = 10_000;
const LOCK_PAUSE: Duration = Duration::from_micros(100);

/// A group cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// The name is none for a file.
    #[error(
        "'{0}' is no name of a group: 1 to {MOST_NAME_BYTES} letters, digits, '-', '_' and '.', the first no '.' or '-'"
    )]
    Name(String),
    /// Its first program has another budget.
    #[error(
        "the group has a budget of {budget_bytes} bytes, by its first program, and not of {asked_bytes}; give the same, \
         or name another group"
    )]
    Budget {
        /// The group's.
        budget_bytes: u64,
        /// The other.
        asked_bytes: u64,
    },
    /// Others could write to the file.
    #[error("{} is not a file of this user alone (mode 0600); remove it", path.display())]
    Unsafe {
        /// The file.
        path: PathBuf,
    },
    /// The table is another version's.
    #[error("{} is used by another version of warmswap", path.display())]
    Version {
        /// The file.
        path: PathBuf,
    },
    /// There are too many members.
    #[error("the group has {MOST_MEMBERS} programs already")]
    Full,
    /// A process that has the lock of the table does not let go of it: it is stopped.
    #[error("{} is locked by a process that does not go on", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// There is no folder for it.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The system refuses.
    #[error(transparent)]
    System(#[from] FileError),
}

/// The file of a group of this user.
///
/// # Errors
/// [`GroupError::Name`], [`GroupError::Place`].
pub fn group_path(name: &str) -> Result<PathBuf, GroupError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_name = (1..=MOST_NAME_BYTES).contains(&name.len())
        && name.bytes().all(is_plain)
        && !name.starts_with(['.', '-']);
    if !is_name {
        return Err(GroupError::Name(name.to_owned()));
    }
    Ok(socket_folder()?.join(format!("{name}.{EXTENSION}")))
}

/// The name of a group by its file.
#[must_use]
pub fn group_name(path: &Path) -> String {
    let name = path.file_stem().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// A group that is used: as long as one process has this, its budget stays.
#[derive(Debug)]
pub struct Group {
    file: File,
    path: PathBuf,
}

impl Group {
    /// Uses the group with this file, which is made where it is not there. The first that uses it says its budget.
    ///
    /// # Errors
    /// [`GroupError`]; [`GroupError::Budget`] where the group has another one.
    pub fn open(path: &Path, budget_bytes: u64) -> Result<Self, GroupError> {
        let group = Self {
            file: open(path)?,
            path: path.to_owned(),
        };
        let lock = group.lock(PATIENT_LOCK_TRIES)?;
        // Shares of members that ended with no other left, in an earlier boot for example, are nobody's.
        if group.try_lock(USED_LOCK, Access::Exclusive)? {
            group.write(&Shares::new(budget_bytes))?;
        }
        group.try_lock(USED_LOCK, Access::Shared)?;
        let shared_bytes = group.read()?.budget_bytes;
        drop(lock);
        if shared_bytes != budget_bytes {
            return Err(GroupError::Budget {
                budget_bytes: shared_bytes,
                asked_bytes: budget_bytes,
            });
        }
        Ok(group)
    }

    /// Becomes a member, which listens on this socket.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn join(self, pid: u32, socket: Option<&Path>) -> Result<Membership, GroupError> {
        let lock = self.lock(PATIENT_LOCK_TRIES)?;
        let mut shares = self.read()?;
        self.bury(&mut shares, None);
        let place = shares.join(pid, now_ms()).ok_or(GroupError::Full)?;
        self.try_lock(MEMBER_LOCKS + place as u32, Access::Exclusive)?;
        self.write_socket(place, socket)?;
        self.write(&shares)?;
        drop(lock);
        Ok(Membership { group: self, place })
    }

    /// What its members have.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn shares(&self) -> Result<Shares, GroupError> {
        let _lock = self.lock(PATIENT_LOCK_TRIES)?;
        self.read()
    }

    /// Takes the shares of members that have ended; this process is at `own`.
    fn bury(&self, shares: &mut Shares, own: Option<usize>) {
        for place in shares.places().collect::<Vec<_>>() {
            let is_alive = is_locked(&self.file, MEMBER_LOCKS + place as u32);
            if Some(place) != own && is_alive.is_ok_and(|is_alive| !is_alive) {
                shares.leave(place);
            }
        }
    }

    fn lock(&self, tries: u32) -> Result<TableLock<'_>, GroupError> {
        for _ in 0..tries {
            if self.try_lock(TABLE_LOCK, Access::Exclusive)? {
                return Ok(TableLock(&self.file));
            }
            std::thread::sleep(LOCK_PAUSE);
        }
        Err(GroupError::Busy {
            path: self.path.clone(),
        })
    }

    fn try_lock(&self, byte: u32, access: Access) -> Result<bool, GroupError> {
        Ok(try_lock(&self.file, byte, access).map_err(failed("lock", &self.path))?)
    }

    fn read(&self) -> Result<Shares, GroupError> {
        let mut bytes = [0; TABLE_BYTES];
        let read = self.file.read_exact_at(&mut bytes, 0);
        read.ok()
            .and_then(|()| decode(&bytes))
            .ok_or_else(|| GroupError::Version {
                path: self.path.clone(),
            })
    }

    fn write(&self, shares: &Shares) -> Result<(), GroupError> {
        let written = self.file.write_all_at(&encode(shares), 0);
        Ok(written.map_err(failed("write", &self.path))?)
    }

    fn write_socket(&self, place: usize, socket: Option<&Path>) -> Result<(), GroupError> {
        let path = socket.map_or(&[][..], |path| path.as_os_str().as_encoded_bytes());
        let mut bytes = [0; SOCKET_BYTES];
        // The kernel takes no longer one for a socket.
        if path.len() < SOCKET_BYTES {
            bytes[0] = path.len() as u8;
            bytes[1..=path.len()].copy_from_slice(path);
        }
        let written = self.file.write_all_at(&bytes, socket_at(place));
        Ok(written.map_err(failed("write", &self.path))?)
    }

    fn socket(&self, place: usize) -> Option<PathBuf> {
        use std::os::unix::ffi::OsStrExt as _;
        let mut bytes = [0; SOCKET_BYTES];
        self.file.read_exact_at(&mut bytes, socket_at(place)).ok()?;
        let path = bytes.get(1..=usize::from(bytes[0]))?;
        (!path.is_empty()).then(|| std::ffi::OsStr::from_bytes(path).into())
    }
}

fn socket_at(place: usize) -> u64 {
    SOCKETS_AT + (place * SOCKET_BYTES) as u64
}

/// Opens or makes the file, which must be this user's alone.
fn open(path: &Path) -> Result<File, GroupError> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    options
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits() as i32);
    let file = options.open(path).map_err(failed("open", path))?;
    let found = file.metadata().map_err(failed("look at", path))?;
    let is_own = found.is_file() && found.uid() == geteuid().as_raw() && found.mode() & 0o077 == 0;
    if !is_own {
        return Err(GroupError::Unsafe {
            path: path.to_owned(),
        });
    }
    Ok(file)
}

/// Milliseconds of the clock of all members.
fn now_ms() -> u64 {
    monotonic_ns() / 1_000_000
}

/// The table is this process's as long as it lives.
struct TableLock<'a>(&'a File);

impl Drop for TableLock<'_> {
    fn drop(&mut self) {
        // Where that fails, the others find it locked, and go on within what they have.
        let _ = unlock(self.0, TABLE_LOCK);
    }
}

/// A place in a group. Dropping it, or the end of its process, gives its share back.
#[derive(Debug)]
pub struct Membership {
    group: Group,
    place: usize,
}

impl Membership {
    /// Does something with the shares: `work` is given this member's place and the time, and says which members are to
    /// look what they owe. `None` where the table cannot be had now.
    ///
    /// Takes some microseconds and 2 ms at most, without waiting for any other member.
    pub fn with<R>(
        &self,
        work: impl FnOnce(&mut Shares, usize, u64) -> (R, Vec<usize>),
    ) -> Option<R> {
        let lock = self.group.lock(LOCK_TRIES).ok()?;
        let before = self.group.read().ok()?;
        let mut shares = before.clone();
        self.group.bury(&mut shares, Some(self.place));
        let (result, called) = work(&mut shares, self.place, now_ms());
        if shares != before {
            self.group.write(&shares).ok()?;
        }
        drop(lock);
        let sockets = called.iter().filter_map(|&place| self.group.socket(place));
        // One that does not listen looks by itself, later.
        sockets.for_each(|socket| _ = notify(&socket, &Request::Give));
        Some(result)
    }
}

fn encode(shares: &Shares) -> [u8; TABLE_BYTES] {
    let head = [MAGIC, shares.budget_bytes, shares.reserve_bytes];
    let members = shares.members.iter().flat_map(|member| {
        [
            u64::from(member.pid) | u64::from(member.is_background) << 32,
            member.last_used_ms,
            member.share_bytes,
            member.owed_bytes,
            member.asked_ms,
            member.cool_bytes,
            member.least_bytes,
        ]
    });
    let mut bytes = [0; TABLE_BYTES];
    for (room, number) in bytes
        .chunks_exact_mut(8)
        .zip(head.into_iter().chain(members))
    {
        room.copy_from_slice(&u64::to_le_bytes(number));
    }
    bytes
}

/// `None` for what no version like this one has written: numbers that do not fit, or shares beyond the budget.
fn decode(bytes: &[u8; TABLE_BYTES]) -> Option<Shares> {
    let (words, _) = bytes.as_chunks::<8>();
    let mut numbers = words.iter().map(|&word| u64::from_le_bytes(word));
    if numbers.next()? != MAGIC {
        return None;
    }
    let mut shares = Shares::new(numbers.next()?);
    shares.reserve_bytes = numbers.next()?;
    for member in &mut shares.members {
        let process = numbers.next()?;
        *member = Member {
            pid: process as u32,
            is_background: process >> 32 != 0,
            last_used_ms: numbers.next()?,
            share_bytes: numbers.next()?,
            owed_bytes: numbers.next()?,
            asked_ms: numbers.next()?,
            cool_bytes: numbers.next()?,
            least_bytes: numbers.next()?,
        };
    }
    let mut given = shares.members.iter().map(|member| member.share_bytes);
    let sum = given.try_fold(0u64, u64::checked_add)?;
    let owes_more = |member: &Member| member.owed_bytes > member.share_bytes;
    let is_sound = sum <= shares.budget_bytes && !shares.members.iter().any(owes_more);
    is_sound.then_some(shares)
}

#[cfg(test)]
mod tests;
