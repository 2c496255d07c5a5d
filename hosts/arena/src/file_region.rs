//! Files as memory: read-only private maps whose clean pages can stay in the pool.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use warmswap_page::PAGE_BYTES;

use crate::application::Application;
use crate::error::{ArenaError, die};
use crate::region::{Advice, Pinned, Region};

impl Application {
    /// Maps a file, read-only. Its pages are read when they are touched, and given up without being written.
    /// With a scheme whose pool takes pages of files (`ezswap`) they are looked up there before the file is
    /// read again.
    ///
    /// The file is expected to stay as it is, or to be written only by code that says so
    /// ([`FileRegion::file_written`]): no other writes are seen. Where it becomes shorter than it was, it
    /// reads as zeros.
    ///
    /// # Errors
    /// [`ArenaError::File`]: the file cannot be opened, or is empty. [`ArenaError::AddressSpace`].
    pub fn map_file(&self, path: impl AsRef<Path>) -> Result<FileRegion, ArenaError> {
        let path = path.as_ref();
        let failed = |source| ArenaError::File {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(failed)?;
        let len = file.metadata().map_err(failed)?.len();
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        if len == 0 {
            return Err(failed(std::io::ErrorKind::InvalidInput.into()));
        }
        // A path is what the file is known by in the next run.
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let shared = &self.inner.shared;
        let pages = len.div_ceil(PAGE_BYTES);
        let first =
            shared
                .pager()
                .add_file(&shared.core, self.inner.id, (file, absolute), pages)?;
        let region = Region {
            app: std::sync::Arc::clone(&self.inner),
            first,
            pages,
        };
        Ok(FileRegion {
            region,
            len,
            path: path.to_owned(),
        })
    }
}

/// A file as memory. Unmapped on drop.
///
/// It is reached through a raw pointer, as a [`Region`] is, and only read: what is written there is lost at any
/// time.
#[derive(Debug)]
pub struct FileRegion {
    region: Region,
    len: usize,
    path: PathBuf,
}

impl FileRegion {
    /// First byte. Valid for reads of [`Self::len`] bytes, and of zeros up to the end of its last page, as long
    /// as the region lives.
    #[must_use]
    pub fn as_ptr(&self) -> *const u8 {
        self.region.as_mut_ptr()
    }

    /// Bytes of the file when it was mapped.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: an empty file is not mapped.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The path that it was mapped by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Says what a range of bytes is needed for: see [`Region::advise`].
    ///
    /// # Errors
    /// [`ArenaError::OutOfRange`].
    pub fn advise(&self, bytes: Range<usize>, advice: Advice) -> Result<(), ArenaError> {
        self.region.advise(self.whole(bytes), advice)
    }

    /// Brings a range of bytes to its place and keeps it there as long as the result lives.
    ///
    /// # Errors
    /// [`ArenaError::OutOfRange`].
    pub fn pin(&self, bytes: Range<usize>) -> Result<Pinned, ArenaError> {
        self.region.pin(bytes)
    }

    /// How many pages of a range of bytes are in their place: see [`Region::resident_pages`].
    ///
    /// # Errors
    /// [`ArenaError::OutOfRange`].
    pub fn resident_pages(&self, bytes: Range<usize>) -> Result<usize, ArenaError> {
        self.region.resident_pages(bytes)
    }

    /// These bytes of the file were written: their pages leave memory and pool, and are read again when they
    /// are touched. To be called after the write; a touch between the two may see either content.
    ///
    /// # Errors
    /// [`ArenaError::OutOfRange`].
    pub fn file_written(&self, bytes: Range<usize>) -> Result<(), ArenaError> {
        let pages = self.region.pages_of(bytes)?;
        let shared = &self.region.app.shared;
        let first = pages.start;
        let result = shared
            .pager()
            .read_anew(&shared.core, self.region.app.id, pages);
        if let Err(error) = result {
            die(shared.core.memory.address(first), &error);
        }
        // What the pool held of them is freed by the pager.
        shared.core.frames.call_pager();
        Ok(())
    }

    /// The end of the file is the end of its last page.
    fn whole(&self, bytes: Range<usize>) -> Range<usize> {
        let end = if bytes.end == self.len {
            self.region.len()
        } else {
            bytes.end
        };
        bytes.start..end
    }
}
