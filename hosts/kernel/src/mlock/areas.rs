//! Which page of which file a process maps at an address.

use warmswap_sys::maps::{Backing, Mapping, Maps};
use warmswap_sys::mount::types_of;
use warmswap_sys::{FileError, Root};

use crate::files::is_regular;

/// File systems of disks, by the kernel's names for their types: pages of their files can be read again at any time, without
/// waiting for a program or another machine. An overlay is one as a rule: it is what containers run from.
const ON_DISK: [&str; 14] = [
    "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "bcachefs", "zfs", "vfat", "exfat", "ntfs3",
    "squashfs", "erofs", "overlay",
];

/// A file as a memory map names it. On btrfs, files of several subvolumes can have one such name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MappedFile {
    /// Major number in the upper half, minor number in the lower one.
    pub device: u64,
    pub inode: u64,
}

/// A mapping of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Area {
    pub start: u64,
    pub end: u64,
    /// The file and its page at `start`; none for other memory, for files that are not on disks, and where a process writes to
    /// pages of its own.
    pub file: Option<(MappedFile, u64)>,
}

/// The mappings of a process, ascending.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Areas(Vec<Area>);

impl Areas {
    /// Reads them. Costs about 1 µs a mapping, and 50 µs.
    pub fn read(root: &Root, pid: u32) -> Result<Self, FileError> {
        let mut types = types_of(root, pid)?;
        types.retain(|_, kind| ON_DISK.contains(&kind.as_str()));
        let maps = Maps::read(root, pid)?;
        Ok(Self::of(&maps, |device| types.contains_key(device)))
    }

    fn of(maps: &Maps, is_disk: impl Fn(&str) -> bool) -> Self {
        let mut areas: Vec<Area> = Vec::new();
        for mapping in maps.as_slice() {
            let file = file_of(mapping, &is_disk);
            match areas.last_mut() {
                // Of memory without a file only its bounds matter.
                Some(last)
                    if file.is_none() && last.file.is_none() && last.end == mapping.start =>
                {
                    last.end = mapping.end;
                }
                _ => areas.push(Area {
                    start: mapping.start,
                    end: mapping.end,
                    file,
                }),
            }
        }
        Self(areas)
    }

    /// The mappings of a file.
    pub fn of_file(&self, file: MappedFile) -> impl Iterator<Item = Area> + '_ {
        let is_it = move |area: &&Area| area.file.is_some_and(|(other, _)| other == file);
        self.0.iter().filter(is_it).copied()
    }

    /// The mapping that holds an address.
    pub fn find(&self, address: u64) -> Option<Area> {
        let after = self.0.partition_point(|area| area.start <= address);
        self.0[..after]
            .last()
            .copied()
            .filter(|area| address < area.end)
    }
}

fn file_of(mapping: &Mapping, is_disk: impl Fn(&str) -> bool) -> Option<(MappedFile, u64)> {
    let Backing::File(identity) = &mapping.backing else {
        return None;
    };
    let is_copied = mapping.write && !mapping.shared;
    if is_copied || !mapping.read || !is_regular(&identity.path) || !is_disk(&identity.device) {
        return None;
    }
    let (major, minor) = identity.device.split_once(':')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let file = MappedFile {
        device: number(major)? << 32 | number(minor)?,
        inode: identity.inode,
    };
    Some((file, mapping.file_page(mapping.start)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_pages_that_belong_to_files_are_told_from_others() {
        let maps = "\
1000-5000 r-xp 00002000 fe:1a 7 /usr/bin/a
5000-6000 rw-p 00006000 fe:1a 7 /usr/bin/a
6000-8000 rw-p 00000000 00:00 0 [heap]
8000-a000 rw-s 00003000 fe:02 8 /data/b
a000-b000 rw-s 00000000 00:01 9 /memfd:c (deleted)
c000-d000 r--p 00000000 fe:02 8 /data/b
d000-e000 r--p 00000000 00:30 8 /net/b
";
        let areas = Areas::of(&Maps::parse(maps).unwrap(), |device| {
            device.starts_with("fe:")
        });
        let file = |device, inode| MappedFile { device, inode };
        let at = |address| areas.find(address).map(|area| (area.start, area.file));
        assert_eq!(at(0xfff), None);
        let code = Some((file(0xfe_0000_001a, 7), 2));
        assert_eq!(at(0x1000), Some((0x1000, code)));
        assert_eq!(at(0x4fff), Some((0x1000, code)));
        assert_eq!(at(0x5000), Some((0x5000, None)), "copied on write");
        assert_eq!(at(0x7fff), Some((0x5000, None)));
        let data = file(0xfe_0000_0002, 8);
        assert_eq!(at(0x9000), Some((0x8000, Some((data, 3)))));
        assert_eq!(at(0xa000), Some((0xa000, None)), "memory");
        assert_eq!(at(0xb000), None);
        assert_eq!(at(0xc000), Some((0xc000, Some((data, 0)))));
        assert_eq!(at(0xd000), Some((0xd000, None)), "of another machine");
        let starts: Vec<u64> = areas.of_file(data).map(|area| area.start).collect();
        assert_eq!(starts, [0x8000, 0xc000]);
    }
}
