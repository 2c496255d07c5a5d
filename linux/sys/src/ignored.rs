//! Signals that this process was started to ignore: programs that it starts are to ignore them, too.
//!
//! The standard library ignores SIGPIPE before `main`, and gives it its default action in programs that it starts. A service
//! of systemd is started to ignore it (`IgnoreSIGPIPE=`), and would be ended by the first client that hangs up.

use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Those whose action a command of this project changes for itself.
const SIGNALS: [libc::c_int; 3] = [libc::SIGPIPE, libc::SIGXFSZ, libc::SIGCHLD];

/// A bit for each of them.
static IGNORED: AtomicU32 = AtomicU32::new(0);

/// Runs before `main`, and so before the standard library's own beginning.
#[used]
// SAFETY: the section holds pointers to functions that are called without arguments that matter, as this one.
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = note;

extern "C" fn note() {
    for (bit, signal) in SIGNALS.into_iter().enumerate() {
        let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: it fills in the place, and changes nothing.
        let is_read =
            unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) } == 0;
        // SAFETY: all zero is a valid value, too.
        if is_read && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN {
            IGNORED.fetch_or(1 << bit, Ordering::Relaxed);
            if signal == libc::SIGCHLD {
                // How a child ends is told to those alone that do not ignore it.
                // SAFETY: the default action runs no code of this process.
                unsafe { libc::signal(signal, libc::SIG_DFL) };
            }
        }
    }
}

/// Makes `command` start with these signals ignored, where this process was started so.
pub fn stay_ignored(command: &mut Command) {
    let ignored = IGNORED.load(Ordering::Relaxed);
    if ignored == 0 {
        return;
    }
    // SAFETY: between fork and exec only `signal` is called, which is async-signal-safe and touches no memory of the parent.
    unsafe {
        command.pre_exec(move || {
            for (bit, signal) in SIGNALS.into_iter().enumerate() {
                if ignored & 1 << bit != 0 {
                    libc::signal(signal, libc::SIG_IGN);
                }
            }
            Ok(())
        })
    };
}
