//! Looks how much of programs is in swap, until all is back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use warmswap_sys::process::MemoryUse;
use warmswap_sys::{Root, monotonic_ns};

/// Time between two looks, which cost about 15 µs a process.
const INTERVAL: Duration = Duration::from_millis(250);
/// A program is back when no more than this part of what left is in swap: some pages are of no use.
const REST: u64 = 20;

/// A program at the end of a hog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Away {
    pub pids: Vec<u32>,
    /// Its anonymous memory in swap.
    pub swapped_bytes: u64,
}

impl Away {
    /// What is in swap now of these processes.
    pub fn read(root: &Root, pids: Vec<u32>) -> Self {
        let of = |&pid: &u32| Some(MemoryUse::read(root, pid).ok()?.swapped_bytes);
        let swapped_bytes = pids.iter().filter_map(of).sum();
        Self {
            pids,
            swapped_bytes,
        }
    }

    /// Whether it is back; none once one of its processes has ended, whose memory went and did not come back.
    fn is_back(&self, root: &Root) -> Option<bool> {
        let of = |&pid: &u32| Some(MemoryUse::read(root, pid).ok()?.swapped_bytes);
        let now: u64 = self.pids.iter().map(of).sum::<Option<u64>>()?;
        Some(now <= self.swapped_bytes / REST)
    }
}

/// The thread that looks.
#[derive(Debug)]
pub struct BackWatch {
    shared: Arc<BackTime>,
    thread: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct BackTime {
    has_ended: AtomicBool,
    /// 0 for not yet.
    back_ns: AtomicU64,
}

impl BackWatch {
    /// Looks at these programs.
    pub fn start(root: &Root, programs: Vec<Away>) -> Self {
        let shared = Arc::new(BackTime::default());
        let (root, for_thread) = (root.clone(), Arc::clone(&shared));
        let thread = std::thread::spawn(move || watch(&root, &programs, &for_thread));
        Self { shared, thread }
    }

    /// Stops looking; after how long all were back, in nanoseconds.
    pub fn finish(self) -> Option<u64> {
        self.shared.has_ended.store(true, Ordering::Release);
        self.thread.thread().unpark();
        let _ = self.thread.join();
        Some(self.shared.back_ns.load(Ordering::Acquire)).filter(|&ns| ns > 0)
    }
}

fn watch(root: &Root, programs: &[Away], shared: &BackTime) {
    let begin_ns = monotonic_ns();
    while !shared.has_ended.load(Ordering::Acquire) {
        let are_back = programs.iter().map(|program| program.is_back(root));
        let Some(are_back) = are_back.collect::<Option<Vec<bool>>>() else {
            return;
        };
        if are_back.into_iter().all(|is_back| is_back) {
            let ns = (monotonic_ns() - begin_ns).max(1);
            shared.back_ns.store(ns, Ordering::Release);
            return;
        }
        std::thread::park_timeout(INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_back_when_a_twentieth_of_each_program_is_away() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        let set = |pid: u32, mib: u64| {
            let path = root.proc_file(pid, "status");
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let text = format!("RssAnon:\t 0 kB\nVmSwap:\t {} kB\n", mib << 10);
            std::fs::write(&path, text).unwrap();
        };
        let ended = |programs: &[Away]| {
            let watch = BackWatch::start(&root, programs.to_vec());
            while !watch.thread.is_finished() {
                std::thread::yield_now();
            }
            watch.finish()
        };
        set(42, 1000);
        set(43, 10);
        let programs = [42, 43].map(|pid| Away::read(&root, vec![pid]));
        assert_eq!(programs[0].swapped_bytes, 1000 << 20);
        // The large one alone is not enough.
        set(42, 20);
        let watch = BackWatch::start(&root, programs.to_vec());
        assert_eq!(watch.finish(), None);
        set(43, 0);
        assert!(ended(&programs).is_some());
        // One that ended did not come back.
        std::fs::remove_dir_all(root.path("/proc/43")).unwrap();
        assert_eq!(ended(&programs), None);
    }
}
