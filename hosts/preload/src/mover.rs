//! The thread that moves content of the program's memory from one place to another (`mremap`), once that is paged: only
//! threads of ours have the descriptors that it takes.
//!
//! There is none until the program asks for it first; the keeper starts it then.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::futex;
use warmswap_program::{Space, SpaceError};

/// How long a thread waits for the first start of the mover. It may hold what a new thread needs: libraries are
/// initialised under a lock of the loader's.
const PATIENCE: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// The keeper is to start it.
static IS_WANTED: AtomicBool = AtomicBool::new(false);
static IS_STARTED: AtomicBool = AtomicBool::new(false);
/// A thread of the program has all that follows to itself.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);
/// Where the request stands: one of these.
static STAGE: AtomicU32 = AtomicU32::new(NONE);
const NONE: u32 = 0;
const ASKED: u32 = 1;
const MOVED: u32 = 2;
const NOT_MOVED: u32 = 3;
/// What is to move, first address and bytes, and where to.
static WANTED: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

/// Moves content as [`Space::relocate_unpaged`] does, or as [`Space::relocate`] by the mover; false also if there is none, and
/// nothing was done.
///
/// # Errors
/// [`SpaceError`], as far as the kernel has moved nothing.
pub fn relocate(space: &Space, from: &Range<usize>, to: usize) -> Result<bool, SpaceError> {
    if let Some(done) = space.relocate_unpaged(from.start, from.len(), to)? {
        return Ok(done);
    }
    IS_WANTED.store(true, Ordering::Release);
    let begin = Instant::now();
    while !IS_STARTED.load(Ordering::Acquire) {
        if begin.elapsed() > PATIENCE {
            return Ok(false);
        }
        std::thread::sleep(LOOK_EVERY);
    }
    while IS_TAKEN.swap(true, Ordering::AcqRel) {
        std::thread::sleep(LOOK_EVERY);
    }
    for (place, value) in WANTED.iter().zip([from.start, from.len(), to]) {
        place.store(value, Ordering::Relaxed);
    }
    set(ASKED);
    let stage = wait_while(ASKED);
    STAGE.store(NONE, Ordering::Relaxed);
    IS_TAKEN.store(false, Ordering::Release);
    Ok(stage == MOVED)
}

/// Some of the content is in the new place by then, and some is not.
fn or_die(moved: Result<bool, SpaceError>) -> bool {
    moved.unwrap_or_else(|error| {
        warmswap_arena::say(&format!(
            "warmswap: cannot move memory of the program: {error}\n"
        ));
        std::process::abort()
    })
}

/// Starts it if the program asked for it: called by the keeper now and then, whose descriptors it has.
pub fn start_if_wanted(space: &'static Space) {
    if !IS_WANTED.load(Ordering::Acquire) || IS_STARTED.load(Ordering::Acquire) {
        return;
    }
    let thread = std::thread::Builder::new().name("warmswap mover".into());
    // Where there is no room for a thread it is tried again.
    if thread.spawn(move || run(space)).is_ok() {
        IS_STARTED.store(true, Ordering::Release);
    }
}

/// In the child of a `fork`: it is the parent's.
pub fn forget() {
    IS_WANTED.store(false, Ordering::Relaxed);
    IS_STARTED.store(false, Ordering::Relaxed);
    IS_TAKEN.store(false, Ordering::Relaxed);
    STAGE.store(NONE, Ordering::Relaxed);
}

fn run(space: &Space) {
    loop {
        let stage = STAGE.load(Ordering::Acquire);
        if stage != ASKED {
            wait_while(stage);
            continue;
        }
        let [from, len, to] = [0, 1, 2].map(|at| WANTED[at].load(Ordering::Relaxed));
        let is_moved = or_die(space.relocate(from, len, to));
        set(if is_moved { MOVED } else { NOT_MOVED });
    }
}

fn set(stage: u32) {
    STAGE.store(stage, Ordering::Release);
    let _ = futex::wake(&STAGE, futex::Flags::PRIVATE, u32::MAX >> 1);
}

/// Waits until the request stands elsewhere; where.
fn wait_while(stage: u32) -> u32 {
    loop {
        let now = STAGE.load(Ordering::Acquire);
        if now != stage {
            return now;
        }
        let _ = futex::wait(&STAGE, futex::Flags::PRIVATE, stage, None);
    }
}
