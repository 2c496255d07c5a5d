//! Commands of the laboratory whose results follow from traces: their options, and what they compute.
//!
//! A program parses a [`Line`] or flattens [`Command`] into a parser of its own, and runs it as a [`Host`]: the host
//! takes the result, hears of progress, and may have traces open already. So a line has the same result, and the same
//! errors, in the command `warmswap-lab` and in the Python package.
//!
//! | module | subject |
//! |---|---|
//! | [`trace`], [`replay`], [`compare`], [`study`], [`schemes`] | one command each |
//! | [`replay_args`] | what replays have in common: memory, device, schemes |
//! | [`host`] | what a command needs of the program that it runs in |
//! | [`exit`] | which errors say that the input cannot be used |

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod compare;
pub mod exit;
pub mod host;
pub mod replay;
pub mod replay_args;
pub mod schemes;
mod shipped;
pub mod study;
pub mod trace;

use anyhow::Result;
use clap::{Parser, Subcommand};
use warmswap_output::output::TableArgs;

pub use host::Host;
pub use shipped::shipped;

/// A command line of these commands alone.
#[derive(Debug, Parser)]
#[command(name = "warmswap-lab")]
pub struct Line {
    /// Where results go.
    #[command(flatten)]
    pub output: TableArgs,
    /// What to compute.
    #[command(subcommand)]
    pub command: Command,
}

/// What can be computed from traces.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Look into a trace, or convert it
    #[command(subcommand, after_long_help = trace::HELP)]
    Trace(trace::TraceCommand),
    /// Replay a trace under one scheme
    Replay(replay::ReplayCommand),
    /// Replay traces under several schemes and compare
    Compare(compare::CompareArgs),
    /// Compute a figure or table of the papers from traces
    #[command(subcommand, after_long_help = study::HELP)]
    Study(study::StudyCommand),
    /// List schemes, policies and device presets
    #[command(after_long_help = schemes::HELP)]
    Schemes,
}

/// Carries out a command.
///
/// # Errors
/// What it was given cannot be used ([`exit::is_bad_input`]), or it failed.
pub fn run(command: Command, host: &dyn Host) -> Result<()> {
    match command {
        Command::Trace(command) => trace::run(command, host),
        Command::Replay(args) => replay::run(args, host),
        Command::Compare(args) => compare::run(args, host),
        Command::Study(command) => study::run(command, host),
        Command::Schemes => schemes::run(host.output()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn options_make_sense() {
        Line::command().debug_assert();
    }
}
