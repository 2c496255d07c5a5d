//! Memory of a program that the kernel accesses or manages in ways that the space cannot follow: pages that must stay in
//! their places, and ranges that are left to the kernel for good.

use std::ops::Range;

use warmswap_arena::mechanism::{Claim, Core, FaultError, State, Wanted, Word, hold};
use warmswap_engine::calls::Call;

use super::Addresses;
use crate::program::{APP, Mapped};

impl Addresses<'_> {
    /// Keeps pages in their places until they are unmapped: the kernel accesses them where it cannot wait for a page,
    /// such as at the end of a thread. False if one is away, and has to be touched before.
    pub fn keep(&mut self, range: Range<usize>) -> bool {
        let mut are_kept = true;
        for (piece, mapped) in self.pager.map.pieces(range) {
            if let Some(Mapped::Open(_)) = mapped {
                self.pager.map.keep(piece.clone());
                let is_adopted = self.pager.map.is_adopted();
                are_kept &= !is_adopted || piece.into_iter().all(|page| pin(self.core, page));
            }
        }
        are_kept
    }

    /// Leaves a range to the kernel, with its content: another userfaultfd is about to have its faults, or has.
    pub fn leave(&mut self, range: Range<usize>) -> Result<(), FaultError> {
        for (piece, mapped) in self.pager.map.pieces(range) {
            match mapped {
                Some(Mapped::Open(_)) if self.pager.map.is_adopted() => {
                    self.leave_piece(piece)?;
                }
                Some(Mapped::Open(_) | Mapped::Reserved) => {
                    self.pager.map.set(piece, Some(Mapped::Foreign));
                }
                // Files have maps of the kernel's own, and what is foreign is left already.
                Some(Mapped::File) => self.give_files(&piece)?,
                Some(Mapped::Foreign | Mapped::Lost) | None => {}
            }
        }
        Ok(())
    }

    fn leave_piece(&mut self, piece: Range<usize>) -> Result<(), FaultError> {
        // Held until the kernel has the faults: a handler that resolves one meanwhile would be refused.
        let core = self.core;
        let mut claims = Vec::with_capacity(piece.len());
        for page in piece.clone() {
            claims.push(hold_in_place(core, page)?);
        }
        if let Err(error) = self.core.memory.leave(piece.start, piece.len()) {
            let held = claims.into_iter().flatten();
            held.for_each(|claim| core.release(claim, |before| before));
            return Err(error.into());
        }
        self.core.memory.inherit(piece.start, piece.len(), true)?;
        let mut in_place = 0;
        for claim in claims.into_iter().flatten() {
            in_place += usize::from(claim.before.state == State::Resident);
            claim.release(Word::of(State::Unmapped));
        }
        self.core.frames.released(in_place);
        self.pager.drain_arrivals(self.core);
        let (_, addr) = self.pager.locate(piece.start);
        self.pager
            .engine
            .call(Call::Free(APP, addr, piece.len() as u32));
        self.pager.map.set(piece.clone(), Some(Mapped::Foreign));
        self.closed(piece);
        Ok(())
    }
}

/// Pins a page that is in its place; false if it is not.
fn pin(core: &Core, page: usize) -> bool {
    let pin = |word: Word| (word.state == State::Resident).then_some(word.pinned(true));
    core.words.update(page, pin).is_some()
}

/// Brings a page to its place, where it stays.
pub(super) fn bring_and_pin(core: &Core, page: usize) -> Result<(), FaultError> {
    loop {
        core.fault_in(page, Wanted::DemandAtOnce)?;
        if pin(core, page) {
            return Ok(());
        }
    }
}

/// Takes hold of a page that is in its place, or was never touched.
pub(super) fn hold_in_place(core: &Core, page: usize) -> Result<Option<Claim<'_>>, FaultError> {
    loop {
        if core.words.settled(page).state != State::Fresh {
            bring_and_pin(core, page)?;
        }
        let claim = hold(core, page);
        match claim {
            Some(claim) if !matches!(claim.before.state, State::Fresh | State::Resident) => {
                core.release(claim, |before| before);
            }
            claim => return Ok(claim),
        }
    }
}
