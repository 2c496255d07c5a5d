//! The threads that wait in the host's place.
//!
//! A job works on one process after another, and beats as it goes. A thread that did not beat for long and sleeps in the kernel
//! waits for a lock of that process: it is abandoned, what it still tells is lost, and it ends by itself if it ever comes back. A
//! thread of low priority that waits for a processor is ready to run, and not abandoned.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use rustc_hash::FxHashSet;
use warmswap_sys::accessed::Accessed;
use warmswap_sys::meminfo::Meminfo;
use warmswap_sys::process::{Stat, background_io_priority, background_priority};
use warmswap_sys::{Root, file};

use super::ahead::Ahead;
use super::brake::{Brake, Groups, Halt};
use super::bring::{TargetError, Turn};
use super::job::{Job, Report};
use super::look::{End, clear, look};
use super::{Costs, Done, Target};
use crate::decide::{Seen, Stop};
use crate::error::HostError;
use crate::host::thread_cpu_ns;
use crate::see::application::ProcessId;
use crate::see::swap::swapped_bytes;

/// A process does not answer when a thread has waited for it for so long: a page of a busy disk takes seconds at the last level of
/// I/O priority.
const DEADLINE: Duration = Duration::from_secs(15);

/// So many threads are abandoned at one time at most: each holds memory as long as its process does not answer.
const MOST_ABANDONED: usize = 16;

/// What a thread does now, for the thread that watches it.
#[derive(Debug, Default)]
pub struct Beat {
    count: AtomicU64,
    thread: AtomicU32,
    pid: AtomicU32,
    start_ticks: AtomicU64,
    is_abandoned: AtomicBool,
    /// What all threads of the host brought back or asked for.
    brought_bytes: Arc<AtomicU64>,
}

impl Beat {
    /// The thread goes on.
    pub fn beat(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the thread has to end what it does.
    #[must_use]
    pub fn stop(&self) -> Option<Stop> {
        let is_abandoned = self.is_abandoned.load(Ordering::Relaxed);
        is_abandoned.then_some(Stop::Pressure)
    }

    /// So many bytes came back, or were asked for.
    pub fn brought(&self, bytes: u64) {
        self.brought_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// What all threads of the host brought back or asked for so far.
    #[must_use]
    pub fn brought_bytes(&self) -> u64 {
        self.brought_bytes.load(Ordering::Relaxed)
    }

    fn begin(&self, id: ProcessId) {
        self.start_ticks.store(id.start_ticks, Ordering::Relaxed);
        self.pid.store(id.pid, Ordering::Relaxed);
        self.beat();
    }

    fn end(&self) {
        self.pid.store(0, Ordering::Relaxed);
        self.beat();
    }

    fn process(&self) -> Option<ProcessId> {
        let id = ProcessId {
            pid: self.pid.load(Ordering::Relaxed),
            start_ticks: self.start_ticks.load(Ordering::Relaxed),
        };
        (id.pid != 0).then_some(id)
    }
}

/// How a thread runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// The least share of a busy processor, and the disk after other programs. Not the idle policy: a thread that reads
    /// a process's pages holds a lock of its address space, and must not wait for long for a processor meanwhile.
    Low,
    /// As other programs.
    Normal,
}

/// A thread with a queue of jobs. Dropping it ends the thread after the batch that is under way.
#[derive(Debug)]
pub struct Worker {
    root: Root,
    priority: Priority,
    jobs: Sender<Job>,
    /// Of the present thread: what an abandoned one still tells is about a job that was given up.
    reports: Receiver<Report>,
    beat: Arc<Beat>,
    seen: (u64, Instant),
    /// Held by each thread, the abandoned ones included.
    threads: Arc<()>,
    is_exhausted: bool,
}

impl Worker {
    /// Starts the thread, which adds to `brought_bytes` what it brings back or asks for.
    ///
    /// # Errors
    /// [`HostError::Thread`].
    pub fn start(
        root: &Root,
        priority: Priority,
        brought_bytes: &Arc<AtomicU64>,
    ) -> Result<Self, HostError> {
        let threads = Arc::default();
        let (jobs, reports, beat) = spawn(root, priority, &threads, brought_bytes)?;
        Ok(Self {
            root: root.clone(),
            priority,
            jobs,
            reports,
            beat,
            seen: (0, Instant::now()),
            threads,
            is_exhausted: false,
        })
    }

    /// One more job. Does not wait.
    pub fn push(&self, job: Job) {
        // A thread that ended has panicked, and said so.
        let _ = self.jobs.send(job);
    }

    /// What the thread told next. Does not wait.
    pub fn report(&self) -> Option<Report> {
        self.reports.try_recv().ok()
    }

    /// Replaces the thread if a process does not answer to it; which one. The jobs that it had left are lost.
    pub fn unstick(&mut self) -> Option<ProcessId> {
        self.unstick_at(Instant::now())
    }

    fn unstick_at(&mut self, now: Instant) -> Option<ProcessId> {
        let stuck = self.stuck(now, DEADLINE);
        let replaced = stuck.and_then(|_| self.replace());
        self.is_exhausted = stuck.is_some() && replaced.is_none();
        replaced.and(stuck)
    }

    /// A process does not answer, and no more threads are begun before one of the abandoned ones comes back.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.is_exhausted
    }

    fn replace(&mut self) -> Option<()> {
        // This worker and the present thread hold it besides.
        if Arc::strong_count(&self.threads) >= MOST_ABANDONED + 2 {
            return None;
        }
        let brought_bytes = &self.beat.brought_bytes;
        // Without a new thread the old one may come back.
        let started = spawn(&self.root, self.priority, &self.threads, brought_bytes);
        let (jobs, reports, beat) = started.ok()?;
        self.beat.is_abandoned.store(true, Ordering::Relaxed);
        (self.jobs, self.reports, self.beat) = (jobs, reports, beat);
        Some(())
    }

    fn stuck(&mut self, now: Instant, deadline: Duration) -> Option<ProcessId> {
        let count = self.beat.count.load(Ordering::Relaxed);
        let id = self.beat.process();
        if id.is_none() || count != self.seen.0 {
            self.seen = (count, now);
            return None;
        }
        let thread = self.beat.thread.load(Ordering::Relaxed);
        let is_late = now.duration_since(self.seen.1) >= deadline;
        id.filter(|_| is_late && sleeps(thread))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.beat.is_abandoned.store(true, Ordering::Relaxed);
    }
}

/// Whether a thread of this process sleeps: it waits for something else than a processor.
fn sleeps(thread: u32) -> bool {
    let path = Root::machine().path(format!("/proc/self/task/{thread}/stat"));
    let stat = file::read(&path).ok().and_then(|text| Stat::parse(&text));
    stat.is_some_and(|stat| stat.state != 'R')
}

type Started = (Sender<Job>, Receiver<Report>, Arc<Beat>);

fn spawn(
    root: &Root,
    priority: Priority,
    threads: &Arc<()>,
    brought_bytes: &Arc<AtomicU64>,
) -> Result<Started, HostError> {
    let (jobs, receiver) = channel();
    let (sender, reports) = channel();
    let beat = Arc::new(Beat {
        brought_bytes: Arc::clone(brought_bytes),
        ..Beat::default()
    });
    let thread = Thread {
        root: root.clone(),
        reports: sender,
        beat: Arc::clone(&beat),
        costs: Costs::default(),
        groups: Groups::default(),
        accessed: None,
        _place: Arc::clone(threads),
    };
    let name = match priority {
        Priority::Low => "bring-back",
        Priority::Normal => "look",
    };
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || thread.run(priority, &receiver))
        .map_err(HostError::Thread)?;
    Ok((jobs, reports, beat))
}

/// The thread's own side.
struct Thread {
    root: Root,
    reports: Sender<Report>,
    beat: Arc<Beat>,
    costs: Costs,
    groups: Groups,
    accessed: Option<Accessed>,
    _place: Arc<()>,
}

impl Thread {
    fn run(mut self, priority: Priority, jobs: &Receiver<Job>) {
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        self.beat
            .thread
            .store(own.cast_unsigned(), Ordering::Relaxed);
        match priority {
            Priority::Low => {
                // Without them the work is done at normal priority.
                let _ = background_priority();
                let _ = background_io_priority();
            }
            Priority::Normal => match Accessed::open(&self.root) {
                Ok(accessed) => self.accessed = Some(accessed),
                Err(error) => self.tell(Report::Unseen(error.to_string())),
            },
        }
        while let Ok(job) = jobs.recv() {
            let begin = thread_cpu_ns();
            self.work(job);
            self.beat.end();
            self.tell(Report::Spent(thread_cpu_ns() - begin));
            if self.beat.stop().is_some() {
                return;
            }
        }
    }

    fn tell(&self, report: Report) {
        // The host may have gone, or have given this thread up.
        let _ = self.reports.send(report);
    }

    fn work(&mut self, job: Job) {
        match job {
            Job::Bring {
                targets,
                machine,
                reserve_bytes,
            } => self.bring(targets, machine, reserve_bytes),
            Job::Begin {
                targets,
                state,
                machine,
                reserve_bytes,
                may_fetch,
                disk,
            } => {
                let mut groups = Groups::default();
                let brake = Brake::new(&self.root, &self.beat, &mut groups, machine, reserve_bytes);
                let mut ahead = Ahead {
                    root: &self.root,
                    brake,
                    state,
                    room_bytes: machine.room_bytes(reserve_bytes),
                    free_bytes: machine.room_bytes(0),
                    disk,
                };
                for target in &targets {
                    self.beat.begin(target.id);
                    match ahead.begin(target, may_fetch) {
                        Ok(0) => {}
                        Ok(pages) => self.tell(Report::Fetched {
                            app: target.app,
                            pages,
                        }),
                        Err(error) => self.failed(&error),
                    }
                }
            }
            Job::Clear(target) => {
                self.beat.begin(target.id);
                if let Err(error) = clear(&self.root, &target, self.accessed.as_mut()) {
                    self.failed(&error);
                }
            }
            Job::End { targets, end } => {
                for target in &targets {
                    self.beat.begin(target.id);
                    match look(&self.root, target, end, self.accessed.as_mut()) {
                        Ok(judged) if end == End::Session => self.tell(Report::Judged {
                            app: target.app,
                            judged,
                        }),
                        Ok(_) => {}
                        Err(error) => self.failed(&error),
                    }
                }
            }
        }
    }

    fn bring(&mut self, targets: Vec<Target>, machine: Seen, reserve_bytes: u64) {
        let (mut costs, mut groups) = (self.costs, std::mem::take(&mut self.groups));
        let brake = Brake::new(&self.root, &self.beat, &mut groups, machine, reserve_bytes);
        let mut turn = Turn {
            root: &self.root,
            brake,
            costs: &mut costs,
            done: Done::default(),
        };
        let (mut stop, mut full, mut held) = (None, FxHashSet::default(), Vec::new());
        for mut target in targets {
            // One process of a group tells whether it has room again.
            if target.held_by.as_ref().is_some_and(|by| full.contains(by)) {
                held.push(target);
                continue;
            }
            self.beat.begin(target.id);
            let begin = Instant::now();
            let result = turn.bring(&target);
            self.tell(Report::Brought {
                target: target.clone(),
                done: std::mem::take(&mut turn.done),
                elapsed: begin.elapsed(),
            });
            match result {
                Ok(None) => {}
                Ok(Some(Halt::All(why))) => {
                    stop = Some(why);
                    break;
                }
                Ok(Some(Halt::Group(group))) => {
                    full.insert(group.clone());
                    target.held_by = Some(group);
                    held.push(target);
                }
                Err(error) => self.failed(&error),
            }
        }
        (self.costs, self.groups) = (costs, groups);
        // Read here: what leaves before the host is told of the end is work for another turn.
        let memory = Meminfo::read(&self.root);
        let swapped_bytes = memory.ok().map(|memory| swapped_bytes(&memory));
        self.tell(Report::Finished {
            stop,
            held,
            costs,
            swapped_bytes,
        });
    }

    fn failed(&self, error: &TargetError) {
        let is_gone = error.is_gone();
        self.tell(Report::Failed { is_gone });
    }
}
