//! One program in a control group of its own: what the group is charged and what its pages take in the compressed pool are
//! together at most its budget.
//!
//! Nothing is put into the program, so that any program will do: static or set-uid, with forks and threads. Its children
//! are in the group, too. A thread of this process keeps limit and pool to the budget, since the kernel charges a zram
//! device's memory to no group.
//!
//! The kernel chooses the pages, at the limit and when the limit falls. No limit has the OOM killer end a program: it leaves room
//! for what cannot be reclaimed (page tables, stacks of threads, locked memory), it rises before the kernel would end a member, and
//! swap grows before it is full. In version 1 a call that faults pages in by the thousand may fail at the limit. What a budget cannot hold is more than the budget then, and [`ProgramUsage`] says so.
//!
//! The rest of the host ([`Host`](crate::Host)) has nothing to do for one program: it looks for pages that the next switch
//! between programs needs, and there is no switch.
//!
//! # What is changed, and how it is taken back
//!
//! A control group, and zram devices where the machine has none that the program can use. All are noted in an
//! [`Undo`] before they are made. The group's members go to the group that this process is in; a device is switched off,
//! which brings back the pages of programs that still run.

mod bound;
mod membership;
mod steer;
mod swap;
#[cfg(test)]
mod tests;

use std::process::Command;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use warmswap_page::mib;
use warmswap_sys::memcg::{Group, Memcg, MemcgError, own_limit_bytes};
use warmswap_sys::undo::{Undo, UndoError};
use warmswap_sys::zram::ZramError;
use warmswap_sys::{FileError, Root};

use self::bound::Bound;
use self::steer::Steering;
use self::swap::ProgramSwap;
use crate::error::HostError;

/// A program cannot have a group of its own.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// No swap device.
    #[error(transparent)]
    Swap(#[from] ZramError),
    /// No group.
    #[error(transparent)]
    Group(#[from] MemcgError),
    /// A file of the kernel cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The machine has pages of another size, or no thread can be started.
    #[error(transparent)]
    Host(#[from] HostError),
    /// At its limit the kernel would end the program rather than swap.
    #[error(
        "vm.swappiness is 0: at a limit the kernel ends a program rather than swap; run `sudo sysctl vm.swappiness=60`, or \
         use --host preload"
    )]
    NeverSwaps,
    /// A group above allows too little swap.
    #[error(
        "this control group, or one above it, leaves only {} of swap (memory.swap.max), and {} are needed; use \
         --host preload, or run it elsewhere",
        mib(*room_bytes), mib(*needed_bytes)
    )]
    SwapLimited {
        /// What may still go to swap.
        room_bytes: u64,
        /// With less, no limit on memory holds.
        needed_bytes: u64,
    },
}

/// How a program runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramOptions {
    /// The group is `warmswap-NAME`.
    pub name: String,
    /// Memory for the group and its part of the pool together, in bytes.
    pub budget_bytes: u64,
}

/// What a program used, since its group was made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ProgramUsage {
    /// The devices that its pages went to, such as `zram0`.
    pub device: String,
    /// A device was made for it.
    pub is_own_device: bool,
    /// Devices that were added since swap was about to be full.
    pub added_devices: u64,
    /// Processes that went on when the program had ended, without the budget.
    pub left_processes: u64,
    /// Most memory for group and pool together.
    pub budget_bytes: u64,
    /// The group's limit: the budget without the pool, but no less than its floor.
    pub limit_bytes: u64,
    /// The largest floor that was above the budget without the pool; 0 if none was. It is a part of the budget, what could
    /// not be reclaimed, and room for what comes.
    pub floor_bytes: u64,
    /// What the group is charged: anonymous memory, page cache, and memory of the kernel on its behalf.
    pub resident_bytes: u64,
    /// The most of it, by the kernel's own account where it keeps one.
    pub resident_peak_bytes: u64,
    /// What its pages take in the pool.
    pub pool_bytes: u64,
    /// The most of it.
    pub pool_peak_bytes: u64,
    /// What it has in swap, before compression.
    pub swapped_bytes: u64,
    /// Group and pool together, at most. Samples: every 5 ms while the program is paged.
    pub used_peak_bytes: u64,
    /// Anonymous and shared memory in and out of swap, at most: what it would have taken, without pages of files.
    pub needed_peak_bytes: u64,
    /// Pages that went to swap while it ran, pages of zeros included.
    pub out_pages: u64,
    /// Pages that came from swap while it ran, pages of zeros included.
    pub in_pages: u64,
    /// Both are of the group alone; else they are of the whole machine, since the group does not count them (version 1).
    pub is_own_traffic: bool,
    /// Faults of the group for which a page had to be read or decompressed.
    pub major_faults: u64,
    /// How often a member met the limit and reclaimed by itself.
    pub limit_hits: u64,
    /// How often the limit was lifted since swap was nearly full.
    pub lifted_limits: u64,
    /// How often the limit rose since members waited and nothing could be reclaimed.
    pub raised_limits: u64,
    /// Members that the kernel's OOM killer ended; `None` where it does not say.
    pub oom_kills: Option<u64>,
    /// A process of the program was seen outside of the group: what it used there is not counted. One that was outside for
    /// less than a second may not have been seen.
    pub has_left_group: bool,
    /// CPU time of the steering thread, its reclaim included.
    pub steering_cpu_ns: u64,
    /// Time for which a member waited for memory, in microseconds; `None` where the kernel keeps no such account (PSI,
    /// version 2).
    pub stalled_us: Option<u64>,
}

/// A group, a swap device, and the thread that keeps them to the budget.
#[derive(Debug)]
pub struct ProgramHost {
    // Dropped in this order: the thread, the group with its limit, the device.
    steering: Steering,
    group: Memcg,
    swap: Arc<ProgramSwap>,
}

impl ProgramHost {
    /// Makes the group and what it swaps to. Takes some 20 ms with a device of its own.
    ///
    /// # Errors
    /// [`ProgramError`]; nothing is left behind.
    pub fn create(undo: &Undo, options: &ProgramOptions) -> Result<Self, ProgramError> {
        warmswap_sys::check_page_size().map_err(HostError::from)?;
        // In version 2 the group is beside this process's own, whose limit holds for the program, too.
        let most = own_limit_bytes(undo.root()).unwrap_or(u64::MAX);
        let options = &ProgramOptions {
            budget_bytes: options.budget_bytes.min(most),
            ..options.clone()
        };
        // The device first: what is made last is undone first, and a device is switched off when no limit holds.
        let swap = Arc::new(ProgramSwap::find(undo, options.budget_bytes)?);
        let group = Memcg::create_near(undo, &options.name)?;
        check_swap(undo.root(), &group.group(), options.budget_bytes)?;
        let steering = Steering::start(undo.root(), group.group(), &swap, options)?;
        Ok(Self {
            steering,
            group,
            swap,
        })
    }

    /// Makes `command` start in the group.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn start_here(&self, command: &mut Command) -> Result<(), FileError> {
        self.group.start_here(command)
    }

    /// The program was started, as this process.
    pub fn started(&self, process: u32) {
        self.steering.started(process);
    }

    /// What was used so far.
    #[must_use]
    pub fn usage(&self) -> ProgramUsage {
        self.steering.usage()
    }

    /// Takes group and devices back. Programs of the group that still run go on without a limit. What was used, and whether
    /// all was taken back: the next command tries the rest again.
    pub fn finish(self) -> (ProgramUsage, Result<(), UndoError>) {
        let members = self.group.group().pids();
        let usage = ProgramUsage {
            left_processes: members.map_or(0, |pids| pids.len() as u64),
            ..self.steering.finish()
        };
        // So that nothing has to be reclaimed when pages come back.
        Bound::lift(&self.group.group());
        let removed = self.group.remove();
        (usage, removed.and(self.swap.remove()))
    }
}

/// Whether the kernel swaps at this group's limit, so that nothing is ended there.
fn check_swap(root: &Root, group: &Group, budget_bytes: u64) -> Result<(), ProgramError> {
    if group.swappiness(root) == Some(0) {
        return Err(ProgramError::NeverSwaps);
    }
    let needed_bytes = steer::least_swap_bytes(budget_bytes);
    match group.swap_room_bytes() {
        Some(room_bytes) if room_bytes < needed_bytes => Err(ProgramError::SwapLimited {
            room_bytes,
            needed_bytes,
        }),
        _ => Ok(()),
    }
}
