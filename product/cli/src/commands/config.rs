//! `warmswap config`: the daemon's configuration.

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use warmswap_daemon::config::show::{Setting, example};
use warmswap_daemon::config::{Config, ConfigError};
use warmswap_output::output::ResultArgs;
use warmswap_output::{BadInput, BadLines, tell};
use warmswap_sys::Root;

const HELP: &str = "\
Examples:
  warmswap config --example
      every key with its meaning and default, as a file to begin with
  warmswap config --effective
      what holds, with the file and line of each value

Exit status: 2 when the configuration is wrong; all that is wrong with it is told, a line each.";

/// What to print.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct ConfigArgs {
    #[command(flatten)]
    what: What,
    /// Read this file only, in place of /etc/warmswap.toml and the others
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    output: ResultArgs,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct What {
    /// What holds: every value, with the file and line that it comes from
    #[arg(long)]
    effective: bool,
    /// An example with every key, its meaning and its default
    #[arg(long)]
    example: bool,
}

/// What holds.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Effective {
    /// Files that were read.
    files: Vec<PathBuf>,
    /// Every value that holds, section by section.
    settings: Vec<Setting>,
    /// What is odd and keeps nothing from starting.
    warnings: Vec<String>,
}

/// Reads the configuration. What is wrong with it is bad input.
pub fn load(file: Option<&std::path::Path>) -> Result<Config> {
    match Config::load(&Root::machine(), file) {
        // A file that was named is bad input; the machine's own files are the machine's fault.
        Err(error @ ConfigError::File(_)) if file.is_none() => Err(error.into()),
        Err(error @ ConfigError::Several(_)) => Err(BadLines(error.to_string()).into()),
        Err(error) => Err(BadInput(error.to_string()).into()),
        Ok(config) => Ok(config),
    }
}

/// Prints it.
pub fn run(args: ConfigArgs) -> Result<()> {
    let output = args.output.open()?;
    if args.what.example {
        output.refuse_result("warmswap config --example")?;
        return output.say(example().trim_end());
    }
    let config = load(args.config.as_deref())?;
    for warning in &config.warnings {
        tell!("warmswap: {warning}");
    }
    output.say(config.effective().trim_end())?;
    let effective = Effective {
        settings: config.settings(),
        files: config.files,
        warnings: config.warnings,
    };
    output.save("warmswap.config", effective)
}
