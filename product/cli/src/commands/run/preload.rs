//! A program under the preloaded library.

use super::child::{self, Signals};
use super::host::needs;
use super::{
    HostArg, Program, Ran, RunArgs, RunResult, absolute, check_budget, exit_code, exit_state,
    live_scheme, peak_bytes, program,
};
use crate::tables::programs::summary;
use anyhow::{Context, Result, anyhow};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;
use warmswap_doctor::{Machine, Part, preload_library, require};
use warmswap_output::{BadInput, Output, Quantity, Style, tell};
use warmswap_protocol::{
    Client, DEFAULT_BACKING_LIMIT_BYTES, LEAST_BACKING_LIMIT_BYTES, ProgramStats, RUN_VARIABLE,
    RunSettings, remove_dead_sockets, socket_path,
};

/// The dynamic loader's list of libraries that come before all others.
const LD_PRELOAD: &str = "LD_PRELOAD";

/// What is done where the options do not say.
const SCHEME: &str = "warmswap";
const IDLE_AFTER_MS: u64 = 5000;
const FAULT_THREADS: u8 = 2;

/// Ends the name of the file in which the library says why it does not page the program.
const UNPAGED: &str = "unpaged";

/// Why a program is not paged that was built with a sanitizer.
const SANITIZER: &str = "its sanitizer replaces what the library would replace";

/// How often the program is asked for its statistics, in case it is killed, and how long it has to answer.
const INTERVAL: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_millis(500);

/// A folder that is removed with the value: in memory where the usual place cannot be written, as in a container.
fn folder_for_statistics() -> std::io::Result<tempfile::TempDir> {
    let mut builder = tempfile::Builder::new();
    // Command lines of programs are private to their user.
    builder
        .prefix("warmswap-run-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    builder
        .tempdir()
        .or_else(|error| builder.tempdir_in("/dev/shm").map_err(|_| error))
}

/// Runs the program to its end. `why` is the reason for this host.
pub fn run(
    program: &Program<'_>,
    args: &RunArgs,
    why: String,
    signals: &mut Signals,
    output: &Output,
) -> Result<Ran> {
    check_budget(args, program.budget_bytes, HostArg::Preload)?;
    let mut settings = settings(args, program.budget_bytes)?;
    let machine = Machine::this();
    if let Err(lacking) = require(&machine, Part::Run) {
        let library = format!("the library needs {}", needs(&lacking));
        return Err(match args.host {
            HostArg::Auto => anyhow!("cannot page programs here: {why}, {library}"),
            _ => anyhow!("cannot page programs here: {library}"),
        });
    }
    let library = preload_library(&machine)?;
    program::check(&program.start.file)?;
    settings.learned.as_deref().map_or(Ok(()), check_learned)?;

    let folder = folder_for_statistics().context("cannot make a folder for statistics")?;
    settings.stats_json = Some(RunSettings::stats_in(folder.path()));
    let mut command = program.command();
    let has_sanitizer = program::has_sanitizer(&program.start.file);
    if !has_sanitizer {
        command
            .env(RUN_VARIABLE, settings.to_variable()?)
            .env(LD_PRELOAD, preloads(&library)?);
    }
    let control = settings.control.clone();
    let ended = child::run(&mut command, signals, |pid, end| {
        let socket = control.or_else(|| socket_path(pid).ok())?;
        watch(pid, socket, &end, INTERVAL)
    });
    let ended = ended.with_context(|| program.cannot_run())?;
    remove_dead_sockets();

    let mut result = collect(folder.path(), ended.pid, ended.seen.flatten(), why);
    if has_sanitizer {
        result.unpaged = Some(SANITIZER.to_owned());
    }
    if let Some(stats) = &mut result.program {
        stats.exit = exit_state(ended.status);
    }
    Ok(Ran {
        status: ended.status,
        summary: summary_of(&result, program, ended.status, output.style),
        result,
    })
}

fn settings(args: &RunArgs, budget_bytes: u64) -> Result<RunSettings> {
    let library = &args.library;
    let scheme = library.scheme.as_deref().unwrap_or(SCHEME);
    live_scheme(scheme)?;
    let backing_limit_bytes = library
        .backing_limit
        .as_ref()
        .map_or(DEFAULT_BACKING_LIMIT_BYTES, |limit| {
            limit.resolve(DEFAULT_BACKING_LIMIT_BYTES)
        });
    if backing_limit_bytes < LEAST_BACKING_LIMIT_BYTES {
        let least = Quantity::Bytes(LEAST_BACKING_LIMIT_BYTES).show(Style::PLAIN);
        let given = Quantity::Bytes(backing_limit_bytes).show(Style::PLAIN);
        return Err(BadInput(format!(
            "--backing-limit: {given} is too little, the file has at least {least}"
        ))
        .into());
    }
    let idle_after_ms = library.idle_after.unwrap_or(IDLE_AFTER_MS);
    Ok(RunSettings {
        backing: absolute(&library.backing)?,
        backing_limit_bytes,
        learned: absolute(&library.learned)?,
        control: absolute(&args.control)?,
        files: library.files,
        idle_after_ms: (idle_after_ms > 0).then_some(idle_after_ms),
        mechanism: library.mechanism.unwrap_or_default(),
        fault_threads: library.fault_threads.unwrap_or(FAULT_THREADS).into(),
        ..RunSettings::new(scheme, budget_bytes)
    })
}

/// Makes the folder of what is learned, and says where nothing can be kept there: the program may learn nothing for hours.
fn check_learned(folder: &Path) -> Result<(), BadInput> {
    let shown = folder.display();
    if folder.exists() && !folder.is_dir() {
        return Err(BadInput(format!("--learned {shown}: it is no folder")));
    }
    // As the library makes it.
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    if let Err(error) = made.and_then(|()| tempfile::tempfile_in(folder)) {
        tell!("warmswap: --learned {shown}: what is learned cannot be kept there: {error}");
    }
    Ok(())
}

/// The value of `LD_PRELOAD`: our library, before those that were asked for already.
fn preloads(library: &Path) -> Result<OsString, BadInput> {
    let mut list = library.as_os_str().to_owned();
    let separators = [b':', b' '];
    if list
        .as_encoded_bytes()
        .iter()
        .any(|b| separators.contains(b))
    {
        let path = library.display();
        let why =
            format!("the loader cannot preload {path}: a blank or a colon in a path ends it there");
        return Err(BadInput(why));
    }
    if let Some(others) = std::env::var_os(LD_PRELOAD).filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    Ok(list)
}

/// Reads what the processes wrote. What cannot be read is as if it had not been written.
fn collect(folder: &Path, pid: u32, last_stats: Option<ProgramStats>, reason: String) -> RunResult {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let read = |path: PathBuf| -> Option<ProgramStats> {
        serde_json::from_slice(&std::fs::read(path).ok()?).ok()
    };
    let mut others: Vec<_> = files.filter_map(|entry| read(entry.path())).collect();
    others.sort_by_key(|stats| stats.pid);
    let own = others.iter().position(|stats| stats.pid == pid);
    let own = own.map(|index| others.remove(index));
    let unpaged = std::fs::read_to_string(folder.join(format!("{pid}.{UNPAGED}"))).ok();
    RunResult {
        host: HostArg::Preload,
        reason,
        unpaged,
        kernel: None,
        peak_bytes: peak_bytes(),
        paging_percent: None,
        complete: own.is_some(),
        program: own.or(last_stats),
        others,
    }
}

/// What is told to people.
fn summary_of(
    result: &RunResult,
    program: &Program<'_>,
    status: ExitStatus,
    style: Style,
) -> String {
    let name = program.name.display();
    // Writing to a string does not fail.
    let mut text = match (&result.program, status.signal()) {
        (Some(stats), _) => summary(stats, result.unpaged.as_deref(), style),
        (None, Some(signal)) => {
            format!("warmswap: {name} was killed by signal {signal} before it wrote statistics\n")
        }
        (None, None) => {
            let why = "it wrote no statistics: the library was not in it, or it ended by the system call alone (exit_group)";
            let why = result.unpaged.as_ref().map_or_else(
                || why.to_owned(),
                |reason| format!("it was not paged: {reason}"),
            );
            format!(
                "warmswap: {name} exited with {}; {why}\n",
                exit_code(status)
            )
        }
    };
    if let Some(bytes) = result.peak_bytes
        && is_peak_told(result.program.as_ref(), bytes, program.budget_bytes)
    {
        text += &peak_line(bytes, program.budget_bytes, style);
    }
    if result.program.is_some() && !result.complete {
        let why = "it was killed, ended by the system call alone (exit_group), or gave up the right to write the end";
        let why = result.unpaged.as_deref().unwrap_or(why);
        let _ = writeln!(text, "  as it was last seen: {why}");
    }
    for stats in result.others.iter().filter(|stats| stats.managed) {
        text += &summary(stats, None, style);
    }
    text
}

/// Whether paging does not explain how much a program had: it was not paged, or nothing of it left although it had more
/// than its budget.
fn is_peak_told(stats: Option<&ProgramStats>, peak_bytes: u64, budget_bytes: u64) -> bool {
    stats.is_none_or(|stats| {
        !stats.managed || (stats.swapped_out_pages == 0 && peak_bytes > budget_bytes)
    })
}

/// What a program had that was not paged.
fn peak_line(peak_bytes: u64, budget_bytes: u64, style: Style) -> String {
    let show = |bytes| Quantity::Bytes(bytes).show(style);
    let (peak, budget) = (show(peak_bytes), show(budget_bytes));
    if peak_bytes <= budget_bytes {
        return format!("  its largest process had at most {peak} in memory; budget {budget}\n");
    }
    format!(
        "  its largest process had {peak} in memory, more than the budget of {budget}: files, and memory that the library \
         leaves to the kernel (by brk, shared, locked, executable, in small mappings, or below 4 GiB)\n"
    )
}

/// Asks the program for its statistics until it ends, and returns its last answer.
fn watch(
    pid: u32,
    socket: PathBuf,
    end: &Receiver<()>,
    interval: Duration,
) -> Option<ProgramStats> {
    let mut client: Option<Client> = None;
    let mut last = None;
    while end.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
        let mut connected = client
            .take()
            .or_else(|| Client::connect(&socket, TIMEOUT).ok());
        let answer = connected.as_mut().map(Client::stats);
        if let Some(Ok(stats)) = answer {
            client = connected;
            // Another process of the program's may listen there.
            if stats.pid == pid {
                last = Some(stats);
            }
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use warmswap_protocol::{Answer, Request, Server};

    /// Watches process 7 while process `pid` listens and answers twice.
    fn watched(pid: u32) -> Option<ProgramStats> {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("7.sock");
        let (ended, end) = channel::<()>();
        std::thread::scope(|scope| {
            let path = socket.clone();
            let watcher = scope.spawn(move || watch(7, path, &end, Duration::from_millis(1)));
            let mut server = Server::bind(&socket).unwrap();
            let mut answers = 0;
            while answers < 2 {
                let answer = |request| {
                    assert_eq!(request, Request::Stats);
                    answers += 1;
                    Ok(Answer::Stats(Box::new(ProgramStats {
                        pid,
                        swapped_out_pages: answers,
                        ..ProgramStats::default()
                    })))
                };
                server.poll_once(None, answer).unwrap();
            }
            // Killed: the socket file stays, and nothing listens.
            drop(server);
            drop(ended);
            watcher.join().unwrap()
        })
    }

    #[test]
    fn the_last_answer_of_a_program_that_is_killed_is_kept() {
        // The second answer may be lost with the socket.
        let last = watched(7).unwrap().swapped_out_pages;
        assert!((1..=2).contains(&last), "{last}");
    }

    #[test]
    fn a_program_that_was_not_paged_is_told_by_what_it_had() {
        let line = |peak| peak_line(peak, 32 << 20, Style::PLAIN);
        assert_eq!(
            line(20 << 20),
            "  its largest process had at most 20.0 MiB in memory; budget 32.0 MiB\n"
        );
        let more = line(300 << 20);
        assert!(
            more.contains("300 MiB in memory, more than the budget of 32.0 MiB"),
            "{more}"
        );
    }

    #[test]
    fn a_budget_that_was_exceeded_without_paging_is_told() {
        let paged = |swapped_out_pages| ProgramStats {
            managed: true,
            swapped_out_pages,
            ..ProgramStats::default()
        };
        assert!(is_peak_told(Some(&paged(0)), 60 << 20, 30 << 20));
        assert!(!is_peak_told(Some(&paged(0)), 20 << 20, 30 << 20));
        assert!(!is_peak_told(Some(&paged(9)), 60 << 20, 30 << 20));
    }

    #[test]
    fn another_process_on_the_socket_is_not_the_program() {
        assert_eq!(watched(8), None);
    }
}
