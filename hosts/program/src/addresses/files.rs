//! Files that a program maps to read them: their pages take the place of the kernel's, as long as that is what they
//! are.
//!
//! The kernel's own map of the file stays, as a twin at another place. Pages are filled from it. They are clean, so
//! that nothing is lost when they are given up; and no frame moves to or from them, since the kernel moves only what
//! can be written to.
//!
//! Where the program wants to do more than read, and where there is no file, the twin takes its place back.

use std::io;
use std::ops::Range;
use std::path::PathBuf;

use warmswap_arena::mechanism::{FaultError, FileMap, PageWords, Source, State, Word};
use warmswap_page::{PAGE_BYTES, PageAddr};
use warmswap_uffd::{Protection, Twin};

use super::Addresses;
use crate::error::SpaceError;
use crate::program::{APP, Mapped};

impl Addresses<'_> {
    /// Maps a file for the program: `pages` of a twin; the first `content` of them are in the file and become ours;
    /// the first page.
    pub fn map_file(
        &mut self,
        twin: Twin,
        (content, pages): (usize, usize),
        name: PathBuf,
    ) -> Result<usize, SpaceError> {
        let bytes = pages * PAGE_BYTES;
        let range = self
            .place_for_file(pages)
            .ok_or(SpaceError::Full { bytes })?;
        let (ours, behind) = (
            range.start..range.start + content,
            range.start + content..range.end,
        );
        self.core
            .memory
            .protect(ours.start, content, Protection::READ)?;
        if !behind.is_empty() {
            let place = (&twin, content * PAGE_BYTES);
            if let Err(error) = self.core.memory.give_to(behind.start, behind.len(), place) {
                // All of the twin is the caller's again, and nothing is here.
                self.core
                    .memory
                    .protect(ours.start, content, Protection::NONE)?;
                return Err(error.into());
            }
            self.pager.map.set(behind, Some(Mapped::Foreign));
        }
        let number = self.pager.files.number(name);
        self.pager.files.set(number, ours.clone());
        self.core.files.add(FileMap {
            first: ours.start,
            pages: content,
            source: Source::Twin(twin),
        });
        self.pager.map.set(ours.clone(), Some(Mapped::File));
        self.pager
            .open_pages(self.core, ours.clone(), Word::of(State::InFile));
        Ok(ours.start)
    }

    /// A free range that begins a grain and shares none with another file's pages.
    fn place_for_file(&self, pages: usize) -> Option<Range<usize>> {
        let grain = PageWords::GRAIN_PAGES;
        self.pager.map.find_gap(pages, grain, |gap| {
            let mut first = gap.start.next_multiple_of(grain);
            while first + pages <= gap.end {
                let range = first..first + pages;
                match self.pager.files.behind_files(&range) {
                    Some(behind) => first = behind,
                    None => return Some(range),
                }
            }
            None
        })
    }

    /// Gives up pages of a file, and this part of it: something else is about to be there.
    pub(super) fn close_file(&mut self, range: Range<usize>) -> Result<(), FaultError> {
        for part in self.by_file(range) {
            self.pager
                .empty(self.core, APP, part.clone(), Word::of(State::Unmapped))?;
            if let Some(map) = self.core.files.find(part.start)
                && let Some((twin, bytes)) = map.twin(&part)
            {
                // It is not read any more. A failed unmap leaks address space only.
                let _ = twin.unmap(bytes);
            }
            self.closed_file(part);
        }
        Ok(())
    }

    /// Gives the pages of files in a range back to the kernel, with its own maps of the files in their places.
    pub fn give_files(&mut self, range: &Range<usize>) -> Result<(), FaultError> {
        let pieces = self.pager.map.of_files(range).into_iter();
        let parts: Vec<_> = pieces.flat_map(|piece| self.by_file(piece)).collect();
        for part in parts {
            let map = self
                .core
                .files
                .find(part.start)
                .ok_or(FaultError::NotMapped)?;
            // Held meanwhile, so that no page is brought to where something else is mapped.
            let give = |pages: Range<usize>| match map.twin(&pages) {
                Some((twin, bytes)) => {
                    self.core
                        .memory
                        .give_to(pages.start, pages.len(), (twin, bytes.start))
                }
                None => Ok(()),
            };
            for pages in steps(&part) {
                let unmapped = Word::of(State::Unmapped);
                self.pager
                    .empty_by(self.core, APP, pages.clone(), (unmapped, &give))?;
                self.closed_file(pages.clone());
                self.pager.map.set(pages, Some(Mapped::Foreign));
            }
        }
        Ok(())
    }

    /// Has the kernel do something with its own map of what is in a range, all of one file, which is not here any
    /// more then: `remap` is told where that map is. `None` if the range is not all of one file.
    pub fn remap_file(
        &mut self,
        range: &Range<usize>,
        remap: impl FnOnce(usize) -> io::Result<usize>,
    ) -> Result<Option<io::Result<usize>>, FaultError> {
        let is_whole = self.pager.map.of_files(range) == [range.clone()];
        if !is_whole || self.by_file(range.clone()).len() != 1 {
            return Ok(None);
        }
        let map = self
            .core
            .files
            .find(range.start)
            .ok_or(FaultError::NotMapped)?;
        let (twin, bytes) = map.twin(range).ok_or(FaultError::NotMapped)?;
        // The twin is not read from here on.
        self.pager
            .empty(self.core, APP, range.clone(), Word::of(State::Unmapped))?;
        let remapped = twin.take(bytes, remap);
        if remapped.is_ok() {
            self.core
                .memory
                .protect(range.start, range.len(), Protection::NONE)?;
            self.closed_file(range.clone());
        } else {
            self.pager
                .open_pages(self.core, range.clone(), Word::of(State::InFile));
        }
        Ok(Some(remapped))
    }

    /// Asks the kernel to read the pages of files in a range ahead.
    pub fn will_need(&self, range: &Range<usize>) {
        let pieces = self.pager.map.of_files(range).into_iter();
        for part in pieces.flat_map(|piece| self.by_file(piece)) {
            if let Some(map) = self.core.files.find(part.start)
                && let Some((twin, bytes)) = map.twin(&part)
            {
                twin.will_need(&bytes);
            }
        }
    }

    /// A stretch of pages of files, file by file.
    fn by_file(&self, range: Range<usize>) -> Vec<Range<usize>> {
        let mut parts = Vec::new();
        let mut first = range.start;
        while first < range.end
            && let Some(PageAddr::File { file, .. }) = self.pager.files.addr(first)
        {
            let end = self.pager.files.pages(file).end.min(range.end);
            parts.push(first..end);
            first = end;
        }
        parts
    }

    /// Pages of a file have no words any more: if they were its last, its place is forgotten.
    fn closed_file(&mut self, part: Range<usize>) {
        let file = self.pager.files.addr(part.start);
        self.pager.map.set(part.clone(), None);
        self.closed(part);
        if let Some(PageAddr::File { file, .. }) = file {
            let pages = self.pager.files.pages(file);
            if self.pager.map.of_files(&pages).is_empty() {
                self.pager.files.set(file, 0..0);
                self.core.files.remove(pages.start);
            }
        }
    }
}

/// Pages that are given back at a time, so that the tables agree with what is mapped whenever that fails.
const STEP_PAGES: usize = 512;

fn steps(range: &Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range
        .clone()
        .step_by(STEP_PAGES)
        .map(move |first| first..end.min(first + STEP_PAGES))
}
