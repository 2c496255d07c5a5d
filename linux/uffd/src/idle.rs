//! Threads that run only when no other thread wants the processor.

use std::cell::Cell;
use std::io;

thread_local! {
    static IS_IDLE: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread has called [`be_idle`] with success. Such a thread may not run for a long time: it must hold
/// nothing that another waits for.
#[must_use]
pub fn is_idle() -> bool {
    IS_IDLE.get()
}

/// Puts the calling thread in the idle scheduling class (SCHED_IDLE). Needs no rights, and there is no way
/// back without some.
///
/// # Errors
/// The system's answer.
pub fn be_idle() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: 0 names the calling thread, and the parameters are read only.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) };
    if result == 0 {
        IS_IDLE.set(true);
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
