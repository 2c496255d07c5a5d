//! A program in a control group, under the kernel host.

use super::child::{self, Signals};
use super::{HostArg, Program, Ran, RunArgs, RunResult, absolute, exit_state, peak_bytes};
use crate::tables::kernel_program::{PagingShare, kernel_summary};
use anyhow::{Context, Result};
use std::path::Path;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};
use warmswap_kernel::program::{ProgramHost, ProgramOptions, ProgramUsage};
use warmswap_output::{Output, tell};
use warmswap_protocol::{
    Answer, FaultCounts, ProgramStats, Refusal, RefusalKind, Reply, Request, Server, socket_path,
};
use warmswap_sys::Root;
use warmswap_sys::cpu_time::ChildrenCpu;
use warmswap_sys::undo::Undo;

/// How often the end of the program is looked for between requests.
const INTERVAL: Duration = Duration::from_millis(20);

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
    Ok(Ran {
        status: ended.status,
        summary: kernel_summary(&stats, &usage, share, output.style),
        result: RunResult {
            host: HostArg::Kernel,
            reason: why,
            unpaged: None,
            program: Some(stats),
            complete: true,
            others: Vec::new(),
            kernel: Some(usage),
            peak_bytes: peak_bytes(),
            paging_percent: share,
        },
    })
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
