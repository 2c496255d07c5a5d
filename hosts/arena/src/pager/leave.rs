//! Pages out of sight: moved to staging, or write-protected where frames cannot be moved.

use warmswap_engine::{Action, Decision};
use warmswap_page::PAGE_BYTES;
use warmswap_uffd::{Failure, Mechanism, Slots, UffdError};

use super::Pager;
use crate::address_map::AddressMap;
use crate::error::FaultError;
use crate::fault::Core;
use crate::page_words::{Claim, State, Word};

impl<M: AddressMap> Pager<M> {
    /// The pages that a decision is to bring out of their frames.
    pub(super) fn pages_to_leave(&self, action: Action) -> impl Iterator<Item = usize> {
        let pages = match action {
            Action::Store { chunk, .. } | Action::StoreRaw { chunk } => {
                let pages = self.engine.chunk_pages(chunk).to_vec();
                let leaving = |&page: &_| self.engine.is_leaving(chunk, page);
                pages.into_iter().filter(leaving).collect()
            }
            Action::Drop { page } if self.engine.is_dropped(page) => vec![page],
            Action::Discard { page, .. } if self.is_discarded(page) => vec![page],
            _ => Vec::new(),
        };
        let pages: Vec<_> = pages.into_iter().map(|page| self.number(page)).collect();
        pages.into_iter()
    }

    /// Puts the pages that a batch of decisions is about out of sight, neighbours together. Those that cannot
    /// leave (pinned, shared) stay as they are.
    pub(super) fn isolate(&mut self, core: &Core, batch: &[Decision]) -> Result<(), FaultError> {
        let mut pages: Vec<_> = batch
            .iter()
            .flat_map(|decision| self.pages_to_leave(decision.action))
            .collect();
        pages.sort_unstable();
        pages.dedup();
        let claims = pages.into_iter().filter_map(|page| {
            let word = core.words.word(page);
            let can_leave = word.state == State::Resident && !word.pinned;
            can_leave.then(|| core.words.claim(page, word))?
        });
        let way = |claim: &Claim<'_>| core.mechanism_at(claim.page) == Mechanism::Move;
        let (moved, protected): (Vec<_>, Vec<_>) = claims.partition(way);
        in_rows(moved, |claims| move_out(core, claims))?;
        in_rows(protected, |claims| protect(core, claims))
    }

    /// Shows the content of a page that is out of sight; its word, and what `show` made of it. `None` when it is
    /// in its place again, or never left. The page is held meanwhile.
    pub(super) fn look<R>(
        core: &Core,
        page: usize,
        show: impl FnOnce(&[u8; PAGE_BYTES]) -> R,
    ) -> Option<(Word, R)> {
        let word = core.words.word(page);
        match word.state {
            State::Staged => {
                let mut claim = core.words.claim(page, word)?;
                let slot = claim.take_slot()?;
                let shown = core.memory.bytes(&slot).first_chunk().map(show);
                claim.release(word.staged(slot));
                Some((word, shown?))
            }
            State::Protected => {
                // Held for the copy, so that the page is not given up under it; a writer waits as long.
                let claim = core.words.claim(page, word)?;
                let mut copy = [0; PAGE_BYTES];
                core.memory.read_page(page, &mut copy);
                drop(claim);
                Some((word, show(&copy)))
            }
            _ => None,
        }
    }

    /// A page whose content is in its chunk now gives its frame up, if its word is still `word`. The slot with
    /// the frame, where there is one. `None` for a page that stays: it was touched, or is locked in memory.
    pub(super) fn give_up(
        core: &Core,
        page: usize,
        word: Word,
        stored: Word,
    ) -> Result<Option<Option<Slots>>, FaultError> {
        let Some(mut claim) = core.words.claim(page, word) else {
            return Ok(None);
        };
        let slot = claim.take_slot();
        if slot.is_none() {
            if !core.memory.give_up(page)? {
                core.memory.write_protect(page, 1, false)?;
                core.release(claim, |before| before.now(State::Resident));
                return Ok(None);
            }
            core.frames.released(1);
        }
        // A program may have protected the page since it left: then its frame cannot be moved when it is back.
        claim.release(stored.pinned(word.pinned));
        Ok(Some(slot))
    }

    /// The page is not stored: it goes back to its place, if it is still isolated.
    pub(super) fn return_frame(core: &Core, page: usize, word: Word) -> Result<(), FaultError> {
        core.bring_back(page, word)
    }
}

/// Does something with pages that are held, neighbours together.
fn in_rows<'a>(
    mut claims: Vec<Claim<'a>>,
    mut with: impl FnMut(Vec<Claim<'a>>) -> Result<(), FaultError>,
) -> Result<(), FaultError> {
    while !claims.is_empty() {
        let first = claims[0].page;
        let in_row = |(n, claim): &(usize, &Claim<'_>)| claim.page == first + n;
        let run = claims.iter().enumerate().take_while(in_row).count();
        let rest = claims.split_off(run);
        with(claims)?;
        claims = rest;
    }
    Ok(())
}

/// Moves the frames of a run of pages to staging.
fn move_out(core: &Core, mut claims: Vec<Claim<'_>>) -> Result<(), FaultError> {
    while !claims.is_empty() {
        let Some(slots) = empty_slots(core, claims.len())? else {
            claims
                .into_iter()
                .for_each(|claim| core.release(claim, |before| before));
            return Ok(());
        };
        move_to(core, &mut claims, slots)?;
    }
    Ok(())
}

/// Moves the frames of the first of these pages, which are neighbours, to slots: at most as many, up to one that stays.
fn move_to(core: &Core, claims: &mut Vec<Claim<'_>>, mut slots: Slots) -> Result<(), FaultError> {
    // What was not done at first is tried again with the same slots: one of them may have a frame by now, whatever the
    // kernel said.
    while !slots.is_empty() {
        let moved = match core.memory.move_out(claims[0].page, &mut slots) {
            Ok(moved) => moved,
            Err(UffdError {
                failure: Failure::PageExists,
                ..
            }) => return sort_out(core, claims.drain(..slots.len()), slots),
            Err(UffdError {
                failure: Failure::Missing,
                ..
            }) => return Err(FaultError::Vanished),
            Err(error) => return Err(error.into()),
        };
        for claim in claims.drain(..moved) {
            let slot = slots.split_front(1);
            core.release(claim, |before| before.staged(slot));
        }
        if moved == 0 {
            core.frames.put_empty(slots);
            return leave_in_place(core, claims.remove(0));
        }
    }
    Ok(())
}

/// A page whose frame cannot be moved is given up in its place, or stays.
fn leave_in_place(core: &Core, claim: Claim<'_>) -> Result<(), FaultError> {
    if !core.memory.can_protect() {
        // Pinned, shared, or protected otherwise: it stays.
        core.release(claim, |before| before);
    } else if core.memory.is_shared(claim.page) {
        // A frame of a child, too, cannot be moved; it is given up as where pages are copied.
        protect(core, vec![claim])?;
    } else {
        // A frame that was a child's, too, can be moved the next time. One that is pinned cannot.
        core.memory.take_frame(claim.page);
        core.release(claim, |before| before);
    }
    Ok(())
}

/// A slot that should have been empty holds a frame: either one that was moved although the kernel said that it was
/// not, or one that has nothing to do with these pages. Asks page by page which it is. A frame of no page
/// stays where it is, and its slot is not used again: whatever it holds is not lost by that.
fn sort_out<'a>(
    core: &Core,
    claims: impl Iterator<Item = Claim<'a>>,
    mut slots: Slots,
) -> Result<(), FaultError> {
    for claim in claims {
        let slot = slots.split_front(1);
        let is_in_place = core.memory.has_frame(claim.page);
        match (is_in_place, core.memory.slot_has_frame(&slot)) {
            (false, false) => return Err(FaultError::Vanished),
            (false, true) => core.release(claim, |before| before.staged(slot)),
            (true, is_taken) => {
                core.release(claim, |before| before);
                if is_taken {
                    core.frames.lose(slot);
                } else {
                    core.frames.put_empty(slot);
                }
            }
        }
    }
    Ok(())
}

/// Empty slots in a row. When there are none, free frames are given up for them.
pub(super) fn empty_slots(core: &Core, most: usize) -> Result<Option<Slots>, FaultError> {
    if let Some(slots) = core.frames.take_empty(most) {
        return Ok(Some(slots));
    }
    core.frames.drop_free(&core.memory, most)?;
    Ok(core.frames.take_empty(most))
}

/// Protects a run of pages against writing.
fn protect(core: &Core, claims: Vec<Claim<'_>>) -> Result<(), FaultError> {
    let Some(first) = claims.first().map(|claim| claim.page) else {
        return Ok(());
    };
    core.memory.write_protect(first, claims.len(), true)?;
    for claim in claims {
        core.release(claim, |before| before.now(State::Protected));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use warmswap_uffd::Mechanism;

    use super::super::testing::arena;
    use super::{PAGE_BYTES, State, move_to};
    use crate::fault::Wanted;

    /// As when the kernel swaps a page out by itself while it is moved.
    #[test]
    fn a_page_that_was_moved_although_the_kernel_denies_it_is_in_its_slot() {
        let name = "a_page_that_was_moved_although_the_kernel_denies_it_is_in_its_slot";
        let Some(arena) = arena(name, "zram") else {
            return;
        };
        let core = &arena.shared.core;
        if core.memory.mechanism() == Mechanism::Copy {
            return;
        }
        let app = arena.application("a page").expect("an application");
        for denied in 0..3 {
            let region = app.region(3 * PAGE_BYTES).expect("a region");
            let pages = region.first..region.first + 3;
            let word = |page| core.words.word(page);
            for page in pages.clone() {
                arena.shared.bring(page, Wanted::Demand);
            }
            // The slots that come next. One of them gets a frame that is not accounted for.
            let mut slots = core.frames.take_empty(3).expect("empty slots");
            let next = slots.first();
            core.frames.put_empty(slots.split_front(denied));
            let mut slot = slots.split_front(1);
            core.frames.put_empty(slots);
            let moved = core.memory.move_out(region.first + denied, &mut slot);
            assert_eq!(moved.expect("it has a frame"), 1);
            core.memory.bytes_mut(&mut slot).fill(7);
            core.frames.put_empty(slot);
            let slots = core.frames.take_empty(3).expect("the same slots");
            assert_eq!((slots.first(), slots.len()), (next, 3));

            let claim = |page| core.words.claim(page, word(page)).expect("a page");
            let mut claims: Vec<_> = pages.clone().map(claim).collect();
            move_to(core, &mut claims, slots).expect("no page is lost");

            let left = claims.len();
            // A page that is held would keep the arena from its end.
            drop(claims);
            assert_eq!(left, 0);
            let states: Vec<_> = pages.clone().map(|page| word(page).state).collect();
            let mut expected = [State::Resident; 3];
            expected[..=denied].fill(State::Staged);
            assert_eq!(states, expected);
            pages.for_each(|page| arena.shared.bring(page, Wanted::Demand));
            let mut content = [0; PAGE_BYTES];
            core.memory.read_page(region.first + denied, &mut content);
            assert_eq!(content, [7; PAGE_BYTES]);
        }
        assert_eq!(arena.stats().lost_slots, 0);
    }
}
