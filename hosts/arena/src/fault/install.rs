//! Frames into the places of missing pages.

use std::sync::atomic::Ordering;

use warmswap_page::PAGE_BYTES;
use warmswap_policy::reclaim::Arrival;
use warmswap_uffd::{Failure, Mechanism, Slots, UffdError};

use super::Core;
use crate::error::{FaultError, die};
use crate::frames::{Frame, NewFrames};
use crate::page_words::Claim;

impl Core {
    /// Puts copies of `bytes` (whole pages) in the place of missing pages, with these frames, which are at least
    /// as many; what is left of them is given back.
    pub(super) fn install_copies(
        &self,
        first: usize,
        frame: Frame<'_>,
        bytes: &[u8],
    ) -> Result<(), FaultError> {
        let count = bytes.len() / PAGE_BYTES;
        match frame {
            Frame::Free(mut slots)
                if self.frames.is_recycling() && self.mechanism_at(first) == Mechanism::Move =>
            {
                let mut wanted = slots.split_front(count);
                if !slots.is_empty() {
                    self.frames.put_free(slots);
                }
                self.memory.bytes_mut(&mut wanted).copy_from_slice(bytes);
                self.install(first, wanted)
            }
            frame => {
                let frames = self.leave_for_copies(frame, count)?;
                self.memory.copy_in(first, bytes)?;
                frames.taken();
                Ok(())
            }
        }
    }

    /// Turns these frames into leave for `count` pages that are about to be copied; what is left of them is given back.
    pub(super) fn leave_for_copies<'a>(
        &'a self,
        frame: Frame<'a>,
        count: usize,
    ) -> Result<NewFrames<'a>, FaultError> {
        match frame {
            Frame::Free(mut rest) => {
                let mut slots = rest.split_front(count);
                if !rest.is_empty() {
                    self.frames.put_free(rest);
                }
                // The kernel takes frames of its own choice: these go back for them.
                self.memory.discard_slots(&mut slots)?;
                self.frames.put_empty(slots);
                Ok(self.frames.exchanged(count))
            }
            Frame::New(mut frames) => {
                frames.truncate(count);
                Ok(frames)
            }
        }
    }

    /// How the frame of a page comes and goes. The kernel moves none to or from where a program only reads.
    pub fn mechanism_at(&self, page: usize) -> Mechanism {
        if self.files.is_twin(page) {
            return Mechanism::Copy;
        }
        self.memory.mechanism()
    }

    /// Puts the content of slots in the place of missing pages.
    pub(super) fn install(&self, first: usize, mut slots: Slots) -> Result<(), FaultError> {
        let mut page = first;
        while !slots.is_empty() {
            let moved = match self.mechanism_at(page) {
                Mechanism::Move => self.move_in(page, &mut slots)?,
                Mechanism::Copy => 0,
            };
            if moved > 0 {
                self.frames.put_empty(slots.split_front(moved));
                page += moved;
                continue;
            }
            // The slot's frame is pinned or shared, or the page's protection is another.
            let slot = slots.split_front(1);
            let copy = self.frames.force_new();
            self.memory.copy_in(page, self.memory.bytes(&slot))?;
            copy.taken();
            self.counts.copied.fetch_add(1, Ordering::Relaxed);
            self.frames.put_free(slot);
            page += 1;
        }
        Ok(())
    }

    /// Puts the only content of a page, in a slot, in its place, or ends the process.
    pub(super) fn install_or_die(&self, page: usize, slot: Slots) {
        if let Err(error) = self.install(page, slot) {
            die(self.memory.address(page), &error);
        }
    }

    /// Moves the frames of slots to the places of missing pages; how many were moved.
    fn move_in(&self, first: usize, slots: &mut Slots) -> Result<usize, UffdError> {
        match self.memory.move_in(first, slots) {
            // A frame that the kernel itself swaps out at that moment is moved although it says that it was not, and
            // is there when the move is tried again. No other thread can have put one there: the page is held.
            Err(error) if error.failure == Failure::PageExists => {
                let memory = &self.memory;
                if !memory.has_frame(first) || memory.slot_has_frame(slots) {
                    return Err(error);
                }
                // The threads that wait for it were not woken.
                memory.wake(first)?;
                Ok(1)
            }
            result => result,
        }
    }

    /// Puts the content of neighbouring slots in the places of the pages that are held, neighbours in memory
    /// together, and lets those go. A slot whose page is not held is free.
    pub(super) fn install_held(
        &self,
        held: &mut [Option<(Claim<'_>, Arrival)>],
        mut slots: Slots,
    ) -> Result<(), FaultError> {
        let mut at = 0;
        while at < held.len() && !slots.is_empty() {
            let run = run_at(held, at, |(claim, _)| claim.page);
            let Some(first) = held[at].as_ref().map(|(claim, _)| claim.page) else {
                at += run;
                self.frames.put_free(slots.split_front(run));
                continue;
            };
            self.install(first, slots.split_front(run))?;
            for (claim, arrival) in held[at..at + run].iter_mut().filter_map(Option::take) {
                self.release(claim, |before| before.arrived(arrival));
            }
            at += run;
        }
        if !slots.is_empty() {
            self.frames.put_free(slots);
        }
        Ok(())
    }

    /// As [`Self::install_held`] with copies of pages, as far as there are frames; lets those pages go as they
    /// were for which there are none.
    pub(super) fn install_held_copies(
        &self,
        held: &mut [Option<(Claim<'_>, Arrival)>],
        bytes: &[u8],
    ) -> Result<(), FaultError> {
        let mut at = 0;
        while at < held.len() {
            let Some(first) = held[at].as_ref().map(|(claim, _)| claim.page) else {
                at += 1;
                continue;
            };
            let run = run_at(held, at, |(claim, _)| claim.page);
            let Some(frames) = self.frames.try_take_up_to(run) else {
                held[at..]
                    .iter_mut()
                    .filter_map(Option::take)
                    .for_each(drop);
                return Ok(());
            };
            let count = frames.count();
            let bytes = &bytes[at * PAGE_BYTES..][..count * PAGE_BYTES];
            self.install_copies(first, frames, bytes)?;
            for (claim, arrival) in held[at..at + count].iter_mut().filter_map(Option::take) {
                self.release(claim, |before| before.arrived(arrival));
            }
            at += count;
        }
        Ok(())
    }
}

/// How many entries from `at` on (at least one) are pages in a row, or are all none.
fn run_at<T>(held: &[Option<T>], at: usize, page: impl Fn(&T) -> usize) -> usize {
    let first = held[at].as_ref().map(&page);
    held[at..]
        .iter()
        .enumerate()
        .take_while(|(n, entry)| entry.as_ref().map(&page) == first.map(|first| first + n))
        .count()
}

#[cfg(test)]
mod tests {
    use super::run_at;

    #[test]
    fn runs_are_neighbours_or_gaps() {
        let held = [Some(7), Some(8), None, None, Some(9), Some(11)];
        let runs = [0, 1, 2, 3, 4, 5].map(|at| run_at(&held, at, |&page| page));
        assert_eq!(runs, [2, 1, 2, 1, 1, 1]);
    }
}
