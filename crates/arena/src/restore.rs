//! Bringing hot sets and footprints back in bulk, ahead of use.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use warmswap_policy::ChunkId;
use warmswap_policy::reclaim::Arrival;

use crate::error::die;
use crate::service::Core;

/// Pages that one thread takes at a time. Few: whoever touches one of them meanwhile waits for a thread that runs only
/// when nobody else does.
const STEP_PAGES: usize = 32;

/// How often pages are tried for which no frame can be spared, with a millisecond between.
const TRIES: u32 = 50;

/// Where the pages of a job come from.
#[derive(Debug)]
pub enum Source {
    /// From wherever they are: nobody waits for an answer.
    Any,
    /// From these chunks, which the engine takes for being loaded.
    Chunks(Vec<ChunkId>),
    /// From their file; the engine takes them for read.
    File,
}

/// Pages to bring back, for any number of threads together.
#[derive(Debug)]
pub struct Job {
    pages: Vec<u32>,
    source: Source,
    /// The next page that nobody has taken.
    next: AtomicUsize,
    /// Pages that are dealt with.
    done: AtomicUsize,
    /// No frames: the rest is left to faults.
    is_cancelled: AtomicBool,
}

impl Job {
    /// A job for these pages, in this order.
    pub fn new(pages: Vec<u32>) -> Self {
        Self::of(pages, Source::Any)
    }

    /// The same; the engine wants to hear when it is done.
    pub fn of(pages: Vec<u32>, source: Source) -> Self {
        Self {
            pages,
            source,
            next: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            is_cancelled: AtomicBool::new(false),
        }
    }

    /// Works until nobody need begin anything more.
    pub fn run(&self, core: &Core) {
        loop {
            let first = self.next.fetch_add(STEP_PAGES, Ordering::AcqRel);
            let Some(rest) = self.pages.get(first..) else {
                return;
            };
            let step = &rest[..rest.len().min(STEP_PAGES)];
            let _inside = core.gate.enter();
            if !self.is_cancelled() && !bring(core, step) {
                self.cancel();
            }
            self.done.fetch_add(step.len(), Ordering::AcqRel);
            if !matches!(self.source, Source::Any) {
                // It tells the engine, which may have more to bring.
                core.frames.call_pager();
            }
            if first + step.len() >= self.pages.len() {
                return;
            }
        }
    }

    /// Leaves what is not begun to faults.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Release);
    }

    fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Acquire)
    }

    /// The pages.
    pub fn pages(&self) -> &[u32] {
        &self.pages
    }

    /// Where they come from.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Whether all pages are dealt with.
    pub fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire) >= self.pages.len()
    }

    /// Helps until all pages are dealt with.
    pub fn finish(&self, core: &Core) {
        self.run(core);
        while !self.is_done() {
            std::thread::yield_now();
        }
    }
}

/// Brings pages back; false when no frames can be spared for all of them.
fn bring(core: &Core, pages: &[u32]) -> bool {
    let mut rest = pages;
    for _ in 0..TRIES {
        match core.restore(rest, Arrival::Untouched) {
            Ok(done) => rest = &rest[done..],
            Err(error) => die(core.memory.address(rest[0] as usize), &error),
        }
        if rest.is_empty() {
            return true;
        }
        core.frames.call_pager();
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

/// Jobs for the restore threads.
#[derive(Debug, Default)]
pub struct Jobs {
    queue: Mutex<VecDeque<Arc<Job>>>,
    is_there_one: Condvar,
    is_stopped: AtomicBool,
}

impl Jobs {
    /// Adds a job.
    pub fn push(&self, job: Arc<Job>) {
        self.queue.lock().push_back(job);
        self.is_there_one.notify_all();
    }

    /// Ends the threads that take jobs.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
        let queue = self.queue.lock();
        queue.iter().for_each(|job| job.cancel());
        self.is_there_one.notify_all();
    }

    /// The oldest job that is not all taken, waiting for one; `None` after the stop.
    pub fn next(&self) -> Option<Arc<Job>> {
        let mut queue = self.queue.lock();
        loop {
            if self.is_stopped.load(Ordering::Acquire) {
                return None;
            }
            let taken = |job: &Arc<Job>| job.next.load(Ordering::Acquire) >= job.pages.len();
            while queue.front().is_some_and(taken) {
                queue.pop_front();
            }
            if let Some(job) = queue.front() {
                return Some(Arc::clone(job));
            }
            self.is_there_one.wait(&mut queue);
        }
    }
}
