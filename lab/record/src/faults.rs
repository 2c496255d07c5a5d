//! Page faults as they come, while something else runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use warmswap_sys::perf::{Fault, Losses, PageFaults};

/// Time between two looks at the kernel's buffers.
const POLL: Duration = Duration::from_millis(5);

/// Collects the faults of the whole machine, in a thread of its own, so that the kernel's buffers do not
/// run over while the recording is at other work.
#[derive(Debug)]
pub(crate) struct FaultLog {
    shared: Arc<SharedLog>,
    collector: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct SharedLog {
    log: Mutex<Log>,
    done: AtomicBool,
}

#[derive(Debug)]
struct Log {
    events: PageFaults,
    faults: Vec<Fault>,
    losses: Losses,
}

impl FaultLog {
    pub(crate) fn new(events: PageFaults) -> Self {
        let log = Log {
            events,
            faults: Vec::new(),
            losses: Losses::default(),
        };
        let shared = Arc::new(SharedLog {
            log: Mutex::new(log),
            done: AtomicBool::new(false),
        });
        let for_thread = Arc::clone(&shared);
        let collector = std::thread::spawn(move || {
            while !for_thread.done.load(Ordering::Acquire) {
                for_thread.lock().collect();
                std::thread::park_timeout(POLL);
            }
        });
        Self {
            shared,
            collector: Some(collector),
        }
    }

    /// All faults until now of the processes that `wanted` accepts, by time; the others are forgotten.
    pub(crate) fn take(&self, mut wanted: impl FnMut(u32) -> bool) -> Vec<Fault> {
        let mut faults = {
            let mut log = self.shared.lock();
            log.collect();
            std::mem::take(&mut log.faults)
        };
        faults.retain(|f| wanted(f.pid));
        faults.sort_unstable();
        faults
    }

    pub(crate) fn losses(&self) -> Losses {
        self.shared.lock().losses
    }
}

impl Drop for FaultLog {
    fn drop(&mut self) {
        self.shared.done.store(true, Ordering::Release);
        if let Some(collector) = self.collector.take() {
            collector.thread().unpark();
            let _ = collector.join();
        }
    }
}

impl SharedLog {
    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    fn collect(&mut self) {
        self.losses += self.events.read(&mut self.faults);
    }
}
