//! `warmswap-lab report`: what results say.

use anyhow::Result;
use clap::Args;
use std::path::PathBuf;
use warmswap_output::Output;
use warmswap_results::difference::Comparison;
use warmswap_results::evidence::{evidence, evidence_tables};
use warmswap_results::{Results, summary};

const HELP: &str = "\
Examples:
  warmswap-lab report results/*.json
      every figure of the papers beside what was measured
  warmswap-lab report --compare before.json after.json
      what changed, and whether it is more than noise";

/// Which results, and what of them.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct ReportArgs {
    /// Results, as `--json` writes them
    #[arg(required_unless_present = "compare", conflicts_with = "compare")]
    results: Vec<PathBuf>,
    /// Two results of one kind: what changed from the first to the second, and whether it is more than noise
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"])]
    compare: Vec<PathBuf>,
}

/// Says what is asked for.
pub fn run(args: &ReportArgs, output: &Output) -> Result<()> {
    for path in args.results.iter().chain(&args.compare) {
        output.check_input(path)?;
    }
    if let [before, after] = &args.compare[..] {
        let comparison = Comparison::of(&Results::load(&[before])?, &Results::load(&[after])?)?;
        let table = comparison.table();
        return output.emit("warmswap.report_compare", comparison, &[table]);
    }
    let results = Results::load(&args.results)?;
    let rows = evidence(&results);
    let tables = evidence_tables(&rows);
    let lines = summary::lines(&results, &rows);
    output.emit("warmswap.report", rows, &tables)?;
    lines.iter().try_for_each(|line| output.say(line))
}
