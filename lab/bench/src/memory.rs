//! Memory that is measured: touched and written through raw pointers, advised by the kernel's calls.
#![allow(unsafe_code)] // Anonymous memory of our own, and regions of arenas, are reached through raw pointers.

use std::marker::PhantomData;
use std::ptr;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use warmswap_arena::Region;
use warmswap_page::PAGE_BYTES;

use crate::BenchError;

/// Memory of whole pages that can be touched page by page.
pub trait Touch {
    /// First byte; valid for reads and writes of [`Self::pages`] pages as long as `self` lives.
    fn start(&self) -> *mut u8;

    /// How many pages.
    fn pages(&self) -> usize;

    /// Reads a byte of a page.
    fn touch(&self, page: usize) {
        assert!(page < self.pages());
        // SAFETY: within the memory, which lives as long as `self`.
        let _ = unsafe { self.start().add(page * PAGE_BYTES).read_volatile() };
    }

    /// Overwrites a page.
    fn write(&self, page: usize, bytes: &[u8; PAGE_BYTES]) {
        assert!(page < self.pages());
        // SAFETY: within the memory, which lives as long as `self`, is no Rust object and not shared.
        unsafe {
            let to = self.start().add(page * PAGE_BYTES);
            ptr::copy_nonoverlapping(bytes.as_ptr(), to, PAGE_BYTES);
        }
    }

    /// The memory as words.
    fn words(&self) -> Words<'_> {
        Words {
            start: self.start().cast(),
            len: self.pages() * (PAGE_BYTES / 8),
            _memory: PhantomData,
        }
    }
}

/// Memory in words, reached as directly as a program reaches its own.
#[derive(Debug, Clone, Copy)]
pub struct Words<'a> {
    start: *mut u64,
    len: usize,
    _memory: PhantomData<&'a ()>,
}

impl Words<'_> {
    /// How many.
    pub fn len(self) -> usize {
        self.len
    }

    /// A word, read.
    #[inline]
    pub fn load(self, word: usize) -> u64 {
        assert!(word < self.len);
        // SAFETY: within the memory, which is borrowed as long as `self` lives and begins at a page.
        unsafe { self.start.add(word).read_volatile() }
    }

    /// A word, written.
    #[inline]
    pub fn store(self, word: usize, value: u64) {
        assert!(word < self.len);
        // SAFETY: as in `load`; nothing else uses the memory meanwhile.
        unsafe { self.start.add(word).write_volatile(value) }
    }
}

impl Touch for Region {
    fn start(&self) -> *mut u8 {
        self.as_mut_ptr()
    }

    fn pages(&self) -> usize {
        self.len() / PAGE_BYTES
    }
}

/// Anonymous memory as every program has it, in small pages.
#[derive(Debug)]
pub struct Plain {
    start: *mut u8,
    pages: usize,
}

impl Touch for Plain {
    fn start(&self) -> *mut u8 {
        self.start
    }

    fn pages(&self) -> usize {
        self.pages
    }
}

impl Plain {
    /// Maps memory that reads as zeros.
    pub fn new(pages: usize) -> Result<Self, BenchError> {
        let (len, access) = (pages * PAGE_BYTES, ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let mapped = unsafe { mmap_anonymous(ptr::null_mut(), len, access, MapFlags::PRIVATE) };
        let start = mapped.map_err(BenchError::system("map memory"))?.cast();
        let plain = Self { start, pages };
        // A kernel without huge pages refuses, which is just as well.
        let _ = plain.advise(Advice::LinuxNoHugepage);
        Ok(plain)
    }

    /// Pages out what is resident (MADV_PAGEOUT).
    pub fn page_out(&self) -> Result<(), BenchError> {
        self.advise(Advice::LinuxPageOut)
            .map_err(BenchError::system("page out memory"))
    }

    /// Has the kernel read what is swapped out (MADV_WILLNEED).
    pub fn will_need(&self) -> Result<(), BenchError> {
        self.advise(Advice::WillNeed)
            .map_err(BenchError::system("read memory ahead"))
    }

    fn advise(&self, advice: Advice) -> rustix::io::Result<()> {
        // SAFETY: our own mapping; none of the advice used here changes what it holds.
        unsafe { madvise(self.start.cast(), self.pages * PAGE_BYTES, advice) }
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and nothing else refers to it.
        let unmapped = unsafe { munmap(self.start.cast(), self.pages * PAGE_BYTES) };
        debug_assert_eq!(unmapped, Ok(()));
    }
}
