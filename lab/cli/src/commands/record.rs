//! `warmswap-lab record`: real programs, recorded as they are switched.

use crate::definitions::Applications;
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;
use warmswap_apps::Size;
use warmswap_output::Output;
use warmswap_output::units::Quantity;
use warmswap_record::{RecordConfig, Step, record};
use warmswap_results::tables;
use warmswap_sys::Root;
use warmswap_trace::TraceReader;
use warmswap_trace::stats::stats;

const HELP: &str = "\
Examples:
  warmswap-lab record --apps apps/redis.toml,apps/cpython.toml --out mine.wst
      two programs, switched between, as root";

/// What to record.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct RecordArgs {
    #[command(flatten)]
    applications: Applications,
    /// The trace to write
    #[arg(long, value_name = "TRACE")]
    out: PathBuf,
    /// How much memory the applications take
    #[arg(long, value_enum, default_value = "small")]
    size: Size,
    /// Relaunches of each application
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    relaunches: u32,
    /// Use in the foreground after each launch, in milliseconds
    #[arg(long, default_value_t = 500, value_name = "MS")]
    foreground_ms: u64,
    /// In use, page out again this often, to see what is touched again
    #[arg(long, default_value_t = 100, value_name = "MS")]
    repage_ms: u64,
    /// Decides the order of relaunches, and how the requests vary
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Leave pages of files out
    #[arg(long)]
    no_files: bool,
    /// Drop clean pages of files before each relaunch, so that it reads them again; each application is started once
    /// before
    #[arg(long, conflicts_with = "no_files")]
    cold_files: bool,
    /// Little use between the relaunches, for a first look
    #[arg(long)]
    quick: bool,
}

/// Tells a step on standard error.
fn narrate(step: Step<'_>) {
    match step {
        Step::Started { app, pages } => {
            warmswap_output::tell!("{app}: started, {}", Quantity::Bytes(pages * 4096).human());
        }
        Step::Relaunched {
            app,
            relaunch,
            of,
            latency_ns,
            pages,
        } => {
            let latency = Quantity::nanoseconds(latency_ns).human();
            warmswap_output::tell!(
                "{app}: relaunch {relaunch} of {of}: {pages} pages, {latency} from swap"
            );
        }
        Step::Written => warmswap_output::tell!("trace written"),
    }
}

/// Records, and shows what the trace holds.
pub fn run(args: RecordArgs, output: &Output) -> Result<()> {
    output.check_file("--out", &args.out)?;
    let mut config = RecordConfig::new(&args.out, args.applications.load()?);
    config.size = args.size;
    config.relaunches = args.relaunches;
    config.foreground_ms = if args.quick {
        args.foreground_ms.min(100)
    } else {
        args.foreground_ms
    };
    config.repage_interval_ms = args.repage_ms;
    config.seed = args.seed;
    config.files = !args.no_files;
    config.cold_files = args.cold_files;
    let undo = super::undo(&Root::machine())?;
    let summary = record(&config, &undo, &mut narrate)?;
    if let Some(cold) = summary.cold_files {
        warmswap_output::tell!(
            "{} pages of files dropped, {} of them accessed again; {} faults waited for a file",
            cold.pages_dropped,
            cold.pages_accessed_again,
            cold.major_faults
        );
    }
    let reader = TraceReader::open(&args.out)?;
    let stats = stats(&reader)?;
    let tables = tables::trace_info(&stats);
    output.emit("warmswap.trace_info", stats, &tables)
}
