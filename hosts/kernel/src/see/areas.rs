//! The mappings of a process that may be read without harm: what they are backed by is memory, swap, or a disk of this machine.

use std::ops::Range;

use rustc_hash::FxHashMap;
use warmswap_sys::maps::{Backing, Mapping};
use warmswap_sys::mount::{is_local, shared_memory_device, types_of};
use warmswap_sys::smaps::{self, MemoryArea};
use warmswap_sys::{FileError, Root};

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
    Ok(sorted_out(areas, &kinds_by_device(root, pid)))
}

fn sorted_out(areas: Vec<MemoryArea>, kinds: &KindsByDevice) -> Areas {
    let (mut found, mut shown) = (Areas::default(), Shown::default());
    for area in areas {
        match kind(&area, kinds) {
            // Its pages come back with the other mapping's; a touch here costs a minor fault.
            Some(Kind::Shared) if shows_again(&mut shown, &area.mapping) => {}
            Some(kind) => found.readable.push(Readable { area, kind }),
            None => found.skipped += 1,
        }
    }
    found
}

/// Parts of shared memory that were seen, in bytes, by device and inode.
type Shown = FxHashMap<(String, u64), Vec<Range<u64>>>;

/// Whether a mapping shows what a mapping that was seen shows, too: ZGC maps its heap three times.
fn shows_again(shown: &mut Shown, mapping: &Mapping) -> bool {
    let Backing::File(file) = &mapping.backing else {
        return false;
    };
    // A private one may have pages of its own.
    if !mapping.shared {
        return false;
    }
    let (start, bytes) = (mapping.offset_bytes, mapping.end - mapping.start);
    let parts = shown.entry((file.device.clone(), file.inode)).or_default();
    let is_seen = |part: &Range<u64>| part.start <= start && start + bytes <= part.end;
    let is_again = parts.iter().any(is_seen);
    if !is_again {
        parts.push(start..start + bytes);
    }
    is_again
}

/// What is behind a mapping; none where it is not to be touched.
fn kind(area: &MemoryArea, kinds: &KindsByDevice) -> Option<Kind> {
    let mapping = &area.mapping;
    if !mapping.read || !area.is_ordinary() {
        return None;
    }
    let identity = match &mapping.backing {
        Backing::Anonymous => return Some(Kind::Private),
        Backing::Kernel => return None,
        Backing::File(identity) => identity,
    };
    let kind = kinds.get(&identity.device).copied();
    let is_device = identity.path.starts_with("/dev") && kind == Some(Kind::File);
    kind.filter(|_| !is_device)
}

/// What mappings of files on a file system are, by device number as in `/proc/PID/maps`; those that are not to be touched are
/// left out.
type KindsByDevice = FxHashMap<String, Kind>;

/// Of file systems that this process sees, or that one.
fn kinds_by_device(root: &Root, pid: u32) -> KindsByDevice {
    let seen = [std::process::id(), pid].map(|pid| types_of(root, pid).unwrap_or_default());
    let kind = |(device, name): (String, String)| match name.as_str() {
        "tmpfs" => Some((device, Kind::Shared)),
        name => is_local(name).then_some((device, Kind::File)),
    };
    let mut kinds: KindsByDevice = seen.into_iter().flatten().filter_map(kind).collect();
    if let Ok(device) = shared_memory_device() {
        kinds.insert(device, Kind::Shared);
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn area(line: &str, flags: &str) -> MemoryArea {
        let two = |flag: &str| <[u8; 2]>::try_from(flag.as_bytes()).unwrap();
        MemoryArea {
            flags: flags.split(' ').map(two).collect(),
            ..testing::area(line)
        }
    }

    fn kinds() -> KindsByDevice {
        let kinds = [
            ("fd:01", Kind::File),
            ("00:1c", Kind::Shared),
            ("00:01", Kind::Shared),
        ];
        kinds
            .map(|(device, kind)| (device.to_owned(), kind))
            .into_iter()
            .collect()
    }

    fn kind_of(line: &str, flags: &str) -> Option<Kind> {
        kind(&area(line, flags), &kinds())
    }

    #[test]
    fn memory_and_local_files_are_readable() {
        for (line, expected) in [
            ("1000-2000 rw-p 0 00:00 0 ", Kind::Private),
            ("1000-2000 rw-p 0 00:00 0 [heap]", Kind::Private),
            ("1000-2000 r-xp 0 fd:01 7 /usr/bin/a b", Kind::File),
            ("1000-2000 rw-s 0 00:01 7 /memfd:x (deleted)", Kind::Shared),
            ("1000-2000 rw-s 0 00:01 7 /dev/zero (deleted)", Kind::Shared),
            ("1000-2000 rw-s 0 00:01 7 /i915 (deleted)", Kind::Shared),
            ("1000-2000 r--p 0 fd:01 7 /memfd:x", Kind::File),
            ("1000-2000 rw-s 0 00:1c 7 /dev/shm/x", Kind::Shared),
            ("1000-2000 rw-s 0 00:1c 7 /run/x", Kind::Shared),
        ] {
            assert_eq!(kind_of(line, "rd mr"), Some(expected), "{line}");
        }
    }

    #[test]
    fn memory_that_is_mapped_several_times_counts_once() {
        let lines = [
            "40000-80000 rw-s 10000 00:01 7 /memfd:java_heap (deleted)",
            "140000-180000 rw-s 10000 00:01 7 /memfd:java_heap (deleted)",
            "240000-250000 rw-s 20000 00:01 7 /memfd:java_heap (deleted)",
            "340000-390000 rw-s 10000 00:01 7 /memfd:java_heap (deleted)",
            "440000-480000 rw-s 10000 00:01 8 /memfd:java_heap (deleted)",
            "540000-580000 rw-p 10000 00:01 7 /memfd:java_heap (deleted)",
        ];
        let areas = lines.map(|line| area(line, "rd mr")).into_iter().collect();
        let found = sorted_out(areas, &kinds()).readable;
        let starts: Vec<u64> = found.iter().map(|r| r.area.mapping.start).collect();
        assert_eq!(
            starts,
            [0x4_0000, 0x34_0000, 0x44_0000, 0x54_0000],
            "more of it, another file, and one that may have pages of its own"
        );
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
