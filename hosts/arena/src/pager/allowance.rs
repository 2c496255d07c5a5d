//! How much memory there is: the budget, and more for as long as what there is cannot be held in that.

use std::time::{Duration, Instant};

use crate::config::ArenaConfig;

/// Time between two attempts to do with less, once the budget is exceeded.
const EASE_INTERVAL: Duration = Duration::from_millis(50);

/// The least by which less is tried then.
const EASE_BYTES: u64 = 128 << 10;

/// What the pool may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PoolShare {
    /// So many bytes.
    Fixed(u64),
    /// Three quarters: what is beyond goes to the backing file.
    Most,
    /// All but an eighth. Nothing can leave this pool, and a page takes less in it than in a frame; but with fewer
    /// frames hardly anything goes on. Of what is beyond the budget half: pages that do not fit are hardly smaller compressed, and
    /// the program has the less frames the more of them there are.
    NearlyAll,
}

/// The budget, and what is allowed beyond it. Live memory cannot be refused: what fits nowhere is held all the same,
/// compressed as far as it can be.
#[derive(Debug)]
pub struct Allowance {
    budget_bytes: u64,
    pool: PoolShare,
    excess_bytes: u64,
    /// When the excess last changed.
    changed: Instant,
}

impl Allowance {
    /// What an arena that is made so may use.
    pub fn of(config: &ArenaConfig, has_backing: bool) -> Self {
        let pool = match config.pool_limit_bytes {
            Some(bytes) => PoolShare::Fixed(bytes),
            None if has_backing => PoolShare::Most,
            None => PoolShare::NearlyAll,
        };
        Self {
            budget_bytes: config.budget_bytes,
            pool,
            excess_bytes: 0,
            changed: Instant::now(),
        }
    }

    /// Memory for all, in bytes.
    pub fn bytes(&self) -> u64 {
        self.budget_bytes + self.excess_bytes
    }

    /// Whether that is more than the budget.
    pub fn is_exceeded(&self) -> bool {
        self.excess_bytes > 0
    }

    /// Of it, at most this for the pool and for what describes pages and chunks.
    pub fn pool_limit_bytes(&self) -> u64 {
        match self.pool {
            PoolShare::Fixed(bytes) => bytes,
            PoolShare::Most => self.bytes() / 4 * 3,
            PoolShare::NearlyAll => {
                self.budget_bytes - self.budget_bytes / 8 + self.excess_bytes / 2
            }
        }
    }

    /// Allows so many bytes, if that is more than now.
    pub fn exceed(&mut self, bytes: u64) {
        self.excess_bytes += bytes.saturating_sub(self.bytes());
        self.changed = Instant::now();
    }

    /// Whether it has been the same for a while.
    pub fn is_settled(&self) -> bool {
        self.changed.elapsed() >= EASE_INTERVAL
    }

    /// Allows what makes room for so many bytes in the pool. False if that would not help: the pool has a limit of its own,
    /// or what is allowed is enough.
    pub fn exceed_for_pool(&mut self, pool_bytes: u64) -> bool {
        let bytes = match self.pool {
            PoolShare::Fixed(_) => return false,
            PoolShare::Most => pool_bytes.div_ceil(3) * 4,
            PoolShare::NearlyAll => {
                let within = self.budget_bytes - self.budget_bytes / 8;
                self.budget_bytes + 2 * pool_bytes.saturating_sub(within)
            }
        };
        if bytes <= self.bytes() {
            return false;
        }
        self.exceed(bytes);
        true
    }

    /// Allows a little less again, now and then. True if it did.
    pub fn ease(&mut self) -> bool {
        if self.excess_bytes == 0 || !self.is_settled() {
            return false;
        }
        let less = (self.excess_bytes / 8).max(EASE_BYTES);
        self.excess_bytes = self.excess_bytes.saturating_sub(less);
        self.changed = Instant::now();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmswap_policy::SchemeSpec;

    const MIB: u64 = 1 << 20;

    fn allowance(pool_limit_bytes: Option<u64>, has_backing: bool) -> Allowance {
        let scheme = SchemeSpec::parse("zram").unwrap();
        let config = ArenaConfig {
            pool_limit_bytes,
            ..ArenaConfig::new(16 * MIB, scheme)
        };
        Allowance::of(&config, has_backing)
    }

    #[test]
    fn a_pool_that_nothing_can_leave_may_take_nearly_all() {
        assert_eq!(allowance(None, false).pool_limit_bytes(), 14 * MIB);
        assert_eq!(allowance(None, true).pool_limit_bytes(), 12 * MIB);
        assert_eq!(allowance(Some(MIB), false).pool_limit_bytes(), MIB);
    }

    #[test]
    fn what_makes_room_in_the_pool_is_allowed_where_the_pool_may_grow() {
        // 6 MiB more than of the budget, and as many for frames; or a third more.
        for (has_backing, bytes) in [(false, 28 * MIB), (true, 80 * MIB / 3)] {
            let mut a = allowance(None, has_backing);
            assert!(!a.exceed_for_pool(11 * MIB), "there is room");
            assert!(a.exceed_for_pool(20 * MIB));
            let pool = a.pool_limit_bytes();
            assert!((20 * MIB..20 * MIB + 8).contains(&pool), "{pool}");
            assert!((bytes..bytes + 8).contains(&a.bytes()), "{}", a.bytes());
        }
        assert!(!allowance(Some(MIB), false).exceed_for_pool(2 * MIB));
    }

    #[test]
    fn what_is_allowed_beyond_the_budget_goes_step_by_step() {
        let mut a = allowance(None, false);
        assert!(!a.ease());
        a.exceed(20 * MIB);
        a.exceed(18 * MIB);
        assert_eq!(a.bytes(), 20 * MIB);
        assert!(!a.ease(), "not at once");
        let mut steps = 0;
        while a.bytes() > 16 * MIB {
            a.changed -= EASE_INTERVAL;
            let before = a.bytes();
            assert!(a.ease() && before - a.bytes() <= MIB);
            steps += 1;
        }
        assert!(steps > 8 && a.bytes() == 16 * MIB);
    }
}
