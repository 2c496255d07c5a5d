//! Which pages are in memory (`mincore`), and locking pages of files there (`mlock`).

use std::fs::File;
use std::io;
use std::path::Path;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mlock, mmap, munmap};

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

/// A page of a file that the kernel does not reclaim before this is dropped.
#[derive(Debug)]
pub struct LockedPage(NonNull<u8>);

// SAFETY: the mapping belongs to this value alone, and nothing reads or writes through it.
unsafe impl Send for LockedPage {}

impl LockedPage {
    /// Locks a page of a file if it is in the page cache now; `None` if it is not. It stays charged to the control group that
    /// read it. Costs about 5 µs, and a mapping of this process as long as it lives.
    ///
    /// To users who neither own the file nor may write it, the kernel says that all pages are present; one that is not is
    /// then read.
    ///
    /// # Errors
    /// The system's answer: `ENOMEM` or `EPERM` where less may be locked (`RLIMIT_MEMLOCK`), `ENOMEM` where the process has
    /// too many mappings.
    pub fn lock_cached(file: &File, page: u64) -> io::Result<Option<Self>> {
        // SAFETY: a fresh mapping at an address of the kernel's choice aliases no memory of this process.
        let base = unsafe {
            mmap(
                std::ptr::null_mut(),
                PAGE_BYTES,
                ProtFlags::READ,
                MapFlags::SHARED,
                file,
                page * PAGE_BYTES as u64,
            )
        }?;
        let base = NonNull::new(base.cast::<u8>())
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        // From here on dropping it unmaps.
        let locked = Self(base);
        let mut cached = 0u8;
        // SAFETY: the page at `base` is the mapping above, and `cached` is one byte for it.
        let result = unsafe { libc::mincore(base.as_ptr().cast(), PAGE_BYTES, &raw mut cached) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        if cached & 1 == 0 {
            return Ok(None);
        }
        // SAFETY: exactly the mapping above, of which nobody reads a byte: a file that is truncated meanwhile raises no signal.
        unsafe { mlock(base.as_ptr().cast(), PAGE_BYTES) }?;
        Ok(Some(locked))
    }
}

impl Drop for LockedPage {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping of `lock_cached`, into which no reference was made. Unmapping unlocks.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), PAGE_BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of so many pages in a folder, written to the disk, so that its pages can be dropped.
    fn file_of(dir: &Path, pages: usize) -> File {
        let path = dir.join("file");
        std::fs::write(&path, vec![1u8; pages * PAGE_BYTES]).unwrap();
        let file = File::open(path).unwrap();
        file.sync_all().unwrap();
        file
    }

    fn drop_cached(file: &File) {
        rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }

    #[test]
    fn locked_pages_stay_cached_until_they_are_unlocked() {
        let name = "locked_pages_stay_cached_until_they_are_unlocked";
        let dir = tempfile::tempdir().unwrap();
        let file = file_of(dir.path(), 40);
        if rustix::fs::fstatfs(&file).unwrap().f_type == libc::TMPFS_MAGIC {
            warmswap_testkit::skip!(name, "temporary files are in memory here");
        }
        let path = dir.path().join("file");
        drop_cached(&file);
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap();
        let pages = [4, 5, 10, 19];
        for page in pages {
            let mut byte = [0];
            let at = page * PAGE_BYTES as u64;
            std::os::unix::fs::FileExt::read_exact_at(&file, &mut byte, at).unwrap();
        }
        assert!(LockedPage::lock_cached(&file, 6).unwrap().is_none());
        let locked = pages[..3].iter().map(|&page| {
            let locked = LockedPage::lock_cached(&file, page).unwrap();
            locked.expect("it is cached")
        });
        let locked: Vec<LockedPage> = locked.collect();

        drop_cached(&file);
        let cached = |path: &Path| {
            let cached = page_cache(path).unwrap();
            (0..40).filter(|&page| cached[page]).collect::<Vec<_>>()
        };
        // What is mapped is not dropped either.
        assert_eq!(cached(&path), [4, 5, 10]);
        drop(locked);
        drop_cached(&file);
        assert_eq!(cached(&path), [0usize; 0]);
    }

    #[test]
    fn what_lies_behind_the_end_of_a_file_is_not_locked() {
        let dir = tempfile::tempdir().unwrap();
        let file = file_of(dir.path(), 3);
        let locked = LockedPage::lock_cached(&file, 2).unwrap();
        assert!(locked.is_some());
        assert!(LockedPage::lock_cached(&file, 3).unwrap().is_none());
        assert!(LockedPage::lock_cached(&file, 64).unwrap().is_none());
        // Truncated while it is locked.
        let path = dir.path().join("file");
        File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_len(1)
            .unwrap();
        drop(locked);
    }

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
