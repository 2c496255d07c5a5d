//! `warmswap run`: a program whose memory is paged by the preloaded library.

mod child;
mod program;

use crate::exit::BadInput;
use crate::output::Output;
use anyhow::{Context, Result};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::de::value::StringDeserializer;
use serde::{Deserialize as _, Serialize};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use warmswap_control::{
    DEFAULT_BACKING_LIMIT_BYTES, ExitState, Mechanism, ProgramStats, RUN_VARIABLE, RunSettings,
};
use warmswap_doctor::{Machine, Part, preload_library, require};
use warmswap_policy::SchemeSpec;
use warmswap_report::size_expr::SizeExpr;
use warmswap_report::tables::programs::summary;
use warmswap_report::units::Quantity;

/// A budget below this holds not even the pager's own state.
const MIN_BUDGET_BYTES: u64 = 8 << 20;

/// The dynamic loader's list of libraries that come before all others.
const LD_PRELOAD: &str = "LD_PRELOAD";

/// The program, and how it is paged.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The scheme: a name from `warmswap schemes`, with changes as `zram+codec=zstd`
    #[arg(long, default_value = "warmswap")]
    scheme: String,
    /// Memory for resident pages, pool and state together: a size, or a share of the memory of this machine or
    /// control group
    #[arg(long, default_value = "50%", value_name = "SIZE")]
    budget: SizeExpr,
    /// Write cold data to this file, which must not exist or be empty; it is removed in the end
    #[arg(long, value_name = "FILE")]
    backing: Option<PathBuf>,
    /// Most bytes in it
    #[arg(
        long,
        default_value = "4GiB",
        value_name = "SIZE",
        requires = "backing"
    )]
    backing_limit: SizeExpr,
    /// Keep what is learned about the program (its hot pages, its footprint) in this folder, in a file by the program's
    /// name, and begin with what an earlier run left there; default: it is forgotten
    #[arg(long, value_name = "FOLDER")]
    learned: Option<PathBuf>,
    /// Listen on this socket; default: one that `warmswap status` finds
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// Write the program's statistics to this file at its end
    #[arg(long, value_name = "FILE")]
    stats_json: Option<PathBuf>,
    /// Take the program for a background one when it has been idle for so many milliseconds; 0: only when told
    #[arg(long, default_value_t = 5000, value_name = "MS")]
    idle_after: u64,
    /// Page files, too, that the program maps privately and only reads: their pages count against the budget, and
    /// enter the pool where the scheme takes pages of files (as `ezswap` does)
    #[arg(long)]
    files: bool,
    /// How frames come and go. `auto` moves them, and leaves the program unpaged before Linux 6.8, which cannot; `copy`
    /// refuses the program io_uring, Linux AIO and O_DIRECT, since what these write to a page that has left would be lost
    #[arg(long, default_value = "auto", value_parser = mechanism_parser())]
    mechanism: Mechanism,
    /// Threads that serve faults
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    fault_threads: u8,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    command: Vec<OsString>,
}

/// Takes a mechanism by its name in the settings.
fn mechanism_parser() -> impl TypedValueParser<Value = Mechanism> {
    let value = |name, help| PossibleValue::new(name).help(help);
    PossibleValuesParser::new([
        value("auto", "Move where the kernel can, else copy"),
        value("move", "Move frames (Linux 6.8)"),
        value("copy", "Copy pages"),
    ])
    .try_map(|name| {
        Mechanism::deserialize(StringDeserializer::<serde::de::value::Error>::new(name))
    })
}

/// What is known in the end.
#[derive(Debug, Serialize)]
struct RunResult {
    /// The program; `None` when it wrote nothing and never answered.
    program: Option<ProgramStats>,
    /// Whether that is what it wrote at its end, or the last that it answered before it was killed.
    complete: bool,
    /// What the programs that it started wrote at their ends, by process.
    others: Vec<ProgramStats>,
}

/// Runs the program to its end, and ends as it did.
pub fn run(args: RunArgs, output: &Output) -> Result<ExitCode> {
    if output.is_json_on_stdout() {
        let why = "standard output is the program's; name a file after --json";
        return Err(BadInput(why.to_owned()).into());
    }
    let mut settings = settings(&args)?;
    let machine = Machine::this();
    require(&machine, Part::Run).context("this machine cannot run paged programs")?;
    let library = preload_library(&machine)?;
    let [name, arguments @ ..] = args.command.as_slice() else {
        return Err(BadInput("no program is named".to_owned()).into());
    };
    let program = program::find(name, std::env::var_os("PATH"))?;
    program::check(&program)?;

    // The command lines of programs are nobody else's business.
    let folder = tempfile::Builder::new()
        .prefix("warmswap-run-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .tempdir();
    let folder = folder.context("cannot make a folder for statistics")?;
    settings.stats_json = Some(RunSettings::stats_in(folder.path()));
    let mut command = Command::new(&program);
    std::os::unix::process::CommandExt::arg0(&mut command, name);
    command
        .args(arguments)
        .env(RUN_VARIABLE, settings.to_variable()?)
        .env(LD_PRELOAD, preloads(&library)?);
    let ended = child::run(&mut command, &settings)
        .with_context(|| format!("cannot run {}", program.display()))?;

    let exit = exit_state(ended.status);
    let mut result = collect(folder.path(), ended.pid, ended.last_stats);
    if let Some(stats) = &mut result.program {
        stats.exit = exit;
    }
    tell(&result, name, output);
    if let (Some(path), Some(stats)) = (&args.stats_json, &result.program) {
        let text = serde_json::to_string_pretty(stats)? + "\n";
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    output.save("warmswap.run", &result)?;
    Ok(ExitCode::from(exit_code(ended.status)))
}

fn settings(args: &RunArgs) -> Result<RunSettings> {
    SchemeSpec::parse(&args.scheme)?;
    let machine_bytes = warmswap_report::Machine::read()?.memory_bytes;
    // In a container the group's limit is all the memory there is.
    let limit_bytes = warmswap_sys::memcg::own_limit_bytes(&warmswap_sys::Root::machine());
    let memory_bytes = limit_bytes.map_or(machine_bytes, |limit| limit.min(machine_bytes));
    let budget_bytes = args.budget.resolve(memory_bytes);
    if budget_bytes < MIN_BUDGET_BYTES {
        let least = Quantity::Bytes(MIN_BUDGET_BYTES).human();
        let why = format!("--budget {}: at least {least} are needed", args.budget);
        return Err(BadInput(why).into());
    }
    // A program may change its folder before it opens these.
    let absolute = |path: &Option<PathBuf>| path.as_deref().map(std::path::absolute).transpose();
    let backing_limit_bytes = args.backing_limit.resolve(DEFAULT_BACKING_LIMIT_BYTES);
    Ok(RunSettings {
        backing: absolute(&args.backing)?,
        backing_limit_bytes,
        learned: absolute(&args.learned)?,
        control: absolute(&args.control)?,
        files: args.files,
        idle_after_ms: (args.idle_after > 0).then_some(args.idle_after),
        mechanism: args.mechanism,
        fault_threads: args.fault_threads.into(),
        ..RunSettings::new(&args.scheme, budget_bytes)
    })
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
fn collect(folder: &Path, pid: u32, last_stats: Option<ProgramStats>) -> RunResult {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let read = |path: PathBuf| -> Option<ProgramStats> {
        serde_json::from_slice(&std::fs::read(path).ok()?).ok()
    };
    let mut others: Vec<_> = files.filter_map(|entry| read(entry.path())).collect();
    others.sort_by_key(|stats| stats.pid);
    let own = others.iter().position(|stats| stats.pid == pid);
    let own = own.map(|index| others.remove(index));
    RunResult {
        complete: own.is_some(),
        program: own.or(last_stats),
        others,
    }
}

/// The summary, on standard error: standard output is the program's.
fn tell(result: &RunResult, name: &OsString, output: &Output) {
    match &result.program {
        Some(stats) => eprint!("{}", summary(stats, output.style)),
        None => eprintln!(
            "warmswap: {} wrote no statistics: it was killed at once, or the library was not loaded into it",
            name.display()
        ),
    }
    if result.program.is_some() && !result.complete {
        eprintln!("  as it was last seen: it was killed, or gave up the right to write the end");
    }
    for stats in result.others.iter().filter(|stats| stats.managed) {
        eprint!("{}", summary(stats, output.style));
    }
}

fn exit_state(status: ExitStatus) -> ExitState {
    match status.signal() {
        Some(signal) => ExitState::Killed { signal },
        None => ExitState::Exited {
            status: status.code(),
        },
    }
}

/// As a shell gives it: 128 and the signal's number after a signal.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
