//! When memory is reclaimed ahead of need, and how much.

use std::time::Duration;

/// Reclaim ahead goes on for so long after a member met the limit. Then the thread stops for a look: a program whose
/// working set just fits stops meeting the limit only if nothing is taken from it.
const EPISODE: Duration = Duration::from_secs(1);

/// What is free at least below the limit, and how much is made free at once. A program that faults all the time takes half
/// a MiB in a millisecond.
const LOW_BYTES: u64 = 512 << 10;
const HIGH_BYTES: u64 = 3 << 19;

/// The largest part of the budget that is kept free, as a divisor.
const LEAST_PART: u64 = 24;

/// Whether the program meets its limit now.
#[derive(Debug)]
pub(super) struct Ahead {
    is_wanted: bool,
    low_bytes: u64,
    high_bytes: u64,
    hits: u64,
    /// The end of the episode, in nanoseconds.
    until_ns: Option<u64>,
}

impl Ahead {
    /// For a program with this budget that has met its limit `hits` times. With `is_wanted` false it never reclaims.
    pub fn new(budget_bytes: u64, is_wanted: bool, hits: u64) -> Self {
        let high_bytes = HIGH_BYTES.min(budget_bytes / LEAST_PART);
        Self {
            is_wanted,
            low_bytes: LOW_BYTES.min(high_bytes / 3),
            high_bytes,
            hits,
            until_ns: None,
        }
    }

    /// Whether the program is in an episode, so that the thread looks often.
    pub fn is_active(&self) -> bool {
        self.until_ns.is_some()
    }

    /// Takes in how often the limit was met by now. An episode begins only where `is_idle` finds a processor for it:
    /// elsewhere the program would wait for what is done in its place.
    pub fn met(&mut self, hits: u64, now_ns: u64, is_idle: impl FnOnce() -> bool) {
        if let Some(until_ns) = self.until_ns {
            if now_ns < until_ns {
                return;
            }
            // What was met meanwhile may be this thread's doing: lowering a limit is how it reclaims.
            self.until_ns = None;
        } else if self.is_wanted && hits > self.hits && is_idle() {
            self.until_ns = Some(now_ns + EPISODE.as_nanos() as u64);
        }
        self.hits = hits;
    }

    /// The kernel found too little to reclaim: the program does it by itself, until it meets the limit again.
    pub fn failed(&mut self, hits: u64) {
        self.until_ns = None;
        self.hits = hits;
    }

    /// What the group is to be reclaimed to, if anything is to be done.
    pub fn target(&self, used_bytes: u64, limit_bytes: u64) -> Option<u64> {
        let is_due = self.is_active() && used_bytes + self.low_bytes > limit_bytes;
        is_due.then(|| limit_bytes.saturating_sub(self.high_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn nothing_is_reclaimed_before_the_limit_is_met_and_a_second_after() {
        let mut ahead = Ahead::new(64 * MIB, true, 3);
        ahead.met(3, 0, || true);
        assert_eq!(ahead.target(64 * MIB, 64 * MIB), None);

        ahead.met(4, 0, || true);
        assert!(ahead.is_active());
        assert_eq!(
            ahead.target(64 * MIB, 64 * MIB),
            Some(64 * MIB - HIGH_BYTES)
        );
        assert_eq!(ahead.target(63 * MIB, 64 * MIB), None);

        // Its own lowering of the limit is no reason to go on.
        ahead.met(90, SECOND, || true);
        assert!(!ahead.is_active());
        ahead.met(90, SECOND + 1, || true);
        assert!(!ahead.is_active());
        ahead.met(91, SECOND + 2, || true);
        assert!(ahead.is_active());
        ahead.failed(95);
        ahead.met(96, SECOND + 3, || false);
        assert!(!ahead.is_active());
        ahead.met(96, SECOND + 3, || true);
        assert!(!ahead.is_active());
    }

    #[test]
    fn little_is_kept_free_of_a_small_budget_and_nothing_unless_it_is_wanted() {
        let mut small = Ahead::new(8 * MIB, true, 0);
        small.met(1, 0, || true);
        let target = small.target(8 * MIB, 8 * MIB).unwrap();
        assert_eq!(target, 8 * MIB - 8 * MIB / LEAST_PART);

        let mut off = Ahead::new(64 * MIB, false, 0);
        off.met(9, 0, || true);
        assert_eq!(off.target(64 * MIB, 64 * MIB), None);
    }
}
