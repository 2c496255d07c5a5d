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
