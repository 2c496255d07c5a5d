//! First touches: frames of zeros, several at a time where memory is touched in order.

use std::sync::atomic::Ordering;

use warmswap_page::PAGE_BYTES;
use warmswap_policy::reclaim::Arrival;

use super::Core;
use crate::error::FaultError;
use crate::frames::Frame;
use crate::page_words::{Claim, State};

/// The most pages that one first touch brings.
pub(super) const WINDOW_PAGES: usize = 16;

static ZEROS: [u8; WINDOW_PAGES * PAGE_BYTES] = [0; WINDOW_PAGES * PAGE_BYTES];

/// Pages that are held, behind another.
pub(super) type Along<'a> = [Option<Claim<'a>>; WINDOW_PAGES];

impl Core {
    /// How many pages from this one on are likely to be touched next, this one included: as many as were
    /// touched right before it, while there are plenty of frames.
    pub(super) fn fresh_window(&self, page: usize) -> usize {
        let is_touched = |&before: &usize| {
            let state = self.words.word(before).state;
            !matches!(state, State::Fresh | State::InFile | State::Unmapped)
        };
        let touched = (page.saturating_sub(WINDOW_PAGES)..page).rev();
        let plenty = self.frames.available() / 4;
        touched.take_while(is_touched).count().min(plenty).max(1)
    }

    /// Brings a page of zeros, and those behind it as far as there are frames.
    pub(super) fn fault_in_fresh(
        &self,
        claim: Claim<'_>,
        frame: Frame<'_>,
        arrival: Arrival,
    ) -> Result<(), FaultError> {
        self.counts.faults.fetch_add(1, Ordering::Relaxed);
        self.counts.first_touches.fetch_add(1, Ordering::Relaxed);
        let first = claim.page;
        let most = frame.count().min(WINDOW_PAGES);
        let (along, count) = self.hold_behind(first, most, State::Fresh);
        self.install_copies(first, frame, &ZEROS[..count * PAGE_BYTES])?;
        self.release(claim, |before| before.arrived(arrival));
        self.release_along(along);
        Ok(())
    }

    /// Claims the pages behind one that is held as long as they are in that state; how many these are with it,
    /// at most `most`.
    pub(super) fn hold_behind(
        &self,
        first: usize,
        most: usize,
        state: State,
    ) -> (Along<'_>, usize) {
        let mut along: Along<'_> = [const { None }; WINDOW_PAGES];
        let mut count = 1;
        for (place, page) in along.iter_mut().zip(first + 1..first + most) {
            let word = self.words.word(page);
            if word.state == state {
                *place = self.words.claim(page, word);
            }
            if place.is_none() {
                break;
            }
            count += 1;
        }
        (along, count)
    }

    /// Lets pages go that came along and are in their places.
    pub(super) fn release_along(&self, along: Along<'_>) {
        for claim in along.into_iter().flatten() {
            self.counts.neighbours.fetch_add(1, Ordering::Relaxed);
            self.release(claim, |before| before.arrived(Arrival::Untouched));
        }
    }
}
