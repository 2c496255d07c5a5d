//! Pages whose content is given up: by the program, or with their region.

use std::ops::Range;

use warmswap_engine::calls::Call;
use warmswap_page::AppId;
use warmswap_uffd::PagedError;

use super::{Pager, hold};
use crate::address_map::AddressMap;
use crate::error::FaultError;
use crate::fault::Core;
use crate::page_words::{Claim, HeldGrain, PageWords, State, Word};

impl<M: AddressMap> Pager<M> {
    /// Gives up the content of pages. Each has this word then, while its frame is gone already.
    ///
    /// # Errors
    /// The kernel refuses; the pages are as they were.
    pub fn empty(
        &mut self,
        core: &Core,
        app: AppId,
        pages: Range<usize>,
        after: Word,
    ) -> Result<(), FaultError> {
        let discard = |pages: Range<usize>| core.memory.discard(pages.start, pages.len());
        self.empty_by(core, app, pages, (after, &discard))
    }

    /// The same, where `remove` sees to it that the frames go. It is called for a part of the pages at a time, while
    /// these are held.
    ///
    /// # Errors
    /// Those of `remove`; the pages for which it failed are as they were.
    pub fn empty_by(
        &mut self,
        core: &Core,
        app: AppId,
        pages: Range<usize>,
        (after, remove): (Word, &dyn Fn(Range<usize>) -> Result<(), PagedError>),
    ) -> Result<(), FaultError> {
        // What is still in the queue would be told of pages that are no more.
        self.drain_arrivals(core);
        self.empty_drained(core, app, pages, (after, remove))
    }

    /// The same by a caller that has drained the arrivals, and holds a page since.
    ///
    /// # Errors
    /// As [`Self::empty_by`].
    pub fn empty_drained(
        &mut self,
        core: &Core,
        app: AppId,
        pages: Range<usize>,
        (after, remove): (Word, &dyn Fn(Range<usize>) -> Result<(), PagedError>),
    ) -> Result<(), FaultError> {
        let mut first = pages.start;
        while first < pages.end {
            let untouched = core.words.hold_untouched(&(first..pages.end));
            if !untouched.is_empty() {
                let part = first..first + untouched.len() * PageWords::GRAIN_PAGES;
                remove(part.clone())?;
                // Of anonymous pages the engine hears when they are touched first, of those of files before.
                if untouched[0].before().state == State::InFile {
                    let (_, addr) = self.locate(first);
                    self.engine.call(Call::Free(app, addr, part.len() as u32));
                }
                release_untouched(untouched, after);
                first = part.end;
                continue;
            }
            let end = (first + 1).next_multiple_of(PageWords::GRAIN_PAGES);
            let part = first..pages.end.min(end);
            // Held until the frames are gone: a touch meanwhile waits, and finds the page fresh.
            let claims: Vec<_> = part.clone().filter_map(|page| hold(core, page)).collect();
            if let Err(error) = remove(part.clone()) {
                claims
                    .into_iter()
                    .for_each(|claim| core.release(claim, |before| before));
                return Err(error.into());
            }
            release_emptied(core, claims, after);
            let (_, addr) = self.locate(first);
            self.engine.call(Call::Free(app, addr, part.len() as u32));
            first = part.end;
        }
        Ok(())
    }
}

/// Lets pages go whose content was given up, and whose frames in their places are gone already.
fn release_emptied(core: &Core, claims: Vec<Claim<'_>>, after: Word) {
    let mut in_place = 0;
    for mut claim in claims {
        in_place += usize::from(matches!(
            claim.before.state,
            State::Resident | State::Protected
        ));
        if let Some(slot) = claim.take_slot() {
            core.frames.put_free(slot);
        }
        let pinned = claim.before.pinned;
        claim.release(after.pinned(pinned && after.state != State::Unmapped));
    }
    core.frames.released(in_place);
}

/// Lets grains go that have no touched page. What is not mapped stays so.
fn release_untouched(grains: Vec<HeldGrain<'_>>, after: Word) {
    for grain in grains {
        let before = grain.before();
        if before.state != State::Unmapped {
            let is_pinned = before.pinned && after.state != State::Unmapped;
            grain.release(after.pinned(is_pinned));
        }
    }
}
