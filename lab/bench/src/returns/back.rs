//! Looks how much of programs is in swap, until all is back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use warmswap_sys::process::MemoryUse;
use warmswap_sys::{Root, monotonic_ns};

/// Time between two looks, which cost about 15 µs a process.
const INTERVAL: Duration = Duration::from_millis(250);
/// All is back when no more than this part is in swap: some pages are of no use to anyone.
const REST: u64 = 20;

/// Memory of these processes that is in swap, in bytes.
pub fn swapped_bytes(root: &Root, pids: &[u32]) -> u64 {
    let of = |&pid: &u32| Some(MemoryUse::read(root, pid).ok()?.swapped_bytes);
    pids.iter().filter_map(of).sum()
}

/// The thread that looks.
#[derive(Debug)]
pub struct BackWatch {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Shared {
    has_ended: AtomicBool,
    /// 0 for not yet.
    back_ns: AtomicU64,
}

impl BackWatch {
    /// Looks at these processes, of which `swapped_bytes` are away now.
    pub fn start(root: &Root, pids: Vec<u32>, swapped_bytes: u64) -> Self {
        let shared = Arc::new(Shared::default());
        let (root, for_thread) = (root.clone(), Arc::clone(&shared));
        let thread = std::thread::spawn(move || watch(&root, &pids, swapped_bytes, &for_thread));
        Self { shared, thread }
    }

    /// Stops looking; after how long all was back, in nanoseconds.
    pub fn finish(self) -> Option<u64> {
        self.shared.has_ended.store(true, Ordering::Release);
        self.thread.thread().unpark();
        let _ = self.thread.join();
        Some(self.shared.back_ns.load(Ordering::Acquire)).filter(|&ns| ns > 0)
    }
}

fn watch(root: &Root, pids: &[u32], away_bytes: u64, shared: &Shared) {
    let begin_ns = monotonic_ns();
    while !shared.has_ended.load(Ordering::Acquire) {
        if swapped_bytes(root, pids) <= away_bytes / REST {
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
    fn all_is_back_when_a_twentieth_is_away() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        let path = root.proc_file(42, "status");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let away = |mib: u64| {
            let text = format!("RssAnon:\t 0 kB\nVmSwap:\t {} kB\n", mib << 10);
            std::fs::write(&path, text).unwrap();
        };
        away(100);
        assert_eq!(swapped_bytes(&root, &[42, 43]), 100 << 20);
        let watch = BackWatch::start(&root, vec![42], 100 << 20);
        assert_eq!(watch.finish(), None);
        away(5);
        let watch = BackWatch::start(&root, vec![42], 100 << 20);
        while !watch.thread.is_finished() {
            std::thread::yield_now();
        }
        assert!(watch.finish().is_some());
    }
}
