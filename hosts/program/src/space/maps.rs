//! Files that the program maps to read them.

use std::io;
use std::path::PathBuf;

use warmswap_page::PAGE_BYTES;
use warmswap_uffd::Twin;

use super::Space;
use crate::error::SpaceError;

impl Space {
    /// Takes a file that the program maps, privately and to read it: `twin` is the kernel's map of it, which stays, of
    /// `len` bytes; `content` of them are in the file, at least one. The address where the program finds it; the
    /// pages are read as they are touched, and given up without being written.
    ///
    /// What others write to the file may be seen or not, until the page is read anew. Where there is no file, behind
    /// its end now or because it becomes shorter, an access raises SIGBUS. A page that is there already stays.
    ///
    /// # Errors
    /// [`SpaceError`]: there is no room, or the memory is not ours yet. All of the twin is left as it was then.
    pub fn map_file(
        &self,
        twin: Twin,
        (content, len): (usize, usize),
        name: PathBuf,
    ) -> Result<usize, SpaceError> {
        let address = twin.address();
        let mut pager = self.shared.pager();
        if !pager.map.is_adopted() {
            return Err(SpaceError::NotOurs { address });
        }
        let pages = len / PAGE_BYTES;
        let content = content.div_ceil(PAGE_BYTES).min(pages);
        let core = &self.shared.core;
        let first = self
            .addresses(&mut pager)
            .map_file(twin, (content, pages), name)?;
        Ok(core.memory.address(first))
    }

    /// Whether files are all that is in a range.
    #[must_use]
    pub fn is_file(&self, address: usize, len: usize) -> bool {
        let range = self.pages(address, len);
        self.shared.pager().map.of_files(&range) == [range]
    }

    /// Bytes of files that are ours.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        (self.shared.pager().map.file_pages() * PAGE_BYTES) as u64
    }

    /// Asks the kernel to read what there is of files in a range ahead.
    pub fn will_need(&self, address: usize, len: usize) {
        let range = self.pages(address, len);
        let mut pager = self.shared.pager();
        self.addresses(&mut pager).will_need(&range);
    }

    /// Moves what is in a range, all of one file, out of the space: `remap` is told where the kernel's own map of it
    /// is, and does with that what the program wants; its result is this one's. `None` when the range is something
    /// else.
    ///
    /// # Errors
    /// [`SpaceError`].
    pub fn remap_file(
        &self,
        address: usize,
        len: usize,
        remap: impl FnOnce(usize) -> io::Result<usize>,
    ) -> Result<Option<io::Result<usize>>, SpaceError> {
        let range = self.pages(address, len);
        let mut pager = self.shared.pager();
        Ok(self.addresses(&mut pager).remap_file(&range, remap)?)
    }
}
