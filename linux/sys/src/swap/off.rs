//! swapoff(2) in a child of its own.
//!
//! The kernel brings the pages of one process back after the other, and waits for the lock of its memory, which no signal ends.
//! A process that unmaps a file on a file system that does not answer holds that lock for ever. A child waits in place of this
//! process, which goes on when nothing comes back any more.

use std::ffi::CStr;
use std::io;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitOptions, waitpid};

/// How often it is looked whether the child has ended.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// How often it is looked what is left.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// Nothing came back for so long: a slow disk brings a page in a tenth of a second.
const PATIENCE: Duration = Duration::from_secs(30);

/// Pages of a process do not come back.
#[derive(Debug, thiserror::Error)]
#[error(
    "nothing came back for {} s: a process holds the lock of its memory, as one that waits for a file system that does not \
     answer; the kernel goes on when it lets go",
    PATIENCE.as_secs()
)]
pub struct Stuck;

/// Switches the swap area at `path` off. `left_bytes` says what it still holds, none where it is no area any more.
///
/// # Errors
/// The kernel's, or one with [`Stuck`] as its source.
pub fn swap_off(path: &CStr, left_bytes: impl Fn() -> Option<u64>) -> io::Result<()> {
    // SAFETY: `path` is a live NUL-terminated string; the call changes no memory of the process.
    let call = || match unsafe { libc::swapoff(path.as_ptr()) } {
        0 => 0,
        _ => io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EIO),
    };
    match in_child(call)? {
        Some(child) => wait(child, PATIENCE, left_bytes),
        // No room for another process.
        None => result(call()),
    }
}

/// Runs `call`, which allocates nothing and takes no lock, in a child that ends with its answer. `None` where there is no child.
fn in_child(call: impl Fn() -> i32) -> io::Result<Option<Pid>> {
    // SAFETY: the child, in which no other thread goes on, calls what may be called there and ends.
    match unsafe { libc::fork() } {
        0 => {
            // It may outlive this process: locks and sockets are not to stay with it.
            // SAFETY: no code of the child uses a descriptor.
            unsafe { libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0) };
            let answer = call();
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(answer) }
        }
        child => Ok(Pid::from_raw(child.max(0))),
    }
}

/// Waits until the child has ended, or until nothing came back for `patience`.
fn wait(child: Pid, patience: Duration, left_bytes: impl Fn() -> Option<u64>) -> io::Result<()> {
    let (mut left, mut at) = (left_bytes(), Instant::now());
    let mut counted = at;
    loop {
        match waitpid(Some(child), WaitOptions::NOHANG) {
            Ok(None) => {}
            Ok(Some((_, status))) => return result(status.exit_status().unwrap_or(libc::EINTR)),
            // Where children are reaped by themselves, what it did is all that is known of it.
            Err(_) => return result(left_bytes().map_or(0, |_| libc::EBUSY)),
        }
        if counted.elapsed() >= COUNT_EVERY {
            counted = Instant::now();
            let now = left_bytes();
            if now != left {
                (left, at) = (now, counted);
            }
            if at.elapsed() >= patience {
                return Err(io::Error::other(Stuck));
            }
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn result(errno: i32) -> io::Result<()> {
    match errno {
        0 => Ok(()),
        _ => Err(io::Error::from_raw_os_error(errno)),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A child that ends with this answer after so many milliseconds.
    fn child(millis: u64, answer: i32) -> Pid {
        let call = move || {
            std::thread::sleep(Duration::from_millis(millis));
            answer
        };
        in_child(call).unwrap().expect("room for a child")
    }

    #[test]
    fn the_answer_of_the_kernel_comes_back() {
        let errno = |answer| {
            let waited = wait(child(0, answer), PATIENCE, || Some(1));
            waited.err().and_then(|error| error.raw_os_error())
        };
        assert_eq!(errno(0), None);
        assert_eq!(errno(libc::ENOMEM), Some(libc::ENOMEM));
        let missing = swap_off(c"/nonexistent", || None).unwrap_err();
        let expected = [libc::ENOENT, libc::EPERM];
        assert!(
            expected.contains(&missing.raw_os_error().unwrap()),
            "{missing}"
        );
    }

    #[test]
    fn it_waits_while_something_comes_back_and_not_for_ever() {
        let left = Cell::new(100);
        let falls = || {
            left.set(left.get() - 1);
            Some(left.get())
        };
        wait(child(3000, 0), COUNT_EVERY * 2, falls).expect("it went on");

        let stays = child(600_000, 0);
        let error = wait(stays, COUNT_EVERY * 2, || Some(7)).unwrap_err();
        assert!(error.get_ref().is_some_and(|source| source.is::<Stuck>()));
        rustix::process::kill_process(stays, rustix::process::Signal::KILL).unwrap();
        waitpid(Some(stays), WaitOptions::empty()).unwrap();
    }
}
