//! Where an arm's memory is limited, and what is counted there: in a control group of the applications, or on the
//! whole machine.

mod group;
mod guest;
mod machine;
mod watch;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmswap_apps::RunningApp;
use warmswap_sys::cpu_time::CpuClock;

use super::kernel_settings::Setting;
use super::limit_keeper::Kept;
use crate::BenchError;

pub use group::GroupLimit;
pub use guest::Guest;
pub use machine::{MachineLimit, check_machine};

/// Under which conditions an arm ran; most are there only where the whole machine was limited.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Conditions {
    /// Memory that was left to all programs and the kernel, in bytes.
    pub usable_bytes: Option<u64>,
    /// Of it, what was available before the applications began, in bytes.
    pub available_bytes: Option<u64>,
    /// The least that was available while they ran, in bytes.
    pub least_available_bytes: Option<u64>,
    /// Most of the time of 10 s in which all tasks waited for memory, in percent.
    pub most_stall_percent: Option<f64>,
    /// Settings of the kernel.
    pub settings: Vec<Setting>,
    /// Readahead of each non-rotational disk, in KiB.
    pub readahead_kib: Vec<Setting>,
}

/// A limit of memory, and what is counted under it. Dropping it takes it back.
pub trait MemoryLimit {
    /// Programs that are started while the guest lives are under the limit.
    ///
    /// # Errors
    /// [`BenchError`].
    fn admit(&self) -> Result<Option<Guest>, BenchError>;

    /// All programs run: from now on the limit holds, if it did not before.
    fn impose(&mut self);

    /// The processes whose CPU time is the programs'.
    ///
    /// # Errors
    /// [`BenchError`].
    fn programs(&self, apps: &[RunningApp]) -> Result<Vec<u32>, BenchError>;

    /// Memory in use now, without the pool.
    ///
    /// # Errors
    /// [`BenchError`].
    fn used_bytes(&self) -> Result<u64, BenchError>;

    /// Page cache in use now.
    ///
    /// # Errors
    /// [`BenchError`].
    fn file_bytes(&self) -> Result<u64, BenchError>;

    /// Major faults so far of all that is under the limit.
    ///
    /// # Errors
    /// [`BenchError`].
    fn major_faults(&self) -> Result<u64, BenchError>;

    /// What was used since the last time.
    fn take_kept(&self) -> Kept;

    /// The CPU time of the thread that keeps the limit.
    fn clock(&self) -> Option<CpuClock>;

    /// Under which conditions the arm ran so far.
    fn conditions(&self) -> Conditions;

    /// Whether the limit holds still.
    ///
    /// # Errors
    /// [`BenchError`], when it had to be lifted.
    fn check(&self) -> Result<(), BenchError>;

    /// Lifts the limit, so that ending the programs does not have to reclaim.
    ///
    /// # Errors
    /// [`BenchError`].
    fn lift(&mut self) -> Result<(), BenchError>;

    /// Takes everything back, once the programs have ended.
    ///
    /// # Errors
    /// [`BenchError`]; the next run tries again.
    fn remove(self: Box<Self>) -> Result<(), BenchError>;
}
