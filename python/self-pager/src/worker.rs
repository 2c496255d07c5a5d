//! The worker thread: it owns the session, carries out one request after the other, and closes launch windows that
//! the program leaves open.
//!
//! It takes no signal, holds no lock while it works, and runs no code of the program. A process may end while it
//! works. After a fork the child has no worker thread; it makes a new [`Worker`] and forgets the old one.
#![allow(unsafe_code)] // Blocking signals for the new thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::PagerError;
use crate::session::{OutReport, OutRequest, ReturnReport, Session, Settings};

/// The worker thread cannot be started, or has ended.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// No thread.
    #[error("cannot start a thread: {0}")]
    Start(#[source] std::io::Error),
    /// It ended by a defect of its own.
    #[error("the pager's thread has ended")]
    Ended,
}

enum Job {
    PageOut(OutRequest, u64),
    BringBack,
    LaunchDone,
}

/// What the worker has to say.
#[derive(Debug, Default)]
struct Reports {
    /// The number of the last request to page out that is done, and its report.
    out: Option<(u64, Result<OutReport, String>)>,
    back: Option<ReturnReport>,
    /// Requests that are done.
    done: u64,
    has_ended: bool,
}

#[derive(Debug, Default)]
struct WorkerState {
    reports: Mutex<Reports>,
    changed: Condvar,
    stop_out: AtomicBool,
    stop_back: AtomicBool,
}

impl WorkerState {
    fn lock(&self) -> MutexGuard<'_, Reports> {
        // Reports are replaced whole.
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request to page out that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// The handle of the worker thread.
#[derive(Debug)]
pub struct Worker {
    jobs: Sender<Job>,
    shared: Arc<WorkerState>,
    tickets: AtomicU64,
    sent: AtomicU64,
}

impl Worker {
    /// Starts the thread.
    ///
    /// # Errors
    /// [`PagerError`].
    pub fn start(settings: Settings) -> Result<Self, PagerError> {
        let session = Session::new(settings)?;
        let shared = Arc::new(WorkerState::default());
        let (jobs, queue) = channel();
        let for_thread = Arc::clone(&shared);
        let blocked = BlockedSignals::new();
        std::thread::Builder::new()
            .name("warmswap".to_owned())
            .spawn(move || {
                let ends = Ends(Arc::clone(&for_thread));
                work(session, &queue, &for_thread);
                drop(ends);
            })
            .map_err(WorkerError::Start)?;
        drop(blocked);
        Ok(Self {
            jobs,
            shared,
            tickets: AtomicU64::new(0),
            sent: AtomicU64::new(0),
        })
    }

    fn send(&self, job: Job) -> Result<(), WorkerError> {
        self.sent.fetch_add(1, Relaxed);
        self.jobs.send(job).map_err(|_| WorkerError::Ended)
    }

    /// Begins to page out. A prefetch that is under way ends.
    ///
    /// # Errors
    /// [`WorkerError::Ended`].
    pub fn page_out(&self, request: OutRequest) -> Result<Ticket, WorkerError> {
        let number = self.tickets.fetch_add(1, Relaxed) + 1;
        self.shared.stop_back.store(true, Relaxed);
        self.shared.stop_out.store(false, Relaxed);
        self.send(Job::PageOut(request, number))?;
        Ok(Ticket(number))
    }

    /// The report of a page-out, once it is done; waits for it for at most `patience`.
    ///
    /// # Errors
    /// [`WorkerError::Ended`]; the inner error is the page-out's.
    pub fn wait(
        &self,
        ticket: Ticket,
        patience: Duration,
    ) -> Result<Option<Result<OutReport, String>>, WorkerError> {
        let deadline = Instant::now() + patience;
        let mut reports = self.shared.lock();
        loop {
            if let Some((number, report)) = &reports.out
                && *number >= ticket.0
            {
                return Ok(Some(report.clone()));
            }
            if reports.has_ended {
                return Err(WorkerError::Ended);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let waited = self.shared.changed.wait_timeout(reports, left);
            reports = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The report of the last page-out, as [`Self::wait`] without waiting; `None` if there was none.
    ///
    /// # Errors
    /// [`WorkerError::Ended`].
    pub fn last_out(&self) -> Result<Option<Result<OutReport, String>>, WorkerError> {
        match self.tickets.load(Relaxed) {
            0 => Ok(None),
            last => self.wait(Ticket(last), Duration::ZERO),
        }
    }

    /// Stops a page-out that is under way; it ends within some milliseconds.
    pub fn stop(&self) {
        self.shared.stop_out.store(true, Relaxed);
    }

    /// Stops a page-out that is under way, and begins to bring back.
    ///
    /// # Errors
    /// [`WorkerError::Ended`].
    pub fn bring_back(&self) -> Result<(), WorkerError> {
        self.stop();
        self.shared.stop_back.store(false, Relaxed);
        self.shared.lock().back = None;
        self.send(Job::BringBack)
    }

    /// The launch is complete.
    ///
    /// # Errors
    /// [`WorkerError::Ended`].
    pub fn launch_done(&self) -> Result<(), WorkerError> {
        self.send(Job::LaunchDone)
    }

    /// Waits until all requests are done, at most for `patience`; whether they are.
    #[must_use]
    pub fn settle(&self, patience: Duration) -> bool {
        let (deadline, sent) = (Instant::now() + patience, self.sent.load(Relaxed));
        let mut reports = self.shared.lock();
        while reports.done < sent && !reports.has_ended {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.shared.changed.wait_timeout(reports, left);
            reports = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// The last return, as far as it is known; `None` before the worker has got to it.
    #[must_use]
    pub fn last_return(&self) -> Option<ReturnReport> {
        self.shared.lock().back.clone()
    }
}

/// Says that the thread ended, however it did.
struct Ends(Arc<WorkerState>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.lock().has_ended = true;
        self.0.changed.notify_all();
    }
}

fn work(mut session: Session, queue: &Receiver<Job>, shared: &WorkerState) {
    loop {
        let job = match session.due() {
            None => queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(due) => queue.recv_timeout(due.saturating_duration_since(Instant::now())),
        };
        let is_request = job.is_ok();
        match job {
            Ok(Job::PageOut(request, number)) => {
                let report = session.page_out(&request, &shared.stop_out);
                let report = report.map_err(|error| error.to_string());
                shared.lock().out = Some((number, report));
            }
            Ok(Job::BringBack) => {
                if let Ok(report) = session.bring_back(&shared.stop_back) {
                    shared.lock().back = Some(report);
                }
            }
            Ok(Job::LaunchDone) | Err(RecvTimeoutError::Timeout) => {
                if let Ok(Some(report)) = session.launch_done() {
                    shared.lock().back = Some(report);
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if is_request {
            shared.lock().done += 1;
        }
        shared.changed.notify_all();
    }
}

/// All signals are blocked in the calling thread, and so in those that it starts, until this is dropped.
struct BlockedSignals(libc::sigset_t);

impl BlockedSignals {
    fn new() -> Self {
        // SAFETY: a signal set is plain data for which all zeros are valid; `sigfillset` then fills it, and
        // `pthread_sigmask` reads `all` and writes `before`, which both live for the calls.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            Self(before)
        }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: the set was filled in by `pthread_sigmask`, and is only read.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    const PATIENCE: Duration = Duration::from_secs(120);

    fn settings(launch_window: Duration) -> Settings {
        Settings {
            app: Some("test".to_owned()),
            socket: PathBuf::from("/nonexistent/daemon.sock"),
            launch_window,
        }
    }

    fn page_out(worker: &Worker) -> OutReport {
        let ticket = worker.page_out(OutRequest::default()).unwrap();
        worker.wait(ticket, PATIENCE).unwrap().unwrap().unwrap()
    }

    #[test]
    fn contents_survive_a_background_and_a_return() {
        let memory: Vec<u32> = (0..2 << 20).collect();
        let worker = Worker::start(settings(PATIENCE)).unwrap();
        for returns in 0..3 {
            let report = page_out(&worker);
            if report.swap.total_bytes == 0 {
                assert!(report.problem.unwrap().contains("no swap"));
                assert_eq!(report.left_pages, 0);
            } else {
                assert!(report.left_pages <= report.asked_pages);
            }
            assert_eq!(report.returns, returns);
            worker.bring_back().unwrap();
            assert!(memory.iter().zip(0u32..).all(|(a, b)| *a == b));
            worker.launch_done().unwrap();
            assert!(worker.settle(PATIENCE));
            let back = worker.last_return().unwrap();
            assert!(back.touched_pages.unwrap() <= back.out_pages);
        }
    }

    #[test]
    fn a_window_that_nobody_closes_is_closed() {
        let worker = Worker::start(settings(Duration::from_millis(1))).unwrap();
        page_out(&worker);
        worker.bring_back().unwrap();
        while worker
            .last_return()
            .is_none_or(|report| report.touched_pages.is_none())
        {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_stopped_page_out_says_so() {
        let worker = Worker::start(settings(PATIENCE)).unwrap();
        let ticket = worker.page_out(OutRequest::default()).unwrap();
        worker.bring_back().unwrap();
        let report = worker.wait(ticket, PATIENCE).unwrap().unwrap().unwrap();
        assert!(report.was_stopped || report.took > Duration::ZERO);
        assert!(worker.settle(PATIENCE));
    }

    #[test]
    fn a_return_without_a_background_is_harmless() {
        let worker = Worker::start(settings(PATIENCE)).unwrap();
        worker.bring_back().unwrap();
        worker.launch_done().unwrap();
        worker.launch_done().unwrap();
        assert!(worker.settle(PATIENCE));
        assert_eq!(worker.last_return().unwrap().out_pages, 0);
    }
}
