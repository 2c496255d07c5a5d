//! Contents of another process's memory, through `/proc/PID/mem`.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use crate::{FileError, Root};
use warmswap_page::PAGE_BYTES;

/// An open memory file.
///
/// Reading a page that is swapped out brings it back into the process's memory, as a touch would, but
/// raises no perf page-fault event.
#[derive(Debug)]
pub struct MemoryFile {
    file: File,
    path: PathBuf,
}

impl MemoryFile {
    /// Opens the memory of `pid` for reading.
    ///
    /// # Errors
    /// [`FileError`]; permission is as for ptrace.
    pub fn open(root: &Root, pid: u32) -> Result<Self, FileError> {
        let path = root.proc_file(pid, "mem");
        let file = File::open(&path).map_err(|e| FileError::new("open", &path, e))?;
        Ok(Self { file, path })
    }

    /// Reads whole pages from page `number` on into `out` and returns how many pages were read: fewer when
    /// the next one cannot be read (unmapped, a hole of a file, memory of a device, the process ended).
    /// Costs about 1 µs plus 0.3 µs a page when present.
    ///
    /// # Errors
    /// [`FileError`] for anything but an unreadable page.
    ///
    /// # Panics
    /// When `out` is not a whole number of pages.
    pub fn read_pages(&self, number: u64, out: &mut [u8]) -> Result<usize, FileError> {
        assert!(
            out.len().is_multiple_of(PAGE_BYTES),
            "a whole number of pages"
        );
        let mut filled = 0;
        while filled < out.len() {
            match self.file.read_at(
                &mut out[filled..],
                number * PAGE_BYTES as u64 + filled as u64,
            ) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e)
                    if matches!(
                        e.raw_os_error(),
                        Some(libc::EIO | libc::EFAULT | libc::ESRCH)
                    ) =>
                {
                    break;
                }
                Err(e) => return Err(FileError::new("read", &self.path, e)),
            }
        }
        Ok(filled / PAGE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_memory_reads_as_written_and_a_null_page_as_nothing() {
        let pages: Vec<u8> = (0..4 * PAGE_BYTES).map(|i| (i % 251) as u8).collect();
        let first = (pages.as_ptr() as u64).div_ceil(PAGE_BYTES as u64);
        let skipped = (first * PAGE_BYTES as u64 - pages.as_ptr() as u64) as usize;
        let memory = MemoryFile::open(&Root::machine(), std::process::id()).unwrap();
        let mut out = vec![0u8; 2 * PAGE_BYTES];

        assert_eq!(memory.read_pages(first, &mut out).unwrap(), 2);
        assert_eq!(out, pages[skipped..skipped + 2 * PAGE_BYTES]);
        assert_eq!(memory.read_pages(0, &mut out).unwrap(), 0);
    }
}
