//! Fleet beside a native collector and Marvin: the figures of the paper's section 7, on the managed heap.
//!
//! Every arm but `kernel` has an arena of its own with the same budget and the same programs, and all arms go through the same steps
//! in turn, in one process. The collector's timers (T_B, T_F, the period of advice) are expired by the benchmark in the
//! same places for all arms, so that no result depends on how fast the machine is.
//!
//! | experiment | paper |
//! |---|---|
//! | [`working_set`] | Figures 5 and 12: lifetimes, objects and pages that a background collection accesses |
//! | [`depth`] | Figure 6: what launches access, by D |
//! | [`launches`] | Figure 13, section 7.4: hot launches; CPU time and slow actions of section 7.3 |
//! | [`capacity`] | Figure 11: cached programs |

pub mod arm;
mod cached;
pub mod capacity;
pub mod depth;
mod flash;
pub mod launches;
pub mod mix;
pub mod program;
pub mod programs;
mod subject;
pub mod working_set;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmswap_arena::ArenaError;
use warmswap_heap::HeapError;
use warmswap_policy::PolicyError;

pub use arm::{Arm, SwapTarget};
pub use program::{Program, ProgramError};
pub use subject::Subject;

/// An experiment cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// The arena cannot be made.
    #[error(transparent)]
    Arena(#[from] ArenaError),
    /// The heap cannot be made.
    #[error(transparent)]
    Heap(#[from] HeapError),
    /// The scheme is none.
    #[error(transparent)]
    Scheme(#[from] PolicyError),
    /// A program cannot go on.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// A program's thread cannot be started.
    #[error("cannot start a program's thread: {0}")]
    Thread(#[source] std::io::Error),
    /// A program's thread ended, having said why.
    #[error("the program {program} ended before its time")]
    Ended {
        /// Its name.
        program: String,
    },
    /// Two arms showed different things: one of them is wrong.
    #[error("{program} shows something else under {arm} than under {other}")]
    Differs {
        /// The program.
        program: String,
        /// The arm.
        arm: &'static str,
        /// The first arm.
        other: &'static str,
    },
    /// A heap is not as it should be.
    #[error("the heap of {program} is damaged: {what}")]
    Damaged {
        /// The program.
        program: String,
        /// What is wrong.
        what: String,
    },
    /// The kernel's swap is to be measured, and there is none.
    #[error("the arm `kernel` needs a swap area: run `warmswap daemon`, or `swapon` one")]
    NoSwap,
    /// What the kernel did cannot be read.
    #[error(transparent)]
    File(#[from] warmswap_sys::FileError),
    /// The backing file cannot be made.
    #[error("cannot make a backing file in {folder}: {source}")]
    Backing {
        /// The folder.
        folder: std::path::PathBuf,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
}

/// All experiments of one run; those that were not asked for are missing.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FleetReport {
    /// Lifetimes, and what background collections access.
    pub working_set: Option<working_set::WorkingSetReport>,
    /// What launches access, by D.
    pub depth: Option<depth::DepthReport>,
    /// Hot launches.
    pub launches: Vec<launches::LaunchesReport>,
    /// Cached programs.
    pub capacity: Vec<capacity::CapacityReport>,
}
