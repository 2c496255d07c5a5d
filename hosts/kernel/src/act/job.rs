//! What the threads are to do, and what they tell of it.

use std::time::Duration;

use super::look::End;
use super::{Costs, Done, Target};
use crate::decide::switch::Cost;
use crate::decide::{Seen, State, Stop};
use crate::learn::Judged;

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
        /// What pages of a disk cost.
        disk: Cost,
    },
    /// Pages came back to a process: from now on its accessed bits tell what it touches itself.
    Clear(Target),
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
    /// Pages of a process came back.
    Brought {
        /// Which.
        target: Target,
        /// How many.
        done: Done,
        /// In this time.
        elapsed: Duration,
    },
    /// A job to bring pages back is over.
    Finished {
        /// Why, if it did not come to its end.
        stop: Option<Stop>,
        /// Processes whose groups had no room.
        held: Vec<Target>,
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
