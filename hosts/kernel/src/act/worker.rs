//! The threads that wait in the host's place.
//!
//! A job works on one process after another, and beats as it goes. A thread that did not beat for long and sleeps in the kernel
//! waits for a lock of that process: it is abandoned, what it still tells is lost, and it ends by itself if it ever comes back.
//! Another one goes on with the rest of its job and with those that wait. A thread of low priority that waits for a processor is
//! ready to run, and not abandoned.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustc_hash::FxHashSet;
use warmswap_sys::accessed::Accessed;
use warmswap_sys::meminfo::Meminfo;
use warmswap_sys::process::{Stat, background_io_priority, background_priority};
use warmswap_sys::{Root, file};

use super::ahead::Ahead;
use super::brake::{Brake, Groups, Halt};
use super::bring::{TargetError, Turn};
use super::job::{Job, Report, Task};
use super::look::{End, clear, look};
use super::pace::Pace;
use super::queue::Queue;
use super::write_back::write_back;
use super::{Costs, Done, Target};
use crate::decide::{Seen, Stop};
use crate::error::HostError;
use crate::host::thread_cpu_ns;
use crate::see::application::ProcessId;
use crate::see::swap::swapped_bytes;

/// A process does not answer when the thread that brings back has waited for it for so long: a page of a busy disk takes seconds
/// at the last level of I/O priority.
const BRING_DEADLINE: Duration = Duration::from_secs(15);

/// The same of the thread that looks: a switch to another program waits meanwhile.
const LOOK_DEADLINE: Duration = Duration::from_secs(5);

/// So many threads are abandoned at one time at most: each holds memory as long as its process does not answer.
const MOST_ABANDONED: usize = 16;

/// With so many of them for processes of one user all of this user's are left alone: other users' are not to wait for them.
const MOST_OF_USER: usize = MOST_ABANDONED / 4;

/// Between two looks at whether a launch is over.
const LAUNCH_LOOK: Duration = Duration::from_millis(10);

/// What a thread does now, for the thread that watches it.
#[derive(Debug, Default)]
pub struct Beat {
    count: AtomicU64,
    thread: AtomicU32,
    /// The process that it works on, with its user where that is known.
    process: Mutex<Option<(ProcessId, Option<u32>)>>,
    is_abandoned: AtomicBool,
    pace: Arc<Pace>,
}

impl Beat {
    /// Of a thread that goes by this pace.
    #[must_use]
    pub fn at(pace: &Arc<Pace>) -> Self {
        Self {
            pace: Arc::clone(pace),
            ..Self::default()
        }
    }

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

    /// What all threads of the host go by.
    #[must_use]
    pub fn pace(&self) -> &Pace {
        &self.pace
    }

    /// Work on this process begins.
    pub(super) fn begin(&self, target: &Target) {
        *self.process.lock() = Some((target.id, target.user));
        self.beat();
    }

    /// Waits until no program comes to the foreground any more, which needs processors and devices for itself.
    pub fn wait_for_launch(&self) {
        while self.pace.is_launch() && self.stop().is_none() {
            self.beat();
            std::thread::sleep(LAUNCH_LOOK);
        }
    }

    /// Does what waits for something else than the process that is worked on: however long it takes, that one answers.
    pub fn aside<R>(&self, work: impl FnOnce() -> R) -> R {
        let process = self.process.lock().take();
        let result = work();
        *self.process.lock() = process;
        self.beat();
        result
    }

    /// A job is over.
    pub(super) fn end(&self) {
        *self.process.lock() = None;
        self.beat();
    }

    /// How often the thread beat.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// From now on the thread has to end what it does.
    pub fn abandon(&self) {
        self.is_abandoned.store(true, Ordering::Relaxed);
    }

    fn process(&self) -> Option<ProcessId> {
        self.process.lock().map(|(id, _)| id)
    }

    fn user(&self) -> Option<u32> {
        self.process.lock().and_then(|(_, user)| user)
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

impl Priority {
    fn deadline(self) -> Duration {
        match self {
            Self::Low => BRING_DEADLINE,
            Self::Normal => LOOK_DEADLINE,
        }
    }
}

/// A thread with a queue of jobs. Dropping it ends the thread after the batch that is under way.
#[derive(Debug)]
pub struct Worker {
    root: Root,
    priority: Priority,
    queue: Arc<Queue>,
    /// Of the present thread: what an abandoned one still tells is about a process that was given up.
    reports: Receiver<Report>,
    beat: Arc<Beat>,
    seen: (u64, Instant),
    /// Of threads that were abandoned and wait for their processes still, which hold them besides.
    abandoned: Vec<Arc<Beat>>,
    is_exhausted: bool,
}

impl Worker {
    /// Starts the thread.
    ///
    /// # Errors
    /// [`HostError::Thread`].
    pub fn start(root: &Root, priority: Priority, pace: &Arc<Pace>) -> Result<Self, HostError> {
        let queue = Arc::default();
        let (reports, beat) = spawn(root, priority, &queue, pace)?;
        Ok(Self {
            root: root.clone(),
            priority,
            queue,
            reports,
            beat,
            seen: (0, Instant::now()),
            abandoned: Vec::new(),
            is_exhausted: false,
        })
    }

    /// One more job, without processes of users of which too many do not answer. Does not wait.
    pub fn push(&self, mut job: Job) {
        job.targets.retain(|target| self.may_touch(target));
        self.queue.push(job);
    }

    /// What the thread told next. Does not wait.
    pub fn report(&self) -> Option<Report> {
        self.reports.try_recv().ok()
    }

    /// Replaces the thread if a process does not answer to it; which one. The next thread does all that was left of the job, and
    /// the jobs behind it, without the process.
    pub fn unstick(&mut self) -> Option<ProcessId> {
        self.unstick_at(Instant::now())
    }

    fn unstick_at(&mut self, now: Instant) -> Option<ProcessId> {
        self.abandoned.retain(|beat| Arc::strong_count(beat) > 1);
        let stuck = self.stuck(now);
        let replaced = stuck.and_then(|id| self.replace(id));
        self.is_exhausted = stuck.is_some() && replaced.is_none();
        replaced.and(stuck)
    }

    /// A process does not answer, and no more threads are begun before one of the abandoned ones comes back.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.is_exhausted
    }

    /// So many processes of one user do not answer that all of this user's are left alone, before one of the abandoned threads
    /// comes back.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        let mut users = self.abandoned.iter().filter_map(|beat| beat.user());
        users.any(|user| self.is_crowded_by(user))
    }

    fn is_crowded_by(&self, user: u32) -> bool {
        let users = self.abandoned.iter().filter_map(|beat| beat.user());
        users.filter(|&other| other == user).count() >= MOST_OF_USER
    }

    fn may_touch(&self, target: &Target) -> bool {
        !target.user.is_some_and(|user| self.is_crowded_by(user))
    }

    fn replace(&mut self, stuck: ProcessId) -> Option<()> {
        if self.abandoned.len() >= MOST_ABANDONED {
            return None;
        }
        self.abandoned.push(Arc::clone(&self.beat));
        let (root, queue) = (&self.root, &self.queue);
        let pace = &self.beat.pace;
        // Without a new thread the old one may come back.
        let begin_other = || spawn(root, self.priority, queue, pace).ok();
        let may_touch = |target: &Target| target.id != stuck && self.may_touch(target);
        let other = queue.abandon((&self.beat, self.seen.0), may_touch, begin_other);
        let Some(other) = other else {
            self.abandoned.pop();
            return None;
        };
        (self.reports, self.beat) = other;
        Some(())
    }

    fn stuck(&mut self, now: Instant) -> Option<ProcessId> {
        let count = self.beat.count();
        let id = self.beat.process();
        if id.is_none() || count != self.seen.0 {
            self.seen = (count, now);
            return None;
        }
        let thread = self.beat.thread.load(Ordering::Relaxed);
        let is_late = now.duration_since(self.seen.1) >= self.priority.deadline();
        id.filter(|_| is_late && sleeps(thread))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.queue.close(&self.beat);
    }
}

/// Whether a thread of this process sleeps: it waits for something else than a processor.
fn sleeps(thread: u32) -> bool {
    let path = Root::machine().path(format!("/proc/self/task/{thread}/stat"));
    let stat = file::read(&path).ok().and_then(|text| Stat::parse(&text));
    stat.is_some_and(|stat| stat.state != 'R')
}

type Started = (Receiver<Report>, Arc<Beat>);

fn spawn(
    root: &Root,
    priority: Priority,
    queue: &Arc<Queue>,
    pace: &Arc<Pace>,
) -> Result<Started, HostError> {
    let (sender, reports) = channel();
    let beat = Arc::new(Beat::at(pace));
    let thread = Thread {
        root: root.clone(),
        queue: Arc::clone(queue),
        reports: sender,
        beat: Arc::clone(&beat),
        groups: Groups::default(),
        accessed: None,
    };
    let name = match priority {
        Priority::Low => "bring-back",
        Priority::Normal => "look",
    };
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || thread.run(priority))
        .map_err(HostError::Thread)?;
    Ok((reports, beat))
}

/// The thread's own side.
struct Thread {
    root: Root,
    queue: Arc<Queue>,
    reports: Sender<Report>,
    beat: Arc<Beat>,
    groups: Groups,
    accessed: Option<Accessed>,
}

impl Thread {
    fn run(mut self, priority: Priority) {
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
        while let Some(task) = self.queue.begin(&self.beat) {
            let begin = thread_cpu_ns();
            self.work(task);
            self.queue.end(&self.beat);
            self.tell(Report::Spent(thread_cpu_ns() - begin));
        }
    }

    fn tell(&self, report: Report) {
        // The host may have gone, or have given this thread up.
        let _ = self.reports.send(report);
    }

    fn next(&self) -> Option<Target> {
        self.queue.next(&self.beat)
    }

    fn work(&mut self, task: Task) {
        match task {
            Task::Bring {
                machine,
                reserve_bytes,
                may_ask,
                costs,
            } => self.bring(machine, reserve_bytes, may_ask, costs),
            Task::Begin {
                state,
                machine,
                reserve_bytes,
                may_fetch,
                disk,
                writes_back,
            } => {
                let mut groups = std::mem::take(&mut self.groups);
                let brake = Brake::new(&self.root, &self.beat, &mut groups, machine, reserve_bytes);
                let ahead = Ahead {
                    root: &self.root,
                    brake,
                    state,
                    room_bytes: machine.room_bytes(reserve_bytes),
                    free_bytes: machine.room_bytes(0),
                    disk,
                    writes_back,
                };
                self.begin(ahead, may_fetch);
                self.groups = groups;
            }
            Task::Clear => self.clear(),
            Task::WriteBack => self.write_back(),
            Task::End(end) => self.end(end),
        }
    }

    fn begin(&self, mut ahead: Ahead<'_>, may_fetch: bool) {
        while let Some(target) = self.next() {
            match ahead.begin(&target, may_fetch) {
                Ok(0) => {}
                Ok(pages) => self.tell(Report::Fetched {
                    app: target.app,
                    pages,
                }),
                Err(error) => self.failed(&error),
            }
        }
    }

    fn clear(&mut self) {
        while let Some(target) = self.next() {
            if let Err(error) = clear(&self.root, &target, self.accessed.as_mut()) {
                self.failed(&error);
            }
        }
    }

    fn write_back(&self) {
        while let Some(target) = self.next() {
            match write_back(&self.root, &target, &self.beat) {
                Ok(written) => self.tell(Report::Written(written)),
                Err(error) => self.failed(&error),
            }
        }
    }

    fn end(&mut self, end: End) {
        while let Some(target) = self.next() {
            match look(&self.root, &target, end, self.accessed.as_mut()) {
                Ok(looked) if end == End::Session => self.tell(Report::Judged {
                    app: target.app,
                    looked,
                }),
                Ok(_) => {}
                Err(error) => self.failed(&error),
            }
        }
    }

    fn bring(&mut self, machine: Seen, reserve_bytes: u64, may_ask: bool, mut costs: Costs) {
        let mut groups = std::mem::take(&mut self.groups);
        let brake = Brake::new(&self.root, &self.beat, &mut groups, machine, reserve_bytes);
        let turn = Turn {
            root: &self.root,
            brake,
            may_ask,
            costs: &mut costs,
            done: Done::default(),
        };
        let stop = self.bring_each(turn);
        self.groups = groups;
        // Read here: what leaves before the host is told of the end is work for another turn.
        let memory = Meminfo::read(&self.root);
        let swapped_bytes = memory.ok().map(|memory| swapped_bytes(&memory));
        self.tell(Report::Finished {
            stop,
            costs,
            swapped_bytes,
        });
    }

    /// Why it stopped before the last process, if it did.
    fn bring_each(&self, mut turn: Turn<'_>) -> Option<Stop> {
        let mut full = FxHashSet::default();
        while let Some(mut target) = self.next() {
            // One process of a group tells whether it has room again.
            if target.held_by.as_ref().is_some_and(|by| full.contains(by)) {
                self.tell(Report::Held(target));
                continue;
            }
            let begin = Instant::now();
            let result = turn.bring(&target);
            self.tell(Report::Brought {
                target: target.clone(),
                done: std::mem::take(&mut turn.done),
                elapsed: begin.elapsed(),
            });
            match result {
                Ok(None) => {}
                Ok(Some(Halt::All(why))) => return Some(why),
                Ok(Some(Halt::Group(group))) => {
                    full.insert(group.clone());
                    target.held_by = Some(group);
                    self.tell(Report::Held(target));
                }
                Err(error) => self.failed(&error),
            }
        }
        None
    }

    fn failed(&self, error: &TargetError) {
        let is_gone = error.is_gone();
        self.tell(Report::Failed { is_gone });
    }
}
