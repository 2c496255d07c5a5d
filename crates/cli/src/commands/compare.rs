//! `warmswap compare`: schemes side by side.

use crate::output::Output;
use crate::progress::Bar;
use crate::replay_args::{ReplayArgs, schemes};
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;
use warmswap_report::tables;
use warmswap_study::compare;

/// Which traces, and which schemes.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The traces
    #[arg(required = true)]
    traces: Vec<PathBuf>,
    /// The schemes, by name; a slot is exchanged behind a plus sign: `zram+codec=zstd`
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "dram,swap,zram,zswap,ezswap,asap,ariadne-al-1k-2k-16k,ariadne-ehl-1k-2k-16k,warmswap"
    )]
    schemes: Vec<String>,
    /// Exchange a slot of every scheme: `--set prefetch=none`
    #[arg(long, value_name = "SLOT=POLICY")]
    set: Vec<String>,
    #[command(flatten)]
    replay: ReplayArgs,
}

/// Replays and prints.
pub fn run(args: CompareArgs, output: &Output) -> Result<()> {
    let specs = schemes(&args.schemes, &args.set)?;
    let options = args.replay.options()?;
    let subjects = args.replay.open(&args.traces)?;
    let bar = Bar::new("replaying");
    let (comparison, _) = compare(&subjects, &specs, &options, &|progress| bar.set(progress))?;
    drop(bar);
    let tables = tables::comparison(&comparison)?;
    output.emit("warmswap.compare", comparison, &tables)
}
