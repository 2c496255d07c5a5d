//! Keeps `limit + pool = total`, since the kernel does not charge what swap takes of memory to the group.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use warmswap_sys::cpu_time::CpuClock;
use warmswap_sys::memcg::Group;

use super::swap::Pool;
use crate::clock::thread_cpu_ns;

/// How often the limit is set anew.
const INTERVAL: Duration = Duration::from_millis(10);
/// Smaller differences are let be.
const GRAIN_BYTES: u64 = 256 << 10;
/// A group is never limited to less, however large the pool.
const LEAST_BYTES: u64 = 16 << 20;

/// The thread that sets the limit, and watches how much memory is used.
#[derive(Debug)]
pub struct LimitKeeper {
    shared: Arc<Tally>,
    clock: Option<CpuClock>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Tally {
    done: AtomicBool,
    cpu_ns: AtomicU64,
    samples: AtomicU64,
    sum_bytes: AtomicU64,
    peak_bytes: AtomicU64,
}

/// What was used, pool included, since the last [`LimitKeeper::take`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kept {
    pub mean_bytes: u64,
    pub peak_bytes: u64,
    /// CPU time of the thread: when the limit falls, the kernel reclaims in it.
    pub cpu_ns: u64,
}

impl LimitKeeper {
    /// Watches a group, and limits it where there is a total; `pool` is where its swapped pages are.
    pub fn start(group: Group, pool: Pool, total_bytes: Option<u64>) -> Self {
        let shared = Arc::new(Tally::default());
        let for_thread = Arc::clone(&shared);
        let (started, clock) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let _ = started.send(CpuClock::of_this_thread());
            keep(&group, &pool, total_bytes, &for_thread);
        });
        Self {
            shared,
            clock: clock.recv().ok(),
            thread: Some(thread),
        }
    }

    /// The CPU time of its thread.
    pub fn clock(&self) -> Option<CpuClock> {
        self.clock
    }

    /// What was seen since the last time.
    pub fn take(&self) -> Kept {
        let take = |value: &AtomicU64| value.swap(0, Ordering::Relaxed);
        let samples = take(&self.shared.samples).max(1);
        Kept {
            mean_bytes: take(&self.shared.sum_bytes) / samples,
            peak_bytes: take(&self.shared.peak_bytes),
            cpu_ns: take(&self.shared.cpu_ns),
        }
    }
}

impl Drop for LimitKeeper {
    fn drop(&mut self) {
        self.shared.done.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

fn keep(group: &Group, pool: &Pool, total_bytes: Option<u64>, shared: &Tally) {
    let mut limit_bytes = u64::MAX;
    let mut cpu = thread_cpu_ns();
    while !shared.done.load(Ordering::Acquire) {
        let pool = pool.memory_bytes();
        if let Some(total) = total_bytes {
            let wanted = total.saturating_sub(pool).max(LEAST_BYTES);
            // When the kernel cannot reclaim so much at once, the next try finds less to do.
            if wanted.abs_diff(limit_bytes) >= GRAIN_BYTES && group.set_limit(Some(wanted)).is_ok()
            {
                limit_bytes = wanted;
            }
        }
        // A group that is just being removed has nothing.
        let used = group.usage_bytes().unwrap_or(0) + pool;
        shared.samples.fetch_add(1, Ordering::Relaxed);
        shared.sum_bytes.fetch_add(used, Ordering::Relaxed);
        shared.peak_bytes.fetch_max(used, Ordering::Relaxed);
        let now = thread_cpu_ns();
        shared.cpu_ns.fetch_add(now - cpu, Ordering::Relaxed);
        cpu = now;
        std::thread::park_timeout(INTERVAL);
    }
}
