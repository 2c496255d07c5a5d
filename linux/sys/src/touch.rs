//! A write that changes nothing.

use std::sync::atomic::{AtomicU8, Ordering};

/// Writes to a byte what it holds, so that a missing page comes and a write-protected one is resolved as by any other
/// write. By compare-and-exchange: atomic operations that cannot change a value, such as `fetch_or(0)`, are no accesses
/// once they are compiled.
///
/// # Safety
/// The byte is in memory that may be written to, and is accessed by other threads at most.
pub unsafe fn touch_for_write(byte: *mut u8) {
    // SAFETY: the caller vouches for the memory; that others access it as something else is no race that changes what
    // they see, since the value stays.
    let byte = unsafe { AtomicU8::from_ptr(byte) };
    let value = byte.load(Ordering::Relaxed);
    // Where another thread writes in between, that write is the touch.
    let _ = byte.compare_exchange(value, value, Ordering::Relaxed, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_were_never_written_are_there_afterwards() {
        const PAGES: usize = 8;
        let page_bytes = warmswap_page::PAGE_BYTES;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let memory = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                PAGES * page_bytes,
                rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE,
                rustix::mm::MapFlags::PRIVATE,
            )
        }
        .expect("memory");
        let first = memory.addr() / page_bytes;
        let pagemap = crate::pagemap::Pagemap::open(&crate::Root::machine(), std::process::id());
        let present = || {
            let mut present = 0;
            let (start, end) = (first * page_bytes, (first + PAGES) * page_bytes);
            let maps = crate::maps::Maps::read(&crate::Root::machine(), std::process::id());
            pagemap
                .as_ref()
                .expect("our own")
                .read_anonymous(
                    maps.expect("our own").as_slice(),
                    start as u64..end as u64,
                    |region| {
                        present += region.count;
                    },
                )
                .expect("our own");
            present
        };
        assert_eq!(present(), 0);
        for page in 0..PAGES {
            // SAFETY: writable memory of the mapping above.
            unsafe { touch_for_write(memory.cast::<u8>().add(page * page_bytes)) };
        }
        assert_eq!(present(), PAGES as u64);
    }
}
