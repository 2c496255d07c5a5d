//! `warmswap calibrate`: the cost table of the sizing policy `measured`, for this machine and these pages.

use crate::output::{Output, check_file};
use crate::progress::Bar;
use crate::replay_args::{device, open};
use anyhow::{Context, Result};
use clap::Args;
use std::path::PathBuf;
use warmswap_report::tables;
use warmswap_study::{CalibrateOptions, calibrate};

/// Which pages, and where the table goes.
#[derive(Debug, Args)]
pub struct CalibrateArgs {
    /// A trace whose contents are compressed, and whose relaunches say what is used again
    trace: PathBuf,
    /// The cost table to write, for `--set sizing=measured:costs=FILE`
    #[arg(long)]
    out: Option<PathBuf>,
    /// Costs of faults and frames: a preset of `warmswap schemes`, or a TOML file
    #[arg(long, default_value = "ufs-3.1", value_name = "NAME|FILE")]
    device: String,
    /// Passes over the data; the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    passes: u32,
    /// Contents to take from the trace, in MiB
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=65_536))]
    sample_mib: u64,
}

/// Measures, prints, and writes.
pub fn run(args: CalibrateArgs, output: &Output) -> Result<()> {
    if let Some(path) = &args.out {
        check_file("--out", path)?;
    }
    let subjects = open(std::slice::from_ref(&args.trace), true)?;
    let options = CalibrateOptions {
        device: device(&args.device)?,
        passes: args.passes,
        sample_bytes: args.sample_mib << 20,
        ..CalibrateOptions::default()
    };
    let bar = Bar::new("measuring");
    let calibration = calibrate(&subjects[0], &options, &|progress| bar.set(progress))?;
    drop(bar);
    if let Some(path) = &args.out {
        std::fs::write(path, calibration.toml())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let tables = tables::calibration(&calibration)?;
    output.emit("warmswap.calibrate", calibration, &tables)
}
