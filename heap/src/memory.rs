//! The memory below a heap: an arena's region, or plain memory of the kernel.
#![allow(unsafe_code)] // Memory is mapped and advised by address.

use std::fmt::Debug;
use std::ops::Range;

use warmswap_arena::{Advice, Application, Region};

use crate::error::HeapError;

/// Memory that a heap lives in, and what can be said about its use.
///
/// # Safety
/// [`Self::base`] is aligned to a page and valid for reads and writes of [`Self::bytes`] bytes as long as the value
/// lives; nothing else uses these bytes. They are zero at first. Only [`Self::discard`] changes their content, to zeros.
pub unsafe trait HeapMemory: Send + Sync + Debug {
    /// First byte.
    fn base(&self) -> *mut u8;

    /// Size in bytes; whole pages.
    fn bytes(&self) -> usize;

    /// These bytes are not needed for long: they leave now (`COLD_RUNTIME`, section 5.3.2).
    ///
    /// # Errors
    /// The memory refuses.
    fn cold(&self, bytes: Range<usize>) -> Result<(), HeapError>;

    /// These bytes are what the next launch needs: those in memory count as just used, so that others leave before
    /// them (`HOT_RUNTIME`, section 5.3.2). What has left stays away.
    ///
    /// # Errors
    /// The memory refuses.
    fn hot(&self, bytes: Range<usize>) -> Result<(), HeapError>;

    /// The same, and what has left comes back. Not in the paper.
    ///
    /// # Errors
    /// The memory refuses.
    fn restore(&self, bytes: Range<usize>) -> Result<(), HeapError>;

    /// The content is not needed any more.
    ///
    /// # Errors
    /// The memory refuses.
    fn discard(&self, bytes: Range<usize>) -> Result<(), HeapError>;

    /// How many pages of a range are in memory. For tests and reports.
    ///
    /// # Errors
    /// The memory refuses.
    fn resident_pages(&self, bytes: Range<usize>) -> Result<usize, HeapError>;

    /// The application comes to the foreground.
    fn foreground(&self) {}

    /// The application has answered its user.
    fn launch_done(&self) {}

    /// The application goes to the background.
    fn background(&self) {}
}

/// A region of an arena: pages that leave are compressed in this process.
#[derive(Debug)]
pub struct ArenaMemory {
    region: Region,
    app: Application,
}

impl ArenaMemory {
    /// Maps a region of at least this size for an application.
    ///
    /// # Errors
    /// [`HeapError::Arena`].
    pub fn new(app: Application, bytes: usize) -> Result<Self, HeapError> {
        let region = app.region(bytes)?;
        Ok(Self { region, app })
    }
}

// SAFETY: the region is this value's alone, aligned to a page and valid as long as it lives; the arena gives every
// page back as it was, and zeros for those that were never written to or were discarded.
unsafe impl HeapMemory for ArenaMemory {
    fn base(&self) -> *mut u8 {
        self.region.as_mut_ptr()
    }

    fn bytes(&self) -> usize {
        self.region.len()
    }

    fn cold(&self, bytes: Range<usize>) -> Result<(), HeapError> {
        Ok(self.region.advise(bytes, Advice::Cold)?)
    }

    fn hot(&self, bytes: Range<usize>) -> Result<(), HeapError> {
        Ok(self.region.advise(bytes, Advice::Touched)?)
    }

    fn restore(&self, bytes: Range<usize>) -> Result<(), HeapError> {
        Ok(self.region.advise(bytes, Advice::Hot)?)
    }

    fn discard(&self, bytes: Range<usize>) -> Result<(), HeapError> {
        Ok(self.region.discard(bytes)?)
    }

    fn resident_pages(&self, bytes: Range<usize>) -> Result<usize, HeapError> {
        Ok(self.region.resident_pages(bytes)?)
    }

    fn foreground(&self) {
        self.app.foreground();
    }

    fn launch_done(&self) {
        self.app.launch_done();
    }

    fn background(&self) {
        self.app.background();
    }
}

/// Anonymous memory of the kernel, paged by the kernel's own swap where there is some.
#[derive(Debug)]
pub struct KernelMemory {
    base: *mut u8,
    bytes: usize,
}

// SAFETY: the pointer is to a mapping that belongs to no thread.
unsafe impl Send for KernelMemory {}
// SAFETY: as above; the methods only make system calls.
unsafe impl Sync for KernelMemory {}

#[cfg(not(miri))]
mod kernel {
    use super::{HeapError, HeapMemory, KernelMemory, Range};
    use crate::layout::PAGE_BYTES;
    use rustix::mm::{self, Advice, MapFlags, ProtFlags};

    impl KernelMemory {
        /// Maps so many bytes, rounded up to whole pages. Nothing is taken before it is used.
        ///
        /// # Errors
        /// [`HeapError::System`].
        pub fn new(bytes: usize) -> Result<Self, HeapError> {
            let bytes = bytes.next_multiple_of(PAGE_BYTES).max(PAGE_BYTES);
            let (access, flags) = (
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            );
            // SAFETY: a new mapping at an address of the kernel's choice.
            let mapped = unsafe { mm::mmap_anonymous(std::ptr::null_mut(), bytes, access, flags) };
            let base = mapped.map_err(|error| HeapError::System {
                action: "map",
                address: 0,
                bytes,
                source: error.into(),
            })?;
            let memory = Self {
                base: base.cast(),
                bytes,
            };
            // A huge page would be one page of 2 MiB to the kernel's swap. A kernel without them refuses.
            let _ = memory.advise(0..bytes, Advice::LinuxNoHugepage, "advise");
            Ok(memory)
        }

        fn refused(
            &self,
            action: &'static str,
            bytes: &Range<usize>,
            source: std::io::Error,
        ) -> HeapError {
            HeapError::System {
                action,
                address: self.base.addr() + bytes.start,
                bytes: bytes.len(),
                source,
            }
        }

        fn advise(
            &self,
            bytes: Range<usize>,
            advice: Advice,
            action: &'static str,
        ) -> Result<(), HeapError> {
            assert!(
                bytes.start <= bytes.end && bytes.end <= self.bytes,
                "within the memory"
            );
            // SAFETY: within the mapping, by the check above.
            let first = unsafe { self.base.add(bytes.start) };
            // SAFETY: the range is within the mapping, which is this value's alone; no advice that is given here but
            // `DontNeed` changes contents, and that one is given by `discard` only.
            unsafe { mm::madvise(first.cast(), bytes.len(), advice) }
                .map_err(|error| self.refused(action, &bytes, error.into()))
        }
    }

    // SAFETY: the mapping is this value's alone until it is dropped; an anonymous mapping is zero at first, and after
    // `MADV_DONTNEED`.
    unsafe impl HeapMemory for KernelMemory {
        fn base(&self) -> *mut u8 {
            self.base
        }

        fn bytes(&self) -> usize {
            self.bytes
        }

        fn cold(&self, bytes: Range<usize>) -> Result<(), HeapError> {
            self.advise(bytes, Advice::LinuxPageOut, "page out")
        }

        /// Reading a page in populates its page table entry and marks it accessed, which moves it up in the LRU
        /// lists (Linux 5.14).
        fn hot(&self, bytes: Range<usize>) -> Result<(), HeapError> {
            let address = self.base.addr() + bytes.start;
            let runs = warmswap_sys::residency::resident_runs(address, bytes.len() / PAGE_BYTES);
            for run in runs.map_err(|source| self.refused("look at", &bytes, source))? {
                let start = bytes.start + run.start * PAGE_BYTES;
                let end = bytes.start + run.end * PAGE_BYTES;
                self.advise(start..end, Advice::LinuxPopulateRead, "keep")?;
            }
            Ok(())
        }

        fn restore(&self, bytes: Range<usize>) -> Result<(), HeapError> {
            // All reads begin before the first is waited for.
            self.advise(bytes.clone(), Advice::WillNeed, "bring back")?;
            self.advise(bytes, Advice::LinuxPopulateRead, "bring back")
        }

        fn discard(&self, bytes: Range<usize>) -> Result<(), HeapError> {
            self.advise(bytes, Advice::LinuxDontNeed, "discard")
        }

        fn resident_pages(&self, bytes: Range<usize>) -> Result<usize, HeapError> {
            let pages = warmswap_sys::residency::resident_pages(
                self.base.addr() + bytes.start,
                bytes.len() / PAGE_BYTES,
            );
            pages.map_err(|source| self.refused("look at", &bytes, source))
        }
    }

    impl Drop for KernelMemory {
        fn drop(&mut self) {
            // SAFETY: the mapping is this value's, and the heap that used it is gone. A failed unmap leaks address
            // space only.
            let _ = unsafe { mm::munmap(self.base.cast(), self.bytes) };
        }
    }
}

/// Under Miri, which knows no mappings: memory of the allocator.
#[cfg(miri)]
mod kernel {
    use super::{HeapError, HeapMemory, KernelMemory, Range};
    use crate::layout::PAGE_BYTES;
    use std::alloc::{Layout, alloc_zeroed, dealloc};

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, PAGE_BYTES).expect("a size that is possible")
    }

    impl KernelMemory {
        /// Allocates so many bytes.
        ///
        /// # Errors
        /// None.
        pub fn new(bytes: usize) -> Result<Self, HeapError> {
            let bytes = bytes.next_multiple_of(PAGE_BYTES).max(PAGE_BYTES);
            // SAFETY: the size is not zero.
            let base = unsafe { alloc_zeroed(layout(bytes)) };
            assert!(!base.is_null());
            Ok(Self { base, bytes })
        }
    }

    // SAFETY: the allocation is this value's alone, zero at first, and zeroed by `discard`.
    unsafe impl HeapMemory for KernelMemory {
        fn base(&self) -> *mut u8 {
            self.base
        }

        fn bytes(&self) -> usize {
            self.bytes
        }

        fn cold(&self, _bytes: Range<usize>) -> Result<(), HeapError> {
            Ok(())
        }

        fn hot(&self, _bytes: Range<usize>) -> Result<(), HeapError> {
            Ok(())
        }

        fn restore(&self, _bytes: Range<usize>) -> Result<(), HeapError> {
            Ok(())
        }

        fn discard(&self, bytes: Range<usize>) -> Result<(), HeapError> {
            // SAFETY: within the allocation; the caller gives up the content.
            unsafe { self.base.add(bytes.start).write_bytes(0, bytes.len()) };
            Ok(())
        }

        fn resident_pages(&self, bytes: Range<usize>) -> Result<usize, HeapError> {
            Ok(bytes.len() / PAGE_BYTES)
        }
    }

    impl Drop for KernelMemory {
        fn drop(&mut self) {
            // SAFETY: allocated with this layout, and the heap that used it is gone.
            unsafe { dealloc(self.base, layout(self.bytes)) };
        }
    }
}
