//! Changes of what a program has mapped, with the pager's lock held.

mod files;
mod kernel;
mod moves;

use std::ops::Range;

use warmswap_arena::mechanism::{Core, FaultError, Pager, State, Word, die};
use warmswap_policy::reclaim::Arrival;
use warmswap_uffd::{Failure, PagedError, Protection};

use crate::fork::Link;
use crate::program::{APP, Mapped, Program};

/// A program's addresses, for as long as the pager's lock is held.
pub struct Addresses<'a> {
    pager: &'a mut Pager<Program>,
    core: &'a Core,
}

impl<'a> Addresses<'a> {
    /// Of the pager, whose lock is held, and of its core.
    pub fn new(pager: &'a mut Pager<Program>, core: &'a Core) -> Self {
        Self { pager, core }
    }
}

impl Addresses<'_> {
    /// The program maps a range anew: what was there is gone, and it is as `mapped` says.
    pub fn map(&mut self, range: Range<usize>, mapped: Option<Mapped>) -> Result<(), FaultError> {
        let is_adopted = self.pager.map.is_adopted();
        for (piece, before) in self.pager.map.pieces(range.clone()) {
            match before {
                // The kernel replaces it in one step, in which no other thread reads zeros.
                Some(Mapped::Open(_)) if mapped == Some(Mapped::Foreign) && !is_adopted => {}
                Some(Mapped::Open(_)) => self.close(piece)?,
                Some(Mapped::File) => self.close_file(piece)?,
                _ => {}
            }
        }
        self.pager.map.set(range.clone(), mapped);
        if let Some(Mapped::Open(protection)) = mapped {
            self.open(range, protection);
        }
        Ok(())
    }

    /// Gives up the content of a range's memory: it reads as zeros.
    pub fn discard(&mut self, range: Range<usize>) -> Result<(), FaultError> {
        let mut done = Ok(());
        for (piece, mapped) in self.pager.map.pieces(range) {
            match mapped {
                Some(Mapped::Open(_)) if self.pager.map.is_adopted() => {
                    self.pager
                        .empty(self.core, APP, piece, Word::of(State::Fresh))?;
                }
                Some(Mapped::File) => {
                    self.pager
                        .empty(self.core, APP, piece, Word::of(State::InFile))?
                }
                // For what else is mapped there it means the same. In a child it may be missing (MADV_DONTFORK).
                Some(Mapped::Open(_) | Mapped::Foreign) => {
                    done = done.and(self.core.memory.discard(piece.start, piece.len()));
                }
                _ => {}
            }
        }
        Ok(done?)
    }

    /// The program changes what may be done with memory that it has. Frames of memory that cannot be both
    /// read and written cannot be moved: such pages come back when they are touched, and then stay. They are pinned before
    /// they are protected, and the other way round, since the pager accesses pages that are not pinned in their places.
    ///
    /// A page that is write-protected until it is compressed cannot be pinned. Nothing but pins has changed then, and the
    /// page is returned: the caller lets go of the lock, touches the page for writing, and tries again.
    pub fn protect(
        &mut self,
        range: Range<usize>,
        protection: Protection,
    ) -> Result<Option<usize>, FaultError> {
        let changed = self.changed_by(&range, protection);
        let memory = &self.core.memory;
        if can_move(protection) {
            self.record(range.clone(), protection);
            memory.protect(range.start, range.len(), protection)?;
            let pin = |word: Word, is_pinned| Some(word.pinned(is_pinned));
            let words = &self.core.words;
            for piece in changed {
                // None leaves before the lock is let go.
                words.update_all(piece.clone(), |word| pin(word, false));
                for page in self.pager.map.kept_in(piece.clone()) {
                    words.update(page, |word| pin(word, true));
                }
            }
            return Ok(None);
        }
        for piece in changed {
            let pin = |word: Word| (word.state != State::Protected).then(|| word.pinned(true));
            let left = self.core.words.update_all(piece, pin);
            if left.is_some() {
                return Ok(left);
            }
        }
        self.record(range.clone(), protection);
        memory.protect(range.start, range.len(), protection)?;
        Ok(None)
    }

    /// The pieces of a range whose pages could be moved so far and will not be, or the other way round.
    fn changed_by(&self, range: &Range<usize>, protection: Protection) -> Vec<Range<usize>> {
        if !self.pager.map.is_adopted() {
            return Vec::new();
        }
        let pieces = self.pager.map.pieces(range.clone()).into_iter();
        let changes = |mapped: Option<Mapped>| match mapped {
            Some(Mapped::Open(before)) => can_move(before) != can_move(protection),
            _ => false,
        };
        pieces
            .filter(|&(_, mapped)| changes(mapped))
            .map(|(piece, _)| piece)
            .collect()
    }

    /// Notes the protection of what is memory, and makes pages of what becomes it. Before the kernel allows access, since
    /// a fault finds no page where there is no word.
    fn record(&mut self, range: Range<usize>, protection: Protection) {
        for (piece, mapped) in self.pager.map.pieces(range) {
            let map = &mut self.pager.map;
            match mapped {
                Some(Mapped::Open(_)) => map.set(piece, Some(Mapped::Open(protection))),
                Some(Mapped::Reserved) if protection != Protection::NONE => {
                    map.set(piece.clone(), Some(Mapped::Open(protection)));
                    self.open(piece, protection);
                }
                _ => {}
            }
        }
    }

    fn open(&mut self, range: Range<usize>, protection: Protection) {
        if !self.pager.map.is_adopted() {
            return;
        }
        let pinned = !can_move(protection);
        self.pager
            .open_pages(self.core, range, Word::of(State::Fresh).pinned(pinned));
    }

    fn close(&mut self, range: Range<usize>) -> Result<(), FaultError> {
        if !self.pager.map.is_adopted() {
            return Ok(self.core.memory.discard(range.start, range.len())?);
        }
        self.pager
            .empty(self.core, APP, range.clone(), Word::of(State::Unmapped))?;
        self.closed(range);
        Ok(())
    }

    /// Pages of the program have no words any more.
    fn closed(&mut self, range: Range<usize>) {
        // Words of unmapped pages are zero: giving their memory back changes nothing but that.
        let _ = self.core.words.discard(range.start, range.len());
        self.pager.report(self.core);
    }

    /// Makes the program's memory ours. No thread resolves faults yet: a thread that makes one waits.
    pub fn adopt(&mut self) -> Result<(), FaultError> {
        self.core.memory.adopt_staging()?;
        for range in self.pager.map.own() {
            self.adopt_range(range)?;
        }
        self.pager.map.adopt();
        for (range, mapped) in self.pager.map.pieces(self.pager.map.all()) {
            if let Some(Mapped::Open(protection)) = mapped {
                self.open(range.clone(), protection);
                let mut in_place = 0;
                self.core
                    .memory
                    .for_frames(range.start, range.len(), |page| {
                        in_place += 1;
                        self.core
                            .words
                            .update(page, |word| Some(word.arrived(Arrival::Touched)));
                        self.core.arrivals.push(page);
                    })?;
                self.core.frames.adopted(in_place);
            }
        }
        self.keep_all()?;
        self.inherit(false)?;
        self.pager.drain_arrivals(self.core);
        self.pager.report(self.core);
        Ok(())
    }

    /// Makes the faults of a stretch ours, but for parts that have a userfaultfd of the program's own.
    fn adopt_range(&mut self, range: Range<usize>) -> Result<(), FaultError> {
        let parts = match self.core.memory.adopt(range.start, range.len()) {
            Ok(()) => return Ok(()),
            Err(PagedError::Uffd(error)) if error.failure == Failure::Busy => {
                self.core.memory.of_other_uffds(range.start, range.len())?
            }
            Err(error) => return Err(error.into()),
        };
        let mut first = range.start;
        for part in parts {
            if first < part.start {
                self.core.memory.adopt(first, part.start - first)?;
            }
            first = part.end;
            self.leave(part)?;
        }
        if first < range.end {
            self.core.memory.adopt(first, range.end - first)?;
        }
        Ok(())
    }

    /// Frees what is lost, by making its faults ours again.
    pub fn recover(&mut self) -> Result<(), FaultError> {
        if !self.pager.map.take_lost() {
            return Ok(());
        }
        for range in self.pager.map.lost() {
            self.core.memory.adopt_again(range.start, range.len())?;
            self.pager.map.set(range, None);
        }
        Ok(())
    }

    /// Says whether children get the program's memory. Before it is adopted they do, however they are made: it is like
    /// any other. Afterwards it has to be at rest first.
    pub fn inherit(&self, yes: bool) -> Result<(), FaultError> {
        if !self.pager.map.is_adopted() {
            return Ok(());
        }
        for range in self.pager.map.inherited() {
            self.core.memory.inherit(range.start, range.len(), yes)?;
        }
        Ok(self.core.memory.inherit_staging(yes)?)
    }

    /// In the child of a `fork`: the memory that the parent adopted becomes ours here.
    ///
    /// Ends the process if a page that is not in its place was used before and its fault was not resolved: it read as
    /// zeros.
    pub fn adopt_in_child(&mut self, link: &Link) -> Result<(), FaultError> {
        self.pager.engine.leave_tape();
        self.pager.forget_ahead(self.core);
        self.core.memory.adopt_staging()?;
        for range in self.pager.map.own() {
            self.core.memory.adopt_in_child(range.start, range.len())?;
        }
        // Asked now, when the memory has been let go.
        let was_served = self.core.memory.hears_of_forks() && link.was_let_go();
        for (range, mapped) in self.pager.map.pieces(self.pager.map.all()) {
            if let Some(Mapped::Open(_) | Mapped::File) = mapped {
                let mut brought = Vec::new();
                self.core
                    .memory
                    .for_frames(range.start, range.len(), |page| {
                        if was_served && self.core.words.word(page).state == State::InFile {
                            brought.push(page);
                        } else {
                            self.found_in_child(page, was_served);
                        }
                    })?;
                // The parent brought these, or found that there is nothing to bring: they are read anew.
                for page in brought {
                    self.core.memory.discard(page, 1)?;
                }
            }
        }
        self.keep_all()?;
        self.pager.drain_arrivals(self.core);
        Ok(())
    }

    /// Pages that stay in their places are there, and do.
    fn keep_all(&mut self) -> Result<(), FaultError> {
        let is_open = |page: &usize| matches!(self.pager.map.at(*page), Some(Mapped::Open(_)));
        let kept: Vec<_> = self.pager.map.kept().filter(is_open).collect();
        for page in kept {
            kernel::bring_and_pin(self.core, page)?;
        }
        Ok(())
    }

    /// A page is in its place in the child.
    fn found_in_child(&self, page: usize, was_served: bool) {
        let word = self.core.words.word(page);
        let has_content = match word.state {
            State::Resident | State::Protected => return,
            State::Fresh => true,
            _ => was_served,
        };
        let Some(mut claim) = self.core.words.claim(page, word).filter(|_| has_content) else {
            die(self.core.memory.address(page), &FaultError::UsedInFork);
        };
        if let Some(slot) = claim.take_slot() {
            self.core.frames.put_free(slot);
        }
        self.core.frames.adopted(1);
        self.core
            .release(claim, |before| before.arrived(Arrival::Touched));
    }
}

/// Whether frames of memory that is protected so can be moved.
fn can_move(protection: Protection) -> bool {
    protection == Protection::READ_WRITE
}
