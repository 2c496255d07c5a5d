//! What the program reports: while it runs, and in a file at its end.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use warmswap_control::{ExitState, FaultCounts, LatencyHistogram, ProgramStats};

use crate::keeper;
use crate::settings::{Program, name, program};
use crate::within::Within;

static STARTED: OnceLock<Instant> = OnceLock::new();
static LAUNCHES: LatencyHistogram = LatencyHistogram::new();
static SEEN: Mutex<Seen> = Mutex::new(Seen {
    virtual_peak_bytes: 0,
    resident_peak_bytes: 0,
    pool_peak_bytes: 0,
    last_launch_ns: None,
    socket: None,
});

/// What has to be noted when it happens.
struct Seen {
    virtual_peak_bytes: u64,
    resident_peak_bytes: u64,
    pool_peak_bytes: u64,
    last_launch_ns: Option<u64>,
    socket: Option<PathBuf>,
}

fn seen() -> MutexGuard<'static, Seen> {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes the time, and asks the C library to call [`finish`] at the program's end.
pub fn start() {
    STARTED.get_or_init(Instant::now);
    // SAFETY: the function lives as long as the process.
    unsafe { libc::atexit(finish) };
}

/// In the child of a `fork`: socket and peaks are the parent's.
pub fn forget() {
    let mut seen = seen();
    seen.socket = None;
    seen.last_launch_ns = None;
    (
        seen.virtual_peak_bytes,
        seen.resident_peak_bytes,
        seen.pool_peak_bytes,
    ) = (0, 0, 0);
}

/// Notes where the program listens.
pub fn listens_at(path: &Path) {
    seen().socket = Some(path.to_owned());
}

/// Notes how long a launch took.
pub fn launched(time: Duration) {
    let ns = time.as_nanos() as u64;
    LAUNCHES.record(ns);
    seen().last_launch_ns = Some(ns);
}

/// Notes peaks.
pub fn look(program: &Program) {
    let now = program.space.usage();
    let mut seen = seen();
    seen.virtual_peak_bytes = seen.virtual_peak_bytes.max(now.virtual_bytes);
    seen.resident_peak_bytes = seen.resident_peak_bytes.max(now.resident_bytes);
    seen.pool_peak_bytes = seen.pool_peak_bytes.max(now.pool_bytes);
}

/// CPU time of all threads of the process.
pub fn program_cpu() -> Duration {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the call fills the structure in.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let time = |time: libc::timeval| {
        Duration::new(time.tv_sec as u64, 0) + Duration::from_micros(time.tv_usec as u64)
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// All that there is to report.
pub fn stats(program: &Program) -> ProgramStats {
    look(program);
    let usage = program.space.usage();
    let arena = program.space.stats();
    let command = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let words = command.split(|&byte| byte == 0);
    let words = words.map(|word| String::from_utf8_lossy(word).into_owned());
    let mut command: Vec<_> = words.collect();
    // The last word ends with a zero, too.
    command.pop();
    let from_backing = arena.engine.backing_faults;
    let stored_bytes = arena.pool.stored_pages * 4096;
    let seen = seen();
    ProgramStats {
        pid: std::process::id(),
        name: name(),
        command,
        scheme: program.settings.scheme.clone(),
        phase: keeper::phase(),
        managed: program.space.is_adopted(),
        exit: ExitState::Running,
        elapsed_seconds: STARTED
            .get()
            .map_or(0.0, |start| start.elapsed().as_secs_f64()),
        budget_bytes: program.settings.budget_bytes,
        used_bytes: arena.used_bytes(),
        virtual_bytes: usage.virtual_bytes,
        virtual_peak_bytes: seen.virtual_peak_bytes,
        resident_bytes: usage.resident_bytes,
        resident_peak_bytes: seen.resident_peak_bytes,
        pool_bytes: usage.pool_bytes,
        pool_peak_bytes: seen.pool_peak_bytes,
        backing_bytes: arena.backing.map_or(0, |backing| backing.live_bytes),
        data_ratio: ratio(stored_bytes, arena.pool.compressed_bytes),
        memory_ratio: ratio(stored_bytes, arena.pool_bytes),
        faults: FaultCounts {
            total: arena.faults,
            first_touches: arena.first_touches,
            staged: arena.staged_faults,
            pool: (arena.faults - arena.first_touches)
                .saturating_sub(arena.staged_faults)
                .saturating_sub(from_backing),
            backing: from_backing,
        },
        fault_latency: program.space.fault_latency(),
        swapped_out_pages: arena.pager.compressed + arena.pager.left_clean,
        swapped_in_pages: (arena.faults - arena.first_touches) + arena.neighbours,
        launches: LAUNCHES.summary(),
        last_launch_ns: seen.last_launch_ns,
        pager_cpu_seconds: program.space.cpu_time().as_secs_f64(),
        program_cpu_seconds: program_cpu().as_secs_f64(),
    }
}

fn ratio(plain: u64, stored: u64) -> Option<f64> {
    (stored > 0).then(|| plain as f64 / stored as f64)
}

/// Writes the report, and removes the socket.
extern "C" fn finish() {
    let _within = Within::enter();
    let Some(program) = program() else { return };
    let socket = seen().socket.take();
    if let Some(socket) = socket {
        let _ = std::fs::remove_file(socket);
    }
    let Some(path) = program.settings.stats_path(std::process::id()) else {
        return;
    };
    let stats = ProgramStats {
        exit: ExitState::Exited { status: None },
        ..stats(program)
    };
    let draft = path.with_extension(format!("{}.draft", std::process::id()));
    let written = serde_json::to_vec(&stats)
        .map_err(std::io::Error::from)
        .and_then(|json| std::fs::write(&draft, json))
        .and_then(|()| std::fs::rename(&draft, &path));
    if let Err(error) = written {
        let _ = std::fs::remove_file(&draft);
        crate::settings::say(&format!("cannot write {}: {error}", path.display()));
    }
}
