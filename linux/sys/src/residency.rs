//! Which pages are in memory (`mincore`).

use warmswap_page::PAGE_BYTES;

/// How many pages, from this one on, are in memory: mapped, or in the swap cache. The pages are not touched.
///
/// # Errors
/// `ENOMEM` where something in the range is not mapped, `EINVAL` where `address` is no page's first byte.
pub fn resident_pages(address: usize, pages: usize) -> std::io::Result<usize> {
    let mut present = vec![0u8; pages];
    let start = std::ptr::with_exposed_provenance_mut(address);
    // SAFETY: `present` has one byte for each page that is asked about; nothing but that is written to.
    let result = unsafe { libc::mincore(start, pages * PAGE_BYTES, present.as_mut_ptr()) };
    if result != 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(present.iter().filter(|&&byte| byte & 1 == 1).count())
}
