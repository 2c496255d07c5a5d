//! `warmswap agent`: tells the daemon, from a user's session, which window is looked at.

use anyhow::Result;
use clap::Args;
use std::path::PathBuf;
use warmswap_agent::{Address, Sources};
use warmswap_protocol::DAEMON_SOCKET;

const HELP: &str = "\
Examples:
  warmswap agent --x11 :1
      by hand: the windows of one display; in every session of GNOME or KDE:
      systemctl --user enable --now warmswap-agent; of sway or i3: exec warmswap
      agent in its configuration";

/// What it follows.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct AgentArgs {
    /// The daemon's control socket
    #[arg(long = "daemon", value_name = "SOCKET", default_value = DAEMON_SOCKET)]
    daemon: PathBuf,
    /// The X11 display whose active window is followed; auto: $DISPLAY, or the first that is there; no: none
    #[arg(long, value_name = "DISPLAY", default_value = "auto")]
    x11: String,
    /// The socket of sway whose focused window is followed; auto: $SWAYSOCK, or one in /run/user; no: none
    #[arg(long, value_name = "SOCKET", default_value = "auto")]
    sway: String,
    /// The socket of i3; auto: $I3SOCK, or one in /run/user; no: none. Its display says whose its windows are
    #[arg(long, value_name = "SOCKET", default_value = "auto")]
    i3: String,
}

/// Follows them until a signal ends it.
pub fn run(args: &AgentArgs) -> Result<()> {
    let sources = Sources {
        x11: Address::from(args.x11.as_str()),
        sway: Address::from(args.sway.as_str()),
        i3: Address::from(args.i3.as_str()),
        ..Sources::default()
    };
    Ok(warmswap_agent::run(&sources, &args.daemon)?)
}
