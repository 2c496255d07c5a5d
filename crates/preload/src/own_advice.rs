//! `process_madvise` of a program on itself: it means what `madvise` does, range by range.

use libc::{c_int, c_uint, iovec, size_t, ssize_t};

use crate::kernel::{self, fail};
use crate::mapping::{madvise, space};
use crate::reentrancy::ReentrancyGuard;

/// Advice on ranges of the process that `process` refers to; the bytes that were advised.
#[unsafe(no_mangle)]
unsafe extern "C" fn process_madvise(
    process: c_int,
    ranges: *const iovec,
    count: size_t,
    advice: c_int,
    flags: c_uint,
) -> ssize_t {
    if space().is_none() || flags != 0 || ranges.is_null() || !is_this_process(process) {
        // SAFETY: passed on to the caller.
        return unsafe { kernel::process_madvise(process, ranges, count, advice, flags) };
    }
    if count > MOST_RANGES {
        return fail(libc::EINVAL) as ssize_t;
    }
    let mut done: size_t = 0;
    for at in 0..count {
        // SAFETY: the caller's array of `count` ranges.
        let range = unsafe { ranges.add(at).read() };
        // SAFETY: passed on to the caller.
        if unsafe { madvise(range.iov_base, range.iov_len, advice) } != 0 {
            return if done > 0 { done as ssize_t } else { -1 };
        }
        done += range.iov_len;
    }
    done as ssize_t
}

/// What the kernel takes (`UIO_MAXIOV`).
const MOST_RANGES: size_t = 1024;

/// `PIDFD_SELF_THREAD` and `PIDFD_SELF_THREAD_GROUP`, and the number that the latter had before Linux 6.17.
const SELF: [c_int; 3] = [-10_000, -10_001, -20_000];

/// Whether a descriptor refers to this process, as the kernel says of it.
fn is_this_process(descriptor: c_int) -> bool {
    if SELF.contains(&descriptor) {
        return true;
    }
    let _within = ReentrancyGuard::enter();
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}"));
    let info = info.unwrap_or_default();
    let pid = info.lines().find_map(|line| line.strip_prefix("Pid:"));
    pid.and_then(|pid| pid.trim().parse().ok()) == Some(std::process::id())
}
