//! The mappings of a process that may be read without harm: what they are backed by is memory, swap, or a disk of this machine.

use rustc_hash::FxHashMap;
use warmswap_sys::maps::Backing;
use warmswap_sys::smaps::{self, MemoryArea};
use warmswap_sys::{FileError, Root, file};

/// File systems whose pages come from a disk of this machine. Others are answered by a program or over a network,
/// and may never answer.
const LOCAL: [&str; 16] = [
    "bcachefs", "btrfs", "erofs", "exfat", "ext2", "ext3", "ext4", "f2fs", "iso9660", "jfs",
    "ntfs3", "overlay", "squashfs", "vfat", "xfs", "zfs",
];

/// What is behind a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The process's own memory, and its copies of pages of files: away pages are in swap.
    Private,
    /// Memory that processes share: away pages are in swap, and no page table tells.
    Shared,
    /// A file, mapped shared or not written to: away pages are dropped.
    File,
}

/// A mapping that may be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readable {
    /// The mapping, and what of it is where.
    pub area: MemoryArea,
    /// What is behind it.
    pub kind: Kind,
}

/// The mappings of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Areas {
    /// Those that may be read, ascending.
    pub readable: Vec<Readable>,
    /// How many others there are: devices, userfaultfd, file systems that may not answer, mappings without a right to read.
    pub skipped: u64,
}

/// Reads the mappings of a process; may wait for its address space.
///
/// # Errors
/// [`FileError`]; [`FileError::is_gone`] when the process ended.
pub fn read(root: &Root, pid: u32) -> Result<Areas, FileError> {
    let areas = smaps::read(root, pid)?;
    let file_systems = file_systems(root, pid);
    let mut found = Areas::default();
    for area in areas {
        match kind(&area, &file_systems) {
            Some(kind) => found.readable.push(Readable { area, kind }),
            None => found.skipped += 1,
        }
    }
    Ok(found)
}

/// What is behind a mapping; none where it is not to be touched.
fn kind(area: &MemoryArea, file_systems: &FxHashMap<String, Option<Kind>>) -> Option<Kind> {
    let mapping = &area.mapping;
    if !mapping.read || !area.is_ordinary() {
        return None;
    }
    let identity = match &mapping.backing {
        Backing::Anonymous => return Some(Kind::Private),
        Backing::Kernel => return None,
        Backing::File(identity) => identity,
    };
    let path = identity.path.to_string_lossy();
    let unmounted = ["/memfd:", "/SYSV", "/dev/zero (deleted)"];
    if unmounted.iter().any(|start| path.starts_with(start)) {
        return Some(Kind::Shared);
    }
    let kind = file_systems.get(&identity.device).copied().flatten();
    let is_device = path.starts_with("/dev/") && kind != Some(Kind::Shared);
    kind.filter(|_| !is_device)
}

/// What mappings of files on a file system are, by device number as in `/proc/PID/maps`: of those that the process sees, and this
/// process.
fn file_systems(root: &Root, pid: u32) -> FxHashMap<String, Option<Kind>> {
    let mut kinds: FxHashMap<String, Option<Kind>> = FxHashMap::default();
    let own = root.path("/proc/self/mountinfo");
    for path in [own, root.proc_file(pid, "mountinfo")] {
        for line in file::read(&path).unwrap_or_default().lines() {
            if let Some((device, kind)) = mount(line) {
                kinds.insert(device, kind);
            }
        }
    }
    kinds
}

/// A line of mountinfo: `ID PARENT MAJOR:MINOR ROOT PLACE OPTIONS… - TYPE …`, numbers decimal.
fn mount(line: &str) -> Option<(String, Option<Kind>)> {
    let (before, after) = line.split_once(" - ")?;
    let (major, minor) = before.split(' ').nth(2)?.split_once(':')?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    let kind = match after.split(' ').next()? {
        "tmpfs" => Some(Kind::Shared),
        name => LOCAL.contains(&name).then_some(Kind::File),
    };
    Some((format!("{major:02x}:{minor:02x}"), kind))
}

#[cfg(test)]
mod tests {
    use warmswap_sys::maps::Maps;

    use super::*;

    fn kind_of(line: &str, flags: &str) -> Option<Kind> {
        let two = |flag: &str| <[u8; 2]>::try_from(flag.as_bytes()).unwrap();
        let area = MemoryArea {
            mapping: Maps::parse(line).unwrap().as_slice()[0].clone(),
            resident_bytes: 0,
            swapped_bytes: 4096,
            referenced_bytes: 0,
            flags: flags.split(' ').map(two).collect(),
        };
        let lines = [
            "30 1 253:1 / / rw,relatime shared:1 - ext4 /dev/vda rw",
            "31 1 0:45 / /home/a/remote rw - fuse.sshfs a@b rw",
            "32 1 0:28 / /run rw - tmpfs tmpfs rw",
        ];
        kind(
            &area,
            &lines.iter().filter_map(|line| mount(line)).collect(),
        )
    }

    #[test]
    fn memory_and_local_files_are_readable() {
        for (line, expected) in [
            ("1000-2000 rw-p 0 00:00 0 ", Kind::Private),
            ("1000-2000 rw-p 0 00:00 0 [heap]", Kind::Private),
            ("1000-2000 r-xp 0 fd:01 7 /usr/bin/a b", Kind::File),
            ("1000-2000 rw-s 0 00:01 7 /memfd:x (deleted)", Kind::Shared),
            ("1000-2000 rw-s 0 00:01 7 /dev/zero (deleted)", Kind::Shared),
            ("1000-2000 rw-s 0 00:1c 7 /dev/shm/x", Kind::Shared),
            ("1000-2000 rw-s 0 00:1c 7 /run/x", Kind::Shared),
        ] {
            assert_eq!(kind_of(line, "rd mr"), Some(expected), "{line}");
        }
    }

    #[test]
    fn what_may_not_answer_is_left_alone() {
        for line in [
            "1000-2000 r--p 0 00:2d 7 /home/a/remote/file",
            "1000-2000 r--p 0 00:99 7 /unknown",
            "1000-2000 rw-s 0 fd:01 7 /dev/dri/card0",
            "1000-2000 ---p 0 00:00 0 ",
            "1000-2000 r-xp 0 00:00 0 [vdso]",
        ] {
            assert_eq!(kind_of(line, "rd mr"), None, "{line}");
        }
        for flags in ["io", "pf", "um", "uw", "ht", "rd um"] {
            assert_eq!(kind_of("1000-2000 rw-p 0 00:00 0 ", flags), None, "{flags}");
        }
    }

    #[test]
    fn own_memory_is_readable() {
        let memory = vec![1u8; 1 << 20];
        let address = std::hint::black_box(&memory).as_ptr() as u64 + 4096;

        let areas = read(&Root::machine(), std::process::id()).unwrap();

        let own = |readable: &&Readable| {
            let mapping = &readable.area.mapping;
            (mapping.start..mapping.end).contains(&address)
        };
        let found = areas.readable.iter().find(own).unwrap();
        assert_eq!(found.kind, Kind::Private);
        assert!(areas.skipped > 0, "the kernel's own page");
    }
}
