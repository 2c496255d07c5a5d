//! What a host is to do: now, before a thread goes on, or when none waits.

use super::Engine;
use super::prepage::Step;
use crate::budget::Watermarks;
use crate::decision::{Action, Cause, Decision};
use warmswap_policy::reclaim::Urgency;

impl Engine {
    /// What is to be done now, before anybody goes on; `None` when nothing is.
    #[inline]
    pub fn next_decision(&mut self) -> Option<Decision> {
        if self.is_at_rest() {
            return None;
        }
        self.find_decision()
    }

    /// Nothing waits, and the reserve is whole: nothing is to be decided.
    #[inline]
    fn is_at_rest(&self) -> bool {
        self.decisions.is_empty()
            && self.outbox.is_empty()
            && self.budget.free_soon() >= self.budget.watermarks.min_frames
    }

    fn find_decision(&mut self) -> Option<Decision> {
        loop {
            if let Some(decision) = self.decisions.pop_front() {
                return Some(decision);
            }
            if !self.outbox.is_empty() && !self.budget.pool_recovers() {
                self.pack_outbox();
                continue;
            }
            if self.budget.free_soon() >= self.budget.watermarks.min_frames || !self.can_reclaim() {
                return None;
            }
            self.counters.direct_reclaims += 1;
            if self.gains_nothing() {
                self.give_way(Cause::DirectReclaim);
            } else {
                self.reclaim(Cause::DirectReclaim, Urgency::Direct);
            }
        }
    }

    /// Whether direct reclaim only moves memory from frames to the pool, as with pages that do not
    /// shrink: half of the reserve is gone, and the last batch brought nothing.
    fn gains_nothing(&mut self) -> bool {
        if self.budget.leaving > 0 {
            return false;
        }
        let balance = self.budget.balance_frames();
        let before = self.balance_before_reclaim.replace(balance);
        self.budget.free_frames() < self.budget.watermarks.min_frames / 2
            && before.is_some_and(|before| balance <= before)
    }

    /// What is to be done when no thread waits: the footprint of the launch under way comes back, and reclaim
    /// works from the low up to the high watermark. `None` when there is enough.
    #[inline]
    pub fn next_background_decision(&mut self) -> Option<Decision> {
        let has_enough = self.budget.free_soon() >= self.budget.watermarks.low_frames;
        let is_active = self.background_is_active || self.prepaging.is_going_on();
        if has_enough && !is_active && self.is_at_rest() {
            return None;
        }
        self.find_background_decision()
    }

    fn find_background_decision(&mut self) -> Option<Decision> {
        loop {
            if let Some(decision) = self.next_decision() {
                return Some(decision);
            }
            let lacks_room = match self.prepage() {
                Step::Decided => continue,
                Step::NoRoom => true,
                Step::Done => false,
            };
            let free = self.budget.free_soon();
            let Watermarks {
                low_frames,
                high_frames,
                ..
            } = self.budget.watermarks;
            self.background_is_active =
                lacks_room || free < low_frames || self.background_is_active && free < high_frames;
            if !self.background_is_active {
                return None;
            }
            if !self.can_reclaim() {
                self.prepaging.stop();
                return None;
            }
            if !self.reclaim(Cause::Background, Urgency::Background) {
                self.background_is_active = false;
                // No room for the rest of the footprint: what is touched of it comes back by faults.
                self.prepaging.stop();
                return None;
            }
        }
    }

    pub(crate) fn decide(&mut self, action: Action, cause: Cause) {
        self.decisions.push_back(Decision { action, cause });
    }
}
