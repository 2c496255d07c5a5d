//! A backing file as slow as the paper's swap partition.

use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use warmswap_backing::Storage;

/// Bandwidth of reads from the paper's swap partition, in bytes a second (section 3.2: 20.3 MB/s). It gives none for
/// writes, which nothing waits for; here they take none of the reads' time.
pub const READ_BYTES_PER_SECOND: u64 = 20_300_000;

/// What a [`SwapFile`] did.
#[derive(Debug, Default)]
pub struct FlashCounts {
    /// Bytes read.
    pub read_bytes: AtomicU64,
    /// Bytes written.
    pub written_bytes: AtomicU64,
}

/// An unnamed file, read at the paper's bandwidth, one read at a time, or as fast as it can be.
#[derive(Debug)]
pub struct SwapFile {
    file: std::fs::File,
    path: PathBuf,
    counts: Arc<FlashCounts>,
    is_slow: bool,
    /// When the reads that were asked for so far will be done.
    done_at: Mutex<Instant>,
}

impl SwapFile {
    /// A new file in a folder; its name is gone before this returns.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn create(folder: &Path, counts: Arc<FlashCounts>, is_slow: bool) -> io::Result<Self> {
        use rustix::fs::{Mode, OFlags};
        let access = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        let file = rustix::fs::open(folder, access, Mode::RUSR | Mode::WUSR)?;
        Ok(Self {
            file: file.into(),
            path: folder.join("(unnamed)"),
            counts,
            is_slow,
            done_at: Mutex::new(Instant::now()),
        })
    }
}

impl Storage for SwapFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = self.file.read_at(buf, offset)?;
        self.counts
            .read_bytes
            .fetch_add(read as u64, Ordering::Relaxed);
        if !self.is_slow {
            return Ok(read);
        }
        let ns = read as u64 * 1_000_000_000 / READ_BYTES_PER_SECOND;
        let until = {
            // Runs on the fault path: held for a few instructions, by threads that touch no paged memory meanwhile.
            let mut done_at = self.done_at.lock();
            *done_at = (*done_at).max(Instant::now()) + Duration::from_nanos(ns);
            *done_at
        };
        while let Some(rest) = until.checked_duration_since(Instant::now()) {
            std::thread::sleep(rest);
        }
        Ok(read)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let written = self.file.write_at(buf, offset)?;
        self.counts
            .written_bytes
            .fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn path(&self) -> &Path {
        &self.path
    }
}
