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

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;

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
}
