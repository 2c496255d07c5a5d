//! `process_madvise` of a program on itself: it means what `madvise` does, range by range.

use std::ptr;

use libc::{c_int, c_uint, iovec, size_t, ssize_t};

use crate::kernel::{self, errno, fail};
use crate::mapping::advice::madvise;
use crate::mapping::space;

/// Advice on ranges of the process that `process` refers to; the bytes that were advised.
#[unsafe(no_mangle)]
unsafe extern "C" fn process_madvise(
    process: c_int,
    ranges: *const iovec,
    count: size_t,
    advice: c_int,
    flags: c_uint,
) -> ssize_t {
    if space().is_none() || flags != 0 || !has_this_memory(process) {
        // SAFETY: passed on to the caller.
        return unsafe { kernel::process_madvise(process, ranges, count, advice, flags) };
    }
    // The kernel looks at the ranges first, and then for a process that does not exist: it says what is wrong with the
    // ranges, and does nothing.
    let before = errno();
    // SAFETY: no range is advised.
    unsafe { kernel::process_madvise(NO_PROCESS, ranges, count, advice, 0) };
    if errno() != libc::EBADF {
        return -1;
    }
    fail(before);
    let mut done: size_t = 0;
    for at in 0..count {
        // SAFETY: the caller's array of `count` ranges, which the kernel has just read.
        let range = unsafe { ranges.add(at).read() };
        // SAFETY: passed on to the caller.
        if unsafe { madvise(range.iov_base, range.iov_len, advice) } != 0 {
            return if done > 0 { done as ssize_t } else { -1 };
        }
        done += range.iov_len;
    }
    done as ssize_t
}

/// No descriptor of a process.
const NO_PROCESS: c_int = -1;

/// Whether a descriptor refers to a process with this memory: this one, a thread of it, or another that shares it.
///
/// The kernel takes advice that discards from a process with this memory only (Linux 6.13; before, from none, and then
/// it need not be told), and so it can be asked, by advice on no range. `/proc` may be missing, or be another process
/// namespace's, in which this process has another number.
fn has_this_memory(process: c_int) -> bool {
    let before = errno();
    // SAFETY: no range is advised.
    let asked = unsafe { kernel::process_madvise(process, ptr::null(), 0, libc::MADV_DONTNEED, 0) };
    fail(before);
    asked == 0
}
