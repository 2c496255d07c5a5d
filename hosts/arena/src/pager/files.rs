//! Files that are mapped: their names, their pages, and how these come and go.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use warmswap_engine::calls::Call;
use warmswap_page::{AppId, FileId, PageAddr};
use warmswap_policy::learned::Learned;
use warmswap_policy::{ChunkId, PageId, PageState};

use super::Pager;
use crate::address_map::AddressMap;
use crate::error::FaultError;
use crate::fault::Core;
use crate::page_words::{PageWords, State, Word};
use crate::restore::{self, Job};

/// A file that was mapped, or that an earlier run learned something about.
#[derive(Debug)]
struct Named {
    path: Arc<Path>,
    /// Where it is mapped; empty where it is not.
    pages: Range<usize>,
}

/// The files by number. A file that is mapped twice at a time has two.
#[derive(Debug)]
pub struct FileTable {
    named: Vec<Named>,
    /// By path, the numbers of those that are not mapped.
    not_mapped: FxHashMap<Arc<Path>, BTreeSet<u32>>,
    /// For each grain of the space, the number of its file plus one, or 0.
    of_grain: Vec<u32>,
}

impl FileTable {
    /// No files, in a space of so many pages.
    pub fn new(space_pages: usize) -> Self {
        Self {
            named: Vec::new(),
            not_mapped: FxHashMap::default(),
            of_grain: vec![0; space_pages / PageWords::GRAIN_PAGES],
        }
    }

    /// What the engine calls a page, if it is one of a file.
    pub fn addr(&self, page: usize) -> Option<PageAddr> {
        let file = self.of_grain[page / PageWords::GRAIN_PAGES].checked_sub(1)?;
        let pages = &self.named[file as usize].pages;
        pages.contains(&page).then(|| PageAddr::File {
            file: FileId(file),
            number: (page - pages.start) as u64,
        })
    }

    /// The pages of a file; none of one that is not mapped.
    pub fn pages(&self, file: FileId) -> Range<usize> {
        self.named[file.0 as usize].pages.clone()
    }

    /// First page behind the last grain in a range that is a file's; `None` when there is none.
    pub fn behind_files(&self, pages: &Range<usize>) -> Option<usize> {
        let grain = PageWords::GRAIN_PAGES;
        let first = pages.start / grain;
        let grains = &self.of_grain[first..pages.end.div_ceil(grain)];
        let last = grains.iter().rposition(|&file| file != 0)?;
        Some((first + last + 1) * grain)
    }

    /// The page that the engine calls that, which is mapped.
    pub fn page(&self, file: FileId, number: u64) -> usize {
        self.named[file.0 as usize].pages.start + number as usize
    }

    /// The number of a file that is not mapped now.
    pub fn number(&mut self, path: PathBuf) -> FileId {
        let known = self.not_mapped.get(path.as_path());
        if let Some(&number) = known.and_then(|numbers| numbers.first()) {
            return FileId(number);
        }
        let (number, path) = (self.named.len() as u32, Arc::<Path>::from(path));
        self.named.push(Named {
            path: Arc::clone(&path),
            pages: 0..0,
        });
        self.not_mapped.entry(path).or_default().insert(number);
        FileId(number)
    }

    /// The map that begins at a page, if there is one, is gone: its file is not read any more.
    pub fn close(&mut self, core: &Core, first: usize) {
        if let Some(PageAddr::File { file, .. }) = self.addr(first) {
            self.set(file, 0..0);
            core.files.remove(first);
        }
    }

    /// A file is mapped to these pages from now on, which begin a grain and share none with another file's.
    pub fn set(&mut self, file: FileId, pages: Range<usize>) {
        let grain = PageWords::GRAIN_PAGES;
        let named = &mut self.named[file.0 as usize];
        let before = std::mem::replace(&mut named.pages, pages.clone());
        if before.is_empty() != pages.is_empty() {
            let not_mapped = self.not_mapped.entry(Arc::clone(&named.path)).or_default();
            if pages.is_empty() {
                not_mapped.insert(file.0);
            } else {
                not_mapped.remove(&file.0);
            }
        }
        self.of_grain[before.start / grain..before.end.div_ceil(grain)].fill(0);
        self.of_grain[pages.start / grain..pages.end.div_ceil(grain)].fill(file.0 + 1);
    }
}

impl<M: AddressMap> Pager<M> {
    // ---- out ----

    /// Whether a `Discard` of this page still holds: it may have come back or have been freed since.
    pub(super) fn is_discarded(&self, id: PageId) -> bool {
        self.engine.page_state(id) == PageState::Discarded
    }

    /// The frame of a page is given up for its file, if the page was not touched since.
    pub(super) fn discard(&mut self, core: &Core, id: PageId) -> Result<(), FaultError> {
        // What does not exist any more has no place.
        if self.engine.page_state(id) == PageState::Absent {
            return Ok(());
        }
        let page = self.number(id);
        let word = core.words.settled(page);
        let is_out_of_sight = matches!(word.state, State::Staged | State::Protected);
        match (self.is_discarded(id), is_out_of_sight) {
            (true, true) => match Self::give_up(core, page, word, Word::of(State::InFile))? {
                Some(slot) => self.free_frames(core, slot.into_iter().collect())?,
                None => self.stayed.push(page),
            },
            // It could not leave, or came back before the engine heard of it.
            (true, false) if word.state == State::Resident => self.stayed.push(page),
            _ => {}
        }
        Ok(())
    }

    /// A page is no longer in its chunk, and the pool is to be rid of the chunk.
    pub(super) fn forget_copy(&mut self, core: &Core, id: PageId, chunk: ChunkId) {
        if !self.is_discarded(id) {
            return;
        }
        let is_there = |word: Word| {
            let is_there = word.state == State::Stored && word.chunk == chunk;
            is_there.then_some(Word::of(State::InFile))
        };
        core.words.update(self.number(id), is_there);
    }

    // ---- in ----

    /// Has the restore threads read pages of a file, which the engine takes for read.
    pub(super) fn read_ahead(&mut self, file: FileId, numbers: Range<u64>) {
        let mapped = self.files.named[file.0 as usize].pages.len() as u64;
        let end = numbers.end.min(mapped);
        if numbers.end > end.max(numbers.start) {
            // The file is shorter than when this was learned, or not mapped.
            let number = end.max(numbers.start);
            let pages = (numbers.end - number) as u32;
            let (app, addr) = (AppId(0), PageAddr::File { file, number });
            self.engine.call(Call::Free(app, addr, pages));
        }
        let mut pages = Vec::new();
        for number in numbers.start..end {
            let page = self.files.page(file, number);
            if !self.map.is_file_page(page) {
                let addr = PageAddr::File { file, number };
                self.engine.call(Call::Free(AppId(0), addr, 1));
            } else {
                pages.push(page as u32);
            }
        }
        if !pages.is_empty() {
            self.ahead.push(Job::of(pages, restore::Source::File));
        }
    }

    /// Pages for which no frame was found are not read: the engine forgets them.
    pub(super) fn was_read(&mut self, core: &Core, pages: &[u32]) {
        for page in pages.iter().map(|&page| page as usize) {
            if core.words.word(page).state == State::InFile {
                let (app, addr) = self.locate(page);
                self.engine.call(Call::Free(app, addr, 1));
            }
        }
    }

    // ---- what is learned ----

    /// What the scheme learned about an application, files by their paths.
    pub fn learned(&self, app: AppId) -> Learned<String> {
        let path = |file: FileId| {
            let named = self.files.named.get(file.0 as usize)?;
            named.path.to_str().map(str::to_owned)
        };
        self.engine.learned(app).rename(path)
    }

    /// Gives back what was learned in an earlier run.
    pub fn teach(&mut self, app: AppId, learned: Learned<String>) {
        let learned = learned.rename(|path| Some(self.files.number(path.into())));
        self.engine.teach(app, learned);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmswap_testkit::Random;

    /// The number that a search of the whole table finds.
    fn searched(table: &FileTable, path: &Path) -> usize {
        let is_it = |named: &Named| *named.path == *path && named.pages.is_empty();
        let known = table.named.iter().position(is_it);
        known.unwrap_or(table.named.len())
    }

    #[test]
    fn a_number_is_the_first_of_its_path_that_is_not_mapped() {
        let grain = PageWords::GRAIN_PAGES;
        let mut table = FileTable::new(64 * grain);
        let mut mapped = vec![None; 64];
        let mut random = Random(1);
        let mut next = |below| random.below(below);
        for _ in 0..5_000 {
            let (path, at) = (PathBuf::from(format!("/{}", next(5))), next(64));
            if let Some(file) = mapped[at].take() {
                table.set(file, 0..0);
                assert_eq!(table.addr(at * grain), None);
                continue;
            }
            let wanted = searched(&table, &path);
            let file = table.number(path.clone());
            assert_eq!(file.0 as usize, wanted);
            assert_eq!(table.number(path), file, "until it is mapped");
            if next(3) > 0 {
                table.set(file, at * grain..at * grain + 1 + next(grain));
                mapped[at] = Some(file);
            }
        }
        assert!(table.named.len() > 5);
    }
}
