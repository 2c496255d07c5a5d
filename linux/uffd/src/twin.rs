//! The kernel's own map of a file, kept beside memory that takes its place.

use std::io;
use std::ops::Range;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use rustix::mm::{Advice, MremapFlags, madvise, mremap_fixed, munmap};

/// Where the kernel maps one page of a file, it maps as much as this (`fault_around_bytes`) from the last multiple of
/// it, or from the beginning of the map if that comes later.
const AROUND_BYTES: usize = 64 << 10;

/// A private, read-only map of a file by the kernel, at a place that the program does not know. Pages that take its place
/// elsewhere are filled from it, and it can take its place back, part by part.
///
/// It keeps the file open as a map does, without a descriptor, and is inherited as a map is. Parts that were given
/// away or unmapped are the twin's no more.
#[derive(Debug)]
pub struct Twin {
    address: usize,
    /// What is left of it, in bytes from its beginning.
    left: Mutex<Vec<Range<usize>>>,
}

impl Twin {
    /// The twin that is this map.
    ///
    /// # Safety
    /// The range is a private, read-only map of a file, of whole pages. No other code knows of it.
    #[must_use]
    pub unsafe fn new(address: usize, len: usize) -> Self {
        let left: Range<usize> = 0..len;
        Self {
            address,
            left: Mutex::new(vec![left]),
        }
    }

    /// First address.
    #[must_use]
    pub fn address(&self) -> usize {
        self.address
    }

    fn left(&self) -> MutexGuard<'_, Vec<Range<usize>>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with a part that is left, which is not if that succeeds.
    fn part_with<R>(
        &self,
        part: &Range<usize>,
        with: impl FnOnce(usize) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let mut left = self.left();
        let holds = |piece: &Range<usize>| piece.start <= part.start && part.end <= piece.end;
        let at = left.iter().position(holds).ok_or(Errno::FAULT)?;
        let done = with(self.address + part.start)?;
        let piece = left.swap_remove(at);
        let around = [piece.start..part.start, part.end..piece.end];
        left.extend(around.into_iter().filter(|piece| !piece.is_empty()));
        Ok(done)
    }

    /// Unmaps a part.
    ///
    /// # Errors
    /// The system's answer; EFAULT for what is not left.
    pub fn unmap(&self, part: Range<usize>) -> io::Result<()> {
        let len = part.len();
        // SAFETY: the part is the twin's, and nothing refers to it.
        let unmap = |address| unsafe { munmap(ptr::with_exposed_provenance_mut(address), len) };
        Ok(self.part_with(&part, unmap)?)
    }

    /// Gives a part to the caller, in place and as it is: `take` is told its address, and has it if it succeeds.
    ///
    /// # Errors
    /// Those of `take`; EFAULT for what is not left.
    pub fn take<R>(
        &self,
        part: Range<usize>,
        take: impl FnOnce(usize) -> io::Result<R>,
    ) -> io::Result<R> {
        let take = |address| {
            take(address).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::INVAL))
        };
        Ok(self.part_with(&part, take)?)
    }

    /// Moves a part to an address, where it replaces what is mapped: a thread that looks there sees either the one or the
    /// other.
    ///
    /// # Safety
    /// Nothing refers to what is mapped there.
    pub(super) unsafe fn put(&self, part: Range<usize>, to: usize) -> Result<(), Errno> {
        let len = part.len();
        let put = |address| {
            let (from, to) = (
                ptr::with_exposed_provenance_mut(address),
                ptr::with_exposed_provenance_mut(to),
            );
            // SAFETY: the part is the twin's; for the place the caller vouches.
            unsafe { mremap_fixed(from, len, len, MremapFlags::MAYMOVE, to) }
        };
        self.part_with(&part, put).map(drop)
    }

    /// Lets go of the page cache's pages that were mapped to fill others from a part, and of those that the kernel
    /// mapped around them: they are not the process's memory any more.
    pub(super) fn let_go(&self, part: &Range<usize>) {
        let left = self.left();
        // What is not left belongs to another owner.
        let Some(piece) = left.iter().find(|piece| piece.contains(&part.start)) else {
            return;
        };
        let piece = self.address + piece.start..self.address + piece.end;
        let window = |address: usize| (address / AROUND_BYTES * AROUND_BYTES).max(piece.start);
        let (first, last) = (self.address + part.start, self.address + part.end - 1);
        let start = window(first);
        let end = (window(last) + AROUND_BYTES).min(piece.end);
        let around = ptr::with_exposed_provenance_mut(start);
        // SAFETY: a private map of a file without writable pages: the next access reads the file.
        let _ = unsafe { madvise(around, end - start, Advice::LinuxDontNeed) };
    }

    /// Asks the kernel to read a part of the file ahead.
    pub fn will_need(&self, part: &Range<usize>) {
        let left = self.left();
        for piece in left.iter() {
            let (start, end) = (piece.start.max(part.start), piece.end.min(part.end));
            if start < end {
                let address = ptr::with_exposed_provenance_mut(self.address + start);
                // SAFETY: it changes no content.
                let _ = unsafe { madvise(address, end - start, Advice::WillNeed) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};

    use super::*;
    use warmswap_page::PAGE_BYTES;

    /// A twin of a file of so many pages, each filled with its number, that begins so many pages behind a multiple of
    /// what the kernel maps at once.
    fn twin(pages: usize, behind: usize) -> Twin {
        let mut file = tempfile::tempfile().expect("a file");
        for page in 0..pages {
            file.write_all(&[page as u8; PAGE_BYTES]).expect("written");
        }
        let (len, none) = (pages * PAGE_BYTES, ProtFlags::empty());
        let room = len + 2 * AROUND_BYTES;
        // SAFETY: a new map at an address of the kernel's choice, within it one of the file, which only the twin knows.
        unsafe {
            let room = mmap_anonymous(ptr::null_mut(), room, none, MapFlags::PRIVATE);
            let start = room.expect("a place").expose_provenance();
            let start = start.next_multiple_of(AROUND_BYTES) + behind * PAGE_BYTES;
            let (at, flags) = (
                ptr::with_exposed_provenance_mut(start),
                MapFlags::PRIVATE | MapFlags::FIXED,
            );
            let map = mmap(at, len, ProtFlags::READ, flags, file, 0);
            Twin::new(map.expect("a map").expose_provenance(), len)
        }
    }

    fn byte(address: usize) -> u8 {
        let address: *const u8 = ptr::with_exposed_provenance(address);
        // SAFETY: the tests look at what they mapped.
        unsafe { address.read_volatile() }
    }

    fn is_mapped(address: usize) -> bool {
        use std::os::unix::fs::FileExt;
        let map = std::fs::File::open("/proc/self/pagemap").expect("a page map");
        let mut entry = [0; 8];
        let offset = (address / PAGE_BYTES * entry.len()) as u64;
        map.read_exact_at(&mut entry, offset).expect("an entry");
        u64::from_ne_bytes(entry) >> 63 == 1
    }

    #[test]
    fn parts_are_given_once() {
        let twin = twin(8, 0);
        let pages = |pages: Range<usize>| pages.start * PAGE_BYTES..pages.end * PAGE_BYTES;
        // SAFETY: a new mapping that only this test knows.
        let place = unsafe {
            let none = ProtFlags::empty();
            mmap_anonymous(ptr::null_mut(), 2 * PAGE_BYTES, none, MapFlags::PRIVATE)
        };
        let place = place.expect("a place").expose_provenance();
        // SAFETY: as above.
        unsafe { twin.put(pages(2..4), place).expect("it is left") };
        assert_eq!([byte(place), byte(place + PAGE_BYTES)], [2, 3]);
        // SAFETY: nothing is done, since the part is not left.
        assert!(unsafe { twin.put(pages(3..5), place) }.is_err());
        twin.unmap(pages(4..6)).expect("it is left");
        assert!(twin.unmap(pages(4..6)).is_err());
        twin.will_need(&pages(0..8));
        assert_eq!(byte(twin.address() + PAGE_BYTES), 1);
        let refused = twin.take(pages(6..8), |_| Err::<(), _>(Errno::NOMEM.into()));
        assert_eq!(refused.expect_err("as told").raw_os_error(), Some(12));
        let taken = twin.take(pages(6..8), Ok).expect("it is left");
        assert_eq!(byte(taken), 6);
        assert!(twin.take(pages(7..8), Ok).is_err());
        for (address, len) in [
            (taken, 2 * PAGE_BYTES),
            (place, 2 * PAGE_BYTES),
            (twin.address(), 2 * PAGE_BYTES),
        ] {
            // SAFETY: what this test mapped and does not look at any more.
            unsafe { munmap(ptr::with_exposed_provenance_mut(address), len) }.expect("mapped");
        }
    }

    /// What was looked at is let go together with what the kernel mapped around it, wherever the map begins.
    #[test]
    fn a_page_is_let_go_with_those_mapped_around_it() {
        for behind in 0..AROUND_BYTES / PAGE_BYTES {
            let twin = twin(8, behind);
            for page in 0..8 {
                let at = page * PAGE_BYTES;
                assert_eq!(usize::from(byte(twin.address() + at)), page);
                assert!(is_mapped(twin.address() + at));
                twin.let_go(&(at..at + PAGE_BYTES));
                let left = (0..8).filter(|page| is_mapped(twin.address() + page * PAGE_BYTES));
                assert_eq!(left.count(), 0, "{behind} pages behind, page {page}");
            }
            twin.unmap(0..8 * PAGE_BYTES).expect("it is left");
        }
    }
}
