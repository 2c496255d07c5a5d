//! `warmswap run`: a program in less memory, by the kernel host or by the preloaded library.

mod child;
mod host;
mod kernel;
mod preload;
mod program;
mod watch;

use crate::tables::kernel_program::PagingShare;
use anyhow::{Context, Result};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use serde::de::value::StringDeserializer;
use serde::{Deserialize as _, Serialize};
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode, ExitStatus};
use warmswap_kernel::program::ProgramUsage;
use warmswap_output::exit::line;
use warmswap_output::file;
use warmswap_output::output::{Output, ResultArgs};
use warmswap_output::program::find;
use warmswap_output::{BadInput, Quantity, SizeExpr, tell};
use warmswap_policy::SchemeSpec;
use warmswap_protocol::{ExitState, Mechanism, ProgramStats};
use warmswap_sys::cpu_time::ChildrenCpu;

use self::child::Signals;
use self::host::Choice;

/// A budget below this holds not even the state of the library's pager.
const LEAST_PRELOAD_BYTES: u64 = 8 << 20;

/// What the kernel host takes: a group has several MiB in any case.
const LEAST_KERNEL_BYTES: u64 = 1 << 20;

/// What pages a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum HostArg {
    /// The kernel host where rights and kernel allow it and no option is given that only the library has, else the library
    Auto,
    /// The kernel's own swap, in a control group with a limit: any program, static or set-uid too (root, zram, memory groups)
    Kernel,
    /// The library that is preloaded into the program
    Preload,
}

const HELP: &str = "\
Examples:
  warmswap doctor run
      can it work here?
  warmswap run --budget 512M -- redis-server --port 0
      with 512 MiB for its pages, compressed ones included
  warmswap run --budget 40% --learned ~/.cache/warmswap -- python3 app.py
      with what earlier runs taught about it
  warmswap run --host kernel --budget 50% -- ./static-program
      by the kernel's own swap, as root; any program

Exit status: the program's own; 128 and the signal's number when a signal ended it.
1 and 2 before the program starts, as with every command.

Files:
  /usr/lib/warmswap/libwarmswap_preload.so
      the library that is preloaded; WARMSWAP_PRELOAD names another one
  /run/user/UID/warmswap/PID.sock, /run/warmswap/PID.sock
      where a paged program of a user, or of root, listens";

/// The program, and how it is paged.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct RunArgs {
    /// What pages the program
    #[arg(long, value_enum, default_value_t = HostArg::Auto)]
    host: HostArg,
    /// Memory for resident pages, pool and state together: a size, or a share of the memory of this machine or
    /// control group
    #[arg(long, default_value = "50%", value_name = "SIZE")]
    budget: SizeExpr,
    /// Listen on this socket; default: one that `warmswap status` finds
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// Write the program's statistics to this file at its end
    #[arg(long, value_name = "FILE")]
    stats_json: Option<PathBuf>,
    #[command(flatten)]
    library: LibraryArgs,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
    #[command(flatten)]
    output: ResultArgs,
}

/// What only the preloaded library can do.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of the preloaded library")]
struct LibraryArgs {
    /// The scheme: a name from `warmswap-lab schemes`, with changes as `zram+codec=zstd` [default: warmswap]
    #[arg(long)]
    scheme: Option<String>,
    /// Write cold data to an unnamed file in the folder of this path, which must not exist or be an empty file
    #[arg(long, value_name = "FILE")]
    backing: Option<PathBuf>,
    /// Most bytes in it [default: 4GiB]
    #[arg(long, value_name = "SIZE", requires = "backing")]
    backing_limit: Option<SizeExpr>,
    /// Keep what is learned about the program (its hot pages, its footprint) in this folder, in a file by the program's
    /// name, and begin with what an earlier run left there; default: it is forgotten
    #[arg(long, value_name = "FOLDER")]
    learned: Option<PathBuf>,
    /// Take the program for a background one when it has been idle for so many milliseconds; 0: only when told
    /// [default: 5000]
    #[arg(long, value_name = "MS")]
    idle_after: Option<u64>,
    /// Page files, too, that the program maps privately and only reads: their pages count against the budget, and
    /// enter the pool where the scheme takes pages of files (as `ezswap` does)
    #[arg(long)]
    files: bool,
    /// How frames come and go. `auto` moves them, and leaves the program unpaged before Linux 6.8, which cannot; `copy`
    /// refuses the program io_uring, Linux AIO and O_DIRECT, since what these write to a page that has left would be lost
    /// [default: auto]
    #[arg(long, value_parser = mechanism_parser())]
    mechanism: Option<Mechanism>,
    /// Threads that serve faults [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    fault_threads: Option<u8>,
}

impl LibraryArgs {
    /// The first of these options that was given.
    fn given(&self) -> Option<&'static str> {
        let given = [
            ("--scheme", self.scheme.is_some()),
            ("--backing", self.backing.is_some()),
            ("--learned", self.learned.is_some()),
            ("--idle-after", self.idle_after.is_some()),
            ("--files", self.files),
            ("--mechanism", self.mechanism.is_some()),
            ("--fault-threads", self.fault_threads.is_some()),
        ];
        given
            .into_iter()
            .find_map(|(name, is_given)| is_given.then_some(name))
    }
}

/// Takes a mechanism by its name in the settings.
fn mechanism_parser() -> impl TypedValueParser<Value = Mechanism> {
    let value = |name, help| PossibleValue::new(name).help(help);
    PossibleValuesParser::new([
        value(
            "auto",
            "Move frames; before Linux 6.8 the program stays unpaged",
        ),
        value("move", "Move frames (Linux 6.8)"),
        value("copy", "Copy pages"),
    ])
    .try_map(|name| {
        Mechanism::deserialize(StringDeserializer::<serde::de::value::Error>::new(name))
    })
}

/// A program that was found, and what it is run with.
#[derive(Debug)]
struct Program<'a> {
    /// Its file.
    path: PathBuf,
    /// As it was named.
    name: &'a OsStr,
    arguments: &'a [OsString],
    start: program::Start,
    budget_bytes: u64,
}

impl Program<'_> {
    /// A command that starts it.
    fn command(&self) -> Command {
        let mut command;
        if self.start.by_shell {
            // The same arguments as `execvp` gives the shell.
            command = Command::new(program::SHELL);
            command.arg(&self.path);
        } else {
            command = Command::new(&self.path);
            std::os::unix::process::CommandExt::arg0(&mut command, self.name);
        }
        command.args(self.arguments);
        warmswap_sys::inherited::start_alike(&mut command);
        command
    }

    fn cannot_run(&self) -> String {
        format!("cannot run {}", self.path.display())
    }
}

/// What is known in the end.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RunResult {
    /// What paged it: `kernel` or `preload`.
    host: HostArg,
    /// Why that one.
    reason: String,
    /// Why the program was not paged, where the library says so.
    unpaged: Option<String>,
    /// The program; `None` when it wrote nothing and never answered.
    program: Option<ProgramStats>,
    /// Whether that is what it wrote at its end, or the last that it answered before it was killed or became a program that
    /// was not paged.
    complete: bool,
    /// What the programs that it started wrote at their ends, by process.
    others: Vec<ProgramStats>,
    /// The last answers of paged programs that wrote nothing: of processes that it started, or that it was itself before
    /// it became another program.
    unfinished: Vec<ProgramStats>,
    /// Whether it was seen to have started other processes.
    #[serde(skip)]
    has_children: bool,
    /// What the kernel host knows of group and pool.
    kernel: Option<ProgramUsage>,
    /// The most memory that the largest process had, files included; `None` where the command itself had more.
    peak_bytes: Option<u64>,
    /// How much of the program's time went to paging, where that is known.
    paging_percent: Option<PagingShare>,
}

/// The most memory that the largest process of the program had: what this process had when it started the program counts,
/// too, and says nothing of it.
fn peak_bytes() -> Option<u64> {
    let own = std::fs::read_to_string("/proc/self/status").ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let own_kib: u64 = own.trim().strip_suffix(" kB")?.parse().ok()?;
    let bytes = ChildrenCpu::read().peak_bytes;
    (bytes > own_kib << 10).then_some(bytes)
}

/// What a host gives back.
struct Ran {
    status: ExitStatus,
    result: RunResult,
    /// For people.
    summary: String,
}

/// Runs the program to its end, and ends as it did.
pub fn run(args: RunArgs) -> Result<ExitCode> {
    let output = &args.output.open()?;
    if output.is_json_on_stdout() {
        let why = "standard output is the program's; name a file after --json";
        return Err(BadInput(why.to_owned()).into());
    }
    let [name, arguments @ ..] = args.command.as_slice() else {
        return Err(BadInput("no program is named".to_owned()).into());
    };
    let budget_bytes = budget_bytes(&args)?;
    check_budget(&args, budget_bytes, args.host)?;
    check_files(&args, output)?;
    // From here on signals wait until they can be passed on: none ends this process and leaves the program, or what was
    // changed on the machine.
    let mut signals = Signals::catch()?;
    let choice = host::choose(&args)?;
    let path = find(name, std::env::var_os("PATH"))?;
    let program = Program {
        start: program::start(&path)?,
        path,
        name,
        arguments,
        budget_bytes,
    };
    let ran = match choice {
        Choice::Kernel { why } => match kernel::set_up(&program) {
            Ok(host) => kernel::run(&program, &args, host, why, &mut signals, output)?,
            Err(error) if args.host == HostArg::Auto => {
                let why = format!("no kernel host: {}", line(&error));
                preload::run(&program, &args, why, &mut signals, output)?
            }
            Err(error) => return Err(error),
        },
        Choice::Preload { why } => preload::run(&program, &args, why, &mut signals, output)?,
    };
    tell!("{}", ran.summary.trim_end());
    tell!(
        "  host    {}: {}",
        ran.result.host.name(),
        ran.result.reason
    );
    if let Err(error) = keep(&args, &ran.result, output) {
        tell!("warmswap: {}", line(&error));
    }
    // Whatever could not be written: what the program ended with is its own.
    Ok(ExitCode::from(exit_code(ran.status)))
}

/// Writes the files that were asked for.
fn keep(args: &RunArgs, result: &RunResult, output: &Output) -> Result<()> {
    if let (Some(path), Some(stats)) = (&args.stats_json, &result.program) {
        let text = serde_json::to_string_pretty(stats)? + "\n";
        file::save(path, |out| out.write_all(text.as_bytes()))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    output.save("warmswap.run", result)?;
    Ok(())
}

impl HostArg {
    fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Kernel => "kernel",
            Self::Preload => "preload",
        }
    }
}

fn budget_bytes(args: &RunArgs) -> Result<u64> {
    let machine_bytes = warmswap_output::Machine::read()?.memory_bytes;
    // In a container the group's limit is all the memory there is.
    let limit_bytes = warmswap_sys::memcg::own_limit_bytes(&warmswap_sys::Root::machine());
    let memory_bytes = limit_bytes.map_or(machine_bytes, |limit| limit.min(machine_bytes));
    let budget_bytes = args.budget.resolve(memory_bytes);
    Ok(budget_bytes)
}

/// Checks that a host can do with so little.
fn check_budget(args: &RunArgs, budget_bytes: u64, host: HostArg) -> Result<(), BadInput> {
    let least_bytes = match host {
        HostArg::Preload => LEAST_PRELOAD_BYTES,
        HostArg::Auto | HostArg::Kernel => LEAST_KERNEL_BYTES,
    };
    if budget_bytes >= least_bytes {
        return Ok(());
    }
    // What is too little all the same was not meant.
    let meant = args
        .budget
        .meant()
        .filter(|_| budget_bytes << 20 >= least_bytes);
    let meant = meant.map_or_else(String::new, |asks| format!("; {asks}"));
    Err(BadInput(format!(
        "--budget {}: at least {} are needed{meant}",
        args.budget,
        Quantity::Bytes(least_bytes).human(),
    )))
}

/// Checks the files that are written while the program runs, and at its end.
fn check_files(args: &RunArgs, output: &Output) -> Result<(), BadInput> {
    if let Some(path) = &args.stats_json {
        output.check_file("--stats-json", path)?;
    }
    if let Some(path) = &args.control {
        file::check("--control", path)?;
        if path
            .metadata()
            .is_ok_and(|found| !found.file_type().is_socket())
        {
            let path = path.display();
            return Err(BadInput(format!(
                "--control {path}: it is there, and is no socket"
            )));
        }
    }
    let Some(path) = &args.library.backing else {
        return Ok(());
    };
    file::check("--backing", path)?;
    let hindrance = match path.metadata() {
        Ok(found) if !found.is_file() => "it is no regular file",
        Ok(found) if found.len() > 0 => "it is not empty",
        _ => return Ok(()),
    };
    Err(BadInput(format!(
        "--backing {}: {hindrance}; name a file that is not there yet",
        path.display()
    )))
}

/// A scheme of live memory.
///
/// # Errors
/// [`BadInput`] for a clairvoyant one; others of [`SchemeSpec::parse`].
fn live_scheme(text: &str) -> Result<SchemeSpec> {
    let scheme = SchemeSpec::parse(text)?;
    if scheme.reclaim.split(':').next() == Some("optimal") {
        let why = format!(
            "--scheme {text}: it knows the future, which a replay alone has; `warmswap-lab schemes` lists the others"
        );
        return Err(BadInput(why).into());
    }
    Ok(scheme)
}

/// A path that holds when the program changes its folder before it opens it.
fn absolute(path: &Option<PathBuf>) -> Result<Option<PathBuf>> {
    Ok(path.as_deref().map(std::path::absolute).transpose()?)
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
