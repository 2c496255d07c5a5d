//! Readahead of files, set per disk (`read_ahead_kb`).
//!
//! A page fault on a mapped file reads a window of this size around the page. Where memory is short, the unused pages of
//! the window evict pages that are in use. The kernel copies the setting when a file is opened, so a change affects only
//! files that are opened later.

use std::path::{Path, PathBuf};

use crate::tunable::{Tunable, TunableError};
use crate::undo::Undo;
use crate::{FileError, Root, file};

/// Names of block devices whose readahead is left alone.
const OTHERS: [&str; 8] = ["zram", "ram", "loop", "md", "bcache", "nbd", "rbd", "drbd"];

/// One entry per backing device: a disk, or a file system with a setting of its own.
const ENTRIES: &str = "/sys/class/bdi";

/// A non-rotational disk, or a btrfs file system on such disks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// Such as `nvme0n1`, or `btrfs-1`.
    pub name: String,
    /// Readahead of files that are opened now.
    pub readahead_kib: u64,
    path: PathBuf,
}

impl Disk {
    /// All non-rotational disks, by name. Left out is what large reads pay on: rotational disks, network disks and file
    /// systems, arrays, caches of disks, and loop devices, whose images are compressed in large blocks. zram holds swap, which
    /// has a setting of its own. Costs about 100 µs.
    ///
    /// # Errors
    /// [`FileError`] when `/sys/class/bdi` cannot be read.
    pub fn all(root: &Root) -> Result<Vec<Self>, FileError> {
        let folder = root.path(ENTRIES);
        let entries = std::fs::read_dir(&folder).map_err(|e| FileError::new("read", &folder, e))?;
        let mut disks: Vec<_> = entries
            .flatten()
            .filter_map(|entry| {
                let path = entry.path().join("read_ahead_kb");
                Some(Self {
                    name: name(root, entry.file_name().to_str()?)?,
                    // Absent when the device was just removed.
                    readahead_kib: file::read_u64(&path).ok()?,
                    path,
                })
            })
            .collect();
        disks.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(disks)
    }

    /// Sets its readahead to `kib` until the result is dropped.
    ///
    /// # Errors
    /// [`TunableError`]; the setting is then as before.
    pub fn read_ahead(&self, undo: &Undo, kib: u64) -> Result<Tunable, TunableError> {
        Tunable::set(undo, &self.path, &kib.to_string())
    }
}

/// The name of the device behind an entry, if it is a non-rotational disk.
fn name(root: &Root, entry: &str) -> Option<String> {
    if entry.starts_with("btrfs-") {
        return is_btrfs_on_flash(root).then(|| entry.to_owned());
    }
    // Disks are named by their device number, MAJOR:MINOR.
    entry.split_once(':')?;
    let device = std::fs::canonicalize(root.path(format!("/sys/dev/block/{entry}"))).ok()?;
    let name = device.file_name()?.to_str()?;
    let is_other = OTHERS.iter().any(|kind| name.starts_with(kind));
    (!is_other && is_flash(&device)).then(|| name.to_owned())
}

/// Whether all disks of all btrfs file systems are non-rotational. Older kernels do not say which file system an entry
/// belongs to.
fn is_btrfs_on_flash(root: &Root) -> bool {
    let folders = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten();
    let systems = folders(&root.path("/sys/fs/btrfs"));
    let disks = systems.flat_map(|system| folders(&system.path().join("devices")));
    are_flash(disks.map(|disk| disk.path()))
}

/// Whether there are devices, and all of them are non-rotational.
fn are_flash(mut devices: impl Iterator<Item = PathBuf>) -> bool {
    let is_flash =
        |device: PathBuf| std::fs::canonicalize(device).is_ok_and(|device| is_flash(&device));
    devices.next().is_some_and(is_flash) && devices.all(is_flash)
}

/// Whether a disk, or the disk of a partition, is non-rotational. A disk without the attribute counts as rotational.
/// Disks of virtio-blk count as non-rotational, since the kernel reports all of them as rotational. Encrypted and logical
/// volumes (dm) inherit that report, so they count as the disks below them.
fn is_flash(device: &Path) -> bool {
    let name = device.file_name().and_then(|name| name.to_str());
    if name.is_some_and(|name| name.starts_with("vd")) {
        return true;
    }
    let below: Vec<_> = std::fs::read_dir(device.join("slaves"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    if !below.is_empty() {
        return are_flash(below.into_iter());
    }
    let folders = [Some(device), device.parent()];
    let read = |folder: &Path| file::read_u64(&folder.join("queue/rotational")).ok();
    folders.into_iter().flatten().find_map(read) == Some(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with these entries: name of the entry, device, whether it is rotational, KiB.
    fn machine(entries: &[(&str, &str, u64, u64)]) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        std::fs::create_dir_all(dir.path().join("sys/dev/block")).unwrap();
        for (entry, device, rotational, kib) in entries {
            write(
                &format!("sys/class/bdi/{entry}/read_ahead_kb"),
                &format!("{kib}\n"),
            );
            write(
                &format!("sys/block/{device}/queue/rotational"),
                &format!("{rotational}\n"),
            );
            let link = dir.path().join("sys/dev/block").join(entry);
            std::os::unix::fs::symlink(dir.path().join("sys/block").join(device), link).unwrap();
        }
        let root = Root::at(dir.path());
        (dir, root)
    }

    fn names(root: &Root) -> Vec<(String, u64)> {
        let disks = Disk::all(root).unwrap().into_iter();
        disks.map(|disk| (disk.name, disk.readahead_kib)).collect()
    }

    #[test]
    fn non_rotational_disks_are_found() {
        let (dir, root) = machine(&[
            ("253:0", "vda", 1, 8192),
            ("8:0", "sda", 1, 128),
            ("7:3", "loop3", 0, 128),
            ("254:0", "zram0", 0, 128),
            ("259:0", "nvme0n1", 0, 128),
        ]);
        // A network file system, and a flash chip without a block device.
        for other in ["0:51", "mtd-0"] {
            let folder = dir.path().join("sys/class/bdi").join(other);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("read_ahead_kb"), "128\n").unwrap();
        }
        let found = [("nvme0n1".to_owned(), 128), ("vda".to_owned(), 8192)];
        assert_eq!(names(&root), found);
    }

    #[test]
    fn a_volume_counts_as_the_disks_below_it() {
        let (dir, root) = machine(&[
            ("253:0", "vda", 1, 128),
            ("8:0", "sda", 1, 128),
            ("252:0", "dm-0", 1, 8192),
        ]);
        let sys = dir.path().join("sys/block");
        let partition = sys.join("vda/vda2");
        let below = sys.join("dm-0/slaves");
        for folder in [&partition, &below] {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::os::unix::fs::symlink(partition, below.join("vda2")).unwrap();
        let found = [("dm-0".to_owned(), 8192), ("vda".to_owned(), 128)];
        assert_eq!(names(&root), found);

        std::os::unix::fs::symlink(sys.join("sda"), below.join("sda")).unwrap();
        assert_eq!(names(&root), [("vda".to_owned(), 128)]);
    }

    #[test]
    fn btrfs_counts_if_all_its_disks_are_non_rotational() {
        let (dir, root) = machine(&[("8:0", "sda", 0, 128), ("8:16", "sdb", 1, 128)]);
        let entry = dir.path().join("sys/class/bdi/btrfs-1");
        std::fs::create_dir_all(&entry).unwrap();
        std::fs::write(entry.join("read_ahead_kb"), "4096\n").unwrap();
        let devices = dir.path().join("sys/fs/btrfs/some-uuid/devices");
        std::fs::create_dir_all(&devices).unwrap();
        let partition = dir.path().join("sys/block/sda/sda2");
        std::fs::create_dir_all(&partition).unwrap();
        std::os::unix::fs::symlink(&partition, devices.join("sda2")).unwrap();
        let found = [("btrfs-1".to_owned(), 4096), ("sda".to_owned(), 128)];
        assert_eq!(names(&root), found);

        let disk = dir.path().join("sys/block/sdb");
        std::os::unix::fs::symlink(disk, devices.join("sdb")).unwrap();
        assert_eq!(names(&root), [("sda".to_owned(), 128)]);
    }

    #[test]
    fn dropping_the_setting_restores_it() {
        let (dir, root) = machine(&[("253:0", "vda", 0, 8192)]);
        let undo = Undo::open(&root, &dir.path().join("state")).unwrap();
        let disk = Disk::all(&root).unwrap().remove(0);
        let kept = disk.read_ahead(&undo, 64).unwrap();
        assert_eq!(names(&root), [("vda".to_owned(), 64)]);
        drop(kept);
        assert_eq!(names(&root), [("vda".to_owned(), 8192)]);
    }

    #[test]
    fn a_machine_without_the_list_is_an_error_that_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let error = Disk::all(&Root::at(dir.path())).unwrap_err();
        assert!(error.to_string().contains("sys/class/bdi"), "{error}");
    }
}
