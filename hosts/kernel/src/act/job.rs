//! What the threads are to do, and what they tell of it.

use std::collections::VecDeque;
use std::time::Duration;

use super::look::{End, Looked};
use super::write_back::Written;
use super::{Costs, Done, Target};
use crate::decide::switch::Cost;
use crate::decide::{Seen, State, Stop};

/// What a thread is to do with some processes, one after the other.
#[derive(Debug)]
pub struct Job {
    /// What.
    pub task: Task,
    /// With these, in this order.
    pub targets: VecDeque<Target>,
}

impl Job {
    /// The task for these processes.
    #[must_use]
    pub fn new(task: Task, targets: Vec<Target>) -> Self {
        Self {
            task,
            targets: targets.into(),
        }
    }
}

/// A kind of job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Bring pages back while memory is free beyond the reserve.
    Bring {
        /// The machine as the job begins.
        machine: Seen,
        /// What stays free.
        reserve_bytes: u64,
        /// Whether the kernel takes requests to read ahead.
        may_ask: bool,
        /// What pages cost by what was measured so far.
        costs: Costs,
    },
    /// A session begins: note what is away, and read ahead what is worth it.
    Begin {
        /// The machine's state.
        state: State,
        /// The machine.
        machine: Seen,
        /// What stays free.
        reserve_bytes: u64,
        /// Whether anything is read ahead.
        may_fetch: bool,
        /// What pages of a disk cost.
        disk: Cost,
        /// Cold pages are written to a disk, so that what is away has to be known wherever it is.
        writes_back: bool,
    },
    /// Pages came back: from now on accessed bits tell what a process touches itself.
    Clear,
    /// Write cold pages of compressed memory to the disks behind it.
    WriteBack,
    /// A launch or a session ends: see what was touched.
    End(End),
}

/// What a thread tells of its jobs.
#[derive(Debug)]
pub enum Report {
    /// Pages of a process came back.
    Brought {
        /// Which.
        target: Target,
        /// How many.
        done: Done,
        /// In this time.
        elapsed: Duration,
    },
    /// Its group had no room for pages of this process.
    Held(Target),
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
        looked: Looked,
    },
    /// Cold pages of a process were written back.
    Written(Written),
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
