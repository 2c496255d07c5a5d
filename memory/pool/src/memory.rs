//! Memory for spans: anonymous mappings, one lock for each span of them.
//!
//! The one place of this crate with unsafe code. Everything above it sees slices behind guards.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Where the next mapping is wished for: far from where the kernel puts mappings by itself. It would use
/// a gap that the program left, and a program that does not know of this memory, as one under a preloaded
/// library, may unmap a range with a gap once more, or map something over it. Taken addresses, and those that
/// a processor does not have, do no harm.
static NEXT_HINT: AtomicUsize = AtomicUsize::new(0x3000_0000_0000);

/// A run of spans of one size in one anonymous mapping.
///
/// Only address space is taken at first; the kernel gives a page when it is first written, and
/// [`SpanMut::discard`] returns the pages of one span.
#[derive(Debug)]
pub(crate) struct Spans {
    base: NonNull<u8>,
    span_bytes: usize,
    /// One lock for each span; it guards the bytes of that span.
    locks: Box<[RwLock<()>]>,
}

// SAFETY: `base` is the start of a mapping that this value owns alone and that any thread may
// access; each span's bytes are reached only through guards of that span's lock.
unsafe impl Send for Spans {}
// SAFETY: as above; a shared `Spans` hands out shared slices under a shared lock and exclusive
// slices under an exclusive lock.
unsafe impl Sync for Spans {}

impl Spans {
    /// Bytes of bookkeeping for each span.
    pub(crate) const LOCK_BYTES: usize = size_of::<RwLock<()>>();

    /// Maps `count` spans of `span_bytes` bytes (both at least 1, `span_bytes` whole pages).
    pub(crate) fn map(count: usize, span_bytes: usize) -> Result<Spans, Errno> {
        let bytes = count.checked_mul(span_bytes).ok_or(Errno::NOMEM)?;
        let hint = NEXT_HINT.fetch_add(bytes, Ordering::Relaxed);
        // SAFETY: an anonymous private mapping at an address of the kernel's choice does not
        // touch any existing memory; the hint is a wish.
        let mapped = unsafe {
            mmap_anonymous(
                ptr::with_exposed_provenance_mut(hint),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        };
        let base = mapped.inspect_err(|_| {
            NEXT_HINT.fetch_sub(bytes, Ordering::Relaxed);
        })?;
        // Huge pages would hold memory that the pool does not count. A kernel without them
        // refuses the advice, which is just as well.
        // SAFETY: the range is the mapping made above; this advice does not change its content.
        let _ = unsafe { madvise(base, bytes, Advice::LinuxNoHugepage) };
        // Compressed copies of what may itself be kept out of core dumps. They could not be read there anyway.
        // SAFETY: as above.
        let _ = unsafe { madvise(base, bytes, Advice::LinuxDontDump) };
        Ok(Spans {
            base: NonNull::new(base.cast()).ok_or(Errno::NOMEM)?,
            span_bytes,
            locks: (0..count).map(|_| RwLock::new(())).collect(),
        })
    }

    /// Locks span `index` for reading.
    ///
    /// # Panics
    ///
    /// When there is no such span.
    pub(crate) fn read(&self, index: usize) -> SpanRef<'_> {
        let _guard = self.locks[index].read();
        // SAFETY: the lock exists, so the span lies inside the mapping, which lives as long as
        // `self`; bytes of anonymous memory are always initialised; the shared lock, held as long
        // as the slice, keeps writers out.
        let bytes = unsafe { std::slice::from_raw_parts(self.start(index), self.span_bytes) };
        SpanRef { bytes, _guard }
    }

    /// Locks span `index` for writing.
    ///
    /// # Panics
    ///
    /// When there is no such span.
    pub(crate) fn write(&self, index: usize) -> SpanMut<'_> {
        let _guard = self.locks[index].write();
        // SAFETY: as in `read`, and the exclusive lock, held as long as the slice, keeps everybody
        // else out.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.start(index), self.span_bytes) };
        SpanMut { bytes, _guard }
    }

    /// The address of span `index`, which exists.
    fn start(&self, index: usize) -> *mut u8 {
        // SAFETY: callers have indexed the locks with `index`, so the offset is inside the
        // mapping, whose size fits in an isize.
        unsafe { self.base.as_ptr().add(index * self.span_bytes) }
    }
}

impl Drop for Spans {
    fn drop(&mut self) {
        let bytes = self.locks.len() * self.span_bytes;
        // SAFETY: the range is exactly the mapping that `map` made, and no slice into it can
        // outlive `self`.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast::<c_void>(), bytes) };
        debug_assert_eq!(unmapped, Ok(()));
    }
}

/// A span locked for reading.
#[derive(Debug)]
pub(crate) struct SpanRef<'a> {
    bytes: &'a [u8],
    _guard: RwLockReadGuard<'a, ()>,
}

impl Deref for SpanRef<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

/// A span locked for writing.
#[derive(Debug)]
pub(crate) struct SpanMut<'a> {
    bytes: &'a mut [u8],
    _guard: RwLockWriteGuard<'a, ()>,
}

impl SpanMut<'_> {
    /// Makes the kernel give all of the span's pages now, in one go: that is cheaper than a fault
    /// for each, and a lack of memory is an error instead of a signal.
    pub(crate) fn populate(&mut self) -> Result<(), Errno> {
        // SAFETY: the range is the span, whole pages of a private anonymous mapping; the advice
        // does not change what they read as.
        let result = unsafe {
            madvise(
                self.bytes.as_mut_ptr().cast(),
                self.bytes.len(),
                Advice::LinuxPopulateWrite,
            )
        };
        match result {
            // Before Linux 5.14, pages come with the first write instead.
            Err(Errno::INVAL) => Ok(()),
            result => result,
        }
    }

    /// Gives the span's pages back to the kernel; its bytes are zero afterwards.
    pub(crate) fn discard(&mut self) -> Result<(), Errno> {
        // SAFETY: the range is the span, whole pages of a private anonymous mapping, locked
        // exclusively; reading zeros afterwards is what the contract says.
        unsafe {
            madvise(
                self.bytes.as_mut_ptr().cast(),
                self.bytes.len(),
                Advice::LinuxDontNeed,
            )
        }
    }
}

impl Deref for SpanMut<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

impl DerefMut for SpanMut<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_dumps_do_not_hold_spans() {
        let spans = Spans::map(3, 8192).expect("address space");
        let address = spans.base.as_ptr().addr();
        let holds = |line: &&str| {
            let (start, end) = line.split_once(' ')?.0.split_once('-')?;
            let [start, end] = [start, end].map(|hex| usize::from_str_radix(hex, 16).ok());
            Some((start?..end?).contains(&address))
        };
        let smaps = std::fs::read_to_string("/proc/self/smaps").expect("our own");
        let mut lines = smaps.lines().skip_while(|line| holds(line) != Some(true));
        let flags = lines.find_map(|line| line.strip_prefix("VmFlags:"));
        let flags = flags.expect("the mapping");
        assert!(flags.split(' ').any(|flag| flag == "dd"), "{flags}");
    }

    #[test]
    fn spans_do_not_overlap_and_discard_clears_one_of_them() {
        let spans = Spans::map(3, 8192).expect("address space");
        for i in 0..3 {
            spans.write(i).fill(i as u8 + 1);
        }
        spans.write(1).discard().expect("own memory");
        let (first, second) = (spans.read(0), spans.read(1));
        assert!(first.iter().all(|&b| b == 1));
        assert!(second.iter().all(|&b| b == 0));
        assert!(spans.read(2).iter().all(|&b| b == 3));
    }

    #[test]
    fn spans_are_not_where_the_program_unmapped_something() {
        let bytes = 8 << 20;
        let no_flags = ProtFlags::empty();
        // SAFETY: a new mapping that is not used.
        let gap = unsafe {
            let gap = mmap_anonymous(ptr::null_mut(), bytes, no_flags, MapFlags::PRIVATE);
            let gap = gap.expect("address space");
            munmap(gap, bytes).expect("own memory");
            gap.addr()
        };
        let spans = [(); 8].map(|()| Spans::map(1, 1 << 20).expect("address space"));
        for spans in &spans {
            assert!(!(gap..gap + bytes).contains(&spans.start(0).addr()));
        }
    }

    #[test]
    fn an_absurd_size_is_an_error() {
        assert_eq!(Spans::map(1 << 40, 1 << 20).err(), Some(Errno::NOMEM));
        assert!(Spans::map(1 << 30, 1 << 33).is_err());
    }
}
