//! Pages of files that processes have mapped: names, and which there are of several processes together.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use warmswap_page::FileId;
use warmswap_sys::maps::{Backing, Mapping};
use warmswap_sys::pagemap::{Region, Residence};

/// Files that have numbers at most: names are given by programs, and any number of them.
const MOST_FILES: usize = 1 << 16;

/// Numbers for files, by their paths, for all applications. What is at a path may be another file one day: then what
/// was learned about it is of no use, and forgotten in a few launches.
#[derive(Debug, Default)]
pub struct FileNames {
    numbers: FxHashMap<Arc<Path>, FileId>,
    /// By number.
    paths: Vec<Option<Arc<Path>>>,
    /// Numbers that no file has.
    free: Vec<FileId>,
}

impl FileNames {
    /// The number of a file; a new one if it has none, unless all are given.
    pub fn number(&mut self, path: &Path) -> Option<FileId> {
        if let Some(&number) = self.numbers.get(path) {
            return Some(number);
        }
        if self.is_full() {
            return None;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.paths.push(None);
            FileId(self.paths.len() as u32 - 1)
        });
        let path: Arc<Path> = path.into();
        self.paths[number.0 as usize] = Some(Arc::clone(&path));
        self.numbers.insert(path, number);
        Some(number)
    }

    /// All numbers are given.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.numbers.len() >= MOST_FILES
    }

    /// Forgets the files that are not used.
    pub fn retain(&mut self, is_used: impl Fn(FileId) -> bool) {
        self.numbers.retain(|_, &mut number| {
            let stays = is_used(number);
            if !stays {
                self.paths[number.0 as usize] = None;
                self.free.push(number);
            }
            stays
        });
    }

    /// The path of a file.
    #[must_use]
    pub fn path(&self, file: FileId) -> Option<&Path> {
        self.paths.get(file.0 as usize)?.as_deref()
    }
}

/// Neighbouring pages of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileRange {
    /// The file.
    pub file: FileId,
    /// The first page.
    pub first: u64,
    /// How many, at least 1.
    pub count: u64,
}

/// A part of a file that a process has mapped, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Number (address / 4096) of the first page.
    pub page: u64,
    /// What is there.
    pub range: FileRange,
}

impl Part {
    /// The parts of a memory map, ascending. Shared memory has no file that could be read, nor has what was deleted.
    pub fn of(maps: &[Mapping], names: &mut FileNames) -> Vec<Self> {
        let part = |mapping: &Mapping| {
            let Backing::File(identity) = &mapping.backing else {
                return None;
            };
            let path = identity.path.as_path();
            if !mapping.read || !is_regular(path) {
                return None;
            }
            Some(Self {
                page: mapping.start / PAGE,
                range: FileRange {
                    file: names.number(path)?,
                    first: mapping.file_page(mapping.start),
                    count: mapping.pages(),
                },
            })
        };
        maps.iter().filter_map(part).collect()
    }

    fn key(&self) -> (FileId, u64) {
        (self.range.file, self.range.first)
    }

    /// Where a page of the file is in this part.
    fn place(&self, file: FileId, page: u64) -> Option<u64> {
        let Self { page: at, range } = *self;
        let is_here =
            range.file == file && (range.first..range.first + range.count).contains(&page);
        is_here.then(|| at + (page - range.first))
    }
}

const PAGE: u64 = warmswap_page::PAGE_BYTES as u64;

/// Whether there is a file to read at that path, as the kernel writes paths in memory maps.
pub(crate) fn is_regular(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    let is_hidden = ["/dev/", "/memfd:", "/SYSV", "/anon_hugepage"]
        .iter()
        .any(|start| bytes.starts_with(start.as_bytes()));
    bytes.starts_with(b"/") && !bytes.ends_with(b" (deleted)") && !is_hidden
}

/// What one process has mapped of files, as it was at the last look.
#[derive(Debug, Default)]
pub struct MappedFiles {
    /// By file and page.
    parts: Vec<Part>,
    ranges: Vec<FileRange>,
}

impl MappedFiles {
    /// Of the parts of files that a process maps, these regions of its address space are there. Both ascend; a region
    /// may lie over several parts.
    #[must_use]
    pub fn new(mut parts: Vec<Part>, regions: &[Region]) -> Self {
        let mut ranges = Vec::new();
        let mut at = 0;
        for region in regions {
            let (mut page, end) = (region.first, region.first + region.count);
            while page < end {
                while parts
                    .get(at)
                    .is_some_and(|p| p.page + p.range.count <= page)
                {
                    at += 1;
                }
                let Some(part) = parts.get(at).filter(|part| part.page < end) else {
                    break;
                };
                page = page.max(part.page);
                let last = end.min(part.page + part.range.count);
                ranges.push(FileRange {
                    file: part.range.file,
                    first: part.range.first + (page - part.page),
                    count: last - page,
                });
                page = last;
            }
        }
        parts.sort_unstable_by_key(Part::key);
        Self { parts, ranges }
    }

    /// What is there.
    #[must_use]
    pub fn ranges(&self) -> &[FileRange] {
        &self.ranges
    }

    /// The files of which a part is mapped.
    pub fn mapped(&self) -> impl Iterator<Item = FileId> + '_ {
        self.parts.iter().map(|part| part.range.file)
    }

    /// Whether any part of the file is mapped.
    #[must_use]
    pub fn maps(&self, file: FileId) -> bool {
        let at = self.parts.partition_point(|p| p.key() < (file, 0));
        self.parts.get(at).is_some_and(|p| p.range.file == file)
    }

    /// The number of the page of the address space at which a page of a file is, or would be. Logarithmic in the
    /// parts; of parts of a file that overlap, the one that begins last counts.
    #[must_use]
    pub fn place(&self, file: FileId, page: u64) -> Option<u64> {
        let behind = self.parts.partition_point(|p| p.key() <= (file, page));
        self.parts[..behind].last()?.place(file, page)
    }

    /// Bytes that this takes.
    #[must_use]
    pub fn state_bytes(&self) -> usize {
        self.parts.capacity() * size_of::<Part>() + self.ranges.capacity() * size_of::<FileRange>()
    }
}

/// The regions of every file that these ranges cover: ascending, disjoint and joined where they touch.
pub fn joined(ranges: impl Iterator<Item = FileRange>) -> BTreeMap<FileId, Vec<Region>> {
    let mut ranges: Vec<FileRange> = ranges.collect();
    ranges.sort_unstable();
    let mut files: BTreeMap<FileId, Vec<Region>> = BTreeMap::new();
    for FileRange { file, first, count } in ranges {
        let regions = files.entry(file).or_default();
        match regions.last_mut() {
            Some(last) if first <= last.first + last.count => {
                last.count = last.count.max(first + count - last.first);
            }
            _ => regions.push(Region {
                first,
                count,
                residence: Residence::Present,
            }),
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use warmswap_sys::maps::Maps;

    const MAPS: &str = "\
1000-5000 r-xp 00002000 fe:00 1 /usr/bin/a
5000-6000 rw-p 00006000 fe:00 1 /usr/bin/a
8000-a000 r--s 00000000 fe:00 2 /data/b
a000-b000 rw-p 00000000 00:00 0 [heap]
b000-c000 rw-s 00000000 00:01 3 /memfd:c (deleted)
c000-d000 rw-s 00000000 00:05 4 /dev/dri/card0
d000-e000 ---p 00008000 fe:00 1 /usr/bin/a
";

    fn region(first: u64, count: u64) -> Region {
        let residence = Residence::Present;
        Region {
            first,
            count,
            residence,
        }
    }

    fn range(file: u32, first: u64, count: u64) -> FileRange {
        let file = FileId(file);
        FileRange { file, first, count }
    }

    #[test]
    fn regions_of_addresses_become_ranges_of_the_files_that_are_mapped_there() {
        let mut names = FileNames::default();
        let maps = Maps::parse(MAPS).unwrap();
        let parts = Part::of(maps.as_slice(), &mut names);
        assert_eq!(parts.len(), 3, "{parts:?}");
        assert_eq!(names.path(FileId(1)), Some(Path::new("/data/b")));
        assert_eq!(names.path(FileId(2)), None);

        // One region lies over both parts of the first file, another begins before and ends after the second.
        let mapped = MappedFiles::new(parts, &[region(2, 4), region(7, 5), region(12, 1)]);

        assert_eq!(
            mapped.ranges(),
            [range(0, 3, 3), range(0, 6, 1), range(1, 0, 2)]
        );
        assert_eq!(mapped.place(FileId(0), 6), Some(5));
        assert_eq!(mapped.place(FileId(0), 5), Some(4));
        assert_eq!(mapped.place(FileId(0), 7), None);
        assert_eq!(mapped.place(FileId(1), 1), Some(9));
    }

    #[test]
    fn names_are_bounded_and_those_that_nobody_uses_make_room() {
        let mut names = FileNames::default();
        let path = |n: usize| PathBuf::from(format!("/tmp/{n}"));
        for n in 0..MOST_FILES {
            assert_eq!(names.number(&path(n)), Some(FileId(n as u32)));
        }
        assert_eq!(names.number(&path(MOST_FILES)), None);
        assert_eq!(names.number(&path(7)), Some(FileId(7)), "it has one");

        names.retain(|file| file.0 % 2 == 1);

        assert_eq!(names.path(FileId(8)), None);
        let number = names.number(&path(MOST_FILES)).unwrap();
        assert!(number.0.is_multiple_of(2), "{number:?}");
        assert_eq!(names.path(number), Some(path(MOST_FILES).as_path()));
        assert_eq!(names.path(FileId(7)), Some(path(7).as_path()));
    }

    #[test]
    fn what_several_processes_have_of_a_file_is_counted_once() {
        let ranges = [
            range(1, 10, 5),
            range(0, 4, 1),
            range(1, 12, 9),
            range(1, 30, 1),
        ];
        let files = joined(ranges.into_iter());
        assert_eq!(files[&FileId(0)], [region(4, 1)]);
        assert_eq!(files[&FileId(1)], [region(10, 11), region(30, 1)]);
    }
}
