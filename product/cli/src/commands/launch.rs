//! `warmswap launch`: starts a program as an application that the daemon looks after.

mod user;

use super::daemon::DaemonSocket;
use anyhow::{Context as _, Result};
use clap::Args;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use warmswap_output::program::find;
use warmswap_protocol::AppEvent;

const HELP: &str = "\
Examples:
  warmswap launch mail -- thunderbird
      as a member of the daemon's socket-group
  sudo warmswap launch mail -- thunderbird
      as root: thunderbird runs as the user that called sudo

Exit status: the program's own, once it has started.";

/// Which application, and how it is started.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct LaunchArgs {
    #[command(flatten)]
    daemon: DaemonSocket,
    /// Start it as root, though sudo was called by another user
    #[arg(long)]
    as_root: bool,
    /// The application's name; what was learned under it before is used
    #[arg(value_name = "APP")]
    name: String,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Tells the daemon which process it will be, and becomes the program: of the user that asked, where that went through
/// sudo.
pub fn run(args: LaunchArgs) -> Result<()> {
    let (program, arguments) = args.command.split_first().context("no command")?;
    find(program, std::env::var_os("PATH"))?;
    let mut command = Command::new(program);
    command.args(arguments);
    warmswap_sys::inherited::start_alike(&mut command);
    let asking = if args.as_root {
        None
    } else {
        user::who_asked()?
    };
    let launch = AppEvent::Launch {
        pid: std::process::id(),
    };
    args.daemon.tell(&args.name, launch)?;
    if let Some(user) = asking {
        user.become_it(&mut command)?;
    }
    let error = command.exec();
    Err(error).with_context(|| format!("cannot run {}", program.display()))
}
