//! The time that the collector's timers go by.

use std::fmt::Debug;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Tells the time. [`SystemClock`] is the one of a heap; tests set another.
pub trait Clock: Send + Sync + Debug {
    /// Time since some moment, the same for all calls. It never goes back. A clock that jumps is looked at when a
    /// timer would have expired by the system's time, and by [`Heap::clock_changed`](crate::Heap::clock_changed).
    fn now(&self) -> Duration;
}

/// The system's time, which does not go on while the machine sleeps.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        static BEGIN: OnceLock<Instant> = OnceLock::new();
        BEGIN.get_or_init(Instant::now).elapsed()
    }
}
