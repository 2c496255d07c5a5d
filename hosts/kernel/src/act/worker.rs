//! The threads that wait in the host's place.
//!
//! A job works on one process after another, and beats as it goes. A thread that did not beat for long and sleeps in the kernel
//! waits for a lock of that process: it is abandoned, and ends by itself if it ever comes back. A thread of idle priority that
//! waits for a processor is ready to run, and not abandoned.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use rustc_hash::FxHashSet;
use warmswap_sys::accessed::Accessed;
use warmswap_sys::process::{Stat, background_io_priority, idle_priority};
use warmswap_sys::{Root, file};

use super::brake::{Brake, Groups};
use super::bring::{TargetError, Turn, fetch_ahead};
use super::look::{End, look};
use super::{Costs, Done, Target};
use crate::decide::{Seen, State, Stop};
use crate::error::HostError;
use crate::host::thread_cpu_ns;
use crate::learn::Judged;
use crate::see::application::ProcessId;
use crate::see::swap::used_bytes;

/// A process does not answer when a thread has waited for it for so long: a page of a busy disk takes seconds at the last level of
/// I/O priority.
const DEADLINE: Duration = Duration::from_secs(15);

/// So many threads are replaced at most: each holds memory as long as its process does not answer.
const MOST_ABANDONED: u32 = 16;

/// What a thread is to do.
#[derive(Debug)]
pub enum Job {
    /// Bring pages back, process by process, while memory is free beyond the reserve.
    Bring {
        /// In this order.
        targets: Vec<Target>,
        /// The machine as the job begins.
        machine: Seen,
        /// What stays free.
        reserve_bytes: u64,
    },
    /// A session begins: note what is away, and read ahead what is worth it.
    Begin {
        /// The program's processes.
        targets: Vec<Target>,
        /// The machine's state.
        state: State,
        /// The machine.
        machine: Seen,
        /// What stays free.
        reserve_bytes: u64,
        /// Whether anything is read ahead.
        may_fetch: bool,
        /// What pages cost.
        costs: Costs,
    },
    /// A launch or a session ends: see what was touched.
    End {
        /// The program's processes.
        targets: Vec<Target>,
        /// Which of them.
        end: End,
    },
}

/// What a thread tells of its jobs.
#[derive(Debug)]
pub enum Report {
    /// Pages of a program came back.
    Brought {
        /// The program.
        app: usize,
        /// How many.
        done: Done,
        /// In this time.
        elapsed: Duration,
    },
    /// A job to bring pages back is over.
    Finished {
        /// Why, if it did not come to its end.
        stop: Option<Stop>,
        /// What pages cost, as it was measured meanwhile.
        costs: Costs,
        /// What swap of the machine held then.
        swapped_bytes: Option<u64>,
    },
    /// Pages were asked for at a switch.
    Fetched {
        /// To this program.
        app: usize,
        /// How many.
        pages: u64,
    },
    /// A session's end was looked at.
    Judged {
        /// Of this program.
        app: usize,
        /// What was found.
        judged: Judged,
    },
    /// A process could not be worked on.
    Failed {
        /// It has ended.
        is_gone: bool,
    },
    /// Why accessed bits are not seen.
    Unseen(String),
    /// CPU time that a job took, in nanoseconds.
    Spent(u64),
}

/// What a thread does now, for the thread that watches it.
#[derive(Debug, Default)]
pub struct Beat {
    count: AtomicU64,
    thread: AtomicU32,
    pid: AtomicU32,
    start_ticks: AtomicU64,
    is_abandoned: AtomicBool,
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
    /// Processor and disk are had when nothing else wants them.
    Idle,
    /// As other programs.
    Normal,
}

/// A thread with a queue of jobs. Dropping it ends the thread after the batch that is under way.
#[derive(Debug)]
pub struct Worker {
    root: Root,
    priority: Priority,
    jobs: Sender<Job>,
    reports: Sender<Report>,
    beat: Arc<Beat>,
    seen: (u64, Instant),
    abandoned: u32,
}

impl Worker {
    /// Starts the thread, which tells of its work by `reports`.
    ///
    /// # Errors
    /// [`HostError::Thread`].
    pub fn start(
        root: &Root,
        priority: Priority,
        reports: Sender<Report>,
    ) -> Result<Self, HostError> {
        let (jobs, beat) = spawn(root, priority, &reports)?;
        Ok(Self {
            root: root.clone(),
            priority,
            jobs,
            reports,
            beat,
            seen: (0, Instant::now()),
            abandoned: 0,
        })
    }

    /// One more job. Does not wait.
    pub fn push(&self, job: Job) {
        // A thread that ended has panicked, and said so.
        let _ = self.jobs.send(job);
    }

    /// Replaces the thread if a process does not answer to it; which one. The jobs that it had left are lost.
    pub fn unstick(&mut self) -> Option<ProcessId> {
        let id = self.stuck(Instant::now(), DEADLINE)?;
        if self.abandoned == MOST_ABANDONED {
            return None;
        }
        // Without a new thread the old one may come back.
        let (jobs, beat) = spawn(&self.root, self.priority, &self.reports).ok()?;
        self.beat.is_abandoned.store(true, Ordering::Relaxed);
        (self.jobs, self.beat) = (jobs, beat);
        self.abandoned += 1;
        Some(id)
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

fn spawn(
    root: &Root,
    priority: Priority,
    reports: &Sender<Report>,
) -> Result<(Sender<Job>, Arc<Beat>), HostError> {
    let (jobs, receiver) = channel();
    let beat = Arc::new(Beat::default());
    let thread = Thread {
        root: root.clone(),
        reports: reports.clone(),
        beat: Arc::clone(&beat),
        costs: Costs::default(),
        groups: Groups::default(),
        accessed: None,
    };
    let name = match priority {
        Priority::Idle => "bring-back",
        Priority::Normal => "look",
    };
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || thread.run(priority, &receiver))
        .map_err(HostError::Thread)?;
    Ok((jobs, beat))
}

/// The thread's own side.
struct Thread {
    root: Root,
    reports: Sender<Report>,
    beat: Arc<Beat>,
    costs: Costs,
    groups: Groups,
    accessed: Option<Accessed>,
}

impl Thread {
    fn run(mut self, priority: Priority, jobs: &Receiver<Job>) {
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        self.beat
            .thread
            .store(own.cast_unsigned(), Ordering::Relaxed);
        match priority {
            Priority::Idle => {
                // Without them the work is done at normal priority.
                let _ = idle_priority();
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
        // The host may have gone.
        let _ = self.reports.send(report);
    }

    fn work(&mut self, job: Job) {
        match job {
            Job::Bring {
                targets,
                machine,
                reserve_bytes,
            } => self.bring(&targets, machine, reserve_bytes),
            Job::Begin {
                targets,
                state,
                machine,
                reserve_bytes,
                may_fetch,
                costs,
            } => {
                for target in &targets {
                    self.beat.begin(target.id);
                    let of_machine = (state, machine, reserve_bytes);
                    match fetch_ahead(&self.root, target, of_machine, &costs, may_fetch) {
                        Ok(0) => {}
                        Ok(pages) => self.tell(Report::Fetched {
                            app: target.app,
                            pages,
                        }),
                        Err(error) => self.failed(&error),
                    }
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

    fn bring(&mut self, targets: &[Target], machine: Seen, reserve_bytes: u64) {
        let (mut costs, mut groups) = (self.costs, std::mem::take(&mut self.groups));
        let mut turn = Turn {
            root: &self.root,
            brake: Brake::new(&self.root, machine, reserve_bytes),
            beat: &self.beat,
            groups: &mut groups,
            costs: &mut costs,
            done: Done::default(),
            brought_bytes: 0,
        };
        let (mut stopped, mut full) = (None, FxHashSet::default());
        for target in targets {
            let group = target.bound.as_ref().map(|(group, _)| group.path());
            if group.is_some_and(|group| full.contains(group)) {
                continue;
            }
            self.beat.begin(target.id);
            let begin = Instant::now();
            let result = turn.bring(target);
            self.tell(Report::Brought {
                app: target.app,
                done: std::mem::take(&mut turn.done),
                elapsed: begin.elapsed(),
            });
            match result {
                Ok(None) => {}
                Ok(Some(stop)) => {
                    stopped = Some(stop);
                    // The group of one process may be full while others have room.
                    if self.beat.stop().is_some() || turn.brake.stop().is_some() {
                        break;
                    }
                    full.extend(group);
                }
                Err(error) => self.failed(&error),
            }
        }
        (self.costs, self.groups) = (costs, groups);
        let stop = stopped;
        // Read here: what leaves before the host hears of the end is work for another turn.
        let swapped_bytes = used_bytes(&self.root).ok();
        self.tell(Report::Finished {
            stop,
            costs,
            swapped_bytes,
        });
    }

    fn failed(&self, error: &TargetError) {
        let is_gone = error.is_gone();
        self.tell(Report::Failed { is_gone });
    }
}
