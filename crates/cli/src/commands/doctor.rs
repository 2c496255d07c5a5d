//! `warmswap doctor`: what of this machine each part needs.

use crate::output::Output;
use anyhow::Result;
use clap::{Args, ValueEnum};
use std::process::ExitCode;
use warmswap_doctor::{Machine, Part, State, diagnose};
use warmswap_report::tables;

/// What is asked.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Exit with 1 if one of these cannot work here
    #[arg(value_enum, value_name = "PART")]
    parts: Vec<PartArg>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PartArg {
    /// Programs that link the library
    Arena,
    /// Programs as they are, under `warmswap run`
    Run,
    /// The kernel's own swap, steered from outside
    Kernel,
    /// Traces of real programs
    Record,
    /// Live memory beside the kernel's zram
    Bench,
}

impl From<PartArg> for Part {
    fn from(part: PartArg) -> Self {
        match part {
            PartArg::Arena => Self::Arena,
            PartArg::Run => Self::Run,
            PartArg::Kernel => Self::Kernel,
            PartArg::Record => Self::Record,
            PartArg::Bench => Self::Bench,
        }
    }
}

/// Looks, and prints what was found. Changes nothing.
pub fn run(args: DoctorArgs, output: &Output) -> Result<ExitCode> {
    let diagnosis = diagnose(&Machine::this());
    output.emit("warmswap.doctor", &diagnosis, &tables::doctor(&diagnosis)?)?;
    let mut lacking = diagnosis
        .checks
        .iter()
        .filter(|row| row.state == State::Lacking)
        .peekable();
    if lacking.peek().is_some() {
        output.say("\nTo fix what is not there:")?;
    }
    for row in lacking {
        output.say(&format!("  {} ({})", row.title, row.purpose))?;
        if let Some(fix) = &row.fix {
            output.say(&format!("    {fix}"))?;
        }
    }
    let works = |part: &PartArg| {
        let found = diagnosis.of((*part).into());
        found.is_some_and(|found| found.works)
    };
    Ok(if args.parts.iter().all(works) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
