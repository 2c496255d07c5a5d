//! How much the kernel reads of a file in advance, by the disk that holds it.
//!
//! A page fault on a mapped file reads so much around the page, too. Where memory is short, what is read so and not used
//! drives out what is. An open file keeps what held for its disk when it was opened.

use std::path::{Path, PathBuf};

use crate::tunable::{Tunable, TunableError};
use crate::undo::Undo;
use crate::{FileError, Root, file};

/// One entry for each disk and each file system that has its own.
const ENTRIES: &str = "/sys/class/bdi";

/// What suits a machine that is short of memory. With less, programs start slower; see the book, results of relaunches.
pub const SUITS_LITTLE_MEMORY_KIB: u64 = 64;

/// A disk without moving parts, or a file system on such disks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// Such as `nvme0n1`, or `btrfs-1`.
    pub name: String,
    /// What is read in advance of a file that is opened now.
    pub readahead_kib: u64,
    path: PathBuf,
}

impl Disk {
    /// All that files of programs are on. Left out are disks with moving parts, where reading much at once pays, network
    /// file systems, loop devices, whose file systems decompress large blocks, and swap in memory. Costs about 100 µs.
    ///
    /// # Errors
    /// [`FileError`] when the kernel's list cannot be read.
    pub fn all(root: &Root) -> Result<Vec<Self>, FileError> {
        let folder = root.path(ENTRIES);
        let entries = std::fs::read_dir(&folder).map_err(|e| FileError::new("read", &folder, e))?;
        let mut disks: Vec<_> = entries
            .flatten()
            .filter_map(|entry| {
                let path = entry.path().join("read_ahead_kb");
                Some(Self {
                    name: name(root, entry.file_name().to_str()?)?,
                    // It may go meanwhile.
                    readahead_kib: file::read_u64(&path).ok()?,
                    path,
                })
            })
            .collect();
        disks.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(disks)
    }

    /// Has it read `kib` in advance of files that are opened while the result lives.
    ///
    /// # Errors
    /// [`TunableError`]; all is as before then.
    pub fn read_ahead(&self, undo: &Undo, kib: u64) -> Result<Tunable, TunableError> {
        Tunable::set(undo, &self.path, &kib.to_string())
    }
}

/// What an entry is called, if it is a disk without moving parts.
fn name(root: &Root, entry: &str) -> Option<String> {
    if entry.starts_with("btrfs-") {
        return is_btrfs_on_flash(root).then(|| entry.to_owned());
    }
    // Major and minor number.
    entry.split_once(':')?;
    let device = std::fs::canonicalize(root.path(format!("/sys/dev/block/{entry}"))).ok()?;
    let name = device.file_name()?.to_str()?;
    let is_other = ["zram", "ram", "loop"]
        .iter()
        .any(|kind| name.starts_with(kind));
    (!is_other && is_flash(&device)).then(|| name.to_owned())
}

/// Whether all disks of all file systems of that kind are without moving parts: which of them an entry is for the kernel does
/// not say everywhere.
fn is_btrfs_on_flash(root: &Root) -> bool {
    let folders = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten();
    let systems = folders(&root.path("/sys/fs/btrfs"));
    let mut disks = systems.flat_map(|system| folders(&system.path().join("devices")));
    disks.all(|disk| std::fs::canonicalize(disk.path()).is_ok_and(|device| is_flash(&device)))
}

/// Whether a disk, or that of a partition, has no moving parts. Where the kernel does not say, it has; of virtio's, which
/// nobody can know it of, the kernel says that all have.
fn is_flash(device: &Path) -> bool {
    let name = device.file_name().and_then(|name| name.to_str());
    if name.is_some_and(|name| name.starts_with("vd")) {
        return true;
    }
    let folders = [Some(device), device.parent()];
    let read = |folder: &Path| file::read_u64(&folder.join("queue/rotational")).ok();
    folders.into_iter().flatten().find_map(read) == Some(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with these entries: name of the entry, device, whether it has moving parts, KiB.
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
    fn disks_without_moving_parts_are_found() {
        let (dir, root) = machine(&[
            ("253:0", "vda", 1, 8192),
            ("8:0", "sda", 1, 128),
            ("7:3", "loop3", 0, 128),
            ("254:0", "zram0", 0, 128),
            ("259:0", "nvme0n1", 0, 128),
        ]);
        // A network file system, and what is no disk.
        for other in ["0:51", "mtd-0"] {
            let folder = dir.path().join("sys/class/bdi").join(other);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("read_ahead_kb"), "128\n").unwrap();
        }
        let found = [("nvme0n1".to_owned(), 128), ("vda".to_owned(), 8192)];
        assert_eq!(names(&root), found);
    }

    #[test]
    fn btrfs_has_its_own_and_counts_where_all_its_disks_have_no_moving_parts() {
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
    fn what_was_there_comes_back() {
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
