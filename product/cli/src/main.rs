//! The `warmswap` command: one file for each subcommand below `commands`.

#![forbid(unsafe_code)]

mod commands;
mod definitions;
mod exit;
mod interface;
mod manual;
mod output;
mod progress;
mod replay_args;

use crate::output::Gives;
use clap::{FromArgMatches as _, Parser, Subcommand};
use std::process::ExitCode;

/// Compressed swap that knows which pages the next launch will need.
#[derive(Debug, Parser)]
#[command(name = "warmswap", version, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    output: output::OutputArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Look into a trace, convert it, or make one
    #[command(subcommand)]
    Trace(commands::trace::TraceCommand),
    /// Record what real programs touch while they are switched (root)
    Record(commands::record::RecordArgs),
    /// Run a program with live, compressed, prefetched memory
    Run(commands::run::RunArgs),
    /// Steer the kernel's swap for programs as they are (root)
    Daemon(commands::daemon::DaemonArgs),
    /// Start a program as an application that the daemon looks after
    Launch(commands::launch::LaunchArgs),
    /// Say which application, or paged program, its user looks at
    Switch(commands::switch::SwitchArgs),
    /// Show the daemon with its applications, and paged programs
    Status(commands::status::StatusArgs),
    /// Watch the same live
    Top(commands::top::TopArgs),
    /// Print the daemon's configuration
    Config(commands::config::ConfigArgs),
    /// Say what works on this machine, and what would fix the rest
    Doctor(commands::doctor::DoctorArgs),
    /// Replay a trace under one scheme
    Replay(commands::replay::ReplayCommand),
    /// Replay traces under several schemes and compare
    Compare(commands::compare::CompareArgs),
    /// Compute a figure or table of the papers from traces
    #[command(subcommand)]
    Study(commands::study::StudyCommand),
    /// Make a page of results: charts, and the papers' figures beside ours
    Report(commands::report::ReportArgs),
    /// Measure codecs and chunk sizes here, for sizing=measured
    Calibrate(commands::calibrate::CalibrateArgs),
    /// Measure live memory beside the kernel's own swap
    #[command(subcommand)]
    Bench(commands::bench::BenchCommand),
    /// Follow a window system for the daemon, which starts this
    #[command(hide = true)]
    FollowWindows,
    /// Write the manual pages
    #[command(hide = true)]
    Man(commands::man::ManArgs),
    /// Print what a shell completes
    #[command(hide = true)]
    Completions(commands::man::CompletionsArgs),
    /// List schemes, policies and device presets
    Schemes,
}

impl Command {
    /// What it has for `--json` and `--csv`; where that is not all, also its name.
    fn gives(&self) -> (&'static str, Gives) {
        match self {
            Self::Daemon(_) => ("daemon", Gives::Nothing),
            Self::FollowWindows => ("follow-windows", Gives::Nothing),
            Self::Launch(_) => ("launch", Gives::Nothing),
            Self::Man(_) => ("man", Gives::Nothing),
            Self::Completions(_) => ("completions", Gives::Nothing),
            Self::Top(_) => ("top", Gives::Nothing),
            Self::Config(args) => args.gives(),
            Self::Run(_) => ("run", Gives::Result),
            Self::Switch(_) => ("switch", Gives::Result),
            Self::Trace(command) => command.gives(),
            Self::Report(_) => ("report", Gives::Result),
            Self::Study(command) => command.gives(),
            _ => ("", Gives::Tables),
        }
    }
}

/// Runs a command line as a part of another command, whose output it shares.
fn run_part(line: &[String], output: &output::Output) -> anyhow::Result<ExitCode> {
    let cli = Cli::try_parse_from(line)?;
    dispatch(cli.command, &output.of_part(cli.output, line.to_vec()))
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let (name, gives) = cli.command.gives();
    let output = cli.output.open(name, gives)?;
    dispatch(cli.command, &output)
}

fn dispatch(command: Command, output: &output::Output) -> anyhow::Result<ExitCode> {
    let done = match command {
        // These end as what they ran or found.
        Command::Run(args) => return commands::run::run(args, output),
        Command::Doctor(args) => return commands::doctor::run(args, output),
        Command::Status(args) => return commands::status::run(args, output),
        Command::Trace(command) => commands::trace::run(command, output),
        Command::Record(args) => commands::record::run(args, output),
        Command::Replay(args) => commands::replay::run(args, output),
        Command::Compare(args) => commands::compare::run(args, output),
        Command::Study(command) => commands::study::run(command, output),
        Command::Report(args) => commands::report::run(args, output),
        Command::Calibrate(args) => commands::calibrate::run(args, output),
        Command::Bench(command) => commands::bench::run(command, output),
        Command::Schemes => commands::schemes::run(output),
        Command::Switch(args) => commands::switch::run(args, output),
        Command::Daemon(args) => commands::daemon::run(args),
        Command::FollowWindows => commands::daemon::follow_windows(),
        Command::Launch(args) => commands::launch::run(args),
        Command::Man(args) => commands::man::run(args),
        Command::Completions(args) => commands::man::completions(&args),
        Command::Config(args) => commands::config::run(args, output),
        Command::Top(args) => commands::top::run(args),
    };
    done.map(|()| ExitCode::SUCCESS)
}

fn main() -> ExitCode {
    let matches = interface::command().try_get_matches();
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return exit::usage(&error),
    };
    match run(cli) {
        Ok(code) => code,
        Err(error) => exit::report(&error),
    }
}
