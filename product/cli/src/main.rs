//! The `warmswap` command: one file for each subcommand below `commands`.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod commands;
#[cfg(test)]
mod schema;
mod tables;

use clap::{CommandFactory as _, Parser, Subcommand};
use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use warmswap_output::exit;
use warmswap_output::manual::{CompletionsArgs, ManArgs};
use warmswap_policy::PolicyError;

const HELP: &str = "\
Examples:
  warmswap doctor
      what works on this machine, and what would fix the rest
  warmswap status
      the daemon: is it working, and does it help?
  warmswap run --budget 512M -- redis-server
      one program in less memory

Exit status:
  0  it did what was asked
  1  it failed; one line on standard error says why, and what to do
  2  the arguments, or a file that they name, cannot be used

Files:
  /etc/warmswap.toml
      the configuration, see warmswap.toml(5)
  /run/warmswap/daemon.sock
      the daemon's control socket

Schemes are compared, and programs recorded and measured, by warmswap-lab(1).";

/// Brings programs back from swap before they are used again.
#[derive(Debug, Parser)]
#[command(name = "warmswap", version, max_term_width = 100, after_long_help = HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Bring programs back from the kernel's swap while memory is free (root)
    Daemon(commands::daemon::DaemonArgs),
    /// Tell the daemon which window this user looks at, from a session
    Agent(commands::agent::AgentArgs),
    /// Run a program in less memory than it needs: the rest is compressed
    Run(commands::run::RunArgs),
    /// Start a program as an application that the daemon looks after
    Launch(commands::launch::LaunchArgs),
    /// Say which application, or paged program, its user looks at
    Switch(commands::switch::SwitchArgs),
    /// Show the daemon with its applications, and paged programs
    Status(commands::status::StatusArgs),
    /// Print the daemon's configuration
    Config(commands::config::ConfigArgs),
    /// Say what works on this machine, and what would fix the rest
    Doctor(commands::doctor::DoctorArgs),
    /// Write the manual pages
    #[command(hide = true)]
    Man(ManArgs),
    /// Print what a shell completes
    #[command(hide = true)]
    Completions(CompletionsArgs),
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    let done = match command {
        // These end as what they ran or found.
        Command::Run(args) => return commands::run::run(args),
        Command::Doctor(args) => return commands::doctor::run(args),
        Command::Status(args) => return commands::status::run(args),
        Command::Switch(args) => commands::switch::run(args),
        Command::Daemon(args) => commands::daemon::run(args),
        Command::Agent(args) => commands::agent::run(&args),
        Command::Launch(args) => commands::launch::run(args),
        Command::Config(args) => commands::config::run(args),
        Command::Man(args) => commands::man::run(&args, Cli::command()),
        Command::Completions(args) => warmswap_output::manual::completions(&args, Cli::command()),
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// What the laboratory's command does.
const MOVED: [&str; 8] = [
    "trace", "record", "replay", "compare", "study", "report", "bench", "schemes",
];

fn is_bad_input(cause: &(dyn Error + 'static)) -> bool {
    cause.is::<PolicyError>()
}

fn main() -> ExitCode {
    warmswap_sys::inherited::hear_of_children();
    // A file beyond the limit of file sizes is an error that is told, and not the end; programs that are started take no part.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    match Cli::try_parse() {
        Err(error) => exit::usage("warmswap", error, Some(("warmswap-lab", &MOVED))),
        Ok(cli) => match run(cli.command) {
            Ok(code) => code,
            Err(error) => exit::report("warmswap", &error, is_bad_input),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_and_documents_are_command_lines() {
        warmswap_testkit::command_lines::check(&Cli::command());
    }
}
