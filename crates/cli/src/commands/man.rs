//! `warmswap man`: writes the manual pages.

use anyhow::{Context as _, Result};
use clap::{Args, CommandFactory as _};
use std::fs;
use std::path::{Path, PathBuf};
use warmswap_daemon::config::show;

/// Where to.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// The folder of manual pages; sections are folders in it
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Writes a page for each command, and one for the configuration.
pub fn run(args: ManArgs) -> Result<()> {
    let commands = args.folder.join("man1");
    let files = args.folder.join("man5");
    for folder in [&commands, &files] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    clap_mangen::generate_to(crate::Cli::command(), &commands)
        .with_context(|| format!("cannot write to {}", commands.display()))?;
    write(&files.join("warmswap.conf.5"), &show::man_page())
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
