//! The addresses of a program: what it mapped where, and what of that is ours.
//!
//! Until it is adopted, the program's memory is the kernel's business alone; only what is mapped is known then,
//! and no page has a word. From the adoption on, the pages that the program made accessible are like those of
//! a region.

use std::ops::Range;

use rangemap::{RangeMap, RangeSet};
use warmswap_page::AppId;
use warmswap_policy::reclaim::Arrival;
use warmswap_sys::uffd::{Failure, PagedError, Protection};

use super::Brain;
use crate::directory::{State, Word};
use crate::error::{ServeError, die};
use crate::service::Core;

/// What is at an address of the program. What is nothing at all is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapped {
    /// Reserved, and never accessible so far: nothing is there.
    Reserved,
    /// Memory, and what may be done with it.
    Open(Protection),
    /// Pages of a file, which can be read.
    File,
    /// Something else that the program mapped over it.
    Foreign,
    /// Something else was there, so that its faults are not ours: not used until [`Brain::program_recover`].
    Lost,
}

/// The map of a program's addresses, in pages.
#[derive(Debug)]
pub struct Program {
    map: RangeMap<usize, Mapped>,
    /// All pages.
    all: Range<usize>,
    /// Pages of [`Mapped::Open`] and [`Mapped::File`].
    open_pages: usize,
    /// Pages of [`Mapped::File`].
    file_pages: usize,
    /// Something was lost.
    has_lost: bool,
    /// Its pages have words.
    is_adopted: bool,
    /// Pages that stay in their places.
    kept: RangeSet<usize>,
}

/// The program of every address is the first application.
pub(super) const APP: AppId = AppId(0);

impl Program {
    pub fn new(space_pages: usize) -> Self {
        Self {
            map: RangeMap::new(),
            all: 0..space_pages,
            open_pages: 0,
            file_pages: 0,
            has_lost: false,
            is_adopted: false,
            kept: RangeSet::new(),
        }
    }

    /// Pages stay in their places until they are unmapped.
    pub(super) fn keep(&mut self, pages: Range<usize>) {
        self.kept.insert(pages);
    }

    /// Whether a page stays in its place.
    pub(super) fn is_kept(&self, page: usize) -> bool {
        self.kept.contains(&page)
    }

    /// Whether its pages are ours.
    pub fn is_adopted(&self) -> bool {
        self.is_adopted
    }

    /// Pages that the program can use.
    pub fn open_pages(&self) -> usize {
        self.open_pages
    }

    /// Of them, pages of files.
    pub fn file_pages(&self) -> usize {
        self.file_pages
    }

    /// Whether a page is memory, and not a file's.
    pub fn is_open(&self, page: usize) -> bool {
        matches!(self.map.get(&page), Some(Mapped::Open(_)))
    }

    /// Whether a page that was a file's is no more, since the program unmapped it.
    pub fn was_unmapped(&self, page: usize) -> bool {
        self.is_adopted && self.map.get(&page) != Some(&Mapped::File)
    }

    /// Stretches of pages of files in a range.
    pub fn of_files(&self, range: &Range<usize>) -> Vec<Range<usize>> {
        let pieces = self.pieces(range.clone()).into_iter();
        pieces
            .filter(|(_, mapped)| *mapped == Some(Mapped::File))
            .map(|(piece, _)| piece)
            .collect()
    }

    /// Ranges that are lost.
    fn lost(&self) -> Vec<Range<usize>> {
        let pieces = self.map.iter();
        pieces
            .filter(|&(_, &mapped)| mapped == Mapped::Lost)
            .map(|(range, _)| range.clone())
            .collect()
    }

    /// Free ranges, ascending.
    pub fn gaps(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.map.gaps(&self.all)
    }

    /// What is mapped in a range, piece by piece; `None` for what is free.
    pub fn pieces(&self, range: Range<usize>) -> Vec<(Range<usize>, Option<Mapped>)> {
        let mut pieces = Vec::new();
        let mut at = range.start;
        for (piece, &mapped) in self.map.overlapping(&range) {
            let (start, end) = (piece.start.max(range.start), piece.end.min(range.end));
            if at < start {
                pieces.push((at..start, None));
            }
            pieces.push((start..end, Some(mapped)));
            at = end;
        }
        if at < range.end {
            pieces.push((at..range.end, None));
        }
        pieces
    }

    /// A free range of so many pages, first of all at `hint`; else aligned like an address space of huge pages
    /// where it is large.
    pub fn gap(&self, hint: Option<usize>, pages: usize, align: usize) -> Option<Range<usize>> {
        if let Some(first) = hint
            && let Some(end) = first.checked_add(pages)
            && end <= self.all.end
            && !self.map.overlaps(&(first..end))
        {
            return Some(first..end);
        }
        self.gaps().find_map(|gap| {
            let first = gap.start.next_multiple_of(align);
            (first + pages <= gap.end).then(|| first..first + pages)
        })
    }

    /// Whether a range is free.
    pub fn is_free(&self, range: Range<usize>) -> bool {
        range.end <= self.all.end && !self.map.overlaps(&range)
    }

    pub(super) fn set(&mut self, range: Range<usize>, mapped: Option<Mapped>) {
        for (piece, before) in self.pieces(range.clone()) {
            let (open, file) = counted(before);
            self.open_pages -= piece.len() * open;
            self.file_pages -= piece.len() * file;
        }
        let (open, file) = counted(mapped);
        self.open_pages += range.len() * open;
        self.file_pages += range.len() * file;
        self.has_lost |= mapped == Some(Mapped::Lost);
        if !matches!(mapped, Some(Mapped::Open(_))) {
            self.kept.remove(range.clone());
        }
        match mapped {
            Some(mapped) => self.map.insert(range, mapped),
            None => self.map.remove(range),
        }
    }

    /// Pages with words.
    pub fn adopted_pages(&self) -> impl Iterator<Item = usize> + '_ {
        let open = |(range, mapped): (&Range<usize>, &Mapped)| match mapped {
            Mapped::Open(_) | Mapped::File => range.clone(),
            _ => 0..0,
        };
        self.map.iter().filter(|_| self.is_adopted).flat_map(open)
    }

    /// Stretches whose faults can be ours.
    fn own(&self) -> Vec<Range<usize>> {
        self.stretches(|mapped| !matches!(mapped, Some(Mapped::Foreign | Mapped::Lost)))
    }

    /// Stretches where nobody else has mapped something.
    fn kept(&self) -> Vec<Range<usize>> {
        self.stretches(|mapped| mapped != Some(Mapped::Foreign))
    }

    fn stretches(&self, is_in: impl Fn(Option<Mapped>) -> bool) -> Vec<Range<usize>> {
        let mut stretches: Vec<Range<usize>> = Vec::new();
        for (range, mapped) in self.pieces(self.all.clone()) {
            match stretches.last_mut() {
                _ if !is_in(mapped) => {}
                Some(last) if last.end == range.start => last.end = range.end,
                _ => stretches.push(range),
            }
        }
        stretches
    }
}

/// How often a page counts among those that can be used, and among those of files.
fn counted(mapped: Option<Mapped>) -> (usize, usize) {
    match mapped {
        Some(Mapped::Open(_)) => (1, 0),
        Some(Mapped::File) => (1, 1),
        _ => (0, 0),
    }
}

impl Brain {
    /// The program maps a range anew: what was there is gone, and it is as `mapped` says.
    pub fn program_map(
        &mut self,
        core: &Core,
        range: Range<usize>,
        mapped: Option<Mapped>,
    ) -> Result<(), ServeError> {
        for (piece, before) in self.program.pieces(range.clone()) {
            match before {
                Some(Mapped::Open(_)) => self.program_close(core, piece)?,
                Some(Mapped::File) => self.program_close_file(core, piece)?,
                _ => {}
            }
        }
        self.program.set(range.clone(), mapped);
        if let Some(Mapped::Open(protection)) = mapped {
            self.program_open(core, range, protection);
        }
        Ok(())
    }

    /// Gives up the content of a range's memory: it reads as zeros.
    pub fn program_discard(&mut self, core: &Core, range: Range<usize>) -> Result<(), ServeError> {
        for (piece, mapped) in self.program.pieces(range) {
            match mapped {
                Some(Mapped::Open(_)) if self.program.is_adopted => {
                    self.empty(core, APP, piece, Word::of(State::Fresh))?;
                }
                Some(Mapped::File) => self.empty(core, APP, piece, Word::of(State::InFile))?,
                // For what else is mapped there it means the same.
                Some(Mapped::Open(_) | Mapped::Foreign) => {
                    core.memory.discard(piece.start, piece.len())?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The program changes what may be done with memory that it has. Frames of memory that cannot be both
    /// read and written cannot be moved: such pages come back when they are touched, and then stay.
    pub fn program_protect(&mut self, core: &Core, range: Range<usize>, protection: Protection) {
        for (piece, mapped) in self.program.pieces(range) {
            match mapped {
                Some(Mapped::Open(before)) if before != protection => {
                    self.program
                        .set(piece.clone(), Some(Mapped::Open(protection)));
                    let could_move = before == Protection::READ_WRITE;
                    if self.program.is_adopted
                        && could_move != (protection == Protection::READ_WRITE)
                    {
                        piece.for_each(|page| {
                            let pinned = !self.is_movable(page, protection);
                            core.directory
                                .update(page, |word| Some(word.pinned(pinned)));
                        });
                    }
                }
                Some(Mapped::Reserved) if protection != Protection::NONE => {
                    self.program
                        .set(piece.clone(), Some(Mapped::Open(protection)));
                    self.program_open(core, piece, protection);
                }
                _ => {}
            }
        }
    }

    fn program_open(&mut self, core: &Core, range: Range<usize>, protection: Protection) {
        if !self.program.is_adopted {
            return;
        }
        self.mapped_pages += range.len();
        let pinned = protection != Protection::READ_WRITE;
        self.open_region(core, range, Word::of(State::Fresh).pinned(pinned));
    }

    fn program_close(&mut self, core: &Core, range: Range<usize>) -> Result<(), ServeError> {
        if !self.program.is_adopted {
            return Ok(core.memory.discard(range.start, range.len())?);
        }
        self.empty(core, APP, range.clone(), Word::of(State::Unmapped))?;
        self.program_closed(core, range);
        Ok(())
    }

    /// Pages of the program have no words any more.
    pub(super) fn program_closed(&mut self, core: &Core, range: Range<usize>) {
        self.mapped_pages -= range.len();
        // Words of unmapped pages are zero: giving their memory back changes nothing but that.
        let _ = core.directory.discard(range.start, range.len());
        self.report(core);
    }

    /// Makes the program's memory ours. Nobody serves faults yet: a thread that makes one waits.
    pub fn program_adopt(&mut self, core: &Core) -> Result<(), ServeError> {
        core.memory.adopt_staging()?;
        for range in self.program.own() {
            self.adopt_range(core, range)?;
        }
        self.program.is_adopted = true;
        for (range, mapped) in self.program.pieces(self.program.all.clone()) {
            if let Some(Mapped::Open(protection)) = mapped {
                self.program_open(core, range.clone(), protection);
                let mut in_place = 0;
                core.memory.for_frames(range.start, range.len(), |page| {
                    in_place += 1;
                    core.directory
                        .update(page, |word| Some(word.arrived(Arrival::Touched)));
                    core.news.push(page);
                })?;
                core.frames.adopted(in_place);
            }
        }
        let kept: Vec<_> = self.program.kept.iter().cloned().collect();
        for page in kept.into_iter().flatten() {
            Self::bring_and_pin(core, page)?;
        }
        self.program_inherit(core, false)?;
        self.hear(core);
        self.report(core);
        Ok(())
    }

    /// Makes the faults of a stretch ours, but for parts that have a userfaultfd of the program's own.
    fn adopt_range(&mut self, core: &Core, range: Range<usize>) -> Result<(), ServeError> {
        let parts = match core.memory.adopt(range.start, range.len()) {
            Ok(()) => return Ok(()),
            Err(PagedError::Uffd(error)) if error.failure == Failure::Busy => {
                core.memory.of_other_uffds(range.start, range.len())?
            }
            Err(error) => return Err(error.into()),
        };
        let mut first = range.start;
        for part in parts {
            if first < part.start {
                core.memory.adopt(first, part.start - first)?;
            }
            first = part.end;
            self.program_leave(core, part)?;
        }
        if first < range.end {
            core.memory.adopt(first, range.end - first)?;
        }
        Ok(())
    }

    /// Frees what is lost, by making its faults ours again.
    pub fn program_recover(&mut self, core: &Core) -> Result<(), ServeError> {
        if !std::mem::take(&mut self.program.has_lost) {
            return Ok(());
        }
        for range in self.program.lost() {
            core.memory.adopt_again(range.start, range.len())?;
            self.program.set(range, None);
        }
        Ok(())
    }

    /// Says whether children get the program's memory. Before it is adopted they do, however they are made: it is like
    /// any other. Afterwards it has to be at rest first.
    pub fn program_inherit(&self, core: &Core, yes: bool) -> Result<(), ServeError> {
        if !self.program.is_adopted {
            return Ok(());
        }
        for range in self.program.kept() {
            core.memory.inherit(range.start, range.len(), yes)?;
        }
        Ok(core.memory.inherit_staging(yes)?)
    }

    /// In the child of a `fork`: the memory that the parent adopted becomes ours here.
    ///
    /// Ends the process if a page that is not in its place was used before and nobody served it: it read as
    /// zeros.
    pub fn program_adopt_in_child(&mut self, core: &Core) -> Result<(), ServeError> {
        self.engine.leave_tape();
        self.forget_ahead(core);
        let was_served = core.memory.hears_of_forks();
        core.memory.reopen()?;
        core.memory.adopt_staging()?;
        for range in self.program.own() {
            core.memory.adopt_in_child(range.start, range.len())?;
        }
        for (range, mapped) in self.program.pieces(self.program.all.clone()) {
            if let Some(Mapped::Open(_) | Mapped::File) = mapped {
                let mut brought = Vec::new();
                core.memory.for_frames(range.start, range.len(), |page| {
                    if was_served && core.directory.word(page).state == State::InFile {
                        brought.push(page);
                    } else {
                        Self::found_in_child(core, page, was_served);
                    }
                })?;
                // The parent brought these, or found that there is nothing to bring: they are read anew.
                for page in brought {
                    core.memory.discard(page, 1)?;
                }
            }
        }
        self.hear(core);
        Ok(())
    }

    /// A page is in its place in the child.
    fn found_in_child(core: &Core, page: usize, was_served: bool) {
        let word = core.directory.word(page);
        let has_content = match word.state {
            State::Resident | State::Protected => return,
            State::Fresh => true,
            _ => was_served,
        };
        let Some(mut claim) = core.directory.claim(page, word).filter(|_| has_content) else {
            die(core.memory.address(page), &ServeError::UsedInFork);
        };
        if let Some(slot) = claim.take_slot() {
            core.frames.put_free(slot);
        }
        core.frames.adopted(1);
        core.release(claim, |before| before.arrived(Arrival::Touched));
    }
}
