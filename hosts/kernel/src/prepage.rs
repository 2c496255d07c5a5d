//! The threads that bring pages back ahead of use: anonymous ones at idle priority, those of files at normal priority
//! by one thread, which mostly waits for the disk (ASAP sections 5.1 and 5.2). And one that sends back to swap what came in
//! vain: it reads memory of programs, which a program can make wait for ever, so that nothing waits for this thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::time::{ClockId, clock_gettime};
use warmswap_policy::prefetch::footprint::plan::ANON_BATCH_PAGES;
use warmswap_sys::advise::{Advice, Advised, advise, ranges};
use warmswap_sys::prepage::prepage;
use warmswap_sys::process::{Process, ProcessError, idle_priority};

use crate::config::PrepageBy;
use crate::error::HostError;

/// Pages of files that are read ahead by one call, or that are sent back to swap between two looks at whether another launch
/// began.
const BATCH_PAGES: usize = 256;

/// Processes whose pages wait to be sent back to swap, at most; pages of more stay in the swap cache.
const MOST_WAITING: usize = 64;

/// Pages of one process that came in vain.
#[derive(Debug)]
struct Wasted {
    process: Arc<Process>,
    /// They ascend.
    pages: Vec<u64>,
    /// Launches that had begun.
    begun: u64,
}

/// Pages of one process that are wanted back.
#[derive(Debug)]
struct Job {
    process: Arc<Process>,
    /// In the order in which they are wanted.
    pages: Vec<u64>,
    by: PrepageBy,
    /// The launch that wants them; void once another one is under way.
    launch: u64,
}

/// What the threads did so far.
#[derive(Debug, Default)]
struct Shared {
    launch: AtomicU64,
    /// Jobs that were handed over and are not through.
    jobs: AtomicU64,
    done_pages: AtomicU64,
    refused_ranges: AtomicU64,
    refused_permission: AtomicU64,
    process_gone: AtomicU64,
    cpu_ns: AtomicU64,
    /// Launches that began.
    begun: AtomicU64,
    put_back: Mutex<PutBack>,
}

impl Shared {
    /// Counts a call that failed.
    fn failed(&self, error: &ProcessError) {
        let counter = if error.is_gone() {
            &self.process_gone
        } else {
            &self.refused_permission
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn put_back(&self) -> MutexGuard<'_, PutBack> {
        // The numbers of a thread that panicked are numbers still.
        self.put_back.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What became of pages that came in vain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PutBack {
    /// What the kernel made of the advice to page them out.
    pub advised: Advised,
    /// CPU time in nanoseconds.
    pub cpu_ns: u64,
}

/// What the threads did so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Prepaged {
    /// Pages that the kernel went through.
    pub done_pages: u64,
    /// Ranges that were not mapped any more, or cannot be brought back.
    pub refused_ranges: u64,
    /// Calls refused for want of permission.
    pub refused_permission: u64,
    /// Calls that found the process gone.
    pub process_gone: u64,
    /// CPU time of what came ahead of use, in nanoseconds.
    pub cpu_ns: u64,
    /// What was sent back to swap.
    pub put_back: PutBack,
}

/// Where jobs go in.
#[derive(Debug)]
struct Jobs {
    anonymous: Sender<Job>,
    files: Sender<Job>,
    wasted: SyncSender<Wasted>,
}

/// The threads. Dropping them ends them after the batches under way; what is to go back to swap is not waited for.
#[derive(Debug)]
pub struct Prepagers {
    by: PrepageBy,
    jobs: Option<Jobs>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Prepagers {
    /// Starts `threads` threads for anonymous pages, and one for files.
    ///
    /// # Errors
    /// [`HostError::Thread`].
    pub fn start(threads: usize, by: PrepageBy) -> Result<Self, HostError> {
        let shared = Arc::new(Shared::default());
        let (anonymous, receiver) = channel();
        let receiver = Arc::new(Mutex::new(receiver));
        let (files, file_receiver) = channel();
        let file_receiver = Arc::new(Mutex::new(file_receiver));
        let start = |name: &str, receiver: &Arc<Mutex<Receiver<Job>>>, is_idle: bool| {
            let (receiver, shared) = (Arc::clone(receiver), Arc::clone(&shared));
            std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || {
                    if is_idle {
                        // Where it is refused, the pages come back at normal priority.
                        let _ = idle_priority();
                    }
                    work(&receiver, &shared);
                })
                .map_err(HostError::Thread)
        };
        let mut started: Vec<_> = (0..threads)
            .map(|_| start("prepage", &receiver, true))
            .collect::<Result<_, _>>()?;
        started.push(start("read ahead", &file_receiver, false)?);
        let (wasted, waste_receiver) = sync_channel(MOST_WAITING);
        let of_thread = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("put back".to_owned())
            .spawn(move || {
                for wasted in waste_receiver {
                    put_back(&wasted, &of_thread);
                }
            })
            .map_err(HostError::Thread)?;
        Ok(Self {
            by,
            jobs: Some(Jobs {
                anonymous,
                files,
                wasted,
            }),
            shared,
            threads: started,
        })
    }

    /// Has anonymous pages of a process brought back for a launch, in their order; returns at once.
    pub fn bring(&self, process: &Arc<Process>, pages: &[u64], launch: u64) {
        let Some(jobs) = &self.jobs else { return };
        for batch in pages.chunks(ANON_BATCH_PAGES) {
            let mut pages = batch.to_vec();
            pages.sort_unstable();
            self.shared.jobs.fetch_add(1, Ordering::Relaxed);
            // The threads live as long as the sender.
            let _ = jobs.anonymous.send(Job {
                process: Arc::clone(process),
                pages,
                by: self.by,
                launch,
            });
        }
    }

    /// Has pages of files read for a launch, which the process maps at these numbers, in their order; returns at once.
    /// What is read is charged to the memory group of this process.
    pub fn read_ahead(&self, process: &Arc<Process>, pages: &[u64], launch: u64) {
        let Some(jobs) = &self.jobs else { return };
        for batch in pages.chunks(BATCH_PAGES) {
            self.shared.jobs.fetch_add(1, Ordering::Relaxed);
            let _ = jobs.files.send(Job {
                process: Arc::clone(process),
                pages: batch.to_vec(),
                by: PrepageBy::WillNeed,
                launch,
            });
        }
    }

    /// Has pages that wait in the swap cache, which ascend, sent back to swap; returns at once. Where the thread cannot
    /// follow they stay, and so do those that are left when another launch begins.
    pub fn put_back(&self, process: &Arc<Process>, pages: Vec<u64>) {
        let Some(jobs) = &self.jobs else { return };
        let _ = jobs.wasted.try_send(Wasted {
            process: Arc::clone(process),
            pages,
            begun: self.shared.begun.load(Ordering::Relaxed),
        });
    }

    /// From now on only this launch counts: what is left of others is not brought back.
    pub fn only(&self, launch: u64) {
        self.shared.begun.fetch_add(1, Ordering::Relaxed);
        self.shared.launch.store(launch, Ordering::Release);
    }

    /// Batches that are still to be brought back.
    #[must_use]
    pub fn jobs(&self) -> u64 {
        self.shared.jobs.load(Ordering::Relaxed)
    }

    /// What was done so far.
    #[must_use]
    pub fn done(&self) -> Prepaged {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Prepaged {
            done_pages: load(&self.shared.done_pages),
            refused_ranges: load(&self.shared.refused_ranges),
            refused_permission: load(&self.shared.refused_permission),
            process_gone: load(&self.shared.process_gone),
            cpu_ns: load(&self.shared.cpu_ns),
            put_back: *self.shared.put_back(),
        }
    }
}

impl Drop for Prepagers {
    fn drop(&mut self) {
        self.only(u64::MAX);
        drop(self.jobs.take());
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn work(jobs: &Mutex<Receiver<Job>>, shared: &Shared) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        if shared.launch.load(Ordering::Acquire) == job.launch {
            count_cpu(shared, || bring_back(&job, shared));
        }
        shared.jobs.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Does something, and counts what it costs and why it fails.
fn count_cpu(shared: &Shared, what: impl FnOnce() -> Result<(), ProcessError>) {
    let begin = thread_cpu_ns();
    if let Err(error) = what() {
        shared.failed(&error);
    }
    let ns = thread_cpu_ns().saturating_sub(begin);
    shared.cpu_ns.fetch_add(ns, Ordering::Relaxed);
}

/// The kernel pages out what is mapped only, so the pages are mapped before.
fn put_back(wasted: &Wasted, shared: &Shared) {
    let begin = thread_cpu_ns();
    for pages in wasted.pages.chunks(BATCH_PAGES) {
        if shared.begun.load(Ordering::Relaxed) != wasted.begun {
            break;
        }
        let process = &wasted.process;
        let ranges = ranges(pages.iter().copied());
        let advised =
            prepage(process.pid(), pages).and_then(|_| advise(process, Advice::PageOut, &ranges));
        match advised {
            Ok(advised) => shared.put_back().advised += advised,
            Err(error) => {
                shared.failed(&error);
                break;
            }
        }
    }
    shared.put_back().cpu_ns += thread_cpu_ns().saturating_sub(begin);
}

fn bring_back(job: &Job, shared: &Shared) -> Result<(), ProcessError> {
    let (done, refused) = match job.by {
        PrepageBy::WillNeed => {
            let advised = advise(
                &job.process,
                Advice::WillNeed,
                &ranges(job.pages.iter().copied()),
            )?;
            (advised.pages, advised.refused_ranges)
        }
        PrepageBy::Read => {
            let read = prepage(job.process.pid(), &job.pages)?;
            (read, job.pages.len() as u64 - read)
        }
    };
    shared.done_pages.fetch_add(done, Ordering::Relaxed);
    shared.refused_ranges.fetch_add(refused, Ordering::Relaxed);
    Ok(())
}

/// CPU time of this thread in nanoseconds.
pub(crate) fn thread_cpu_ns() -> u64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_this_process_are_gone_through_and_void_launches_are_not() {
        let memory = vec![1u8; 1000 * 4096];
        let first = (memory.as_ptr() as u64).div_ceil(4096);
        let pages: Vec<u64> = (first..first + 900).collect();
        let me = Arc::new(Process::open(std::process::id()).unwrap());
        for by in [PrepageBy::WillNeed, PrepageBy::Read] {
            let prepagers = Prepagers::start(2, by).unwrap();
            prepagers.only(3);
            prepagers.bring(&me, &pages, 2);
            prepagers.bring(&me, &pages, 3);
            while prepagers.done().done_pages < 900 && prepagers.done().refused_permission == 0 {
                std::thread::yield_now();
            }
            while prepagers.jobs() > 0 {
                std::thread::yield_now();
            }
            let shared = Arc::clone(&prepagers.shared);
            drop(prepagers);
            let done = shared.done_pages.load(Ordering::Relaxed);
            assert!(
                done == 900 || shared.refused_permission.load(Ordering::Relaxed) > 0,
                "{done}"
            );
        }
        assert_eq!(memory[77], 1);
    }

    #[test]
    fn a_process_that_ended_is_counted() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let process = Arc::new(Process::open(child.id()).unwrap());
        child.wait().unwrap();
        let prepagers = Prepagers::start(1, PrepageBy::WillNeed).unwrap();
        prepagers.only(1);

        prepagers.bring(&process, &[1, 2], 1);

        while prepagers.done() == Prepaged::default() {
            std::thread::yield_now();
        }
        while prepagers.done().process_gone == 0 {
            std::thread::yield_now();
        }
        assert_eq!(prepagers.done().done_pages, 0);
    }
}
