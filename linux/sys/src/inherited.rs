//! What this process was started with that it has otherwise by now, and that programs which it starts are to have.
//!
//! The standard library ignores SIGPIPE before `main`, gives it its default action in programs that it starts, and opens standard
//! descriptors that were closed. A service of systemd is started to ignore SIGPIPE (`IgnoreSIGPIPE=`), and would be ended by the
//! first client that hangs up; a program whose standard output was closed says so.

use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Signals whose action a command of this project changes for itself.
const SIGNALS: [libc::c_int; 3] = [libc::SIGPIPE, libc::SIGXFSZ, libc::SIGCHLD];

/// A bit for each of them that was ignored.
static IGNORED: AtomicU32 = AtomicU32::new(0);

/// A bit for each standard descriptor that was closed.
static CLOSED: AtomicU32 = AtomicU32::new(0);

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
        }
    }
    for descriptor in libc::STDIN_FILENO..=libc::STDERR_FILENO {
        // SAFETY: it asks for flags, and changes nothing.
        if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(1 << descriptor, Ordering::Relaxed);
        }
    }
}

/// Has the kernel keep how children of this process end until that is asked for, as it does where SIGCHLD is not ignored.
pub fn hear_of_children() {
    // SAFETY: the default action runs no code of this process.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Makes `command` start with the same signals ignored and the same standard descriptors closed as this process was started
/// with, where it inherits them.
pub fn start_alike(command: &mut Command) {
    let (ignored, closed) = (
        IGNORED.load(Ordering::Relaxed),
        CLOSED.load(Ordering::Relaxed),
    );
    if ignored == 0 && closed == 0 {
        return;
    }
    // SAFETY: between fork and exec only `signal` and `close` are called, which are async-signal-safe and touch no memory of
    // the parent.
    unsafe {
        command.pre_exec(move || {
            for (bit, signal) in SIGNALS.into_iter().enumerate() {
                if ignored & 1 << bit != 0 {
                    libc::signal(signal, libc::SIG_IGN);
                }
            }
            for descriptor in libc::STDIN_FILENO..=libc::STDERR_FILENO {
                if closed & 1 << descriptor != 0 {
                    libc::close(descriptor);
                }
            }
            Ok(())
        })
    };
}
