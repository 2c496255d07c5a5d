//! The buffer that one perf counter shares with the kernel.

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings::perf_event_mmap_page;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use warmswap_page::PAGE_BYTES;

/// A counter and its mapped buffer: one page of control data, then `data_bytes` of records.
#[derive(Debug)]
pub(super) struct Ring {
    /// Keeps the counter running.
    _counter: File,
    base: NonNull<u8>,
    data_bytes: usize,
    /// Records that wrap around the end are put together here.
    copy: Vec<u8>,
}

// SAFETY: the mapping belongs to this value alone on our side, and its shared words are accessed atomically.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps a buffer of `data_pages` pages, a power of two, for `counter`.
    pub(super) fn map(counter: File, data_pages: usize) -> io::Result<Self> {
        let data_bytes = data_pages * PAGE_BYTES;
        // SAFETY: a fresh shared mapping at an address of the kernel's choice.
        let base = unsafe {
            mmap(
                std::ptr::null_mut(),
                PAGE_BYTES + data_bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &counter,
                0,
            )
        }?;
        let base = NonNull::new(base.cast::<u8>())
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Self {
            _counter: counter,
            base,
            data_bytes,
            copy: Vec::new(),
        })
    }

    /// Hands all whole records that the kernel has finished to `visit` and frees their room.
    pub(super) fn read(&mut self, visit: impl FnOnce(&[u8])) {
        let (head, tail) = (self.head(), self.tail());
        // The kernel advances `data_head` with release order after it wrote the records.
        let end = head.load(Ordering::Acquire);
        let begin = tail.load(Ordering::Relaxed);
        let length = (end.wrapping_sub(begin) as usize).min(self.data_bytes);
        let offset = begin as usize % self.data_bytes;
        let first = length.min(self.data_bytes - offset);
        self.copy.clear();
        // SAFETY: the data area begins one page after `base` and has `data_bytes` bytes. `offset + first` and
        // `length - first` are within it. The kernel does not write between tail and head until tail moves, so
        // the bytes do not change while they are copied.
        unsafe {
            let data = self.base.as_ptr().add(PAGE_BYTES);
            self.copy
                .extend_from_slice(std::slice::from_raw_parts(data.add(offset), first));
            self.copy
                .extend_from_slice(std::slice::from_raw_parts(data, length - first));
        }
        // Release: the copy above is done before the kernel may write there again.
        self.tail().store(end, Ordering::Release);
        visit(&self.copy);
    }

    fn head(&self) -> &AtomicU64 {
        self.control_word(std::mem::offset_of!(perf_event_mmap_page, data_head))
    }

    fn tail(&self) -> &AtomicU64 {
        self.control_word(std::mem::offset_of!(perf_event_mmap_page, data_tail))
    }

    fn control_word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: `offset` names an aligned 64-bit field of the control page, which is mapped while `self` lives and
        // is accessed by both sides as an atomic word only.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping of `map`; no reference into it outlives a call.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), PAGE_BYTES + self.data_bytes) };
    }
}
