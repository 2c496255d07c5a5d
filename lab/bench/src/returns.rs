//! How fast programs come back after something else took their memory: `bench return`.
//!
//! # Method
//!
//! Programs are started and used, and fit in memory. A *hog* takes what it wants, so that much of them is swapped out or
//! dropped, and ends; it does the same work in every arm. After a while they are returned to in an order that the seed
//! decides, half of them twice, with pauses between. A return is a relaunch request, timed to the program's own answer, and
//! the use that follows. Then comes the next hog, with the next wait.
//!
//! Each block runs every arm once over every swap, and the one without a limit before them, which says what the programs
//! take (their proportional set size). Its returns are the measure of the others: what memory *adds* is what a first return
//! and its use take beyond the mean of the same program there. The limited arms have half as much memory again as the
//! programs take, the compressed pool and the daemon with all that it reads ahead included; the hog wants as much as the
//! programs take. The daemon is the command as shipped, and hears of switches, not of answers.
//!
//! CPU time is of all processors from before the hog to after the last return, so that nothing is left out that is
//! done in idle time; other programs on the machine are in it. Limited arms take turns at being the first, so that what the
//! disk's own cache does is the same for all where there are as many blocks as such arms.

mod back;
mod hog;
mod options;
mod result;
mod run;

use std::time::Duration;

use warmswap_sys::lock::MachineLock;
use warmswap_sys::undo::Undo;

use crate::BenchError;
use crate::clock::busy_share;
use crate::relaunch::limit::check_machine;
use crate::relaunch::{SwapKind, check_no_daemon};

use self::run::Run;

pub use options::{HogKind, ReturnArm, ReturnOptions, ReturnStep};
pub use result::{HogValue, ReturnFailure, ReturnReport, ReturnRow, ReturnValue};

/// Measures. What is changed on the machine is noted in `undo` and taken back on every way out.
///
/// # Errors
/// [`BenchError`], when it cannot run or would measure something else.
pub fn returns(
    options: &ReturnOptions,
    undo: &Undo,
    progress: &mut dyn FnMut(ReturnStep<'_>),
) -> Result<ReturnReport, BenchError> {
    let is_something = !options.apps.is_empty() && !options.waits_ms.is_empty();
    if !is_something || options.arms.is_empty() || options.swaps.is_empty() || options.blocks == 0 {
        return Err(BenchError::NothingToMeasure);
    }
    let root = undo.root();
    warmswap_sys::check_page_size().map_err(BenchError::PageSize)?;
    if options.swaps.contains(&SwapKind::Zram) {
        warmswap_sys::zram::probe(root)?;
    }
    check_no_daemon(root)?;
    if options.is_machine {
        check_machine(root, None)?;
    }
    let share = busy_share(Duration::from_millis(300), options.allow_busy)?;
    let _lock = MachineLock::take(&root.path(MachineLock::default_path()))?;
    let mut report = ReturnReport::new(options, share);
    let (mut sizes, mut machine_bytes) = (None, None);
    for block in 0..options.blocks {
        for (arm, swap) in arms(options, block) {
            progress(ReturnStep::Arm { arm, swap, block });
            let run = Run {
                options,
                undo,
                arm,
                swap,
                block,
                sizes,
                machine_bytes,
            };
            let mut done = match run.measure(progress) {
                Ok(done) => done,
                // What was measured before is kept; without a measure of the programs there is nothing yet.
                Err(error) if sizes.is_some() && error.is_of_a_program() => {
                    let why = error.to_string();
                    report.failures.push(ReturnFailure {
                        arm,
                        swap,
                        block,
                        why,
                    });
                    continue;
                }
                Err(error) => return Err(error),
            };
            sizes = Some(done.sizes);
            machine_bytes = machine_bytes.or(done.machine_bytes);
            report.footprint_bytes = done.sizes.footprint_bytes;
            report.total_bytes = done.sizes.total_bytes;
            report.hog_bytes = done.sizes.hog_bytes;
            report.hogs.append(&mut done.hogs);
            report.values.append(&mut done.values);
        }
    }
    report.conclude();
    Ok(report)
}

/// The arms of a block in their order: the limited ones take turns at being first.
fn arms(options: &ReturnOptions, block: u32) -> Vec<(ReturnArm, Option<SwapKind>)> {
    let mut limited = options.arms.clone();
    limited.retain(|&arm| arm != ReturnArm::NoLimit);
    let by = block as usize % limited.len().max(1);
    limited.rotate_left(by);
    let swaps = options.swaps.iter();
    let over = swaps.flat_map(|&swap| limited.iter().map(move |&arm| (arm, Some(swap))));
    std::iter::once((ReturnArm::NoLimit, None))
        .chain(over)
        .collect()
}

#[cfg(test)]
mod tests {
    use warmswap_apps::{Directories, Size};
    use warmswap_kernel::HostConfig;
    use warmswap_sys::Root;

    use super::*;

    fn options() -> ReturnOptions {
        ReturnOptions {
            apps: Vec::new(),
            size: Size::Small,
            directories: Directories::default(),
            arms: vec![ReturnArm::Kernel, ReturnArm::Daemon],
            swaps: vec![SwapKind::Zram, SwapKind::File],
            waits_ms: vec![0],
            hog: HogKind::Anonymous,
            hog_ms: 0,
            hog_stays: false,
            pause_ms: 0,
            warm_up: 1,
            blocks: 1,
            seed: 1,
            algorithm: "lz4".to_owned(),
            is_machine: false,
            host: HostConfig::default(),
            command: None,
            allow_busy: true,
        }
    }

    /// A report of nothing.
    pub(super) fn nothing() -> ReturnReport {
        ReturnReport::new(&options(), 1.0)
    }

    #[test]
    fn the_arm_without_a_limit_is_first_and_the_others_take_turns() {
        use ReturnArm::{Daemon, Kernel, NoLimit};
        let names = |block| {
            let arms = arms(&options(), block);
            arms.into_iter().map(|(arm, _)| arm).collect::<Vec<_>>()
        };
        assert_eq!(names(0), [NoLimit, Kernel, Daemon, Kernel, Daemon]);
        assert_eq!(names(1), [NoLimit, Daemon, Kernel, Daemon, Kernel]);
    }

    #[test]
    fn nothing_to_measure_is_an_error_before_anything_is_changed() {
        let folder = tempfile::tempdir().unwrap();
        let undo = Undo::open(&Root::at(folder.path()), &folder.path().join("state")).unwrap();
        let error = returns(&options(), &undo, &mut |_| {}).unwrap_err();
        assert!(matches!(error, BenchError::NothingToMeasure), "{error}");
    }
}
