//! A program under the preloaded library.

use super::child::{self, Signals};
use super::host::needs;
use super::watch::{Answers, Descendants, INTERVAL, watch};
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
use warmswap_doctor::{Machine, Part, preload_library, require};
use warmswap_output::{BadInput, Output, Quantity, Style, tell};
use warmswap_protocol::{
    DEFAULT_BACKING_LIMIT_BYTES, ExitState, LEAST_BACKING_LIMIT_BYTES, ProgramStats, RUN_VARIABLE,
    RunSettings, remove_dead_sockets,
};
use warmswap_sys::Root;
use warmswap_sys::process::Stat;

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
        watch(&Descendants { pid, control }, &end, INTERVAL)
    });
    let ended = ended.with_context(|| program.cannot_run())?;
    remove_dead_sockets();

    let mut result = collect(
        folder.path(),
        ended.pid,
        ended.seen.unwrap_or_default(),
        why,
    );
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
fn collect(folder: &Path, pid: u32, answers: Answers, reason: String) -> RunResult {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let read = |path: PathBuf| -> Option<ProgramStats> {
        serde_json::from_slice(&std::fs::read(path).ok()?).ok()
    };
    let mut reports: Vec<_> = files.filter_map(|entry| read(entry.path())).collect();
    reports.sort_by_key(|stats| stats.pid);
    let unpaged = std::fs::read_to_string(folder.join(format!("{pid}.{UNPAGED}"))).ok();
    let result = RunResult {
        host: HostArg::Preload,
        reason,
        unpaged,
        kernel: None,
        peak_bytes: peak_bytes(),
        paging_percent: None,
        complete: false,
        program: None,
        others: Vec::new(),
        unfinished: Vec::new(),
        has_children: answers.has_children,
    };
    let mut result = sort_out(result, pid, reports, answers);
    for stats in &mut result.unfinished {
        stats.exit = match goes_on(stats.pid) {
            true => ExitState::Running,
            false => ExitState::Exited { status: None },
        };
    }
    result
}

/// Tells the statistics of process `pid` from those of others, and those of programs that wrote nothing. Where the process
/// was paged and then became a program that was not, the paged one is the program.
fn sort_out(
    mut result: RunResult,
    pid: u32,
    mut reports: Vec<ProgramStats>,
    mut answers: Answers,
) -> RunResult {
    answers.drop_reported(&reports);
    let mut unfinished = answers.programs;
    let report = reports.iter().position(|stats| stats.pid == pid);
    let report = report.map(|index| reports.remove(index));
    let last = unfinished.iter().rposition(|stats| match &report {
        Some(report) => stats.pid == pid && stats.managed && !report.managed,
        None => stats.pid == pid,
    });
    let last = last.map(|index| unfinished.remove(index));
    unfinished.retain(|stats| stats.managed);
    result.complete = report.is_some() && last.is_none();
    if let (Some(report), Some(_)) = (&report, &last) {
        let why = result.unpaged.take();
        let why = why.map_or_else(String::new, |why| format!(": {why}"));
        let became = format!("it became {} (exec), which was not paged{why}", report.name);
        result.unpaged = Some(became);
    }
    (result.program, result.others) = match (last, report) {
        (Some(last), Some(report)) => (Some(last), [vec![report], reports].concat()),
        (last, report) => (last.or(report), reports),
    };
    result.unfinished = unfinished;
    result
}

/// Whether a process that the program started outlives it.
fn goes_on(pid: u32) -> bool {
    let stat = Stat::read(&Root::machine(), pid);
    stat.is_ok_and(|stat| !matches!(stat.state, 'Z' | 'X'))
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
        text += &peak_line(bytes, program.budget_bytes, is_all_known(result), style);
    }
    if result.program.is_some() && !result.complete {
        let why = "it was killed, ended by the system call alone (exit_group), or gave up the right to write the end";
        let why = result.unpaged.as_deref().unwrap_or(why);
        let _ = writeln!(text, "  as it was last seen: {why}");
    }
    for stats in result.others.iter().filter(|stats| stats.managed) {
        text += &summary(stats, None, style);
    }
    for stats in &result.unfinished {
        text += &summary(stats, None, style);
        let why = match stats.exit {
            ExitState::Running => "it goes on",
            _ => {
                "it was killed, became another program (exec), or ended by the system call alone (exit_group)"
            }
        };
        let _ = writeln!(text, "  as it was last seen: {why}");
    }
    text
}

/// Whether the library looked at all memory of the largest process, and found too little of it that it pages: there is one
/// process, which wrote its statistics, and nothing kept the library from paging it.
fn is_all_known(result: &RunResult) -> bool {
    let is_alone = result.others.is_empty() && result.unfinished.is_empty() && !result.has_children;
    is_alone && result.complete && result.unpaged.is_none()
}

/// Whether paging does not explain how much a program had: it was not paged, or nothing of it left although it had more
/// than its budget.
fn is_peak_told(stats: Option<&ProgramStats>, peak_bytes: u64, budget_bytes: u64) -> bool {
    stats.is_none_or(|stats| {
        !stats.managed || (stats.swapped_out_pages == 0 && peak_bytes > budget_bytes)
    })
}

/// What a program had that was not paged, and why where that is known.
fn peak_line(peak_bytes: u64, budget_bytes: u64, is_all_known: bool, style: Style) -> String {
    let show = |bytes| Quantity::Bytes(bytes).show(style);
    let (peak, budget) = (show(peak_bytes), show(budget_bytes));
    if peak_bytes <= budget_bytes {
        return format!("  its largest process had at most {peak} in memory; budget {budget}\n");
    }
    let why = match is_all_known {
        true => {
            ": files, and memory that the library leaves to the kernel (by brk, shared, locked, executable, in small \
             mappings, in reservations of 64 GiB and more, or below 4 GiB)"
        }
        false => "",
    };
    format!("  its largest process had {peak} in memory, more than the budget of {budget}{why}\n")
}

#[cfg(test)]
mod tests;
