//! What the library's threads have apart from the program's: a table of descriptors, folders, and standard error in it.

use std::os::fd::AsRawFd as _;
use std::path::Path;

use libc::c_int;
use rustix::fs::{Mode, OFlags};

use super::die;
use crate::ends;

/// What is written there is gone.
const NOWHERE: &str = "/dev/null";

/// Gives the thread a table of descriptors of its own, with standard error and these, which ascend.
pub(super) fn close_all_but(mut kept: Vec<c_int>) {
    const CLOSE_RANGE_UNSHARE: libc::c_int = 1 << 1;
    let stderr = libc::STDERR_FILENO;
    kept.push(stderr);
    kept.sort_unstable();
    let mut first = 0;
    for last in kept.iter().map(|kept| kept - 1).chain([c_int::MAX]) {
        let (from, flags) = (first, CLOSE_RANGE_UNSHARE);
        first = last.saturating_add(2);
        // SAFETY: no descriptor of the new table is in use by anybody. Once it is there, it is not shared any more.
        if from <= last && unsafe { libc::syscall(libc::SYS_close_range, from, last, flags) } != 0 {
            die(&format!(
                "no table of descriptors of its own (Linux 5.9): {}",
                std::io::Error::last_os_error()
            ));
        }
    }
    // SAFETY: it changes nothing.
    if unsafe { libc::fcntl(stderr, libc::F_GETFD) } < 0 {
        let_go_of_stderr();
    }
}

/// Gives the thread folders of its own: a process whose threads share theirs cannot enter another mount namespace, and the
/// program may have one thread.
pub(super) fn have_own_folders() {
    // SAFETY: no thread of ours uses relative paths. Where it is refused, the program is like one with threads.
    unsafe { libc::unshare(libc::CLONE_FS) };
}

/// Lets go of the program's standard error once the program has let go of it. Its number stays taken: files of ours that
/// got it would be closed with it.
pub(super) fn check_stderr() {
    let what = |folder: &str| std::fs::read_link(format!("/proc/{folder}/fd/2")).ok();
    let (own, theirs) = (what("thread-self"), what("self"));
    // What the first thread has cannot be seen once it has ended.
    if own == theirs || own.is_some_and(|own| own == Path::new(NOWHERE)) || ends::has_first_ended()
    {
        return;
    }
    let_go_of_stderr();
}

/// Takes the number of standard error for nothing.
fn let_go_of_stderr() {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    if let Ok(nowhere) = rustix::fs::open(NOWHERE, flags, Mode::empty()) {
        // SAFETY: the number means standard error in this table, and nothing else.
        unsafe { libc::dup3(nowhere.as_raw_fd(), libc::STDERR_FILENO, libc::O_CLOEXEC) };
    }
}
