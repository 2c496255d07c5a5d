//! Files that are mapped: where a page's content is when it is nowhere else.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use warmswap_page::PAGE_BYTES;
use warmswap_uffd::Twin;

/// Where the content of a file's pages comes from.
#[derive(Debug)]
pub enum Source {
    /// The file, open for reading.
    File(File),
    /// The kernel's own map of it, at another place: of files that a program maps.
    Twin(Twin),
}

/// A file, and the pages of the arena that it is mapped to.
#[derive(Debug)]
pub struct FileMap {
    /// First page.
    pub first: usize,
    /// How many.
    pub pages: usize,
    /// What is on them.
    pub source: Source,
}

impl FileMap {
    /// Its pages.
    pub fn range(&self) -> Range<usize> {
        self.first..self.first + self.pages
    }

    /// Where a page is, in bytes from the beginning.
    pub fn offset(&self, page: usize) -> usize {
        (page - self.first) * PAGE_BYTES
    }

    /// The twin, and where pages are in it.
    pub fn twin(&self, pages: &Range<usize>) -> Option<(&Twin, Range<usize>)> {
        match &self.source {
            Source::Twin(twin) => Some((twin, self.offset(pages.start)..self.offset(pages.end))),
            Source::File(_) => None,
        }
    }
}

/// Reads from an offset on; zeros behind the file's end.
pub fn read_at(file: &File, offset: usize, out: &mut [u8]) -> io::Result<()> {
    let mut offset = offset as u64;
    let mut rest = out;
    while !rest.is_empty() {
        match file.read_at(rest, offset) {
            Ok(0) => break,
            Ok(bytes) => {
                offset += bytes as u64;
                rest = &mut rest[bytes..];
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    rest.fill(0);
    Ok(())
}

/// All maps of files, by their first page. Read by faults; changed while none of its pages can fault.
#[derive(Debug, Default)]
pub struct Files {
    maps: RwLock<Vec<Arc<FileMap>>>,
    /// There was a map with a twin. Spares the lock where there is none.
    has_twins: AtomicBool,
}

impl Files {
    /// The map that a page belongs to.
    pub fn find(&self, page: usize) -> Option<Arc<FileMap>> {
        self.look(page, Arc::clone)
    }

    /// Whether a page belongs to a map that is filled from a twin.
    pub fn is_twin(&self, page: usize) -> bool {
        let is_twin = |map: &Arc<FileMap>| matches!(map.source, Source::Twin(_));
        self.has_twins.load(Ordering::Acquire) && self.look(page, is_twin).unwrap_or(false)
    }

    fn look<R>(&self, page: usize, show: impl FnOnce(&Arc<FileMap>) -> R) -> Option<R> {
        let maps = self.maps.read();
        let behind = maps.partition_point(|map| map.first <= page);
        let map = &maps[behind.checked_sub(1)?];
        map.range().contains(&page).then(|| show(map))
    }

    /// Adds a map.
    pub fn add(&self, map: FileMap) {
        if matches!(map.source, Source::Twin(_)) {
            self.has_twins.store(true, Ordering::Release);
        }
        let mut maps = self.maps.write();
        let at = maps.partition_point(|other| other.first < map.first);
        maps.insert(at, Arc::new(map));
    }

    /// Forgets the map that begins at a page, if there is one.
    pub fn remove(&self, first: usize) {
        let mut maps = self.maps.write();
        let found = maps.binary_search_by_key(&first, |map| map.first);
        let map = found.ok().map(|at| maps.remove(at));
        // What it is closed with takes time, which faults need not wait for.
        drop(maps);
        drop(map);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn pages_are_found_in_their_file_and_end_with_zeros() {
        let files = Files::default();
        for (first, pages) in [(40, 2), (8, 4)] {
            let mut file = tempfile::tempfile().expect("a file");
            file.write_all(&vec![first as u8; PAGE_BYTES + 3])
                .expect("written");
            let source = Source::File(file);
            files.add(FileMap {
                first,
                pages,
                source,
            });
        }
        assert!([0, 7, 12, 39, 42].map(|page| files.find(page).is_none()) == [true; 5]);
        assert!(files.find(11).is_some() && !files.is_twin(11));
        let map = files.find(9).expect("mapped");
        let Source::File(file) = &map.source else {
            panic!("it is a file");
        };
        let mut out = [1; PAGE_BYTES];
        read_at(file, map.offset(9), &mut out).expect("read");
        assert!(out[..3] == [8; 3] && out[3..].iter().all(|&byte| byte == 0));
        read_at(file, map.offset(11), &mut out).expect("read");
        assert_eq!(out, [0; PAGE_BYTES]);
        files.remove(9);
        assert!(files.find(9).is_some());
        files.remove(8);
        files.remove(8);
        assert!(files.find(9).is_none() && files.find(41).is_some());
    }
}
