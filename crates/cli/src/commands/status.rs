//! `warmswap status`: the paged programs that run.

use crate::output::Output;
use anyhow::Result;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;
use warmswap_control::{Client, ClientError, ProgramStats, running};
use warmswap_report::tables::programs::programs;

/// How long a program has for its answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Which programs.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Processes or sockets; default: all of this user
    #[arg(value_name = "PID|SOCKET")]
    targets: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Listing {
    programs: Vec<ProgramStats>,
    silent: Vec<Silent>,
}

/// A program that listens and does not answer.
#[derive(Debug, Serialize)]
struct Silent {
    socket: PathBuf,
    error: String,
}

/// The socket that a person means: that of a process by its number, or a file.
pub fn socket(target: &str) -> PathBuf {
    let by_number = target.parse().ok().and_then(|pid: u32| {
        let found = running().into_iter().find(|program| program.pid == pid);
        // Where it would be, for the message.
        let expected = || {
            Some(
                warmswap_control::socket_folders()
                    .first()?
                    .join(format!("{pid}.sock")),
            )
        };
        found.map(|program| program.socket).or_else(expected)
    });
    by_number.unwrap_or_else(|| PathBuf::from(target))
}

/// Asks one program.
pub fn ask(socket: &std::path::Path) -> Result<ProgramStats, ClientError> {
    Client::connect(socket, TIMEOUT)?.stats()
}

/// Prints the table.
pub fn run(args: StatusArgs, output: &Output) -> Result<()> {
    let mut listing = Listing {
        programs: Vec::new(),
        silent: Vec::new(),
    };
    if args.targets.is_empty() {
        for program in running() {
            match ask(&program.socket) {
                Ok(stats) => listing.programs.push(stats),
                // It ended meanwhile.
                Err(ClientError::Missing { .. } | ClientError::Dead { .. }) => {}
                Err(error) => listing.silent.push(Silent {
                    socket: program.socket,
                    error: error.to_string(),
                }),
            }
        }
    } else {
        for target in &args.targets {
            listing.programs.push(ask(&socket(target))?);
        }
    }
    let mut table = programs(&listing.programs)?;
    for silent in &listing.silent {
        table.footnote(silent.error.clone());
    }
    if table.row_count() == 0 && listing.silent.is_empty() {
        output.say("No paged program runs. `warmswap run -- COMMAND` starts one.")?;
        return output.save("warmswap.status", listing);
    }
    output.emit("warmswap.status", listing, &[table])
}
