//! The budget: how much memory there is, and how much is used.

use serde::{Deserialize, Serialize};
use warmswap_page::PAGE_BYTES;

/// What the engine may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Memory for frames and pool together.
    pub budget_bytes: u64,
    /// Of it, at most this for the pool.
    pub pool_limit_bytes: u64,
    /// Size of the backing file; 0 for none.
    pub backing_limit_bytes: u64,
}

/// What is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Frames in use: resident pages, those on their way in or out, and the prefetch buffer.
    pub frames: u64,
    /// Memory that the pool really holds, as its host last reported.
    pub pool_bytes: u64,
    /// Bytes of the backing file in use, as its host last reported.
    pub backing_bytes: u64,
}

/// Free frames at which something begins or ends; `min < low < high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Watermarks {
    /// The reserve: below it faults wait (direct reclaim).
    pub min_frames: u64,
    /// Below it background reclaim begins.
    pub low_frames: u64,
    /// Here background reclaim ends.
    pub high_frames: u64,
}

impl Watermarks {
    /// Watermarks for a budget: a reserve of 1/256 of the frames, but 64 where the budget allows it, so
    /// that one load of the largest chunk and one growth of the pool fit; low at twice and high at three
    /// times the reserve.
    pub fn of(budget_bytes: u64) -> Self {
        let frames = budget_bytes / PAGE_BYTES as u64;
        let min_frames = (frames / 256).max(64).min(frames / 8);
        Self {
            min_frames,
            low_frames: 2 * min_frames,
            high_frames: 3 * min_frames,
        }
    }
}

/// Limits and usage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    pub limits: Limits,
    pub usage: Usage,
    pub watermarks: Watermarks,
    /// Pages whose frames come free when their store is reported.
    pub leaving: u64,
    /// Bytes of the pool that come free when their write-back is reported.
    pub writing_back_bytes: u64,
    /// What the pool held when it was last found full; none once it accepts again.
    full_at_bytes: Option<u64>,
}

/// A full pool accepts again when it is down to this share of its limit (as zswap's
/// accept_threshold_percent), so that it does not flutter at the limit.
pub const POOL_RESUME_PERCENT: u64 = 90;

impl Budget {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            usage: Usage::default(),
            watermarks: Watermarks::of(limits.budget_bytes),
            leaving: 0,
            writing_back_bytes: 0,
            full_at_bytes: None,
        }
    }

    pub fn set_budget_bytes(&mut self, bytes: u64) {
        self.limits.budget_bytes = bytes;
        self.watermarks = Watermarks::of(bytes);
    }

    /// Frames that could be taken without exceeding the budget.
    pub fn free_frames(&self) -> u64 {
        let for_frames = self
            .limits
            .budget_bytes
            .saturating_sub(self.usage.pool_bytes);
        (for_frames / PAGE_BYTES as u64).saturating_sub(self.usage.frames)
    }

    /// Free frames, counting those that are on their way out, and what is written back.
    pub fn free_soon(&self) -> u64 {
        self.free_frames() + self.leaving + self.writing_back_bytes / PAGE_BYTES as u64
    }

    /// Frames that can be taken now, or how many are taken beyond the budget, as a negative number.
    pub fn balance_frames(&self) -> i64 {
        let used = self.usage.frames * PAGE_BYTES as u64 + self.usage.pool_bytes;
        let left = self.limits.budget_bytes.wrapping_sub(used).cast_signed();
        left.div_euclid(PAGE_BYTES as i64)
    }

    /// Bytes used beyond the budget.
    pub fn exceeded_bytes(&self) -> u64 {
        let used = self.usage.frames * PAGE_BYTES as u64 + self.usage.pool_bytes;
        used.saturating_sub(self.limits.budget_bytes)
    }

    pub fn set_pool_bytes(&mut self, bytes: u64) {
        self.usage.pool_bytes = bytes;
        let limit = self.limits.pool_limit_bytes;
        if bytes >= limit {
            self.mark_pool_full();
        } else if bytes <= self.resume_bytes() && self.full_at_bytes.is_none_or(|at| bytes < at) {
            self.full_at_bytes = None;
        }
    }

    /// Sets another limit for the pool, which is full or not by what it holds, whatever it was before.
    pub fn set_pool_limit_bytes(&mut self, bytes: u64) {
        self.limits.pool_limit_bytes = bytes;
        self.full_at_bytes = None;
        self.set_pool_bytes(self.usage.pool_bytes);
    }

    /// The pool refused. It counts as full until it is down to its resume mark, and holds less than now.
    pub fn mark_pool_full(&mut self) {
        self.full_at_bytes = Some(self.usage.pool_bytes);
    }

    pub fn pool_is_full(&self) -> bool {
        self.full_at_bytes.is_some()
    }

    /// Whether the pool is full, but accepts again once the write-backs under way are reported.
    pub fn pool_recovers(&self) -> bool {
        let after = self
            .usage
            .pool_bytes
            .saturating_sub(self.writing_back_bytes);
        self.pool_is_full() && self.writing_back_bytes > 0 && after <= self.resume_bytes()
    }

    fn resume_bytes(&self) -> u64 {
        self.limits.pool_limit_bytes / 100 * POOL_RESUME_PERCENT
    }

    pub fn backing_has_room(&self, bytes: u64) -> bool {
        let used = self.usage.backing_bytes + self.writing_back_bytes;
        used + bytes <= self.limits.backing_limit_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget() -> Budget {
        let limits = Limits {
            budget_bytes: 1 << 20,
            pool_limit_bytes: 1000,
            backing_limit_bytes: 10,
        };
        Budget::new(limits)
    }

    #[test]
    fn frames_and_pool_share_the_budget() {
        let mut b = budget();
        b.usage.frames = 100;
        b.set_pool_bytes(100 * 4096 + 1);
        assert_eq!(b.free_frames(), 256 - 100 - 101);
        assert_eq!(b.exceeded_bytes(), 0);
        b.usage.frames = 156;
        assert_eq!(b.exceeded_bytes(), 1);
    }

    #[test]
    fn a_full_pool_accepts_again_only_at_its_resume_mark() {
        let mut b = budget();
        b.set_pool_bytes(999);
        assert!(!b.pool_is_full());
        b.set_pool_bytes(1000);
        assert!(b.pool_is_full());
        b.set_pool_bytes(901);
        assert!(b.pool_is_full());
        b.set_pool_bytes(900);
        assert!(!b.pool_is_full());
    }

    #[test]
    fn a_pool_that_may_hold_more_is_not_full_any_more() {
        let mut b = budget();
        b.set_pool_bytes(1000);
        b.set_pool_limit_bytes(1001);
        assert!(!b.pool_is_full());
        b.set_pool_limit_bytes(1000);
        assert!(b.pool_is_full());
    }

    #[test]
    fn after_a_refusal_something_must_leave_before_the_pool_is_tried_again() {
        let mut b = budget();
        b.set_pool_bytes(500);
        b.mark_pool_full();
        b.set_pool_bytes(500);
        assert!(b.pool_is_full());
        b.set_pool_bytes(499);
        assert!(!b.pool_is_full());
    }

    #[test]
    fn watermarks_fit_small_budgets_too() {
        for frames in [0, 1, 8, 100, 1000, 1_000_000] {
            let w = Watermarks::of(frames * 4096);
            assert!(w.high_frames <= frames / 2 && w.min_frames <= w.low_frames);
        }
    }
}
