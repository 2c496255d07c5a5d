//! Mounting one of the kernel's own file systems for a while.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags};

use crate::undo::{Action, Pending, Undo, UndoError};
use crate::{FileError, Root, file};

/// A mount could not be made.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The system call or a file failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// The change could not be registered.
    #[error(transparent)]
    Undo(#[from] UndoError),
}

/// A file system of the kernel, found mounted or mounted by us until this is dropped.
#[derive(Debug)]
pub struct Mounted {
    path: PathBuf,
    _pending: Option<Pending>,
}

impl Mounted {
    /// Finds where a file system of type `kind` ("debugfs") is mounted, or mounts it on `fallback`.
    ///
    /// # Errors
    /// [`MountError`] when it is neither mounted nor can be.
    pub fn find_or_mount(undo: &Undo, kind: &str, fallback: &Path) -> Result<Self, MountError> {
        if let Some(path) = mount_point(undo.root(), kind)? {
            return Ok(Self {
                path,
                _pending: None,
            });
        }
        let pending = undo.register(Action::Unmount {
            path: fallback.to_owned(),
        })?;
        std::fs::create_dir_all(fallback).map_err(|e| FileError::new("make", fallback, e))?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        rustix::mount::mount(kind, fallback, kind, flags, None)
            .map_err(|e| FileError::new("mount", fallback, e.into()))?;
        Ok(Self {
            path: fallback.to_owned(),
            _pending: Some(pending),
        })
    }

    /// The mount point.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// File systems whose pages come from a disk of this machine.
const LOCAL: [&str; 16] = [
    "bcachefs", "btrfs", "erofs", "exfat", "ext2", "ext3", "ext4", "f2fs", "iso9660", "jfs",
    "ntfs3", "overlay", "squashfs", "vfat", "xfs", "zfs",
];

/// Whether pages of a file system of this type come from a disk of this machine. Others are answered by a program or over a
/// network, and may never answer.
#[must_use]
pub fn is_local(kind: &str) -> bool {
    LOCAL.contains(&kind)
}

/// The types of the file systems that a process sees mounted, by device numbers as in its memory map (`fe:01`).
///
/// # Errors
/// [`FileError`]; [`FileError::is_gone`] when the process ended.
pub fn types_of(root: &Root, pid: u32) -> Result<BTreeMap<String, String>, FileError> {
    let text = file::read(&root.proc_file(pid, "mountinfo"))?;
    Ok(text.lines().filter_map(type_in).collect())
}

/// Device and type in a line of mountinfo: `36 35 254:1 / /mnt rw shared:1 - ext4 /dev/vda1 rw`.
fn type_in(line: &str) -> Option<(String, String)> {
    let (mount, system) = line.split_once(" - ")?;
    let (major, minor) = mount.split(' ').nth(2)?.split_once(':')?;
    let number = |text: &str| text.parse::<u32>().ok();
    let device = format!("{:02x}:{:02x}", number(major)?, number(minor)?);
    Some((device, system.split(' ').next()?.to_owned()))
}

/// The device number, as in memory maps, of memory that processes share and that no mounted file system has: memfd, System V,
/// anonymous mappings, buffers of graphics drivers. The kernel keeps all of it in a file system of its own.
///
/// # Errors
/// [`std::io::Error`], as when descriptors ran out.
pub fn shared_memory_device() -> std::io::Result<String> {
    let memory = rustix::fs::memfd_create("warmswap", rustix::fs::MemfdFlags::CLOEXEC)?;
    let device = rustix::fs::fstat(&memory)?.st_dev;
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    Ok(format!("{major:02x}:{minor:02x}"))
}

/// The first mount point of a file system of type `kind`, from `/proc/self/mounts`.
///
/// # Errors
/// [`FileError`].
pub fn mount_point(root: &Root, kind: &str) -> Result<Option<PathBuf>, FileError> {
    let text = file::read(&root.path("/proc/self/mounts"))?;
    Ok(text.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (path, found) = (fields.next()?, fields.next()?);
        (found == kind).then(|| PathBuf::from(crate::swap::unescaped(path)))
    }))
}

/// Unmounts `path` and removes the empty folder; done when nothing is mounted there.
pub(crate) fn unmount(path: &Path) -> Result<(), FileError> {
    match rustix::mount::unmount(path, UnmountFlags::empty()) {
        Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => {}
        Err(e) => return Err(FileError::new("unmount", path, e.into())),
    }
    match std::fs::remove_dir(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(FileError::new("remove", path, e))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_told_by_device_as_in_memory_maps() {
        let line = "36 35 254:1 / /mnt/a\\040b rw,noatime shared:1 master:2 - ext4 /dev/vda1 rw";
        let expected = ("fe:01".to_owned(), "ext4".to_owned());
        assert_eq!(type_in(line), Some(expected));
        let line = "99 35 0:300 / /x rw - fuse.sshfs host:/ rw";
        let expected = ("00:12c".to_owned(), "fuse.sshfs".to_owned());
        assert_eq!(type_in(line), Some(expected));
        assert_eq!(type_in("36 35 254 / /mnt rw - ext4 x rw"), None);
        let own = types_of(&Root::machine(), std::process::id()).unwrap();
        assert!(own.values().any(|kind| kind == "proc"), "{own:?}");
    }

    #[test]
    fn shared_memory_without_a_mount_is_on_one_device() {
        use crate::maps::{Backing, Maps};
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
        let (access, bytes) = (ProtFlags::READ | ProtFlags::WRITE, 4096);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let shared = unsafe {
            mmap_anonymous(std::ptr::null_mut(), bytes, access, MapFlags::SHARED).unwrap()
        };
        let maps = Maps::read(&Root::machine(), std::process::id()).unwrap();
        let found = maps.find(shared as u64).unwrap().backing.clone();
        // SAFETY: the mapping that was just made; nothing refers to it.
        unsafe { munmap(shared, bytes).unwrap() };
        let Backing::File(identity) = found else {
            panic!("{found:?}")
        };
        assert_eq!(identity.device, shared_memory_device().unwrap());
    }

    #[test]
    fn the_mount_point_is_found_by_type() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("proc/self")).unwrap();
        let mounts = "sysfs /sys sysfs rw 0 0\nnone /a/debug debugfs rw 0 0\n";
        std::fs::write(dir.path().join("proc/self/mounts"), mounts).unwrap();
        let root = Root::at(dir.path());

        assert_eq!(
            mount_point(&root, "debugfs").unwrap().unwrap(),
            Path::new("/a/debug")
        );
        assert!(mount_point(&root, "none").unwrap().is_none());
    }
}
