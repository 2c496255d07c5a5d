//! `warmswap switch`: tells a paged program where it stands.

use super::status::socket;
use crate::output::Output;
use anyhow::Result;
use clap::Args;
use std::time::Duration;
use warmswap_control::{Client, Request};

/// How long a program has to answer: it may be swapped out.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Which program, and where it goes.
#[derive(Debug, Args)]
pub struct SwitchArgs {
    #[command(flatten)]
    direction: Direction,
    /// The program: a process, or the socket that it listens on
    #[arg(value_name = "PID|SOCKET")]
    target: String,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Direction {
    /// Nobody looks at it: its pages are the first to leave
    #[arg(long)]
    background: bool,
    /// Its user is back: what it will need begins to come
    #[arg(long)]
    foreground: bool,
    /// It is up: the launch window closes
    #[arg(long)]
    launch_done: bool,
}

/// Tells the program, and waits until it has heard.
pub fn run(args: SwitchArgs, output: &Output) -> Result<()> {
    let Direction {
        background,
        foreground,
        ..
    } = args.direction;
    let request = if background {
        Request::Background
    } else if foreground {
        Request::Foreground
    } else {
        Request::LaunchDone
    };
    let mut client = Client::connect(&socket(&args.target), TIMEOUT)?;
    client.tell(&request)?;
    output.save("warmswap.switch", client.status()?)
}
