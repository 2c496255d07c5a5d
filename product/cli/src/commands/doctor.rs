//! `warmswap doctor`: what of this machine each part needs.

use crate::tables::doctor as tables;
use anyhow::Result;
use clap::{Args, ValueEnum};
use std::process::ExitCode;
use warmswap_doctor::{Machine, Part, State, diagnose};
use warmswap_output::output::TableArgs;

const HELP: &str = "\
Examples:
  warmswap doctor
      all parts
  warmswap doctor run
      what `warmswap run` needs, and whether it is there

Exit status: 1 when a part that was named cannot work here. `warmswap run` works where one of its
two hosts does: the preloaded library (row `run`) or the kernel (row `group`).";

/// What is asked.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct DoctorArgs {
    /// Only what these need; exit with 1 if one of them cannot work here [default: all, exit with 0]
    #[arg(value_enum, value_name = "PART")]
    parts: Vec<PartArg>,
    #[command(flatten)]
    output: TableArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PartArg {
    /// A whole machine, under `warmswap daemon`
    Daemon,
    /// Programs as they are, under `warmswap run` with either host
    Run,
    /// Any program in a control group, under `warmswap run --host kernel`
    Group,
    /// Programs that link the library
    Arena,
    /// The daemon's work on a zram device of its own, in `warmswap-lab bench`
    Kernel,
    /// Traces of real programs
    Record,
    /// Live memory beside the kernel's zram
    Bench,
}

impl PartArg {
    /// The parts; one of them must work.
    fn any_of(self) -> &'static [Part] {
        match self {
            Self::Daemon => &[Part::Daemon],
            Self::Run => &[Part::Group, Part::Run],
            Self::Group => &[Part::Group],
            Self::Arena => &[Part::Arena],
            Self::Kernel => &[Part::Kernel],
            Self::Record => &[Part::Record],
            Self::Bench => &[Part::Bench],
        }
    }
}

/// Looks, and prints what was found. Changes nothing.
pub fn run(args: DoctorArgs) -> Result<ExitCode> {
    let output = args.output.open()?;
    let mut diagnosis = diagnose(&Machine::this());
    if !args.parts.is_empty() {
        let parts: Vec<Part> = args
            .parts
            .iter()
            .flat_map(|part| part.any_of())
            .copied()
            .collect();
        diagnosis = diagnosis.only(&parts);
    }
    output.emit("warmswap.doctor", &diagnosis, &tables::doctor(&diagnosis))?;
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
    let works = |part: Part| diagnosis.of(part).is_some_and(|found| found.works);
    if args.parts.contains(&PartArg::Run) {
        output.say(match (works(Part::Group), works(Part::Run)) {
            (true, _) => "\n`warmswap run` takes the kernel host here, for any program.",
            (false, true) => "\n`warmswap run` takes the preloaded library here.",
            (false, false) => "\n`warmswap run` works here with neither host.",
        })?;
    }
    let is_there = |part: &PartArg| part.any_of().iter().any(|&part| works(part));
    Ok(if args.parts.iter().all(is_there) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
