//! `warmswap bench`: live memory beside the kernel's own swap.

use crate::exit::BadInput;
use crate::output::Output;
use crate::progress::Bar;
use anyhow::Result;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use warmswap_bench::{FaultsOptions, Pages, faults};
use warmswap_report::tables;
use warmswap_study::Progress;
use warmswap_sys::{Root, undo::Undo};
use warmswap_trace::TraceReader;

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// What a page costs on its way out of memory and back, beside the kernel's zram (root, zram)
    Faults(FaultsArgs),
}

/// Which pages, and how often.
#[derive(Debug, Args)]
pub struct FaultsArgs {
    /// A trace whose page contents are used
    #[arg(long, default_value = "traces/mixed.wst", value_name = "TRACE")]
    pages_of: PathBuf,
    /// Pages of a round
    #[arg(long, default_value_t = 8192)]
    pages: usize,
    /// Rounds, each with the kernel and the arena in turn; the median counts
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Measure although other programs take the processor
    #[arg(long)]
    allow_busy: bool,
}

/// Measures and shows.
pub fn run(command: BenchCommand, output: &Output) -> Result<()> {
    let BenchCommand::Faults(args) = command;
    if args.pages < 256 || args.rounds == 0 {
        return Err(BadInput("at least 256 pages and one round are needed".to_owned()).into());
    }
    let trace = TraceReader::open(&args.pages_of)?;
    let pages = Pages::sample(&trace, args.pages.next_multiple_of(16))?;
    let root = Root::machine();
    warmswap_sys::zram::probe(&root)?;
    let undo = Undo::open(&root, &Undo::default_folder(&root))?;
    undo.on_signals()?;
    let options = FaultsOptions {
        rounds: args.rounds,
        allow_busy: args.allow_busy,
    };
    let bar = Bar::new("measuring");
    let report = faults(&pages, options, &undo, &|done, total| {
        bar.set(Progress { done, total });
    })?;
    drop(bar);
    let tables = tables::faults(&report)?;
    output.emit("warmswap.bench.faults", report, &tables)
}
