//! `warmswap-lab report`: a page of results.

use anyhow::{Context, Result};
use clap::Args;
use std::path::{Path, PathBuf};
use warmswap_output::Output;
use warmswap_output::output::{check_file, is_stdout};
use warmswap_results::difference::{conditions, differences};
use warmswap_results::{Results, difference_page, page, picture, summary};

const HELP: &str = "\
Examples:
  warmswap-lab report results/*.json -o report.html
      charts, and every figure of the papers beside what was measured
  warmswap-lab report --compare before.json after.json -o difference.html
      what changed, and whether it is more than noise";

/// Which results, and where the page goes.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct ReportArgs {
    /// Results, as `--json` writes them
    #[arg(required_unless_present = "compare", conflicts_with = "compare")]
    results: Vec<PathBuf>,
    /// Two results of one kind: what changed from the first to the second, and whether it is more than noise
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"])]
    compare: Vec<PathBuf>,
    /// The page: one file, which needs nothing else; `-` for standard output
    #[arg(short, long, value_name = "FILE", required_unless_present = "picture")]
    out: Option<PathBuf>,
    /// Write the headline chart alone, as SVG
    #[arg(long, value_name = "FILE", conflicts_with = "compare")]
    picture: Option<PathBuf>,
}

/// Makes the page, and says in a few lines what is in it.
pub fn run(args: ReportArgs, output: &Output) -> Result<()> {
    output.refuse_result("warmswap-lab report")?;
    for (option, path) in [("--out", &args.out), ("--picture", &args.picture)] {
        if let Some(path) = path.as_deref().filter(|path| !is_stdout(path)) {
            check_file(option, path)?;
        }
    }
    let is_page_printed = args.out.as_deref().is_some_and(is_stdout);
    let say = |line: &str| match is_page_printed {
        true => Ok(()),
        false => output.say(line),
    };
    if let [before, after] = &args.compare[..] {
        let (before, after) = (Results::load(&[before])?, Results::load(&[after])?);
        let found = differences(&before, &after)?;
        for line in conditions(&before, &after) {
            say(&line)?;
        }
        for difference in found.iter().filter(|of| of.app.is_none()) {
            say(&difference.sentence())?;
        }
        return save(
            args.out.as_deref(),
            &difference_page(&before, &after)?,
            output,
        );
    }
    let results = Results::load(&args.results)?;
    if let Some(path) = &args.picture {
        save(Some(path), &picture(&results)?, output)?;
    }
    if args.out.is_some() {
        for line in summary::lines(&results) {
            say(&line)?;
        }
        save(args.out.as_deref(), &page(&results)?, output)?;
    }
    Ok(())
}

fn save(path: Option<&Path>, text: &str, output: &Output) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    if is_stdout(path) {
        return output.print(|out| out.write_all(text.as_bytes()));
    }
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    output.say(&format!("written: {}", path.display()))
}
