//! The thread that watches memory while some of it is taken away, and gives it back when the machine only pages.
//!
//! When memory runs out, the kernel kills the process that holds what was taken. Before that, a machine may only wait for
//! swap: then everything is given back when all tasks waited for memory (PSI, "full") nearly all of a while. A relaunch
//! with little memory makes them for a moment. Little available alone says nothing: the kernel gets along with hardly any
//! page cache as long as it swaps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::mm::{MlockAllFlags, mlockall};
use warmswap_sys::Root;
use warmswap_sys::meminfo::Meminfo;
use warmswap_sys::psi::MemoryPressure;
use warmswap_sys::taken::TakenMemory;

use crate::clock::thread_cpu_ns;

/// Time between two looks. Each costs about 50 µs.
const INTERVAL: Duration = Duration::from_millis(100);
/// Over how long waits are measured.
const STALL_WINDOW: Duration = Duration::from_secs(10);
/// Most of that time that all tasks may wait for memory.
const MOST_STALL_PERCENT: f64 = 95.0;

/// What was seen in a time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Seen {
    pub looks: u64,
    /// Sum of what was available at each look.
    pub sum_available_bytes: u64,
    /// The least; 0 without a look.
    pub least_available_bytes: u64,
    /// Most of the time of a whole window that all tasks waited.
    pub most_stall_percent: f64,
    /// CPU time of the watching thread.
    pub cpu_ns: u64,
}

impl Seen {
    /// The mean of what was available, in bytes; 0 without a look.
    pub fn mean_available_bytes(&self) -> u64 {
        self.sum_available_bytes / self.looks.max(1)
    }

    /// This and what was seen before or after it.
    pub fn and(self, other: Self) -> Self {
        if self.looks == 0 || other.looks == 0 {
            return if self.looks == 0 { other } else { self };
        }
        Self {
            looks: self.looks + other.looks,
            sum_available_bytes: self.sum_available_bytes + other.sum_available_bytes,
            least_available_bytes: self.least_available_bytes.min(other.least_available_bytes),
            most_stall_percent: self.most_stall_percent.max(other.most_stall_percent),
            cpu_ns: self.cpu_ns + other.cpu_ns,
        }
    }
}

/// The watching thread. Dropping it ends it.
#[derive(Debug)]
pub struct Watch {
    seen: Arc<Mutex<Seen>>,
    has_ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Watches until it is dropped, or gives `taken` back.
    pub fn start(root: &Root, taken: Arc<TakenMemory>) -> Self {
        // The thread must not wait for memory of its own. Where that is not allowed it may have to.
        let _ = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT);
        let (seen, has_ended) = (Arc::default(), Arc::default());
        let shared = (root.clone(), Arc::clone(&seen), Arc::clone(&has_ended));
        let thread = std::thread::spawn(move || {
            let (root, seen, has_ended) = shared;
            watch(&root, &seen, &has_ended, &taken);
        });
        Self {
            seen,
            has_ended,
            thread: Some(thread),
        }
    }

    /// What was seen since the last time.
    pub fn take_seen(&self) -> Seen {
        std::mem::take(&mut *self.seen.lock())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
        let _ = rustix::mm::munlockall();
    }
}

fn watch(root: &Root, seen: &Mutex<Seen>, has_ended: &AtomicBool, taken: &TakenMemory) {
    let (begin, mut window) = (Instant::now(), None);
    let mut cpu = thread_cpu_ns();
    while !has_ended.load(Ordering::Acquire) {
        if let Ok(memory) = Meminfo::read(root) {
            let stall_us = MemoryPressure::read(root).ok().flatten();
            let stall_us = stall_us.map(|pressure| pressure.full.total_us);
            let percent = stall_percent(&mut window, begin.elapsed(), stall_us).unwrap_or(0.0);
            let now = thread_cpu_ns();
            let mut seen = seen.lock();
            *seen = seen.and(Seen {
                looks: 1,
                sum_available_bytes: memory.available_bytes,
                least_available_bytes: memory.available_bytes,
                most_stall_percent: percent,
                cpu_ns: now - cpu,
            });
            cpu = now;
            if percent >= MOST_STALL_PERCENT {
                taken.give_back();
                return;
            }
        }
        std::thread::park_timeout(INTERVAL);
    }
}

/// How much of the last window all tasks waited, when one has just ended. `window` is when it began, and what was waited
/// until then.
fn stall_percent(
    window: &mut Option<(Duration, u64)>,
    now: Duration,
    stall_us: Option<u64>,
) -> Option<f64> {
    let stall_us = stall_us?;
    let (begin, before_us) = *window.get_or_insert((now, stall_us));
    let passed = now.saturating_sub(begin);
    if passed < STALL_WINDOW {
        return None;
    }
    *window = Some((now, stall_us));
    let waited_us = stall_us.saturating_sub(before_us) as f64;
    Some((waited_us / passed.as_micros() as f64 * 100.0).min(100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_measured_over_whole_windows() {
        let mut window = None;
        let mut at = |s, stall_s: u64| {
            let now = Duration::from_secs(s);
            stall_percent(&mut window, now, Some(stall_s * 1_000_000))
        };
        assert_eq!(
            [at(5, 100), at(14, 100), at(15, 104)],
            [None, None, Some(40.0)]
        );
        assert_eq!([at(16, 105), at(25, 114)], [None, Some(100.0)]);
        assert_eq!(
            stall_percent(&mut None, Duration::from_secs(99), None),
            None
        );
    }

    #[test]
    fn the_least_and_the_mean_are_of_all_looks() {
        let look = |bytes| Seen {
            looks: 1,
            sum_available_bytes: bytes,
            least_available_bytes: bytes,
            ..Seen::default()
        };
        let all = Seen::default().and(look(30)).and(look(10));
        assert_eq!(
            (all.least_available_bytes, all.mean_available_bytes()),
            (10, 20)
        );
    }
}
