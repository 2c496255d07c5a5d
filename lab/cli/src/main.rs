//! The `warmswap-lab` command: one file for each subcommand below `commands`.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod commands;
mod definitions;
mod exit;
mod json_page;
mod progress;

use clap::{CommandFactory as _, Parser, Subcommand};
use std::process::ExitCode;
use warmswap_commands::Host;
use warmswap_commands::host::OnProgress;
use warmswap_output::Output;
use warmswap_output::manual::{CompletionsArgs, ManArgs, Page, completions, man};
use warmswap_output::output::TableArgs;

const HELP: &str = "\
Examples:
  warmswap-lab trace info traces/mixed.wst
      what the recorded sample holds
  warmswap-lab compare traces/mixed.wst --schemes dram,zram,warmswap
      three schemes, with half of the memory that was recorded
  warmswap-lab bench relaunch --quick
      a first look at relaunches of live programs, as root

Exit status:
  0  it did what was asked
  1  it failed; one line on standard error says why, and what to do
  2  the arguments, or a file that they name, cannot be used

Files:
  /usr/share/warmswap
      definitions of applications (apps/) and the recorded sample (traces/mixed.wst). A relative
      path that is not in the working directory is looked for here. It is below the folder of
      the installation, so /usr/local/share/warmswap after `make install`.
  /usr/share/warmswap/lab-results.schema.json
      results as a JSON Schema, see warmswap-json(5)";

/// Swap schemes side by side: on traces of programs, and on live ones beside the kernel's own swap.
#[derive(Debug, Parser)]
#[command(name = "warmswap-lab", version, max_term_width = 100, after_long_help = HELP)]
struct Cli {
    #[command(flatten)]
    output: TableArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Computed(warmswap_commands::Command),
    /// Record what real programs touch while they are switched (root)
    Record(commands::record::RecordArgs),
    /// Say what results come to: the papers' figures beside ours, and what changed
    Report(commands::report::ReportArgs),
    /// Measure live memory beside the kernel's own swap
    #[command(subcommand, after_long_help = commands::bench::HELP)]
    Bench(commands::bench::BenchCommand),
    /// Print the JSON Schema of results
    #[command(hide = true)]
    Schema,
    /// Write the manual pages
    #[command(hide = true)]
    Man(ManArgs),
    /// Print what a shell completes
    #[command(hide = true)]
    Completions(CompletionsArgs),
}

/// The command as the host of what is computed: results go to its output, progress to a bar.
struct Terminal<'a>(&'a Output);

impl Host for Terminal<'_> {
    fn output(&self) -> &Output {
        self.0
    }

    fn progress(&self, what: &'static str) -> OnProgress {
        let bar = progress::Bar::new(what);
        Box::new(move |progress| bar.set(progress))
    }
}

fn dispatch(command: Command, output: &Output) -> anyhow::Result<()> {
    match command {
        Command::Computed(command) => warmswap_commands::run(command, &Terminal(output)),
        Command::Record(args) => commands::record::run(args, output),
        Command::Report(args) => commands::report::run(&args, output),
        Command::Bench(command) => commands::bench::run(command, output),
        Command::Schema => commands::schema::run(output),
        Command::Man(args) => {
            output.refuse_result("warmswap-lab man")?;
            let results = Page {
                name: "warmswap-json.5",
                roff: json_page::roff()?,
                markdown: json_page::markdown()?,
            };
            man(&args, Cli::command(), &[results])
        }
        Command::Completions(args) => {
            output.refuse_result("warmswap-lab completions")?;
            completions(&args, Cli::command())
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<()> {
    let output = cli.output.open()?;
    dispatch(cli.command, &output)
}

fn main() -> ExitCode {
    warmswap_sys::inherited::hear_of_children();
    match Cli::try_parse() {
        Err(error) => warmswap_output::exit::usage("warmswap-lab", error, None),
        Ok(cli) => match run(cli) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => warmswap_output::exit::report("warmswap-lab", &error, exit::is_bad_input),
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
