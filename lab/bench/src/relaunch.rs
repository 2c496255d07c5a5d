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
//! arms, but for the readahead of files: arms of the kernel host have at most the kernel's default, as the daemon sets it.
//! Every result names it; with `RelaunchOptions::readahead_kib` all arms have the same.
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
//! were used cannot be told: a touch of a page in its place is not seen.
//!
//! # Other swap, and published schemes
//!
//! `swap` is the kernel alone over a swap file on disk, `zswap` the kernel's compressed cache before such a file, whose
//! pool counts in the total as a zram device's does (its share of memory is the kernel's default, of the arm's total, but a
//! percent of the machine at least: the kernel takes no less); it compresses by its own default where it has not the
//! algorithm of zram, and the result says by which. `ariadne-ehl`, `ariadne-al` and `ezswap` are the preloaded library with
//! these, as in the arm `preload`. ezswap has files of programs and a backing file, in the place for temporary files. ASAP
//! prepages by taking memory from other programs, which no host here does: it is measured in replay.
//!
//! # A whole machine
//!
//! The arms `zram-default`, `zram-tuned`, `daemon` and `daemon-untold` have no control group. Memory is taken away from
//! the machine by a process that maps and locks it, until so much is available as the other limited arms may use, so that
//! kswapd works as on a small machine; then the daemon and the applications are started. The zram device's memory is part of
//! what is left, as in fact. A thread gives everything back when memory runs out, and the run ends with the reason.
//!
//! Settings of the kernel's reclaim are set for each arm, whatever the machine had: the kernel's own, or those of distributions
//! that swap to zram (arm `zram-tuned`). The watermarks' scale is lessened along with the memory, since the kernel
//! computes watermarks from all that it manages. The daemon is a process of its own with its default configuration. Told
//! means that it hears of launches and switches, and nothing else; untold, that it finds both out.
//!
//! The arm `dram` beside them runs in a control group without a limit, which says what the applications take. CPU time
//! is compared over all processors, so that nothing that reclaims is left out; programs of others count as well,
//! alike in all arms as far as they are steady.
//!
//! # Killed applications
//!
//! An application that the kernel kills for want of memory is started again when its user comes back to it. That
//! relaunch takes as long as the start, until it is ready, and is in all figures.
//!
//! # Samples of a switch
//!
//! With [`RelaunchOptions::sample_every`], CPU time by part and I/O are read at the switch, at the answer, and that
//! often between them and for half of the rest that follows (ASAP, Figures 13 and 14). What the reading itself costs
//! counts for no part, but takes time of a processor all the same: compare latencies of runs without.

pub(crate) mod arm;
mod arm_result;
pub(crate) mod daemon;
pub(crate) mod host_thread;
mod kernel_settings;
mod kills;
pub(crate) mod limit;
mod limit_keeper;
mod options;
pub(crate) mod order;
pub(crate) mod pager;
mod preload;
mod quantiles;
mod readahead;
mod result;
mod sampler;
pub(crate) mod swap;
mod switch_use;
pub(crate) mod usage;
mod value;

use std::time::Duration;

use warmswap_protocol::{Client, DAEMON_SOCKET};
use warmswap_sys::Root;
use warmswap_sys::lock::MachineLock;
use warmswap_sys::undo::Undo;

use crate::BenchError;
use crate::clock::busy_share;

pub use arm_result::{AppResult, ArenaPart, ArmResult, CpuParts, HostPart};
pub use kernel_settings::Setting;
pub use limit::Conditions;
pub use options::{Arm, Preload, RelaunchOptions, Scope, Step, SwapKind, Total};
pub use quantiles::Quantiles;
pub use result::RelaunchReport;
pub use sampler::Slice;
pub use switch_use::{SwitchUse, TimelinePart};
pub use value::RelaunchValue;

/// Measures. What is changed on the machine is noted in `undo` and taken back on every way out.
///
/// # Errors
/// [`BenchError`], when it cannot run or would measure something else.
pub fn relaunch(
    options: &RelaunchOptions,
    undo: &Undo,
    progress: &mut dyn FnMut(Step<'_>),
) -> Result<RelaunchReport, BenchError> {
    check(options)?;
    warmswap_sys::check_page_size().map_err(BenchError::PageSize)?;
    warmswap_sys::zram::probe(undo.root())?;
    let root = undo.root();
    check_no_daemon(root)?;
    let is_machine = has(options, Scope::Machine).is_some();
    if is_machine {
        let total = match options.total {
            Total::Bytes(bytes) => Some(bytes),
            Total::Share(_) => None,
        };
        limit::check_machine(root, total)?;
    }
    let share = busy_share(Duration::from_millis(300), options.allow_busy)?;
    let _lock = MachineLock::take(&root.path(MachineLock::default_path()))?;
    let mut report = RelaunchReport::new(options, share);
    if is_machine {
        report.features = kernel_settings::features(root);
    }
    let mut footprints = None;
    // All machines have the same size: what is available at the beginning says less, since others' programs and the kernel
    // give up what they hold sooner or later.
    let mut machine_bytes = None;
    for block in 0..options.blocks {
        for arm in order::rotated(&options.arms, block) {
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
                machine_bytes,
                footprints: footprints.as_ref(),
            };
            let done = run.measure(progress)?;
            if arm == Arm::Dram && report.footprint_bytes.is_none() {
                report.footprint_bytes = Some(done.usage.peak_bytes);
            }
            report.total_bytes = report.total_bytes.or(run.total_bytes);
            machine_bytes = machine_bytes.or(done.conditions.usable_bytes);
            footprints.get_or_insert_with(|| done.footprints.clone());
            report.add(arm, done);
        }
    }
    report.conclude();
    Ok(report)
}

/// A daemon that runs would steer the programs, too, and restore settings in the middle of an arm.
pub(crate) fn check_no_daemon(root: &Root) -> Result<(), BenchError> {
    let socket = root.path(DAEMON_SOCKET);
    match Client::connect(&socket, Duration::from_secs(1)) {
        Ok(_) => Err(BenchError::DaemonRuns { socket }),
        Err(_) => Ok(()),
    }
}

/// Whether there is something to measure, and all that it takes.
fn check(options: &RelaunchOptions) -> Result<(), BenchError> {
    if options.apps.is_empty() || options.arms.is_empty() {
        return Err(BenchError::NothingToMeasure);
    }
    let is_sized = matches!(options.total, Total::Bytes(_)) || options.arms.contains(&Arm::Dram);
    if !is_sized {
        return Err(BenchError::NoTotal);
    }
    if let (Some(group), Some(machine)) = (has(options, Scope::Group), has(options, Scope::Machine))
    {
        return Err(BenchError::MixedScopes {
            group: group.name(),
            machine: machine.name(),
        });
    }
    if options.arms.iter().any(|arm| arm.is_preloaded()) {
        options.preload.as_ref().ok_or(BenchError::NoLibrary)?;
        if options.arms.iter().all(|arm| arm.is_preloaded()) {
            return Err(BenchError::NoFootprints);
        }
    }
    if options.arms.iter().any(|arm| arm.has_daemon()) {
        options.command.as_ref().ok_or(BenchError::NoCommand)?;
    }
    Ok(())
}

/// The first arm of a scope.
fn has(options: &RelaunchOptions, scope: Scope) -> Option<Arm> {
    let mut arms = options.arms.iter().copied();
    arms.find(|arm| arm.scope() == scope)
}
