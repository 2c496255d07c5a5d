//! `warmswap-lab bench`: live memory beside the kernel's own swap.

mod fleet;
mod relaunch;
mod returns;

use super::undo;
use crate::progress::Bar;
use anyhow::Result;
use clap::{Args, Subcommand};
use std::ffi::OsString;
use warmswap_bench::program::{Budget, ProgramBenchOptions, program};
use warmswap_output::program::find;
use warmswap_output::{BadInput, Output, SizeExpr};
use warmswap_results::tables;
use warmswap_study::Progress;
use warmswap_sys::{Root, undo::Undo};

/// Examples.
pub const HELP: &str = "\
Examples:
  warmswap-lab bench relaunch --quick
      a first look at relaunches, as root
  warmswap-lab bench relaunch --arms dram,zram,kernel
      without the preloaded library
  warmswap-lab bench relaunch --machine --quick
      the daemon beside zram, with the whole machine short of memory
  warmswap-lab bench return --quick
      returns after something else took the memory, with the kernel alone and with the daemon
  warmswap-lab bench program --budget 50% -- sort --parallel=1 words
      a program in half of its memory, beside zram
  warmswap-lab bench fleet --quick
      Fleet beside a native collector and Marvin";

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// How fast real applications come back when memory is short, beside plain zram (root, zram)
    Relaunch(relaunch::RelaunchArgs),
    /// How fast programs come back after something else took their memory (root, zram)
    Return(returns::ReturnArgs),
    /// A program with a part of the memory that it needs, under a limit alone and under the kernel host (root, zram)
    Program(ProgramArgs),
    /// Garbage collection and swap together: Fleet beside a native collector and Marvin (userfaultfd)
    Fleet(fleet::FleetArgs),
}

/// Which program, and how often.
#[derive(Debug, Args)]
pub struct ProgramArgs {
    /// Memory for group and pool together: a share of what the program needs, or a size
    #[arg(long, default_value = "50%", value_name = "SIZE")]
    budget: SizeExpr,
    /// Runs with each kind of memory; the median counts
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Measure although other programs take the processor
    #[arg(long)]
    allow_busy: bool,
    /// The program and its arguments; it has no input, and its output is dropped
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Measures and shows.
pub fn run(command: BenchCommand, output: &Output) -> Result<()> {
    match command {
        BenchCommand::Fleet(args) => fleet::run(&args, output),
        BenchCommand::Program(args) => run_program(args, output),
        BenchCommand::Relaunch(args) => relaunch::run(args, output),
        BenchCommand::Return(args) => returns::run(args, output),
    }
}

fn run_program(args: ProgramArgs, output: &Output) -> Result<()> {
    if args.rounds == 0 {
        return Err(BadInput("at least one round is needed".to_owned()).into());
    }
    if let Some(name) = args.command.first() {
        find(name, std::env::var_os("PATH"))?;
    }
    let options = ProgramBenchOptions {
        command: args.command,
        budget: match args.budget {
            SizeExpr::Bytes(bytes) => Budget::Bytes(bytes),
            SizeExpr::Percent(percent) => Budget::Share(percent / 100.0),
        },
        rounds: args.rounds,
        allow_busy: args.allow_busy,
    };
    let undo = undo_of_zram()?;
    let bar = Bar::new("measuring");
    let report = program(&options, &undo, &|done, total| {
        bar.set(Progress { done, total });
    })?;
    drop(bar);
    let tables = [tables::program_bench(&report)];
    output.emit("warmswap.bench.program", report, &tables)
}

/// For what is changed on the machine, which needs a zram device.
fn undo_of_zram() -> Result<Undo> {
    let root = Root::machine();
    warmswap_sys::zram::probe(&root)?;
    undo(&root)
}
