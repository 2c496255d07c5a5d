//! One program with a part of the memory that it needs.
//!
//! The program runs to its end again and again: with all its memory, and in a group whose limit and pool are the budget
//! together, as `warmswap run --host kernel` has it. Arms alternate.

use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmswap_kernel::program::{ProgramHost, ProgramOptions, ProgramUsage};
use warmswap_sys::cpu_time::ChildrenCpu;
use warmswap_sys::undo::Undo;

use crate::BenchError;
use crate::clock::{busy_share, median};

/// What is run, and how often.
#[derive(Debug, Clone)]
pub struct ProgramBenchOptions {
    /// The program and its arguments. It reads nothing, and what it writes to standard output is dropped.
    pub command: Vec<OsString>,
    /// The budget, as a share of the memory that the program needs; or in bytes.
    pub budget: Budget,
    /// Runs of each arm; medians count.
    pub rounds: usize,
    /// Measure although other programs take the processor.
    pub allow_busy: bool,
}

/// How much memory the limited arms have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Budget {
    /// Of what the program needs.
    Share(f64),
    /// Bytes.
    Bytes(u64),
}

choices! {
    /// What has the memory of the program.
    ProgramArm {
        /// None of it is taken away.
        Dram = "dram",
        /// The kernel, with zram and a limit that follows the pool.
        Zram = "zram",
    }
}

/// One run of the program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramRun {
    /// What had its memory.
    pub arm: ProgramArm,
    /// From its start to its end.
    pub elapsed_ns: u64,
    /// CPU time of the program with its children.
    pub program_cpu_ns: u64,
    /// What it used.
    #[schemars(with = "schemars::Schema")]
    pub usage: ProgramUsage,
}

/// What came of one arm; medians of its runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramRow {
    /// What paged it.
    pub arm: ProgramArm,
    /// From start to end.
    pub elapsed_ns: f64,
    /// The median of the rounds' ratios of time to that under zram in the same round; 1 for zram.
    pub ratio: f64,
    /// CPU time of the program.
    pub program_cpu_ns: f64,
    /// CPU time of the thread that keeps the budget, its reclaim included.
    pub steering_cpu_ns: f64,
    /// Pages to swap.
    pub out_pages: f64,
    /// Pages from swap.
    pub in_pages: f64,
    /// Group and pool together at most, in the worst run.
    pub used_peak_bytes: u64,
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramReport {
    /// What the program needs: its anonymous memory at most.
    pub needed_bytes: u64,
    /// What the limited arms had.
    pub budget_bytes: u64,
    /// What share of a processor the measuring thread got before the runs, 0 to 1.
    pub cpu_share: f64,
    /// Arms.
    pub rows: Vec<ProgramRow>,
    /// All runs, in their order.
    pub runs: Vec<ProgramRun>,
}

/// Measures. Changes on the machine (a group and a zram device for each run) are noted in `undo` and taken back.
///
/// # Errors
/// [`BenchError`], also when the program fails.
pub fn program(
    options: &ProgramBenchOptions,
    undo: &Undo,
    progress: &dyn Fn(u64, u64),
) -> Result<ProgramReport, BenchError> {
    let cpu_share = busy_share(Duration::from_millis(300), options.allow_busy)?;
    let steps = (1 + 2 * options.rounds) as u64;
    // Once for the files that it reads, and to see what it needs.
    let first = run(options, undo, ProgramArm::Dram, all_memory(undo)?)?;
    let needed_bytes = first.usage.needed_peak_bytes;
    let budget_bytes = match options.budget {
        Budget::Share(share) => (needed_bytes as f64 * share) as u64,
        Budget::Bytes(bytes) => bytes,
    };
    progress(1, steps);
    let mut runs: Vec<ProgramRun> = Vec::new();
    for _ in 0..options.rounds {
        for arm in [ProgramArm::Dram, ProgramArm::Zram] {
            let budget_bytes = match arm {
                ProgramArm::Dram => all_memory(undo)?,
                _ => budget_bytes,
            };
            runs.push(run(options, undo, arm, budget_bytes)?);
            progress(1 + runs.len() as u64, steps);
        }
    }
    Ok(ProgramReport {
        needed_bytes,
        budget_bytes,
        cpu_share,
        rows: rows(&runs),
        runs,
    })
}

/// A budget that no program meets.
fn all_memory(undo: &Undo) -> Result<u64, BenchError> {
    Ok(warmswap_sys::meminfo::Meminfo::read(undo.root())?.total_bytes)
}

fn run(
    options: &ProgramBenchOptions,
    undo: &Undo,
    arm: ProgramArm,
    budget_bytes: u64,
) -> Result<ProgramRun, BenchError> {
    let [name, arguments @ ..] = options.command.as_slice() else {
        return Err(BenchError::NothingToMeasure);
    };
    let group = ProgramOptions {
        name: format!("bench-{}-{}", arm.name(), std::process::id()),
        budget_bytes,
    };
    let host = ProgramHost::create(undo, &group)?;
    let mut command = Command::new(name);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    host.start_here(&mut command)?;
    let before = ChildrenCpu::read();
    let begin = Instant::now();
    let failed = |why: String| BenchError::Program {
        program: name.clone(),
        why,
    };
    let status = command
        .status()
        .map_err(|error| failed(error.to_string()))?;
    let elapsed_ns = begin.elapsed().as_nanos() as u64;
    let cpu = ChildrenCpu::read();
    let (usage, taken_back) = host.finish();
    taken_back?;
    if !status.success() {
        return Err(failed(status.to_string()));
    }
    Ok(ProgramRun {
        arm,
        elapsed_ns,
        program_cpu_ns: (cpu.user_ns - before.user_ns) + (cpu.system_ns - before.system_ns),
        usage,
    })
}

fn rows(runs: &[ProgramRun]) -> Vec<ProgramRow> {
    let of = |arm| runs.iter().filter(move |run| run.arm == arm);
    let arms = [ProgramArm::Dram, ProgramArm::Zram];
    let row = |arm| {
        let middle = |number: fn(&ProgramRun) -> u64| median(of(arm).map(|run| number(run) as f64));
        let beside = of(arm).zip(of(ProgramArm::Zram));
        ProgramRow {
            arm,
            elapsed_ns: middle(|run| run.elapsed_ns),
            ratio: median(beside.map(|(run, zram)| run.elapsed_ns as f64 / zram.elapsed_ns as f64)),
            program_cpu_ns: middle(|run| run.program_cpu_ns),
            steering_cpu_ns: middle(|run| run.usage.steering_cpu_ns),
            out_pages: middle(|run| run.usage.out_pages),
            in_pages: middle(|run| run.usage.in_pages),
            used_peak_bytes: of(arm)
                .map(|run| run.usage.used_peak_bytes)
                .max()
                .unwrap_or(0),
        }
    };
    arms.map(row).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arm_is_compared_with_zram_in_the_same_round() {
        let run = |arm, elapsed_ns, out_pages| ProgramRun {
            arm,
            elapsed_ns,
            program_cpu_ns: 10 * elapsed_ns,
            usage: ProgramUsage {
                out_pages,
                used_peak_bytes: elapsed_ns,
                ..ProgramUsage::default()
            },
        };
        let mut runs = Vec::new();
        for (dram, zram) in [(50, 100), (160, 200), (80, 400)] {
            runs.push(run(ProgramArm::Dram, dram, 0));
            runs.push(run(ProgramArm::Zram, zram, 7));
        }
        let rows = rows(&runs);
        let (dram, zram) = (&rows[0], &rows[1]);
        assert_eq!((dram.ratio, dram.elapsed_ns), (0.5, 80.0));
        assert_eq!((zram.out_pages, zram.used_peak_bytes), (7.0, 400));
        assert_eq!(zram.program_cpu_ns, 2000.0);
        assert_eq!((zram.arm, zram.ratio), (ProgramArm::Zram, 1.0));
    }
}
