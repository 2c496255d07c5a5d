//! The keeper of a forked child: a new one, since the threads are the parent's.

use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use libc::c_int;

use super::{
    HAS_GIVEN_UP, HAS_TO_LEAVE, IS_ATTACHED, IS_LEAVING, IS_STARTED, IS_TO_END, IS_WANTED, PHASE,
    die, try_spawn,
};
use crate::settings::Program;
use crate::{mover, report};

/// How long a forked child waits for room for its threads.
const LONG_PATIENCE: Duration = Duration::from_secs(10);

/// In the child of a `fork`: the keeper is the parent's.
pub fn forget() {
    IS_STARTED.store(false, Ordering::Relaxed);
    IS_WANTED.store(false, Ordering::Relaxed);
    HAS_GIVEN_UP.store(false, Ordering::Relaxed);
    IS_ATTACHED.store(false, Ordering::Relaxed);
    IS_TO_END.store(false, Ordering::Relaxed);
    IS_LEAVING.store(false, Ordering::Relaxed);
    HAS_TO_LEAVE.store(false, Ordering::Relaxed);
    forget_program();
}

/// What is the parent's of the program.
fn forget_program() {
    PHASE.store(0, Ordering::Relaxed);
    mover::forget();
    report::forget();
}

/// In the child of a `fork`, whose memory is to be taken over: returns when that is done. Of the descriptors of the program
/// the keeper has these, too, which ascend.
pub fn start_in_child(descriptors: Vec<c_int>) {
    IS_LEAVING.store(false, Ordering::Relaxed);
    HAS_TO_LEAVE.store(false, Ordering::Relaxed);
    forget_program();
    let (done, is_done) = mpsc::sync_channel(1);
    let attach = move |program: &'static Program| {
        // Pages that are not in their places would read as zeros.
        let attached = program.space.attach_in_child();
        attached.unwrap_or_else(|error| die_in_child(&error));
        let _ = done.send(());
        Ok(())
    };
    let begin = Instant::now();
    while let Err(error) = try_spawn(descriptors.clone(), attach.clone()) {
        // There may be room for a thread when others have ended.
        if begin.elapsed() > LONG_PATIENCE {
            die_in_child(&error);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let _ = is_done.recv();
}

fn die_in_child(error: &dyn std::fmt::Display) -> ! {
    die(&format!("cannot go on in the child of a fork: {error}"))
}
