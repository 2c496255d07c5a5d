//! `warmswap status`: the daemon with its applications, and the paged programs that run.

use super::daemon::{DaemonSocket, Unreachable};
use super::switch::is_program;
use crate::exit::BadInput;
use crate::manual::{NOT_ALLOWED, NOTHING_RUNS};
use crate::output::Output;
use anyhow::Result;
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use warmswap_control::{Client, ClientError, DaemonStatus, ProgramStats, running, socket_of};
use warmswap_report::table::Table;
use warmswap_report::tables::daemon::{self, Verdict};
use warmswap_report::tables::programs::programs;

/// How long a program has for its answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Relaunches that are shown.
const SHOWN_RELAUNCHES: usize = 10;

/// Which programs.
#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    daemon: DaemonSocket,
    /// Paged programs, by process or socket; default: the daemon, and all of this user
    #[arg(value_name = "PID|SOCKET")]
    targets: Vec<String>,
}

#[derive(Debug, Default, Serialize)]
struct Listing {
    daemon: Option<DaemonStatus>,
    /// Whether the daemon helps; `None` without one.
    verdict: Option<Verdict>,
    programs: Vec<ProgramStats>,
    silent: Vec<Silent>,
}

/// A program that listens and does not answer.
#[derive(Debug, Serialize)]
struct Silent {
    socket: PathBuf,
    error: String,
}

impl Silent {
    fn new(socket: &Path, error: &dyn std::fmt::Display) -> Self {
        Self {
            socket: socket.to_owned(),
            error: error.to_string(),
        }
    }
}

/// The socket that a person means: that of a process by its number, or a file.
pub fn socket(target: &str) -> PathBuf {
    match target.parse() {
        Ok(pid) => socket_of(pid),
        Err(_) => PathBuf::from(target),
    }
}

/// Asks one program.
pub fn ask(socket: &Path) -> Result<ProgramStats, ClientError> {
    Client::connect(socket, TIMEOUT)?.stats()
}

/// All of this user's programs, and the daemon; why that does not answer, where there is one.
fn everything(socket: &DaemonSocket) -> (Listing, Option<Unreachable>) {
    let mut listing = Listing::default();
    let mut unreachable = None;
    match socket.status() {
        Ok(status) => listing.daemon = status,
        Err(error) => unreachable = Some(error),
    }
    for program in running() {
        match ask(&program.socket) {
            Ok(stats) => listing.programs.push(stats),
            // It ended meanwhile.
            Err(ClientError::Missing { .. } | ClientError::Dead { .. }) => {}
            Err(error) => listing.silent.push(Silent::new(&program.socket, &error)),
        }
    }
    (listing, unreachable)
}

/// Prints the tables, and ends with what was found.
pub fn run(args: StatusArgs, output: &Output) -> Result<ExitCode> {
    let (mut listing, unreachable) = if args.targets.is_empty() {
        everything(&args.daemon)
    } else {
        let ask = |target: &String| {
            let socket = socket(target);
            if !is_program(target) && !socket.exists() {
                let why = format!(
                    "'{target}' is neither a process nor a socket; applications are shown by plain `warmswap status`"
                );
                return Err(BadInput(why).into());
            }
            Ok(ask(&socket)?)
        };
        let programs = args.targets.iter().map(ask).collect::<Result<_>>()?;
        let listing = Listing {
            programs,
            ..Listing::default()
        };
        (listing, None)
    };
    let mut tables: Vec<Table> = Vec::new();
    if let Some(status) = &listing.daemon {
        listing.verdict = Some(daemon::verdict(status, output.style));
        output.say(daemon::summary(status, output.style).trim_end())?;
        output.say("")?;
        tables.push(daemon::apps(status)?);
        tables.push(daemon::relaunches(status, SHOWN_RELAUNCHES)?);
    }
    tables.push(programs(&listing.programs)?);
    tables.retain(|table| table.row_count() > 0);
    let runs = listing.daemon.is_some() || !listing.programs.is_empty();
    let code = match &unreachable {
        Some(Unreachable::NotAllowed { .. } | Unreachable::OutOfSight { .. }) => NOT_ALLOWED,
        Some(_) => 1,
        None if !runs && listing.silent.is_empty() => NOTHING_RUNS,
        None => 0,
    };
    for silent in &listing.silent {
        eprintln!("warmswap: {}", silent.error);
    }
    if let Some(error) = unreachable {
        eprintln!("warmswap: {error}");
    } else if code == NOTHING_RUNS {
        eprintln!(
            "warmswap: no daemon and no paged program of this user runs: `warmswap daemon` looks after programs as they are (root), \
             `warmswap run -- COMMAND` starts one that is paged"
        );
    }
    output.emit("warmswap.status", listing, &tables)?;
    Ok(ExitCode::from(code))
}
