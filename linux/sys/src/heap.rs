//! The C library's heap.

/// Blocks of this size and above have a mapping of their own.
#[cfg(target_env = "gnu")]
const LARGE_BYTES: libc::c_int = 256 << 10;

/// Has every large block of this process's heap mapped by itself, from now on: it grows without being copied, and what is
/// freed goes back to the kernel at once. By default glibc does so only up to the largest block that was freed so far,
/// and keeps larger ones that are freed for later. Costs a page fault per page of a large block. Does nothing with another C
/// library.
pub fn map_large_blocks() {
    #[cfg(target_env = "gnu")]
    // SAFETY: `mallopt` takes two numbers and locks what it changes. A refusal leaves the default.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
    }
}

/// Has the C library give memory that it holds free back to the kernel, where it can (glibc). Costs about 1 ms for each
/// 16 MiB that it holds.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: the call takes no pointer, and may be made by any thread at any time.
        unsafe { libc::malloc_trim(0) };
    }
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;
    use crate::Root;
    use crate::process::Stat;

    #[test]
    fn a_large_block_has_its_own_mapping_whatever_was_freed_before() {
        map_large_blocks();
        drop(vec![1_u8; 4 << 20]);

        let block = vec![1_u8; 2 << 20];

        // Two words of glibc's are before it.
        assert_eq!(
            block.as_ptr() as usize % 4096,
            2 * size_of::<usize>(),
            "behind the beginning of a page"
        );
    }

    #[test]
    fn what_was_freed_below_what_is_in_use_goes_back_to_the_kernel() {
        let resident = || {
            let stat = Stat::read(&Root::machine(), std::process::id()).unwrap();
            stat.resident_pages
        };
        // Small ones are not mapped one by one, and the last one stays.
        let mut blocks: Vec<Box<[u8; 4096]>> = (0..10_000).map(|_| Box::new([1; 4096])).collect();
        let last = blocks.pop();
        drop(blocks);
        let before = resident();
        trim();
        assert!(resident() + 5_000 < before, "{before} pages before");
        drop(last);
    }
}
