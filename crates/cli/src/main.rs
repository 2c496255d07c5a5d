//! The `warmswap` command: one file for each subcommand below `commands`.

#![forbid(unsafe_code)]

mod commands;
mod definitions;
mod exit;
mod output;
mod progress;
mod replay_args;

use clap::{Parser, Subcommand};
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
    /// Run real programs, switch between them, and record what they touch (root, zram)
    Record(commands::record::RecordArgs),
    /// Run a program with live, compressed, prefetched memory
    Run(commands::run::RunArgs),
    /// Steer the kernel's swap for programs as they are, until a signal ends it (root)
    Daemon(commands::daemon::DaemonArgs),
    /// Start a program as an application that the daemon looks after
    Launch(commands::launch::LaunchArgs),
    /// Say what its user looks at: tell the daemon of an application, or a paged program
    Switch(commands::switch::SwitchArgs),
    /// Show the daemon with its applications, and the paged programs that run
    Status(commands::status::StatusArgs),
    /// Watch the paged programs that run
    Top(commands::top::TopArgs),
    /// Print the daemon's configuration
    Config(commands::config::ConfigArgs),
    /// Say what of this machine each part needs, and what would fix what is not there
    Doctor(commands::doctor::DoctorArgs),
    /// Replay a trace under one scheme
    Replay(commands::replay::ReplayCommand),
    /// Replay traces under several schemes and compare
    Compare(commands::compare::CompareArgs),
    /// Compute a figure or table of the papers from traces
    #[command(subcommand)]
    Study(commands::study::StudyCommand),
    /// Measure what codecs and chunk sizes cost here, for the sizing policy `measured`
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
    /// List the schemes, the policies of every slot, and the device presets
    Schemes,
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let output = cli.output.open();
    let done = match cli.command {
        // These end as what they ran or found.
        Command::Run(args) => return commands::run::run(args, &output),
        Command::Doctor(args) => return commands::doctor::run(args, &output),
        Command::Trace(command) => commands::trace::run(command, &output),
        Command::Record(args) => commands::record::run(args, &output),
        Command::Replay(args) => commands::replay::run(args, &output),
        Command::Compare(args) => commands::compare::run(args, &output),
        Command::Study(command) => commands::study::run(command, &output),
        Command::Calibrate(args) => commands::calibrate::run(args, &output),
        Command::Bench(command) => commands::bench::run(command, &output),
        Command::Schemes => commands::schemes::run(&output),
        Command::Switch(args) => commands::switch::run(args, &output),
        Command::Status(args) => commands::status::run(args, &output),
        Command::Daemon(args) => commands::daemon::run(args),
        Command::FollowWindows => commands::daemon::follow_windows(),
        Command::Launch(args) => commands::launch::run(args),
        Command::Man(args) => commands::man::run(args),
        Command::Config(args) => commands::config::run(args, &output),
        Command::Top(args) => commands::top::run(args),
    };
    done.map(|()| ExitCode::SUCCESS)
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return exit::usage(&error),
    };
    match run(cli) {
        Ok(code) => code,
        Err(error) => exit::report(&error),
    }
}
