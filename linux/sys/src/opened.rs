//! Which files programs open, of whole file systems (fanotify).
//!
//! Files are told by handles, which outlast their names and hold nothing: a file can be removed and a file system unmounted while
//! its handles are kept.

mod held;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::{FileError, Root, file, swap};

pub use self::held::open_files;

/// The longest handle that Linux gives (`MAX_HANDLE_SZ`).
const HANDLE_BYTES: usize = 128;

/// Events that are read at once.
const BUFFER_BYTES: usize = 64 << 10;

/// So many reads at most empty the queue, which holds 16,384 events by default: what is opened meanwhile does not keep the
/// caller here.
const READS: usize = 64;

/// One file, by its file system and the handle that this gives it. After the file was removed it means none.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileHandle {
    system: u64,
    kind: i32,
    bytes: Box<[u8]>,
}

impl FileHandle {
    /// The handle of the file that a path leads to, as it is told when the file is opened. Does not open it.
    ///
    /// # Errors
    /// The system's answer: `EOPNOTSUPP` where the file system has no handles.
    pub fn of(path: &Path) -> io::Result<Self> {
        let name = std::ffi::CString::new(path.as_os_str().as_encoded_bytes())?;
        let mut raw = RawHandle {
            length: HANDLE_BYTES as u32,
            kind: 0,
            bytes: [0; HANDLE_BYTES],
        };
        let (flags, mut mount) = (libc::AT_SYMLINK_FOLLOW, 0);
        let handle = std::ptr::from_mut(&mut raw).cast::<libc::file_handle>();
        // SAFETY: `name` ends with a zero, the handle has the room that it says, and all of them live over the call.
        let result = unsafe {
            libc::name_to_handle_at(libc::AT_FDCWD, name.as_ptr(), handle, &raw mut mount, flags)
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            system: rustix::fs::statvfs(path)?.f_fsid,
            kind: raw.kind,
            bytes: raw.bytes[..HANDLE_BYTES.min(raw.length as usize)].into(),
        })
    }
}

/// Tells which files are opened, until it is dropped.
#[derive(Debug)]
pub struct Opened {
    root: Root,
    queue: OwnedFd,
    /// Where file systems under watch are mounted, by their numbers.
    systems: BTreeMap<u64, PathBuf>,
    /// The mounts that were there last.
    mounts: String,
    own_pid: i32,
}

impl Opened {
    /// Watches nothing yet: [`Self::follow_mounts`].
    ///
    /// # Errors
    /// The system's answer: `EPERM` without `CAP_SYS_ADMIN` on the machine, `EINVAL` before Linux 5.1, `ENOSYS` without fanotify.
    pub fn new(root: &Root) -> io::Result<Self> {
        let flags =
            libc::FAN_CLASS_NOTIF | libc::FAN_REPORT_FID | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK;
        // SAFETY: takes two numbers.
        let fd = unsafe { libc::fanotify_init(flags, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            root: root.clone(),
            // SAFETY: the kernel just gave it, and nothing else has it.
            queue: unsafe { OwnedFd::from_raw_fd(fd) },
            systems: BTreeMap::new(),
            mounts: String::new(),
            own_pid: std::process::id().cast_signed(),
        })
    }

    /// Watches all mounted file systems of these types that can be watched, and no longer those that are gone. Those without
    /// handles are left out, and those of btrfs whose subvolume is mounted. Costs 20 µs where nothing was mounted meanwhile.
    ///
    /// # Errors
    /// [`FileError`] when the mounts cannot be read.
    pub fn follow_mounts(&mut self, types: &[&str]) -> Result<(), FileError> {
        let mounts = file::read(&self.root.path("/proc/self/mountinfo"))?;
        if mounts == self.mounts {
            return Ok(());
        }
        self.systems = mount_points(&mounts, types)
            .filter_map(|path| self.watch(&path).ok().map(|system| (system, path)))
            .collect();
        self.mounts = mounts;
        Ok(())
    }

    /// Watches the file system that is mounted there; its number.
    fn watch(&self, path: &Path) -> io::Result<u64> {
        let name = std::ffi::CString::new(path.as_os_str().as_encoded_bytes())?;
        let flags = libc::FAN_MARK_ADD | libc::FAN_MARK_FILESYSTEM;
        let queue = self.queue.as_raw_fd();
        // SAFETY: `name` ends with a zero and lives over the call.
        let result = unsafe {
            libc::fanotify_mark(queue, flags, libc::FAN_OPEN, libc::AT_FDCWD, name.as_ptr())
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(rustix::fs::statvfs(path)?.f_fsid)
    }

    /// Tells the files that other processes opened since the last call, some of them several times. Where the kernel's queue
    /// was full the others are not told.
    ///
    /// # Errors
    /// The system's answer.
    pub fn drain(&self, mut note: impl FnMut(FileHandle)) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER_BYTES];
        for _ in 0..READS {
            match rustix::io::read(&self.queue, &mut buffer) {
                Ok(0) | Err(rustix::io::Errno::AGAIN) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Ok(read) => handles(&buffer[..read], self.own_pid, &mut note),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Opens a file to be read, without a trace in its access time where that is allowed. None for what is no regular file: opening a device or a pipe
    /// may have effects.
    ///
    /// # Errors
    /// The system's answer: `ESTALE` when the file is gone, `ENOENT` when its file system is.
    pub fn open(&self, handle: &FileHandle) -> io::Result<Option<File>> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let mount_point = self.systems.get(&handle.system).ok_or_else(gone)?;
        let folder = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mount = rustix::fs::open(mount_point, folder, Mode::empty())?;
        let found = by_handle(&mount, handle)?;
        let path = format!("/proc/self/fd/{}", found.as_raw_fd());
        if !std::fs::metadata(&path)?.is_file() {
            return Ok(None);
        }
        let open = |flags| {
            let mut options = OpenOptions::new();
            options.read(true).custom_flags(flags).open(&path)
        };
        // Files of others can be read, and their access times be left alone by their owners and with CAP_FOWNER only.
        let file = open(libc::O_NOATIME | libc::O_NONBLOCK);
        file.or_else(|_| open(libc::O_NONBLOCK)).map(Some)
    }
}

/// The kernel's `struct file_handle` with room for every handle.
#[repr(C)]
struct RawHandle {
    length: u32,
    kind: i32,
    bytes: [u8; HANDLE_BYTES],
}

/// A descriptor that names the file and does not open it.
fn by_handle(mount: &OwnedFd, handle: &FileHandle) -> io::Result<OwnedFd> {
    let mut raw = RawHandle {
        length: handle.bytes.len() as u32,
        kind: handle.kind,
        bytes: [0; HANDLE_BYTES],
    };
    let room = raw.bytes.get_mut(..handle.bytes.len());
    room.ok_or(io::ErrorKind::InvalidInput)?
        .copy_from_slice(&handle.bytes);
    let flags = libc::O_PATH | libc::O_CLOEXEC;
    let raw = std::ptr::from_mut(&mut raw).cast::<libc::file_handle>();
    // SAFETY: the handle has the length that it says, and lives over the call.
    let fd = unsafe { libc::open_by_handle_at(mount.as_raw_fd(), raw, flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave it, and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Where file systems of these types are mounted, each once, by the text of mountinfo.
fn mount_points(mounts: &str, types: &[&str]) -> impl Iterator<Item = PathBuf> {
    let mut first: BTreeMap<&str, &str> = BTreeMap::new();
    for line in mounts.lines() {
        let Some((mount, system)) = line.split_once(" - ") else {
            continue;
        };
        let fields: Vec<&str> = mount.split(' ').collect();
        let kind = system.split(' ').next().unwrap_or_default();
        if let (Some(device), Some(path), true) =
            (fields.get(2), fields.get(4), types.contains(&kind))
        {
            first.entry(device).or_insert(path);
        }
    }
    first
        .into_values()
        .map(|path| PathBuf::from(swap::unescaped(path)))
}

/// The handles in what was read from the queue, but of what this process opened itself.
fn handles(mut events: &[u8], own_pid: i32, note: &mut impl FnMut(FileHandle)) {
    const METADATA: usize = size_of::<libc::fanotify_event_metadata>();
    while let Some(length) = u32_at(events, 0) {
        let length = length as usize;
        let Some(event) = events.get(..length).filter(|_| length >= METADATA) else {
            return;
        };
        let pid = u32_at(event, METADATA - 4).map(u32::cast_signed);
        if pid != Some(own_pid)
            && let Some(handle) = handle_in(&event[METADATA..])
        {
            note(handle);
        }
        events = &events[length..];
    }
}

/// The handle in an information record: type and length of the record, file system, length and type of the handle, its bytes.
/// None where the event tells that the queue was full.
fn handle_in(record: &[u8]) -> Option<FileHandle> {
    if record.first() != Some(&libc::FAN_EVENT_INFO_TYPE_FID) {
        return None;
    }
    let (low, high) = (u32_at(record, 4)?, u32_at(record, 8)?);
    let length = u32_at(record, 12)? as usize;
    Some(FileHandle {
        system: u64::from(low) | u64::from(high) << 32,
        kind: u32_at(record, 16)?.cast_signed(),
        bytes: record.get(20..20 + length)?.into(),
    })
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An event of this process, with these bytes as its handle.
    fn event(pid: i32, handle: &[u8]) -> Vec<u8> {
        let record_bytes = (20 + handle.len()).next_multiple_of(4);
        let mut bytes = Vec::new();
        bytes.extend(u32::try_from(24 + record_bytes).unwrap().to_ne_bytes());
        bytes.extend([3, 0, 24, 0]);
        bytes.extend(libc::FAN_OPEN.to_ne_bytes());
        bytes.extend((-1i32).to_ne_bytes());
        bytes.extend(pid.to_ne_bytes());
        bytes.extend([libc::FAN_EVENT_INFO_TYPE_FID, 0, record_bytes as u8, 0]);
        bytes.extend(7u64.to_ne_bytes());
        bytes.extend(u32::try_from(handle.len()).unwrap().to_ne_bytes());
        bytes.extend(1i32.to_ne_bytes());
        bytes.extend(handle);
        bytes.resize(24 + record_bytes, 0);
        bytes
    }

    fn found(events: &[u8]) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        handles(events, 50, &mut |handle| found.push(handle.bytes.to_vec()));
        found
    }

    #[test]
    fn files_of_other_processes_are_told_and_damage_is_not_read_beyond() {
        let mut events = event(60, b"one");
        events.extend(event(50, b"own"));
        // The queue was full.
        events.extend(&event(0, b"")[..24]);
        let at = events.len() - 24;
        events[at..at + 4].copy_from_slice(&24u32.to_ne_bytes());
        events.extend(event(70, b"another"));
        assert_eq!(found(&events), [b"one".to_vec(), b"another".to_vec()]);
        for length in 0..events.len() {
            assert!(found(&events[..length]).len() < 2);
        }
        events[0] = 3;
        assert!(found(&events).is_empty(), "an event that is too short");
    }

    #[test]
    fn each_file_system_of_the_types_is_mounted_somewhere() {
        let mounts = "36 35 254:1 / / rw - ext4 /dev/vda1 rw\n\
                      40 36 254:1 /var /srv\\040x rw shared:1 - ext4 /dev/vda1 rw\n\
                      41 36 254:2 / /home\\040a rw - xfs /dev/vda2 rw\n\
                      42 36 0:20 / /proc rw - proc proc rw\n\
                      damaged\n";
        let found: Vec<PathBuf> = mount_points(mounts, &["ext4", "xfs"]).collect();
        assert_eq!(found, [Path::new("/"), Path::new("/home a")]);
    }
}
