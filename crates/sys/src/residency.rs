//! Which pages are in memory (`mincore`).

use std::fs::File;
use std::path::Path;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::FileError;
use warmswap_page::PAGE_BYTES;

/// One entry per page of the file: true when it is in the page cache.
///
/// The file is mapped for the call and no page of it is touched. Costs about 20 ns a page. Linux answers
/// truthfully only to the file's owner, to those who may write it, and to root; others see every page as
/// present.
///
/// # Errors
/// [`FileError`]; a file of no bytes gives an empty list.
pub fn page_cache(path: &Path) -> Result<Vec<bool>, FileError> {
    let file = File::open(path).map_err(|e| FileError::new("open", path, e))?;
    let bytes = file
        .metadata()
        .map_err(|e| FileError::new("stat", path, e))?
        .len() as usize;
    if bytes == 0 {
        return Ok(Vec::new());
    }
    let mut present = vec![0u8; bytes.div_ceil(PAGE_BYTES)];
    // SAFETY: a fresh mapping at an address of the kernel's choice aliases no memory of this process.
    let map = unsafe {
        mmap(
            std::ptr::null_mut(),
            bytes,
            ProtFlags::READ,
            MapFlags::SHARED,
            &file,
            0,
        )
    }
    .map_err(|e| FileError::new("map", path, e.into()))?;
    // SAFETY: `map..map+bytes` is the mapping above, and `present` has one byte for each of its pages.
    let result = unsafe { libc::mincore(map, bytes, present.as_mut_ptr()) };
    let error = std::io::Error::last_os_error();
    // SAFETY: the mapping is ours alone and no reference into it was made.
    let _ = unsafe { munmap(map, bytes) };
    if result != 0 {
        return Err(FileError::new("examine", path, error));
    }
    Ok(present.into_iter().map(|b| b & 1 == 1).collect())
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_just_written_is_in_the_cache_and_an_empty_one_has_no_pages() {
        let dir = tempfile::tempdir().unwrap();
        let (full, empty) = (dir.path().join("full"), dir.path().join("empty"));
        std::fs::write(&full, vec![1u8; 3 * PAGE_BYTES + 1]).unwrap();
        std::fs::write(&empty, "").unwrap();

        assert_eq!(page_cache(&full).unwrap(), [true; 4]);
        assert!(page_cache(&empty).unwrap().is_empty());
        assert!(
            page_cache(&dir.path().join("absent"))
                .unwrap_err()
                .is_gone()
        );
    }
}
