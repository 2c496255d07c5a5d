//! `warmswap-lab replay`: one trace under one scheme, relaunch by relaunch.

use crate::host::Host;
use crate::replay_args::{ReplayArgs, schemes};
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;
use warmswap_results::tables;
use warmswap_study::replay_all;

const HELP: &str = "\
Examples:
  warmswap-lab replay traces/mixed.wst --scheme ariadne --budget 40%
      relaunch by relaunch, with 40 % of the memory that was recorded
  warmswap-lab replay traces/mixed.wst --set prefetch=none
      our scheme without its prefetching";

/// Which trace, and which scheme.
///
/// ezswap has pages of files and a pool of 10% of its budget, as in its paper, unless --pool or --files says otherwise.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct ReplayCommand {
    /// The trace
    trace: PathBuf,
    /// The scheme, by name; a slot is exchanged behind a plus sign: `zram+codec=zstd`
    #[arg(long, default_value = "warmswap")]
    scheme: String,
    /// Exchange a slot: `--set prefetch=none`
    #[arg(long, value_name = "SLOT=POLICY")]
    set: Vec<String>,
    #[command(flatten)]
    replay: ReplayArgs,
}

/// Replays and prints.
///
/// # Errors
/// Bad options or input, or a replay that stops.
pub fn run(args: ReplayCommand, host: &dyn Host) -> Result<()> {
    let mut spec = schemes(&[args.scheme], &args.set)?.remove(0);
    let mut options = args.replay.options_of(&spec, args.replay.options()?);
    if let Some((name, factory)) = host.reclaim() {
        spec.name += &format!("+reclaim={name}");
        options.reclaim = Some(factory);
    }
    let subjects = args.replay.open(host, &[args.trace])?;
    let runs = replay_all(&subjects, &[spec], &options, &*host.progress("replaying"))?;
    for run in runs {
        let tables = tables::replay(&run.result);
        host.output().emit("warmswap.replay", run.result, &tables)?;
    }
    Ok(())
}
