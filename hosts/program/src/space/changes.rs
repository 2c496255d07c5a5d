//! What the program does with its addresses: it maps, moves, protects, discards and unmaps.

use std::ops::Range;

use warmswap_arena::mechanism::Pager;
use warmswap_page::PAGE_BYTES;
use warmswap_uffd::{self as uffd, Protection};

use super::Space;
use crate::error::SpaceError;
use crate::program::{Mapped, Program};

/// Mappings at least this large are aligned to it, so that what the program aligns itself fits.
const ALIGNMENTS_BYTES: [usize; 3] = [32 << 20, 4 << 20, 64 << 10];

/// Pages whose content moves while other threads that map something wait.
const RELOCATED_PAGES: usize = 64;

/// Pages whose content is given up while others wait.
const DISCARDED_PAGES: usize = 4096;

/// A range in parts that end at multiples of so many pages.
fn parts(range: Range<usize>, pages: usize) -> impl Iterator<Item = Range<usize>> {
    let numbers = range.start / pages..range.end.div_ceil(pages);
    numbers.map(move |n| range.start.max(n * pages)..range.end.min((n + 1) * pages))
}

/// What a mapping at a given address may take the place of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Whatever is there.
    Anything,
    /// Nothing: the addresses are free, or it fails. One step, so that no other thread's mapping comes in between.
    Nothing,
}

impl Over {
    fn check(
        self,
        program: &Program,
        range: &Range<usize>,
        address: usize,
    ) -> Result<(), SpaceError> {
        if self == Self::Anything || !program.has_mapped(range.clone()) {
            return Ok(());
        }
        Err(SpaceError::InUse { address })
    }
}

impl Space {
    /// Maps `len` bytes (whole pages) somewhere, at `hint` if that is free; the first address.
    ///
    /// # Errors
    /// [`SpaceError`]: no room, or the kernel refuses.
    pub fn map(
        &self,
        hint: Option<usize>,
        len: usize,
        protection: Protection,
    ) -> Result<usize, SpaceError> {
        let pages = len / PAGE_BYTES;
        let align = ALIGNMENTS_BYTES.into_iter().find(|&align| len >= align);
        let start = self.range().start;
        let hint = hint.and_then(|hint| hint.checked_sub(start));
        let mut pager = self.shared.pager();
        let range = pager
            .map
            .gap(
                hint.map(|hint| hint / PAGE_BYTES),
                pages,
                align.unwrap_or(PAGE_BYTES) / PAGE_BYTES,
            )
            .ok_or(SpaceError::Full { bytes: len })?;
        self.map_pages(&mut pager, range.clone(), protection)?;
        Ok(start + range.start * PAGE_BYTES)
    }

    /// Maps memory at an address of the space.
    ///
    /// # Errors
    /// [`SpaceError`].
    pub fn map_at(
        &self,
        address: usize,
        len: usize,
        protection: Protection,
        over: Over,
    ) -> Result<(), SpaceError> {
        let mut pager = self.shared.pager();
        let range = self.pages(address, len);
        over.check(&pager.map, &range, address)?;
        let pieces = pager.map.pieces(range.clone());
        let is_ours = |(_, mapped): &(_, Option<Mapped>)| {
            !matches!(mapped, Some(Mapped::Foreign | Mapped::Lost))
        };
        if !pieces.iter().all(is_ours) {
            return Err(SpaceError::NotOurs { address });
        }
        self.map_pages(&mut pager, range, protection)
    }

    fn map_pages(
        &self,
        pager: &mut Pager<Program>,
        range: Range<usize>,
        protection: Protection,
    ) -> Result<(), SpaceError> {
        let core = &self.shared.core;
        let mapped = match protection {
            Protection::NONE => Mapped::Reserved,
            protection => Mapped::Open(protection),
        };
        self.addresses(pager).map(range.clone(), Some(mapped))?;
        core.memory.protect(range.start, range.len(), protection)?;
        Ok(())
    }

    /// Whether nothing is mapped in a range of addresses, all of it in the space.
    #[must_use]
    pub fn is_free(&self, address: usize, len: usize) -> bool {
        let range = self.pages(address, len);
        self.shared.pager().map.is_free(range)
    }

    /// The program is about to map something else over these addresses: their content is given up, and from
    /// now on they are not ours.
    ///
    /// # Errors
    /// [`SpaceError`].
    pub fn give_away(&self, address: usize, len: usize, over: Over) -> Result<(), SpaceError> {
        let range = self.pages(address, len);
        let mut pager = self.shared.pager();
        over.check(&pager.map, &range, address)?;
        self.addresses(&mut pager)
            .map(range, Some(Mapped::Foreign))?;
        Ok(())
    }

    /// Unmaps a range: an access is a segmentation fault from now on.
    ///
    /// # Errors
    /// [`SpaceError`].
    pub fn unmap(&self, address: usize, len: usize) -> Result<(), SpaceError> {
        let core = &self.shared.core;
        let mut pager = self.shared.pager();
        let is_adopted = pager.map.is_adopted();
        for (range, mapped) in pager.map.pieces(self.pages(address, len)) {
            match mapped {
                None | Some(Mapped::Lost) => {}
                Some(Mapped::Foreign) => {
                    core.memory.unmap(range.start, range.len())?;
                    core.memory.inherit(range.start, range.len(), !is_adopted)?;
                    let now = is_adopted.then_some(Mapped::Lost);
                    self.addresses(&mut pager).map(range, now)?;
                }
                Some(Mapped::Open(_) | Mapped::File | Mapped::Reserved) if is_adopted => {
                    // Not before its pages are released: the pager may access them in their places.
                    self.addresses(&mut pager).map(range.clone(), None)?;
                    // Where the kernel has as many mappings as it allows, the pages are given up all the same: it is unmapped
                    // for the program, and an access to what is unmapped waits in place of ending the program.
                    let _ = core
                        .memory
                        .protect(range.start, range.len(), Protection::NONE);
                }
                Some(Mapped::Open(_) | Mapped::File | Mapped::Reserved) => {
                    // Before its content is given up, so that no access fills it again.
                    core.memory
                        .protect(range.start, range.len(), Protection::NONE)?;
                    self.addresses(&mut pager).map(range, None)?;
                }
            }
        }
        drop(pager);
        core.frames.call_pager();
        Ok(())
    }

    /// Moves the content of a range of memory that is not paged to addresses from `to` on, in place of their content; the
    /// range reads as zeros then. Other threads find it in one place or the other, and lose no write. False if some of
    /// either is something else, or the kernel cannot: then the caller copies. `None` if the memory is paged
    /// ([`Self::relocate`]).
    ///
    /// # Errors
    /// [`SpaceError`]: what the kernel did not move is where it was.
    pub fn relocate_unpaged(
        &self,
        address: usize,
        len: usize,
        to: usize,
    ) -> Result<Option<bool>, SpaceError> {
        let (from, to) = (self.pages(address, len), self.pages(to, len).start);
        let mut pager = self.shared.pager();
        if pager.map.is_adopted() {
            return Ok(None);
        }
        let mut addresses = self.addresses(&mut pager);
        let can = addresses.can_relocate(&from, to);
        Ok(Some(can && addresses.relocate_unpaged(from, to)?))
    }

    /// The same of memory that is paged, page by page, by a thread as [`Self::adopt`] is.
    ///
    /// # Errors
    /// [`SpaceError`]: some of the content is in the new place by then.
    pub fn relocate(&self, address: usize, len: usize, to: usize) -> Result<bool, SpaceError> {
        let (from, to) = (self.pages(address, len), self.pages(to, len).start);
        if self.shared.core.memory.mechanism() != uffd::Mechanism::Move {
            return Ok(false);
        }
        {
            let mut pager = self.shared.pager();
            let mut addresses = self.addresses(&mut pager);
            if !addresses.can_relocate(&from, to) {
                return Ok(false);
            }
            addresses.open_target(to..to + from.len())?;
        }
        for part in parts(from.clone(), RELOCATED_PAGES) {
            let mut pager = self.shared.pager();
            let to = to + (part.start - from.start);
            self.addresses(&mut pager).relocate(part, to)?;
            drop(pager);
            // What was brought to its place for it leaves again.
            self.let_others_go_on();
        }
        Ok(true)
    }

    /// Between the parts of something large: faults wait for frames meanwhile.
    fn let_others_go_on(&self) {
        self.shared.core.frames.call_pager();
        self.shared.pager.give_way();
    }

    /// Changes what may be done with a range. Pages of files with which more or less is to be done than reading are
    /// the kernel's from then on.
    ///
    /// # Errors
    /// [`SpaceError::Full`] when some of it is not mapped; as with the kernel, what lies before that is changed.
    pub fn protect(
        &self,
        address: usize,
        len: usize,
        protection: Protection,
    ) -> Result<(), SpaceError> {
        let whole = self.pages(address, len);
        loop {
            let mut pager = self.shared.pager();
            let hole = pager.map.first_hole(&whole);
            let range = whole.start..hole.unwrap_or(whole.end);
            let mut waits = None;
            if !range.is_empty() {
                if protection != Protection::READ {
                    self.addresses(&mut pager).give_files(&range)?;
                }
                waits = self.addresses(&mut pager).protect(range, protection)?;
            }
            drop(pager);
            match (waits, hole) {
                // If another thread changes the same range it cannot be touched, and is looked at anew.
                (Some(page), _) => drop(self.shared.core.memory.touch_for_write(page)),
                (None, Some(_)) => return Err(SpaceError::Full { bytes: len }),
                (None, None) => return Ok(()),
            }
        }
    }

    /// Keeps what is in a range in its place until it is unmapped: the kernel accesses it where it cannot wait for a
    /// page (robust mutexes and what says that a thread has ended, at its end). False if something of it is away: then
    /// the caller touches it and tries again.
    #[must_use]
    pub fn keep(&self, address: usize, len: usize) -> bool {
        let end = (address + len).next_multiple_of(PAGE_BYTES);
        let first = address / PAGE_BYTES * PAGE_BYTES;
        let range = self.pages(first, end - first);
        let mut pager = self.shared.pager();
        self.addresses(&mut pager).keep(range)
    }

    /// Leaves a range to the kernel, with its content: the program is about to have its faults by a userfaultfd of its
    /// own. To be called by a thread as [`Self::adopt`] is, once the memory is adopted.
    ///
    /// # Errors
    /// [`SpaceError`].
    pub fn leave(&self, range: &Range<usize>) -> Result<(), SpaceError> {
        let range = self.pages(range.start, range.len());
        let mut pager = self.shared.pager();
        Ok(self.addresses(&mut pager).leave(range)?)
    }

    /// Gives up the content of a range, which reads as zeros from now on.
    ///
    /// # Errors
    /// [`SpaceError::Full`] when some of it is not mapped; all else is discarded then.
    pub fn discard(&self, address: usize, len: usize) -> Result<(), SpaceError> {
        let range = self.pages(address, len);
        let (mut has_hole, mut done) = (false, Ok(()));
        for part in parts(range, DISCARDED_PAGES) {
            let mut pager = self.shared.pager();
            has_hole |= pager.map.first_hole(&part).is_some();
            // What lies behind a part that the kernel refuses is given up all the same.
            done = done.and(self.addresses(&mut pager).discard(part));
            drop(pager);
            self.let_others_go_on();
        }
        done?;
        if has_hole {
            return Err(SpaceError::Full { bytes: len });
        }
        Ok(())
    }
}
