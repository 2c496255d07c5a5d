//! The memory that the pool holds, its limit, and the hysteresis once the limit was hit.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Counts bytes against a limit.
#[derive(Debug)]
pub(crate) struct Budget {
    limit_bytes: u64,
    /// Below or at this, a full pool accepts stores again.
    resume_bytes: u64,
    held_bytes: AtomicU64,
    /// The highest that `held_bytes` ever was.
    peak_bytes: AtomicU64,
    full: AtomicBool,
}

/// The limit does not allow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OverLimit;

impl Budget {
    pub(crate) fn new(limit_bytes: u64, resume_percent: u8) -> Budget {
        let resume_bytes = u128::from(limit_bytes) * u128::from(resume_percent) / 100;
        Budget {
            limit_bytes,
            resume_bytes: resume_bytes as u64,
            held_bytes: AtomicU64::new(0),
            peak_bytes: AtomicU64::new(0),
            full: AtomicBool::new(false),
        }
    }

    /// Adds `bytes` to the memory held, unless that passes the limit.
    pub(crate) fn charge(&self, bytes: u64) -> Result<(), OverLimit> {
        let added = |held: u64| {
            held.checked_add(bytes)
                .filter(|&sum| sum <= self.limit_bytes)
        };
        match self.held_bytes.fetch_update(Relaxed, Relaxed, added) {
            Ok(before) => {
                self.peak_bytes.fetch_max(before + bytes, Relaxed);
                Ok(())
            }
            Err(_) => Err(OverLimit),
        }
    }

    /// Takes `bytes` off the memory held.
    pub(crate) fn release(&self, bytes: u64) {
        let before = self.held_bytes.fetch_sub(bytes, Relaxed);
        debug_assert!(before >= bytes, "released {bytes} of {before} bytes held");
    }

    /// Notes that a store was refused for the limit.
    pub(crate) fn set_full(&self) {
        self.full.store(true, Relaxed);
    }

    /// Whether stores are accepted; ends the full state when enough was freed.
    pub(crate) fn accepts(&self) -> bool {
        if self.full.load(Relaxed) {
            if self.held_bytes() > self.resume_bytes {
                return false;
            }
            self.full.store(false, Relaxed);
        }
        true
    }

    pub(crate) fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    pub(crate) fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Relaxed)
    }

    pub(crate) fn peak_bytes(&self) -> u64 {
        self.peak_bytes.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_lasts_until_the_resume_mark() {
        let budget = Budget::new(1000, 90);
        budget.charge(1000).expect("exactly the limit");
        assert_eq!(budget.charge(1), Err(OverLimit));
        budget.set_full();
        budget.release(99);
        assert!(!budget.accepts(), "901 held, resume at 900");
        budget.release(1);
        assert!(budget.accepts());
        budget.charge(50).expect("below the limit");
        assert!(budget.accepts(), "above the mark, but not full since");
        assert_eq!(budget.peak_bytes(), 1000);
    }

    #[test]
    fn charges_never_wrap() {
        let budget = Budget::new(u64::MAX, 100);
        budget.charge(u64::MAX).expect("the limit");
        assert_eq!(budget.charge(1), Err(OverLimit));
    }
}
