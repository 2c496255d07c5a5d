//! Which pages are in memory (`mincore`).

use std::io;
use std::ops::Range;

use warmswap_page::PAGE_BYTES;

/// How many pages, from this one on, are in memory: mapped, or in the swap cache. The pages are not touched.
///
/// # Errors
/// `ENOMEM` where something in the range is not mapped, `EINVAL` where `address` is no page's first byte.
pub fn resident_pages(address: usize, pages: usize) -> io::Result<usize> {
    let present = residency(address, pages)?;
    Ok(present.iter().filter(|&&is_in| is_in).count())
}

/// Runs of pages that are in memory, as numbers from the first page on, in order.
///
/// # Errors
/// As [`resident_pages`].
pub fn resident_runs(address: usize, pages: usize) -> io::Result<Vec<Range<usize>>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (page, is_in) in residency(address, pages)?.into_iter().enumerate() {
        match runs.last_mut() {
            Some(run) if is_in && run.end == page => run.end += 1,
            _ if is_in => runs.push(page..page + 1),
            _ => {}
        }
    }
    Ok(runs)
}

fn residency(address: usize, pages: usize) -> io::Result<Vec<bool>> {
    let mut present = vec![0u8; pages];
    let start = std::ptr::with_exposed_provenance_mut(address);
    // SAFETY: `present` has one byte for each page that is asked about; nothing but that is written to.
    let result = unsafe { libc::mincore(start, pages * PAGE_BYTES, present.as_mut_ptr()) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(present.into_iter().map(|byte| byte & 1 == 1).collect())
}
