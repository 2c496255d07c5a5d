//! `warmswap man`: the manual pages, or the reference of the book.

use anyhow::Result;
use clap::Command;
use warmswap_daemon::config::show;
use warmswap_output::manual::{ManArgs, Page, man};

/// Writes a page for each command, and one for the configuration.
pub fn run(args: &ManArgs, command: Command) -> Result<()> {
    let configuration = Page {
        name: "warmswap.toml.5",
        roff: show::man_page(),
        markdown: format!(
            "# warmswap.toml\n\nThe configuration of the daemon, as `warmswap config --example` prints it.\n\n\
             ```toml\n{}```\n",
            show::example()
        ),
    };
    man(args, command, &[configuration])
}
