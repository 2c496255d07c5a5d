//! A handler thread on the processor of the thread whose faults it serves.
//!
//! The two take turns: one waits while the other works. On two processors each turn wakes a processor that went to
//! sleep, which takes longer than the fault itself, above all in a virtual machine. The scheduler cannot know, so it
//! is told: a thread that makes one fault after the other is woken where its handler runs, and the handler stays
//! there. Now and then the handler lets the scheduler choose anew, so that both go where there is room.

use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// A thread that made so many faults in a row has the handler for itself.
const FAULTS_IN_A_ROW: u32 = 8;

/// After so many faults the scheduler chooses the handler's processor anew.
const FAULTS_AT_HOME: u32 = 256;

/// What a handler thread knows of the thread that it serves.
#[derive(Debug)]
pub struct Nearness {
    handler: Pid,
    /// Where the handler may run.
    everywhere: CpuSet,
    /// Whose faults these are, and how many there were in a row.
    thread: Option<Pid>,
    row: u32,
    /// Faults since the handler is bound to one processor; none if it is not.
    at_home: Option<u32>,
}

/// A thread that wakes up on the handler's processor.
#[derive(Debug)]
#[must_use = "the thread is bound to a processor until it is let go"]
pub struct Near {
    thread: Pid,
    before: CpuSet,
}

impl Nearness {
    /// For the calling thread; none where the system does not say where it may run.
    pub fn new() -> Option<Self> {
        let everywhere = sched_getaffinity(None).ok()?;
        (everywhere.count() > 1).then_some(Self {
            handler: gettid(),
            everywhere,
            thread: None,
            row: 0,
            at_home: None,
        })
    }

    /// Has a thread that waits for a page wake up here, if it is the only one that makes faults.
    pub fn bring(&mut self, thread: u32) -> Option<Near> {
        let thread = Pid::from_raw(i32::try_from(thread).ok()?)?;
        if self.thread == Some(thread) {
            self.row = self.row.saturating_add(1);
        } else {
            (self.thread, self.row) = (Some(thread), 0);
            self.leave_home();
        }
        if self.row < FAULTS_IN_A_ROW {
            return None;
        }
        let here = self.stay()?;
        let before = sched_getaffinity(Some(thread)).ok()?;
        // Where the program wants it to run only elsewhere, or here anyway, there is nothing to do.
        if !before.is_set(here) || before.count() == 1 {
            return None;
        }
        sched_setaffinity(Some(thread), &only(here)).ok()?;
        Some(Near { thread, before })
    }

    /// Binds the handler to the processor on which it is, and says which that is; now and then lets it go instead.
    fn stay(&mut self) -> Option<usize> {
        let here = sched_getcpu();
        match &mut self.at_home {
            Some(faults) if *faults < FAULTS_AT_HOME => *faults += 1,
            Some(_) => self.leave_home(),
            None => {
                sched_setaffinity(Some(self.handler), &only(here)).ok()?;
                self.at_home = Some(0);
            }
        }
        Some(here)
    }

    /// The scheduler chooses where the handler runs next.
    fn leave_home(&mut self) {
        if self.at_home.take().is_some() {
            // Where that fails it stays where it is, which does no harm but to speed.
            let _ = sched_setaffinity(Some(self.handler), &self.everywhere);
        }
    }
}

impl Near {
    /// The thread is awake, or about to be, and may run where it could before.
    pub fn let_go(self) {
        // It may be gone already.
        let _ = sched_setaffinity(Some(self.thread), &self.before);
    }
}

fn only(cpu: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(cpu);
    set
}
