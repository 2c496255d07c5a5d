//! Threads that run only when nobody else wants the processor.

use std::io;

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
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
