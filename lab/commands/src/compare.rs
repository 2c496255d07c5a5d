//! `warmswap-lab compare`: schemes side by side.

use crate::host::Host;
use crate::replay_args::{ReplayArgs, schemes};
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;
use warmswap_policy::SchemeSpec;
use warmswap_results::tables;
use warmswap_study::compare;
use warmswap_study::compare::with_limits;

const HELP: &str = "\
Examples:
  warmswap-lab compare traces/mixed.wst --schemes dram,zram,warmswap
      three schemes, with half of the memory that was recorded";

/// Which traces, and which schemes. All of them have the same memory, pool limit and backing file; but ezswap has pages of
/// files and a pool of 10% of its budget, as in its paper, unless --pool or --files says otherwise.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
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
    /// Leave out the two clairvoyant schemes that end every comparison
    #[arg(long)]
    no_optima: bool,
    #[command(flatten)]
    replay: ReplayArgs,
}

/// Replays and prints.
///
/// # Errors
/// Bad options or input, or a replay that stops.
pub fn run(args: CompareArgs, host: &dyn Host) -> Result<()> {
    let specs = schemes(&args.schemes, &args.set)?;
    let specs = if args.no_optima {
        specs
    } else {
        with_limits(specs)?
    };
    let options = args.replay.options()?;
    let subjects = args.replay.open(host, &args.traces)?;
    let options_of = |scheme: &SchemeSpec, options| args.replay.options_of(scheme, options);
    let on_progress = host.progress("replaying");
    let (comparison, _) = compare(&subjects, &specs, &options, options_of, &*on_progress)?;
    drop(on_progress);
    let tables = tables::comparison(&comparison);
    let verdict = tables::compare::verdict(&comparison);
    host.output()
        .emit("warmswap.compare", comparison, &tables)?;
    verdict.map_or(Ok(()), |line| host.output().say(&line))
}
