//! A program in a control group, under the kernel host.

use super::child::{self, Signals};
use super::{HostArg, Program, Ran, RunArgs, RunResult, absolute, exit_state, peak_bytes};
use crate::tables::kernel_program::{PagingShare, kernel_summary};
use anyhow::{Context, Result};
use std::path::Path;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};
use warmswap_kernel::program::{ProgramHost, ProgramOptions, ProgramUsage};
use warmswap_output::{Output, Quantity, Style, tell};
use warmswap_protocol::{
    Answer, FaultCounts, ProgramStats, Refusal, RefusalKind, Reply, Request, Server, socket_path,
};
use warmswap_sys::Root;
use warmswap_sys::cpu_time::ChildrenCpu;
use warmswap_sys::undo::Undo;

/// How often the end of the program is looked for between requests.
const INTERVAL: Duration = Duration::from_millis(20);

/// A process has this much more than its group by libraries alone: pages of files are charged to the group that read them
/// first.
const LIBRARIES_BYTES: u64 = 16 << 20;

/// Makes group and swap device. What an earlier command left is taken back before.
pub fn set_up(program: &Program<'_>) -> Result<ProgramHost> {
    let root = Root::machine();
    let undo = Undo::open(&root, &Undo::default_folder(&root))?;
    let options = ProgramOptions {
        name: format!("run-{}", std::process::id()),
        budget_bytes: program.budget_bytes,
    };
    Ok(ProgramHost::create(&undo, &options)?)
}

/// Runs the program to its end. `why` is the reason for this host.
pub fn run(
    program: &Program<'_>,
    args: &RunArgs,
    host: ProgramHost,
    why: String,
    signals: &mut Signals,
    output: &Output,
) -> Result<Ran> {
    let mut command = program.command();
    host.start_here(&mut command)?;
    let told = Told {
        name: program.path.file_name().unwrap_or_default(),
        command: std::iter::once(program.name)
            .chain(program.arguments.iter().map(std::ffi::OsString::as_os_str))
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
        begin: Instant::now(),
    };
    let control = absolute(&args.control)?;
    let before = ChildrenCpu::read();
    let ended = child::run(&mut command, signals, |pid, end| {
        host.started(pid);
        let socket = control.or_else(|| socket_path(pid).ok());
        listen(socket.as_deref(), &end, &|| told.stats(pid, &host.usage()));
    });
    let ended = ended.with_context(|| program.cannot_run())?;
    let elapsed = told.begin.elapsed();
    let cpu = ChildrenCpu::read();
    let (usage, taken_back) = host.finish();
    if let Err(error) = taken_back {
        tell!("warmswap: {error}; the next command tries again");
    }

    let user_ns = cpu.user_ns - before.user_ns;
    let system_ns = cpu.system_ns - before.system_ns;
    let stats = ProgramStats {
        exit: exit_state(ended.status),
        elapsed_seconds: elapsed.as_secs_f64(),
        program_cpu_seconds: (user_ns + system_ns) as f64 / 1e9,
        ..told.stats(ended.pid, &usage)
    };
    let share = match usage.stalled_us {
        Some(us) => Some(PagingShare::Stalled(
            us as f64 / elapsed.as_micros().max(1) as f64 * 100.0,
        )),
        None => (user_ns + system_ns > 0)
            .then(|| PagingShare::System(system_ns as f64 / (user_ns + system_ns) as f64 * 100.0)),
    };
    let peak_bytes = peak_bytes();
    Ok(Ran {
        status: ended.status,
        summary: kernel_summary(&stats, &usage, share, output.style)
            + &beyond_the_group(&usage, peak_bytes, output.style)
            + &sized_by_the_group(told.name, ended.status),
        result: RunResult {
            host: HostArg::Kernel,
            reason: why,
            unpaged: None,
            program: Some(stats),
            complete: true,
            others: Vec::new(),
            unfinished: Vec::new(),
            has_children: false,
            kernel: Some(usage),
            peak_bytes,
            paging_percent: share,
        },
    })
}

/// What the group's own account does not hold, a line each: pages that are counted for the whole machine, and a process that
/// had more than was ever charged to the group.
fn beyond_the_group(usage: &ProgramUsage, peak_bytes: Option<u64>, style: Style) -> String {
    let mut lines = String::new();
    // Pages of zeros leave and take nothing in the pool.
    let is_paged = usage.pool_peak_bytes > 0 || usage.needed_peak_bytes > usage.used_peak_bytes;
    if is_paged && !usage.is_own_traffic {
        lines += "  pages out and in are those of the whole machine meanwhile: its control groups do not count them\n";
    }
    let explained_bytes = usage.resident_peak_bytes.max(usage.budget_bytes) + LIBRARIES_BYTES;
    if let Some(peak_bytes) = peak_bytes.filter(|&peak| peak > explained_bytes) {
        let peak = Quantity::Bytes(peak_bytes).show(style);
        let why = match usage.has_left_group {
            true => "a process was outside of the group",
            false => {
                "it was outside of the group, or had pages of files that others had read before"
            }
        };
        lines += &format!(
            "  its largest process had {peak} in memory, more than was charged to the group: {why}\n"
        );
    }
    lines
}

/// Programs that size their heap by the limit of their group, and the option that does it in its place.
const SIZED_BY_THE_GROUP: [(&str, &str); 2] = [("java", "-Xmx"), ("node", "--max-old-space-size")];

/// A line for one of them that failed: it may have been at the end of a heap that it made small.
fn sized_by_the_group(name: &std::ffi::OsStr, status: std::process::ExitStatus) -> String {
    let known = SIZED_BY_THE_GROUP.iter().find(|(known, _)| name == *known);
    match known.filter(|_| !status.success()) {
        Some((name, option)) => format!(
            "  {name} sizes its heap by the group's limit, which is at most the budget: {option} sets it, and --host preload has no group\n"
        ),
        None => String::new(),
    }
}

/// What is told of a program beside its use of memory.
struct Told<'a> {
    name: &'a std::ffi::OsStr,
    command: Vec<String>,
    begin: Instant,
}

impl Told<'_> {
    fn stats(&self, pid: u32, usage: &ProgramUsage) -> ProgramStats {
        let stored = usage.pool_bytes > 0;
        ProgramStats {
            pid,
            name: self.name.to_string_lossy().into_owned(),
            command: self.command.clone(),
            scheme: format!("kernel host over {}", usage.device),
            managed: true,
            elapsed_seconds: self.begin.elapsed().as_secs_f64(),
            budget_bytes: usage.budget_bytes,
            used_bytes: usage.resident_bytes + usage.pool_bytes,
            virtual_bytes: usage.resident_bytes + usage.swapped_bytes,
            virtual_peak_bytes: usage.needed_peak_bytes,
            resident_bytes: usage.resident_bytes,
            resident_peak_bytes: usage.resident_peak_bytes,
            pool_bytes: usage.pool_bytes,
            pool_peak_bytes: usage.pool_peak_bytes,
            memory_ratio: stored.then(|| usage.swapped_bytes as f64 / usage.pool_bytes as f64),
            faults: FaultCounts {
                total: usage.major_faults,
                pool: usage.major_faults,
                ..FaultCounts::default()
            },
            swapped_out_pages: usage.out_pages,
            swapped_in_pages: usage.in_pages,
            pager_cpu_seconds: usage.steering_cpu_ns as f64 / 1e9,
            ..ProgramStats::default()
        }
    }
}

/// Answers `warmswap status` until the program has ended. Without a socket nothing is answered.
fn listen(socket: Option<&Path>, end: &Receiver<()>, stats: &dyn Fn() -> ProgramStats) {
    let server: Option<Server> = socket.and_then(|path| Server::bind(path).ok());
    let Some(mut server) = server else {
        let _ = end.recv();
        return;
    };
    while end.try_recv() != Err(TryRecvError::Disconnected) {
        if server
            .poll_once(Some(INTERVAL), |r| answer(r, stats))
            .is_err()
        {
            let _ = end.recv_timeout(INTERVAL);
        }
    }
}

fn answer(request: Request, stats: &dyn Fn() -> ProgramStats) -> Reply {
    match request {
        Request::Status => Ok(Answer::Status(stats().status())),
        Request::Stats => Ok(Answer::Stats(Box::new(stats()))),
        _ => Err(Refusal::new(
            RefusalKind::NotNow,
            "the kernel host of one program has nothing to do at a switch",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_the_whole_machine_are_told_as_such() {
        let line = "pages out and in are those of the whole machine";
        let told = |usage: &ProgramUsage| beyond_the_group(usage, None, Style::PLAIN);
        let machines = ProgramUsage {
            pool_peak_bytes: 1 << 20,
            ..ProgramUsage::default()
        };
        assert!(told(&machines).contains(line));
        let own = ProgramUsage {
            is_own_traffic: true,
            ..machines
        };
        assert_eq!(told(&own), "");
        assert_eq!(told(&ProgramUsage::default()), "", "no pages are told");
    }

    #[test]
    fn a_process_with_more_than_its_group_was_outside() {
        let mut usage = ProgramUsage {
            budget_bytes: 30 << 20,
            resident_peak_bytes: 512 << 10,
            ..ProgramUsage::default()
        };
        let told = |usage: &ProgramUsage, peak| beyond_the_group(usage, peak, Style::PLAIN);
        assert_eq!(told(&usage, None), "");
        assert_eq!(told(&usage, Some(40 << 20)), "", "pages of libraries");
        let text = told(&usage, Some(213 << 20));
        let line =
            "its largest process had 213 MiB in memory, more than was charged to the group: it was";
        assert!(text.contains(line), "{text}");
        usage.has_left_group = true;
        let text = told(&usage, Some(213 << 20));
        assert!(
            text.contains("a process was outside of the group\n"),
            "{text}"
        );
    }
}
