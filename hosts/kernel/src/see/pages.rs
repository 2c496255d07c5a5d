//! Which pages of a process are away: in swap, or dropped.

use std::fs::File;

use rustix::fs::{SeekFrom, seek};
use warmswap_page::PAGE_BYTES;
use warmswap_sys::advise::PageRange;
use warmswap_sys::maps::{Mapping, mapped_file};
use warmswap_sys::pagemap::{Pagemap, Region, Residence};
use warmswap_sys::{FileError, Root};

use super::areas::{Kind, Readable};
use crate::decide::order::append;

const PAGE: u64 = PAGE_BYTES as u64;

/// Pages of the process's own memory that are in swap, ascending. Costs about 10 ns for each where the kernel scans page tables,
/// else 50 ns for each page of mappings that are partly in swap.
///
/// # Errors
/// [`FileError`].
pub fn swapped(pagemap: &Pagemap, areas: &[Readable]) -> Result<Vec<PageRange>, FileError> {
    let mut found = Vec::new();
    let can_scan = pagemap.can_scan();
    let swapped =
        |readable: &&Readable| readable.kind != Kind::Shared && readable.area.swapped_bytes > 0;
    for Readable { area, .. } in areas.iter().filter(swapped) {
        let mapping = &area.mapping;
        let range = mapping.start..mapping.end;
        let visit = |region: Region| {
            if region.residence == Residence::Swapped {
                append(&mut found, region.first, region.count);
            }
        };
        if can_scan {
            pagemap.scan_swapped(range, visit)?;
        } else {
            pagemap.read_anonymous(std::slice::from_ref(mapping), range, visit)?;
        }
    }
    Ok(found)
}

/// Pages of files and of shared memory that are mapped now, ascending, in the process's whole address space.
///
/// # Errors
/// [`FileError`].
pub fn mapped(pagemap: &Pagemap, areas: &[Readable]) -> Result<Vec<PageRange>, FileError> {
    let mut found = Vec::new();
    let can_scan = pagemap.can_scan();
    let others = |readable: &&Readable| readable.kind != Kind::Private;
    for Readable { area, .. } in areas.iter().filter(others) {
        let mapping = &area.mapping;
        let visit = |region: Region| append(&mut found, region.first, region.count);
        if can_scan {
            pagemap.scan_files(mapping.start, mapping.end, visit)?;
        } else {
            let span = mapping.start..mapping.end;
            pagemap.read_files(std::slice::from_ref(mapping), span, visit)?;
        }
    }
    Ok(found)
}

/// The part of `pages` that lies in mappings of files and of shared memory; both ascend.
#[must_use]
pub fn within(pages: &[PageRange], areas: &[Readable]) -> Vec<PageRange> {
    let mut inside = Vec::new();
    let areas = areas.iter().filter(|r| r.kind != Kind::Private);
    let mut areas = areas.map(|r| &r.area.mapping).peekable();
    for range in pages {
        let (first, end) = (range.first, range.first + range.count);
        while areas.next_if(|m| m.end / PAGE <= first).is_some() {}
        let mut rest = areas.clone();
        while let Some(mapping) = rest.next_if(|m| m.start / PAGE < end) {
            let from = first.max(mapping.start / PAGE);
            let to = end.min(mapping.end / PAGE);
            append(&mut inside, from, to - from);
        }
    }
    inside
}

/// Pages of a mapping of shared memory that hold something, wherever they are. Pages that were never written to are left out:
/// a read would make them.
///
/// # Errors
/// [`FileError`]: the kernel shows the file behind a mapping to root alone.
pub fn shared(root: &Root, pid: u32, mapping: &Mapping) -> Result<Vec<PageRange>, FileError> {
    let path = mapped_file(root, pid, mapping.start, mapping.end);
    let file = File::open(&path).map_err(|error| FileError::new("open", &path, error))?;
    let offset = mapping.offset_bytes;
    let end = offset + (mapping.end - mapping.start);
    let mut found = Vec::new();
    let mut at = offset;
    while at < end {
        // ENXIO: no data beyond.
        let Ok(data) = seek(&file, SeekFrom::Data(at)) else {
            break;
        };
        let hole = seek(&file, SeekFrom::Hole(data)).unwrap_or(end);
        let (from, to) = (data.max(offset), hole.min(end));
        if from >= to {
            break;
        }
        let first = (mapping.start + (from - offset)) / PAGE;
        append(&mut found, first, (to - from).div_ceil(PAGE));
        at = hole;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;
    use crate::testing::{Machine, area, mapping, range};

    fn readable(first: u64, end: u64) -> Readable {
        let line = format!("{:x}-{:x} rw-p 0 00:00 0 ", first * PAGE, end * PAGE);
        Readable {
            area: area(&line),
            kind: Kind::File,
        }
    }

    #[test]
    fn pages_outside_of_the_mappings_are_left_out() {
        let private = Readable {
            kind: Kind::Private,
            ..readable(30, 35)
        };
        let areas = [
            readable(10, 20),
            readable(20, 25),
            private,
            readable(40, 50),
        ];
        let pages = [range(5, 8), range(18, 4), range(24, 20), range(60, 1)];
        assert_eq!(
            within(&pages, &areas),
            [range(10, 3), range(18, 4), range(24, 1), range(40, 4)]
        );
        assert!(within(&pages, &[]).is_empty());
    }

    #[test]
    fn shared_memory_is_known_by_what_was_written_to_it() {
        let memory = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::empty()).unwrap();
        let file = File::from(memory);
        file.set_len(100 * PAGE).unwrap();
        for page in [3, 4, 90] {
            file.write_at(&[1], page * PAGE).unwrap();
        }
        // The kernel's links to mapped files, made up: this process has the file open, and not mapped.
        let machine = Machine::new();
        std::fs::create_dir_all(machine.path("proc/7/map_files")).unwrap();
        let root = machine.root();
        let mapping = |first: u64, offset: u64, count: u64| {
            let (start, end) = (first * PAGE, (first + count) * PAGE);
            let offset = offset * PAGE;
            mapping(&format!(
                "{start:x}-{end:x} rw-s {offset:x} 00:01 7 /memfd:x"
            ))
        };
        use std::os::fd::AsRawFd as _;
        let target = format!("/proc/self/fd/{}", file.as_raw_fd());
        for (mapping, expected) in [
            (mapping(1000, 0, 100), vec![range(1003, 2), range(1090, 1)]),
            (mapping(500, 4, 50), vec![range(500, 1)]),
            (mapping(700, 5, 50), vec![]),
        ] {
            let link = mapped_file(&root, 7, mapping.start, mapping.end);
            std::os::unix::fs::symlink(&target, link).unwrap();
            assert_eq!(shared(&root, 7, &mapping).unwrap(), expected);
        }
    }

    #[test]
    fn memory_in_use_is_not_away_and_code_is_mapped() {
        let root = Root::machine();
        let pid = std::process::id();
        let areas = super::super::areas::read(&root, pid).unwrap().readable;
        let pagemap = Pagemap::open(&root, pid).unwrap();
        let code = memory_in_use_is_not_away_and_code_is_mapped as fn() as usize as u64 / PAGE;
        let holds = |ranges: &[PageRange], page: u64| {
            let mut ranges = ranges.iter().map(|r| r.first..r.first + r.count);
            ranges.any(|range| range.contains(&page))
        };
        let local = 0u8;
        let stack = std::ptr::from_ref(std::hint::black_box(&local)) as u64 / PAGE;
        assert!(!holds(&swapped(&pagemap, &areas).unwrap(), stack));
        // Where the build is on a file system that is not local, its code is left alone.
        let readable = |page: u64| !within(&[range(page, 1)], &areas).is_empty();
        let mapped = mapped(&pagemap, &areas).unwrap();
        assert_eq!(holds(&mapped, code), readable(code));
    }
}
