//! A process ends when the last of its threads does, by `exit`. Threads of this library never end, and so the C library
//! would wait for ever: here the program's own are counted.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::reentrancy::ReentrancyGuard;

/// How often the C library calls what is called at the end of a thread, which may set values anew. Ours ends the process
/// in the last turn: after all others'.
const TURNS: usize = 4;
/// A thread that has ended is one of the process's for a moment still.
const PATIENCE: Duration = Duration::from_secs(1);

/// The key whose values are there until a thread ends.
static KEY: AtomicU32 = AtomicU32::new(0);
static HAS_KEY: AtomicBool = AtomicBool::new(false);
/// Threads of the program that were counted and have not ended.
static PROGRAMS: AtomicUsize = AtomicUsize::new(0);
/// Threads of this library.
static OWN: AtomicUsize = AtomicUsize::new(0);

/// Counts the first thread.
pub fn start() {
    let mut key = 0;
    // SAFETY: the function lives as long as the process.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(ends)) } == 0 {
        KEY.store(key, Ordering::Relaxed);
        HAS_KEY.store(true, Ordering::Release);
        will_begin();
        begins();
    }
}

/// In the child of a `fork`, which has one thread.
pub fn forget() {
    PROGRAMS.store(1, Ordering::Relaxed);
    OWN.store(0, Ordering::Relaxed);
    // The thread that forked may not have been counted.
    begins();
}

/// A thread of the program is about to be created.
pub fn will_begin() {
    PROGRAMS.fetch_add(1, Ordering::AcqRel);
}

/// It was not.
pub fn will_not_begin() {
    PROGRAMS.fetch_sub(1, Ordering::AcqRel);
}

/// The calling thread is one of the program's.
pub fn begins() {
    if HAS_KEY.load(Ordering::Acquire) {
        set_turn(1);
    } else {
        // A constructor of another library created it before this one began.
        will_not_begin();
    }
}

/// A thread of this library is about to be created, or was not.
pub fn count_own(is_new: bool) {
    if is_new {
        OWN.fetch_add(1, Ordering::AcqRel);
    } else {
        OWN.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Whether threads of this library are left.
pub fn are_own_left() -> bool {
    OWN.load(Ordering::Acquire) > 0
}

fn set_turn(turn: usize) {
    let turn: *const c_void = ptr::without_provenance(turn);
    // SAFETY: there is such a key. Where there is no memory for the value, the thread is not known to end.
    unsafe { libc::pthread_setspecific(KEY.load(Ordering::Relaxed), turn) };
}

/// A thread ends.
unsafe extern "C" fn ends(turn: *mut c_void) {
    if turn.addr() < TURNS {
        set_turn(turn.addr() + 1);
        return;
    }
    let was_last = PROGRAMS.fetch_sub(1, Ordering::AcqRel) == 1;
    if was_last && OWN.load(Ordering::Acquire) > 0 && is_alone() {
        // SAFETY: as the C library does at the end of the last thread.
        unsafe { libc::exit(0) };
    }
}

/// Whether all other threads of the process are this library's. There may be some that were never counted.
fn is_alone() -> bool {
    let _within = ReentrancyGuard::enter();
    // The first thread is one of the process's to the end.
    let is_first = rustix::thread::gettid() == rustix::process::getpid();
    let expected = OWN.load(Ordering::Acquire) + if is_first { 1 } else { 2 };
    let begin = Instant::now();
    loop {
        match threads() {
            None => return false,
            Some(threads) if threads <= expected => return true,
            Some(_) if begin.elapsed() > PATIENCE => return false,
            Some(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// What the process is to end with, if no thread of the program is left: one that ends by the system call alone is not counted.
pub fn status_of_ended() -> Option<i32> {
    let is_over = has_first_ended() && threads()? <= OWN.load(Ordering::Acquire) + 1;
    let status: i32 = is_over.then(|| stat(EXIT_CODE))??.parse().ok()?;
    Some(status >> 8 & 0xff)
}

/// Whether the first thread has ended, and others go on.
pub fn has_first_ended() -> bool {
    stat(STATE).is_some_and(|state| state == "Z")
}

/// Threads of the process.
fn threads() -> Option<usize> {
    stat(NUM_THREADS)?.parse().ok()
}

/// Places of fields behind the name in `/proc/PID/stat`, which is the second one.
const STATE: usize = 0;
const NUM_THREADS: usize = 17;
const EXIT_CODE: usize = 49;

/// A field of what the kernel says of the process.
fn stat(field: usize) -> Option<String> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name may hold anything, in parentheses.
    let (_, fields) = stat.rsplit_once(')')?;
    fields
        .split_ascii_whitespace()
        .nth(field)
        .map(str::to_owned)
}
