//! `warmswap status`: the daemon with its applications, and the paged programs that run.

use super::daemon::{DaemonSocket, Unreachable};
use super::switch::is_program;
use crate::tables::daemon;
use crate::tables::programs::programs;
use anyhow::Result;
use clap::Args;
use serde::Serialize;
use std::io::{IsTerminal as _, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use warmswap_daemon::metrics::openmetrics;
use warmswap_output::output::TableArgs;
use warmswap_output::{BadInput, Output, Table, tell};
use warmswap_protocol::{
    Client, ClientError, DaemonStatus, ProgramStats, RefusalKind, running, socket_of,
};

/// How long a program has for its answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Neither a daemon nor a paged program was found.
const NOTHING_RUNS: u8 = 3;

/// This user may not ask the daemon, or cannot see whether there is one.
const NOT_ALLOWED: u8 = 4;

/// Relaunches that are shown.
const SHOWN_RELAUNCHES: usize = 10;

/// Time between two looks.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// What clears a terminal: to the upper left, and nothing from there on.
const CLEAR: &str = "\u{1b}[H\u{1b}[J";

const HELP: &str = "\
Examples:
  warmswap status
      the daemon with its applications, and the paged programs
  warmswap status 4711
      one paged program
  warmswap status /run/warmswap/daemon.sock
      the daemon alone
  warmswap status --watch
      the same, again each second
  warmswap status --json -
      for scripts

Exit status:
  3  neither a daemon nor a paged program of this user runs
  4  this user may not connect to the daemon's socket, or not look for it; paged programs are shown all the same";

/// Which programs.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct StatusArgs {
    #[command(flatten)]
    daemon: DaemonSocket,
    /// Look again each second
    #[arg(long, conflicts_with_all = ["json", "csv", "openmetrics"])]
    watch: bool,
    /// The daemon's status as OpenMetrics text, for Prometheus
    #[arg(long, conflicts_with_all = ["json", "csv", "targets"])]
    openmetrics: bool,
    /// Paged programs, by process or socket, or the daemon by its socket; default: the daemon, and all programs of this user
    #[arg(value_name = "PID|SOCKET")]
    targets: Vec<String>,
    #[command(flatten)]
    output: TableArgs,
}

/// What runs.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Listing {
    /// The daemon; `None` where none answers, or programs alone are named.
    daemon: Option<DaemonStatus>,
    /// Paged programs.
    programs: Vec<ProgramStats>,
    /// Programs that listen and do not answer.
    silent: Vec<Silent>,
}

/// A program that listens and does not answer.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Silent {
    /// Where it listens.
    socket: PathBuf,
    /// What came in place of an answer.
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

/// The socket that the user means: a process's, by its number, or a file.
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

/// The programs that are named, and the daemon if its socket is.
fn named(targets: &[String]) -> Result<Listing> {
    let mut listing = Listing::default();
    for target in targets {
        let socket = socket(target);
        if !is_program(target) && !socket.exists() {
            let why = format!(
                "'{target}' is neither a process nor a socket; applications are shown by plain `warmswap status`"
            );
            return Err(BadInput(why).into());
        }
        match ask(&socket) {
            Ok(stats) => listing.programs.push(stats),
            Err(ClientError::Refused { refusal, .. }) if refusal.kind == RefusalKind::Unknown => {
                listing.daemon = DaemonSocket::at(socket).status()?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(listing)
}

/// Prints what was asked for, and ends with what was found.
pub fn run(args: StatusArgs) -> Result<ExitCode> {
    let output = &args.output.open()?;
    if args.openmetrics {
        return metrics(&args.daemon, output);
    }
    if !args.watch {
        return print(look(&args)?, output);
    }
    let clear = if stdout().is_terminal() { CLEAR } else { "" };
    loop {
        // All that is to be shown first, so that the screen is never empty for long.
        let seen = look(&args)?;
        output.print(|out| out.write_all(clear.as_bytes()))?;
        let code = print(seen, output)?;
        if output.is_closed() {
            return Ok(code);
        }
        if clear.is_empty() {
            output.say("")?;
        }
        std::thread::sleep(WATCH_INTERVAL);
    }
}

/// The daemon's status for Prometheus.
fn metrics(daemon: &DaemonSocket, output: &Output) -> Result<ExitCode> {
    match daemon.status() {
        Ok(Some(status)) => {
            output.print(|out| out.write_all(openmetrics(&status).as_bytes()))?;
            Ok(ExitCode::SUCCESS)
        }
        Ok(None) => {
            tell!("warmswap: no daemon runs: start it with `warmswap daemon`");
            Ok(ExitCode::from(NOTHING_RUNS))
        }
        Err(error) => {
            tell!("warmswap: {error}");
            Ok(ExitCode::from(code(&error)))
        }
    }
}

/// How the command ends where the daemon does not answer.
fn code(error: &Unreachable) -> u8 {
    match error {
        Unreachable::NotAllowed { .. } | Unreachable::OutOfSight { .. } => NOT_ALLOWED,
        _ => 1,
    }
}

fn look(args: &StatusArgs) -> Result<(Listing, Option<Unreachable>)> {
    match args.targets.is_empty() {
        true => Ok(everything(&args.daemon)),
        false => Ok((named(&args.targets)?, None)),
    }
}

fn print(seen: (Listing, Option<Unreachable>), output: &Output) -> Result<ExitCode> {
    let (listing, unreachable) = seen;
    let mut tables: Vec<Table> = Vec::new();
    if let Some(status) = &listing.daemon {
        output.say(daemon::summary(status, output.style).trim_end())?;
        output.say("")?;
        tables.push(daemon::apps(status));
        tables.push(daemon::relaunches(status, SHOWN_RELAUNCHES));
    }
    tables.push(programs(&listing.programs));
    tables.retain(|table| table.row_count() > 0);
    let runs = listing.daemon.is_some() || !listing.programs.is_empty();
    let code = match &unreachable {
        Some(error) => code(error),
        None if !runs && listing.silent.is_empty() => NOTHING_RUNS,
        None => 0,
    };
    for silent in &listing.silent {
        tell!("warmswap: {}", silent.error);
    }
    if let Some(error) = unreachable {
        tell!("warmswap: {error}");
    } else if code == NOTHING_RUNS {
        tell!(
            "warmswap: no daemon and no paged program of this user runs: `warmswap daemon` looks after programs as they are (root), \
             `warmswap run -- COMMAND` starts one that is paged"
        );
    }
    output.emit("warmswap.status", listing, &tables)?;
    Ok(ExitCode::from(code))
}
