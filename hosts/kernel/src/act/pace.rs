//! What all threads of the host go by.

use std::sync::atomic::{AtomicU64, Ordering};

use warmswap_sys::monotonic_ns;

/// What the host brought back so far, and whether a program is being waited for just now.
#[derive(Debug, Default)]
pub struct Pace {
    brought_bytes: AtomicU64,
    /// By the monotonic clock; 0 when nothing is waited for.
    launch_until_ns: AtomicU64,
}

impl Pace {
    /// So many bytes came back, or were asked for.
    pub fn brought(&self, bytes: u64) {
        self.brought_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// What came back or was asked for so far.
    #[must_use]
    pub fn brought_bytes(&self) -> u64 {
        self.brought_bytes.load(Ordering::Relaxed)
    }

    /// A program comes to the foreground, and is expected to have answered by then; none: no program does any more.
    pub fn expect_answer(&self, until_ns: Option<u64>) {
        let until_ns = until_ns.unwrap_or(0);
        self.launch_until_ns.store(until_ns, Ordering::Relaxed);
    }

    /// Whether a program comes to the foreground: what can wait leaves processors and devices to it.
    #[must_use]
    pub fn is_launch(&self) -> bool {
        monotonic_ns() < self.launch_until_ns.load(Ordering::Relaxed)
    }
}
