//! How fast real applications come back when memory is short: plain zram beside the kernel host and the preloaded
//! library, the same programs with the same requests in the same total memory, alternating in one run.
//!
//! # Method
//!
//! A *block* runs every arm once, each in a control group of its own and, where it has swap, on a zram device of
//! its own; the order of arms rotates from block to block. In an arm, all applications are started, then the limit
//! is imposed, and they are switched between in an order that the seed decides: the same one in every arm of a
//! block. A switch is a relaunch request, timed to the program's own answer, and then use in the foreground. The
//! first rounds of a block warm up and do not count.
//!
//! # Fairness
//!
//! The kernel does not charge a zram device's memory to the group. So a thread keeps
//! `limit + memory of the device = total` while the arm runs. What that costs is counted like other
//! reclaim. Caches are dropped before each arm, and all settings of the kernel are the machine's own, alike in all
//! arms.
//!
//! # The arm `preload`
//!
//! Its programs run under the preloaded library, as `warmswap run` starts them; a program whose definition says
//! `preload = false` runs as it is. The arenas' pools are memory of the programs, which the group is charged like
//! any other, and the same total bounds all of it. Each arena gets as its budget that part of the total which the
//! program's anonymous memory has of what all applications take, measured in the first arm before any limit; so
//! drivers, files and the other programs keep theirs in proportion. Arenas do not lend each other memory.
//!
//! The zram device and the thread that keeps `limit + pool = total` are there as in the other limited arms. They page
//! the programs that are not preloaded, and what goes beyond its budget; without them the bound would kill programs
//! that the other arms page.
//!
//! A switch is told to the arenas by their control sockets, as `warmswap switch` does: `foreground` to the one that
//! comes, then `background` to the one that leaves, then `launch-done` at the answer. Major faults of a preloaded program
//! are the faults that brought a page from its pool, and those that the kernel counts for its group (files, zram);
//! every other fault is a minor one. Prefetched are the pages that the arena brought back ahead of use. Which of them
//! were used nobody can tell: a touch of a page in its place is not seen.
//!
//! # Samples of a switch
//!
//! With [`RelaunchOptions::sample_every`], CPU time by part and I/O are read at the switch, at the answer, and that
//! often between them and for half of the rest that follows (ASAP, Figures 13 and 14). What the reading itself costs
//! counts for nobody, but takes time of a processor all the same: compare latencies of runs without.

mod arenas;
mod arm;
mod arm_result;
mod host_thread;
mod keeper;
mod pager;
mod quantiles;
mod result;
mod sampler;
mod switch_use;
mod usage;

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use warmswap_apps::{AppSpec, Place, Size};
use warmswap_kernel::HostConfig;
use warmswap_sys::lock::MachineLock;
use warmswap_sys::undo::Undo;

use crate::BenchError;
use crate::clock::busy_share;

pub use arm_result::{AppResult, ArenaPart, ArmResult, CpuParts, HostPart};
pub use quantiles::Quantiles;
pub use result::{RelaunchReport, RelaunchValue, Target};
pub use sampler::Slice;
pub use switch_use::{SwitchUse, TimelinePart};

/// Who pages the applications.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arm {
    /// Nobody: memory without a limit.
    Dram,
    /// The kernel by itself, over zram.
    Zram,
    /// The kernel, steered by the kernel host, over zram.
    Kernel,
    /// The preloaded library, in the programs that allow it; the others as in [`Arm::Zram`].
    Preload,
}

impl Arm {
    /// One word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dram => "dram",
            Self::Zram => "zram",
            Self::Kernel => "kernel",
            Self::Preload => "preload",
        }
    }

    /// Whether its memory is limited.
    #[must_use]
    pub const fn is_limited(self) -> bool {
        !matches!(self, Self::Dram)
    }
}

/// How much memory the limited arms have.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub enum Total {
    /// So many bytes.
    Bytes(u64),
    /// This share of what the applications take without a limit; needs the arm `dram`.
    Share(f64),
}

/// What the programs of the arm `preload` run with.
#[derive(Debug, Clone)]
pub struct Preload {
    /// The library; a path without links.
    pub library: PathBuf,
    /// The arenas' scheme.
    pub scheme: String,
}

/// What is measured.
#[derive(Debug, Clone)]
pub struct RelaunchOptions {
    /// The applications.
    pub apps: Vec<AppSpec>,
    /// Their footprint.
    pub size: Size,
    /// Where they find and put their files.
    pub place: Place,
    /// The arms; each runs once in a block.
    pub arms: Vec<Arm>,
    /// Memory of the limited arms, the compressed pool included.
    pub total: Total,
    /// Blocks.
    pub blocks: u32,
    /// Relaunches of each application in each arm of a block that count.
    pub relaunches: u32,
    /// Relaunches of each application before, which do not count.
    pub warm_up: u32,
    /// Rest after each switch and use, in milliseconds.
    pub rest_ms: u64,
    /// Decides the orders and how the requests vary.
    pub seed: u64,
    /// The zram devices' compression algorithm.
    pub algorithm: String,
    /// How the kernel host works; its goal is set by the benchmark.
    pub host: HostConfig,
    /// What the arm `preload` needs.
    pub preload: Option<Preload>,
    /// Sample CPU time and I/O of each switch that often.
    pub sample_every: Option<Duration>,
    /// Measure although other programs take the processor.
    pub allow_busy: bool,
}

/// What is going on, for people who wait.
#[derive(Debug, Clone, Copy)]
pub enum Step<'a> {
    /// An arm of a block begins; blocks count from 0.
    Arm {
        /// Which.
        arm: Arm,
        /// In which block.
        block: u32,
    },
    /// An application was started.
    Started {
        /// Its name.
        app: &'a str,
    },
    /// A round of relaunches is done.
    Round {
        /// How many are.
        done: u32,
        /// Of how many, warm-up included.
        of: u32,
    },
}

/// Measures. What is changed on the machine is noted in `undo` and taken back on every way out.
///
/// # Errors
/// [`BenchError`], when it cannot run or would measure something else.
pub fn relaunch(
    options: &RelaunchOptions,
    undo: &Undo,
    progress: &mut dyn FnMut(Step<'_>),
) -> Result<RelaunchReport, BenchError> {
    if options.apps.is_empty() || options.arms.is_empty() {
        return Err(BenchError::NothingToMeasure);
    }
    let is_sized = matches!(options.total, Total::Bytes(_)) || options.arms.contains(&Arm::Dram);
    if !is_sized {
        return Err(BenchError::NoTotal);
    }
    if options.arms.contains(&Arm::Preload) {
        options.preload.as_ref().ok_or(BenchError::NoLibrary)?;
        if options.arms.iter().all(|&arm| arm == Arm::Preload) {
            return Err(BenchError::NoFootprints);
        }
    }
    warmswap_sys::check_page_size().map_err(BenchError::PageSize)?;
    warmswap_sys::zram::probe(undo.root())?;
    let share = busy_share(Duration::from_millis(300), options.allow_busy)?;
    let _lock = MachineLock::take(&undo.root().path(MachineLock::default_path()))?;
    let mut report = RelaunchReport::new(options, share);
    let mut footprints = None;
    for block in 0..options.blocks {
        for arm in rotated(&options.arms, block) {
            progress(Step::Arm { arm, block });
            let total_bytes = match options.total {
                Total::Bytes(bytes) => Some(bytes),
                Total::Share(share) => report
                    .footprint_bytes
                    .map(|bytes| (bytes as f64 * share) as u64),
            };
            let run = arm::Run {
                options,
                undo,
                arm,
                block,
                total_bytes: total_bytes.filter(|_| arm.is_limited()),
                footprints: footprints.as_ref(),
            };
            let done = run.measure(progress)?;
            if arm == Arm::Dram && report.footprint_bytes.is_none() {
                report.footprint_bytes = Some(done.usage.peak_bytes);
            }
            report.total_bytes = report.total_bytes.or(run.total_bytes);
            footprints.get_or_insert_with(|| done.footprints.clone());
            report.add(arm, done);
        }
    }
    report.conclude();
    Ok(report)
}

/// The arms in the order of a block. The first block begins with the arm without a limit, which says how much
/// memory there is to be, and ends with the arm `preload`, whose budgets follow from what the applications take in
/// another.
fn rotated(arms: &[Arm], block: u32) -> Vec<Arm> {
    let mut order = arms.to_vec();
    order.sort_unstable();
    order.dedup();
    let by = block as usize % order.len();
    order.rotate_left(by);
    order
}

/// The seed of a request: the same one in every arm.
fn request_seed(seed: u64, block: u32, round: u32, app: usize) -> u64 {
    let mut state = seed;
    for value in [u64::from(block), u64::from(round), app as u64] {
        state = mix(state ^ value.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
    // Drivers take it for a number of 32 bits.
    state >> 33
}

/// The order in which the applications come to the foreground in a round: each once, and never the same one
/// twice in a row.
fn order(seed: u64, block: u32, round: u32, apps: usize) -> Vec<usize> {
    let shuffled = |round: u32| {
        let mut order: Vec<usize> = (0..apps).collect();
        for place in (1..apps).rev() {
            let other = request_seed(!seed, block, round, place) as usize % (place + 1);
            order.swap(place, other);
        }
        order
    };
    let mut order = shuffled(0);
    for round in 1..=round {
        let last = order.last().copied();
        order = shuffled(round);
        if apps > 1 && order.first().copied() == last {
            order.swap(0, apps - 1);
        }
    }
    order
}

/// The finalizer of splitmix64.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arms_rotate_and_the_first_block_begins_without_a_limit() {
        let arms = [Arm::Preload, Arm::Kernel, Arm::Dram, Arm::Zram, Arm::Zram];
        let order = [Arm::Dram, Arm::Zram, Arm::Kernel, Arm::Preload];
        assert_eq!(rotated(&arms, 0), order);
        assert_eq!(rotated(&arms, 1)[..2], [Arm::Zram, Arm::Kernel]);
        assert_eq!(rotated(&arms, 3)[..2], [Arm::Preload, Arm::Dram]);
        assert_eq!(rotated(&arms, 4), order);
    }

    #[test]
    fn each_application_comes_once_a_round_in_an_order_of_the_seed() {
        for round in 0..50 {
            let mut one = order(7, 0, round, 6);
            assert_eq!(one, order(7, 0, round, 6));
            one.sort_unstable();
            assert_eq!(one, [0, 1, 2, 3, 4, 5]);
        }
        for round in 1..200 {
            let (before, now) = (order(9, 0, round - 1, 3), order(9, 0, round, 3));
            assert_ne!(before[2], now[0], "round {round}");
        }
        assert_ne!(order(7, 0, 1, 6), order(8, 0, 1, 6));
        assert_eq!(order(7, 0, 3, 1), [0]);
        assert_ne!(request_seed(7, 0, 1, 2), request_seed(7, 0, 2, 1));
    }
}
