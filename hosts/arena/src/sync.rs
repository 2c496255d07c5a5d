//! What gate and arrival queue are made of: atomics, and one that threads can sleep on.

pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rustix::thread::futex;

/// Longest sleep. A wake-up that a `fork` loses costs no more than this.
const SLEEP: Duration = Duration::from_millis(20);

/// An atomic number of 32 bits. Loads acquire, stores release, and changes do both.
#[derive(Debug, Default)]
pub struct Word(AtomicU32);

impl Word {
    pub fn load(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    pub fn store(&self, value: u32) {
        self.0.store(value, Ordering::Release);
    }

    /// Replaces the value by what `change` makes of it, and returns the old one; the value as it is where `change` makes
    /// nothing of it.
    pub fn update(&self, change: impl FnMut(u32) -> Option<u32>) -> Result<u32, u32> {
        self.0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, change)
    }

    /// Subtracts one; returns the value before.
    pub fn decrement(&self) -> u32 {
        self.0.fetch_sub(1, Ordering::AcqRel)
    }

    /// Sleeps while the value is `seen`, until [`Self::wake`] or [`SLEEP`] is over. May return earlier.
    pub fn wait(&self, seen: u32) {
        let timeout = futex::Timespec {
            tv_sec: 0,
            tv_nsec: SLEEP.as_nanos() as i64,
        };
        let _ = futex::wait(&self.0, futex::Flags::PRIVATE, seen, Some(&timeout));
    }

    /// Wakes all threads that sleep on it.
    pub fn wake(&self) {
        let _ = futex::wake(&self.0, futex::Flags::PRIVATE, i32::MAX as u32);
    }
}
