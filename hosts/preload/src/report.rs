//! What the program reports: while it runs, and in a file at its end.

use std::ffi::{CStr, c_void};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

use libc::c_int;
use rustix::fs::{Mode, OFlags};
use warmswap_page::latency::LatencyHistogram;
use warmswap_program::Space;
use warmswap_protocol::{ExitState, FaultCounts, FileStats, ProgramStats, RunSettings};

use crate::keeper;
use crate::reentrancy::ReentrancyGuard;
use crate::settings::{Program, name, program};
use crate::target::PathBuffer;

/// Ends the name of the file, beside the report, that says why the program is not paged.
const UNPAGED: &[u8] = b".unpaged";
/// What it says where the program became one without this library.
const BECAME_ANOTHER: &[u8] = b"it became another program (exec), which ran without the library";

static STARTED: OnceLock<Instant> = OnceLock::new();
static LAUNCHES: LatencyHistogram = LatencyHistogram::new();
static SEEN: Seen = Seen::new();
/// The folder of reports, with a slash at its end.
static FOLDER: OnceLock<Vec<u8>> = OnceLock::new();
/// Whose memory this is.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// The report is written.
static HAS_FINISHED: AtomicBool = AtomicBool::new(false);

/// What has to be noted when it happens. Without a lock, which a thread might hold when the program forks.
struct Seen {
    virtual_peak_bytes: AtomicU64,
    resident_peak_bytes: AtomicU64,
    pool_peak_bytes: AtomicU64,
    /// What the pool held when it held most: original bytes, and compressed ones.
    pool_peak_stored_bytes: AtomicU64,
    pool_peak_compressed_bytes: AtomicU64,
    file_peak_bytes: AtomicU64,
    /// 0 for none.
    last_launch_ns: AtomicU64,
    /// A path that is never freed, or null.
    socket: AtomicPtr<PathBuf>,
    /// Why the program is not paged: text that is never freed, or null.
    unpaged: AtomicPtr<String>,
}

impl Seen {
    const fn new() -> Self {
        Self {
            virtual_peak_bytes: AtomicU64::new(0),
            resident_peak_bytes: AtomicU64::new(0),
            pool_peak_bytes: AtomicU64::new(0),
            pool_peak_stored_bytes: AtomicU64::new(0),
            pool_peak_compressed_bytes: AtomicU64::new(0),
            file_peak_bytes: AtomicU64::new(0),
            last_launch_ns: AtomicU64::new(0),
            socket: AtomicPtr::new(ptr::null_mut()),
            unpaged: AtomicPtr::new(ptr::null_mut()),
        }
    }
}

/// Takes note of where reports are written.
pub fn writes_as(settings: &RunSettings) {
    let folder = settings.stats_json.as_deref().and_then(Path::parent);
    if let Some(folder) = folder
        && settings.stats_json.as_deref() == Some(&RunSettings::stats_in(folder))
    {
        let folder = folder.join("");
        FOLDER.get_or_init(|| folder.into_os_string().into_encoded_bytes());
    }
}

unsafe extern "C" {
    /// What `at_quick_exit` calls, which the C library has in programs alone.
    fn __cxa_at_quick_exit(function: extern "C" fn(*mut c_void), object: *mut c_void) -> c_int;
}

/// Notes the time, and asks the C library to call [`finish`] at the program's end.
pub fn start() {
    STARTED.get_or_init(Instant::now);
    PROCESS.store(std::process::id(), Relaxed);
    // SAFETY: the functions live as long as the process.
    unsafe {
        libc::atexit(finish);
        __cxa_at_quick_exit(finish_quickly, ptr::null_mut());
    }
}

/// Whether this is the process whose memory this is, and not a child of `vfork`.
pub fn is_own_process() -> bool {
    PROCESS.load(Relaxed) == std::process::id()
}

/// In the child of a `fork`: socket and peaks are the parent's.
pub fn forget() {
    PROCESS.store(std::process::id(), Relaxed);
    HAS_FINISHED.store(false, Relaxed);
    SEEN.socket.store(ptr::null_mut(), Relaxed);
    SEEN.unpaged.store(ptr::null_mut(), Relaxed);
    let peaks = [
        &SEEN.virtual_peak_bytes,
        &SEEN.resident_peak_bytes,
        &SEEN.pool_peak_bytes,
        &SEEN.pool_peak_stored_bytes,
        &SEEN.pool_peak_compressed_bytes,
        &SEEN.file_peak_bytes,
        &SEEN.last_launch_ns,
    ];
    peaks.into_iter().for_each(|peak| peak.store(0, Relaxed));
}

/// Notes where the program listens.
pub fn listens_at(path: &Path) {
    let path = Box::into_raw(Box::new(path.to_owned()));
    SEEN.socket.store(path, Relaxed);
}

/// Notes why the program is not paged.
pub fn runs_unpaged(reason: &str) {
    let reason = Box::into_raw(Box::new(reason.to_owned()));
    SEEN.unpaged.store(reason, Relaxed);
}

/// Notes how long a launch took.
pub fn launched(time: Duration) {
    let ns = time.as_nanos() as u64;
    LAUNCHES.record(ns);
    SEEN.last_launch_ns.store(ns, Relaxed);
}

/// Notes peaks.
pub fn look(program: &Program) {
    mapped_files(&program.space);
    let now = program.space.usage();
    SEEN.virtual_peak_bytes
        .fetch_max(now.virtual_bytes, Relaxed);
    SEEN.resident_peak_bytes
        .fetch_max(now.resident_bytes, Relaxed);
    let peak_bytes = SEEN.pool_peak_bytes.fetch_max(now.pool_bytes, Relaxed);
    if now.pool_bytes > peak_bytes {
        SEEN.pool_peak_stored_bytes.store(now.stored_bytes, Relaxed);
        SEEN.pool_peak_compressed_bytes
            .store(now.compressed_bytes, Relaxed);
    }
}

/// Notes how much is mapped of files.
pub fn mapped_files(space: &Space) {
    SEEN.file_peak_bytes.fetch_max(space.file_bytes(), Relaxed);
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
        virtual_peak_bytes: SEEN.virtual_peak_bytes.load(Relaxed),
        resident_bytes: usage.resident_bytes,
        resident_peak_bytes: SEEN.resident_peak_bytes.load(Relaxed),
        pool_bytes: usage.pool_bytes,
        pool_peak_bytes: SEEN.pool_peak_bytes.load(Relaxed),
        backing_bytes: arena.backing.map_or(0, |backing| backing.live_bytes),
        backing_failures: arena.backing.map_or(0, |backing| backing.failed_appends),
        data_ratio: ratio(stored_bytes, arena.pool.compressed_bytes),
        memory_ratio: ratio(stored_bytes, arena.pool_bytes),
        faults: FaultCounts {
            total: arena.faults,
            first_touches: arena.first_touches,
            staged: arena.staged_faults,
            pool: (arena.faults - arena.first_touches)
                .saturating_sub(arena.staged_faults)
                .saturating_sub(arena.file_faults)
                .saturating_sub(from_backing),
            backing: from_backing,
            file: arena.file_faults,
        },
        files: FileStats {
            mapped_bytes: program.space.file_bytes(),
            mapped_peak_bytes: SEEN.file_peak_bytes.load(Relaxed),
            read_pages: arena.file_reads,
            pooled_pages: arena.engine.stored_files,
            discarded_pages: arena.engine.discarded,
        },
        fault_latency: program.space.fault_latency(),
        swapped_out_pages: arena.pager.compressed + arena.pager.left_clean,
        swapped_in_pages: (arena.faults - arena.first_touches) + arena.restored,
        prefetched_pages: arena.restored_ahead + arena.pager.prefetched_pages,
        launches: LAUNCHES.summary(),
        last_launch_ns: Some(SEEN.last_launch_ns.load(Relaxed)).filter(|&ns| ns > 0),
        pager_cpu_seconds: program.space.cpu_time().as_secs_f64(),
        program_cpu_seconds: program_cpu().as_secs_f64(),
    }
}

fn ratio(plain: u64, stored: u64) -> Option<f64> {
    (plain > 0 && stored > 0).then(|| plain as f64 / stored as f64)
}

/// Writes the report, keeps what was learned, and removes the socket.
extern "C" fn finish() {
    end_report(false);
}

extern "C" fn finish_quickly(_: *mut c_void) {
    finish();
}

/// As at the end, which the program is about to forbid itself. The socket stays if the program goes on to answer there.
pub fn finish_early(still_answers: bool) {
    end_report(still_answers);
}

fn end_report(still_answers: bool) {
    // A program that filters its system calls may make none of those that follow.
    if HAS_FINISHED.load(Relaxed) {
        return;
    }
    let _within = ReentrancyGuard::enter();
    let Some(program) = program() else { return };
    // A child of `vfork` shares all of this with its parent, which goes on: it notes nothing.
    if !is_own_process() || HAS_FINISHED.swap(true, Relaxed) {
        return;
    }
    let socket = SEEN.socket.swap(ptr::null_mut(), Relaxed);
    // SAFETY: what was put there is never freed.
    if let Some(socket) = unsafe { socket.as_ref() }.filter(|_| !still_answers) {
        let _ = std::fs::remove_file(socket);
    }
    program.space.keep_learned();
    let Some(path) = program.settings.stats_path(std::process::id()) else {
        return;
    };
    let now = stats(program);
    // At its end a program has freed most: the little that is left tells nothing of the pool.
    let stored_bytes = SEEN.pool_peak_stored_bytes.load(Relaxed);
    let compressed_bytes = SEEN.pool_peak_compressed_bytes.load(Relaxed);
    let stats = ProgramStats {
        exit: ExitState::Exited { status: None },
        data_ratio: ratio(stored_bytes, compressed_bytes),
        memory_ratio: ratio(stored_bytes, now.pool_peak_bytes),
        ..now
    };
    // SAFETY: what was put there is never freed.
    if let Some(reason) = unsafe { SEEN.unpaged.load(Relaxed).as_ref() } {
        says_unpaged(reason.as_bytes());
    }
    let draft = path.with_extension(format!("{}.draft", std::process::id()));
    let written = serde_json::to_vec(&stats)
        .map_err(std::io::Error::from)
        .and_then(|json| write_within_limit(&draft, &json))
        .and_then(|()| std::fs::rename(&draft, &path));
    if let Err(error) = written {
        let _ = std::fs::remove_file(&draft);
        // The program that was run has ended, and its summary is written: this one outlived it. Or this one gave up the
        // right to write there, which the summary says.
        if matches!(
            error.kind(),
            ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::FileTooLarge
        ) {
            return;
        }
        crate::settings::say(&format!("cannot write {}: {error}", path.display()));
    }
}

/// Writes down why the process is not paged. The summary does without it where that fails. Allocates nothing.
pub fn says_unpaged(reason: &[u8]) -> bool {
    let mut buffer = PathBuffer::new();
    let Some(path) = unpaged_path(&mut buffer).filter(|_| is_within_limit(reason)) else {
        return false;
    };
    let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR);
    file.is_ok_and(|file| rustix::io::write(&file, reason).is_ok())
}

/// The process is about to become a program without this library, or a child of `vfork` is: whether that is written down.
pub fn becomes_unpaged() -> bool {
    says_unpaged(BECAME_ANOTHER)
}

/// It did not.
pub fn stays_paged() {
    let mut buffer = PathBuffer::new();
    if let Some(path) = unpaged_path(&mut buffer) {
        let _ = rustix::fs::unlink(path);
    }
}

fn unpaged_path(buffer: &mut PathBuffer) -> Option<&CStr> {
    buffer.number(FOLDER.get()?, std::process::id(), UNPAGED)?;
    buffer.text()
}

/// Writes a file, unless it would be beyond the program's limit.
fn write_within_limit(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    match is_within_limit(bytes) {
        true => std::fs::write(path, bytes),
        false => Err(ErrorKind::FileTooLarge.into()),
    }
}

/// Whether the program may write files that large: a write beyond its limit ends it by a signal.
fn is_within_limit(bytes: &[u8]) -> bool {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize);
    limit.current.is_none_or(|most| most >= bytes.len() as u64)
}

/// Programs that end without the C library's ceremony report, too.
#[unsafe(no_mangle)]
extern "C" fn _exit(status: c_int) -> ! {
    exit(status)
}

/// Ends the process after its report.
pub fn exit(status: c_int) -> ! {
    finish();
    loop {
        // SAFETY: the process ends here.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}

#[unsafe(no_mangle)]
extern "C" fn _Exit(status: c_int) -> ! {
    _exit(status)
}

/// As the C library's, whose parent would end without its report.
///
/// # Safety
/// As of daemon(3): only the calling thread goes on in the background.
#[unsafe(no_mangle)]
unsafe extern "C" fn daemon(stays_in_folder: c_int, keeps_streams: c_int) -> c_int {
    // SAFETY: the program asks for a fork.
    match unsafe { libc::fork() } {
        -1 => return -1,
        0 => {}
        _ => exit(0),
    }
    // SAFETY: no pointers but to text that ends with a zero byte.
    unsafe {
        if libc::setsid() == -1 {
            return -1;
        }
        if stays_in_folder == 0 {
            libc::chdir(c"/".as_ptr());
        }
    }
    match keeps_streams {
        0 => silence(),
        _ => 0,
    }
}

/// Has the standard streams read nothing and write nowhere.
fn silence() -> c_int {
    // SAFETY: no pointers but to text that ends with a zero byte; the descriptor is this function's.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        if null == -1 {
            return -1;
        }
        for stream in 0..3 {
            libc::dup2(null, stream);
        }
        if null > 2 {
            libc::close(null);
        }
    }
    0
}
