//! Page faults as they come, while something else runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use warmswap_sys::perf::{Fault, Losses, PageFaults};

/// Time between two looks at the kernel's buffers.
const POLL: Duration = Duration::from_millis(5);

/// Collects the faults of the whole machine.
#[derive(Debug)]
pub(crate) struct FaultLog {
    events: PageFaults,
    faults: Vec<Fault>,
    losses: Losses,
}

impl FaultLog {
    pub(crate) fn new(events: PageFaults) -> Self {
        Self {
            events,
            faults: Vec::new(),
            losses: Losses::default(),
        }
    }

    /// Runs `work` while another thread empties the kernel's buffers.
    pub(crate) fn during<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let collector = scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    self.collect();
                    std::thread::park_timeout(POLL);
                }
            });
            // Also when `work` panics the collector must end, or the scope would wait for ever.
            let stop = StopOnDrop {
                done: &done,
                thread: collector.thread(),
            };
            let result = work();
            drop(stop);
            result
        })
    }

    /// All faults until now of the processes that `wanted` accepts, by time; the others are forgotten.
    pub(crate) fn take(&mut self, mut wanted: impl FnMut(u32) -> bool) -> Vec<Fault> {
        self.collect();
        let mut faults = std::mem::take(&mut self.faults);
        faults.retain(|f| wanted(f.pid));
        faults.sort_unstable();
        faults
    }

    pub(crate) fn losses(&self) -> Losses {
        self.losses
    }

    fn collect(&mut self) {
        self.losses += self.events.read(&mut self.faults);
    }
}

struct StopOnDrop<'a> {
    done: &'a AtomicBool,
    thread: &'a std::thread::Thread,
}

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Release);
        self.thread.unpark();
    }
}
