//! `warmswap switch`: says what its user looks at, to the daemon or to a paged program.

use super::daemon::DaemonSocket;
use super::status::socket;
use anyhow::Result;
use clap::Args;
use std::time::Duration;
use warmswap_output::output::ResultArgs;
use warmswap_output::{BadInput, Output};
use warmswap_protocol::{AppEvent, Client, Request};

/// How long a program has to answer: it may be swapped out.
const TIMEOUT: Duration = Duration::from_secs(10);

const HELP: &str = "\
Examples:
  warmswap switch mail
      it is used again
  warmswap switch --background mail
      it is not used any more
  warmswap switch --foreground 4711
      of a program under `warmswap run`, by its process";

/// Which application or program, and where it goes.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct SwitchArgs {
    #[command(flatten)]
    direction: Direction,
    #[command(flatten)]
    daemon: DaemonSocket,
    /// An application that the daemon knows; or a paged program: a process, or the socket that it listens on
    #[arg(value_name = "APP|PID|SOCKET")]
    target: String,
    #[command(flatten)]
    output: ResultArgs,
}

#[derive(Clone, Copy, Debug, Args)]
#[group(multiple = false)]
struct Direction {
    /// It is out of use: pages of a program under `warmswap run` may leave, and the daemon learns what was used
    #[arg(long)]
    background: bool,
    /// It is used again: what it will need begins to come; the default for an application
    #[arg(long)]
    foreground: bool,
    /// It is up: the launch window closes
    #[arg(long)]
    launch_done: bool,
}

/// Whether a paged program is meant, and not an application: a number, or a path.
pub fn is_program(target: &str) -> bool {
    let is_number = !target.is_empty() && target.bytes().all(|byte| byte.is_ascii_digit());
    is_number || target.contains('/')
}

/// Tells the program or the daemon, and waits until it has heard.
pub fn run(args: SwitchArgs) -> Result<()> {
    let output = args.output.open()?;
    if is_program(&args.target) {
        return switch_program(args.direction, &args.target, &output);
    }
    let event = match args.direction {
        Direction {
            background: true, ..
        } => AppEvent::Background,
        Direction {
            launch_done: true, ..
        } => AppEvent::LaunchDone,
        _ => AppEvent::Switch,
    };
    args.daemon.tell(&args.target, event)?;
    let status = args.daemon.status()?;
    let mut apps = status.into_iter().flat_map(|status| status.apps);
    output.save(
        "warmswap.switch.app",
        apps.find(|app| app.name == args.target.trim()),
    )
}

fn switch_program(direction: Direction, target: &str, output: &Output) -> Result<()> {
    let request = match direction {
        Direction {
            background: true, ..
        } => Request::Background,
        Direction {
            foreground: true, ..
        } => Request::Foreground,
        Direction {
            launch_done: true, ..
        } => Request::LaunchDone,
        _ => {
            let why = "a paged program is told one of --background, --foreground and --launch-done";
            return Err(BadInput(why.to_owned()).into());
        }
    };
    let mut client = Client::connect(&socket(target), TIMEOUT)?;
    client.tell(&request)?;
    output.save("warmswap.switch", client.status()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_numbers_and_paths() {
        assert!(is_program("4711") && is_program("/run/x.sock") && is_program("./x"));
        assert!(!is_program("firefox") && !is_program("app 2") && !is_program(""));
    }
}
