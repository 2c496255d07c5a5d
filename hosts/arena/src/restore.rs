//! Bringing hot sets and footprints back in bulk, ahead of use, while the processor has nothing else to do.
//!
//! A thread at idle priority may not run for a long time, and must hold nothing that a fault waits for. So the restore
//! threads have the usual priority, and take a permit for each step. Permits come from the *sentinel*, a thread at idle
//! priority that does nothing else: on a busy machine there are none.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use warmswap_policy::ChunkId;
use warmswap_policy::reclaim::Arrival;
use warmswap_uffd::be_idle;

use crate::error::die;
use crate::fault::Core;
use crate::sync::Word;

/// Pages that one thread takes at a time. Few: they are restored although the processor may be wanted since.
const STEP_PAGES: usize = 16;

/// Permits that the sentinel gives at once, so that the restore threads and it take turns less often.
const PERMITS: u32 = 4;

/// How often pages are tried for which no frame can be spared, with a millisecond between.
const TRIES: u32 = 50;

/// Where the pages of a job come from.
#[derive(Debug)]
pub enum Source {
    /// From wherever they are: no thread waits for an answer.
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
    /// The next page that is not taken.
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

    /// Brings the next pages back; false when another thread has begun with the last.
    pub fn step(&self, core: &Core) -> bool {
        let Some((step, rest)) = self.take() else {
            return false;
        };
        let _inside = core.gate.enter();
        if !self.is_cancelled() && !bring(core, step) {
            self.cancel();
        }
        self.done.fetch_add(step.len(), Ordering::AcqRel);
        if !matches!(self.source, Source::Any) {
            // It tells the engine, which may have more to bring.
            core.frames.call_pager();
        }
        !rest.is_empty()
    }

    /// The pages of the next step, and those behind them; `None` when all are taken. No thread works on those of a job that
    /// was cancelled: they are one step.
    fn take(&self) -> Option<(&[u32], &[u32])> {
        let most = if self.is_cancelled() {
            self.pages.len()
        } else {
            STEP_PAGES
        };
        let first = self.next.fetch_add(most, Ordering::AcqRel);
        let left = self.pages.get(first..)?;
        Some(left.split_at(most.min(left.len())))
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
        while self.step(core) {}
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
    has_job: Condvar,
    is_stopped: AtomicBool,
    /// Steps that may begin.
    permits: Word,
    /// A restore thread waits for a permit.
    is_wanted: AtomicBool,
    sentinel: OnceLock<Thread>,
}

impl Jobs {
    /// Adds a job.
    pub fn push(&self, job: Arc<Job>) {
        self.queue.lock().push_back(job);
        self.has_job.notify_all();
    }

    /// Ends the threads that take jobs.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
        let queue = self.queue.lock();
        queue.iter().for_each(|job| job.cancel());
        self.has_job.notify_all();
        self.want_permits();
        self.permits.wake();
    }

    /// Takes a permit for a step of a job, waiting for one; false after the stop. None is needed once the job is cancelled:
    /// the next one is not to wait behind it.
    pub fn take_permit(&self, job: &Job) -> bool {
        while !self.is_stopped.load(Ordering::Acquire) {
            let take = |permits: u32| permits.checked_sub(1);
            if job.is_cancelled() || self.permits.update(take).is_ok() {
                return true;
            }
            self.want_permits();
            self.permits.wait(0);
        }
        false
    }

    fn want_permits(&self) {
        self.is_wanted.store(true, Ordering::Release);
        if let Some(sentinel) = self.sentinel.get() {
            sentinel.unpark();
        }
    }

    /// The sentinel's work: gives permits when they are wanted and the processor has nothing else to do. Takes no lock,
    /// here or elsewhere.
    pub fn give_permits(&self) {
        // There is one sentinel.
        let _ = self.sentinel.set(std::thread::current());
        let mut has_begun = false;
        while !self.is_stopped.load(Ordering::Acquire) {
            if !self.is_wanted.load(Ordering::Acquire) {
                std::thread::park();
                continue;
            }
            if !has_begun {
                // Not before: on a busy machine a thread of that class takes long to end, and with it a process that
                // never restores anything. A kernel without it restores whether the processor is wanted or not.
                let _ = be_idle();
                has_begun = true;
                continue;
            }
            self.is_wanted.store(false, Ordering::Release);
            self.permits.store(PERMITS);
            self.permits.wake();
        }
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
            self.has_job.wait(&mut queue);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_cancelled_job_is_taken_at_once_and_needs_no_permit() {
        let jobs = Jobs::default();
        let job = Arc::new(Job::new((0..1000).collect()));
        jobs.push(Arc::clone(&job));
        let next = Arc::new(Job::new(vec![7]));
        jobs.push(Arc::clone(&next));
        let (step, rest) = job.take().expect("pages");
        assert_eq!((step.len(), rest.len()), (STEP_PAGES, 1000 - STEP_PAGES));

        job.cancel();
        // There is no sentinel to give any.
        assert!(jobs.take_permit(&job));
        let (step, rest) = job.take().expect("pages");
        assert_eq!((step.first(), step.len()), (Some(&16), 1000 - STEP_PAGES));
        assert!(rest.is_empty() && job.take().is_none());
        let front = jobs.next().expect("a job");
        assert!(Arc::ptr_eq(&front, &next));
    }
}
