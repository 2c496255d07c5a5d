//! Limits of the program that the library cannot keep, or keeps in the kernel's place.
//!
//! Where addresses or data are limited from the start, the program is not paged. A limit of addresses that the program sets
//! for itself is kept here: to the kernel, what the library has reserved is used up. It is the kernel's again in programs
//! that this one becomes (`exec`).

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use libc::{c_int, c_uint, pid_t, rlimit};
use warmswap_process::Space;

use crate::heap::Heap;
use crate::kernel::{self, fail};
use crate::mapping::space;
use crate::reentrancy::ReentrancyGuard;
use crate::report;

/// The limit that the program has set: bytes of addresses now, and at most.
static SOFT: AtomicU64 = AtomicU64::new(libc::RLIM_INFINITY);
static HARD: AtomicU64 = AtomicU64::new(libc::RLIM_INFINITY);
static IS_SET: AtomicBool = AtomicBool::new(false);
/// Bytes of addresses that the library reserved with the space.
static RESERVED: AtomicU64 = AtomicU64::new(0);

/// Whether the program may have only so many addresses, or so much data (`ulimit -v`, `ulimit -d`). The library needs
/// many, most of which are never used.
pub fn are_addresses_limited() -> bool {
    [libc::RLIMIT_AS, libc::RLIMIT_DATA]
        .into_iter()
        .any(|which| {
            let mut limit = MaybeUninit::<rlimit>::uninit();
            let result = kernel::prlimit(0, which, ptr::null(), limit.as_mut_ptr());
            // SAFETY: filled in by the call, which succeeded.
            result == 0 && unsafe { limit.assume_init() }.rlim_cur != libc::RLIM_INFINITY
        })
}

/// Does what reserves addresses for the library.
pub fn reserve<R>(work: impl FnOnce() -> R) -> R {
    let before = address_bytes();
    let result = work();
    let more = address_bytes().saturating_sub(before);
    RESERVED.store(more, Ordering::Relaxed);
    result
}

/// Whether the program may map so many bytes more, by the limit that it has set for itself.
pub fn allow(space: &Space, bytes: usize) -> bool {
    if !IS_SET.load(Ordering::Acquire) {
        return true;
    }
    let _within = ReentrancyGuard::enter();
    let own = RESERVED.load(Ordering::Relaxed) + Heap::reserved_bytes() as u64;
    let used = address_bytes().saturating_sub(own) + space.mapped_bytes();
    used.saturating_add(bytes as u64) <= SOFT.load(Ordering::Relaxed)
}

/// The process is about to be another program: the kernel keeps the limit from now on.
pub fn hand_over() {
    if IS_SET.load(Ordering::Acquire) {
        kernel::prlimit(0, libc::RLIMIT_AS, &noted(), ptr::null_mut());
    }
}

/// Bytes of addresses that the process has, to the kernel.
fn address_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: Option<u64> = statm.split(' ').next().and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0) * 4096
}

fn noted() -> rlimit {
    rlimit {
        rlim_cur: SOFT.load(Ordering::Relaxed),
        rlim_max: HARD.load(Ordering::Relaxed),
    }
}

fn note(limit: rlimit) -> c_int {
    if limit.rlim_cur > limit.rlim_max {
        return fail(libc::EINVAL);
    }
    if limit.rlim_max > HARD.load(Ordering::Relaxed) && !rustix::process::geteuid().is_root() {
        return fail(libc::EPERM);
    }
    SOFT.store(limit.rlim_cur, Ordering::Relaxed);
    HARD.store(limit.rlim_max, Ordering::Relaxed);
    IS_SET.store(true, Ordering::Release);
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn prlimit(
    process: pid_t,
    which: c_uint,
    new: *const rlimit,
    old: *mut rlimit,
) -> c_int {
    // A child of `vfork` has limits of its own.
    let is_own = report::is_own_process() && (process == 0 || process as u32 == std::process::id());
    if which != libc::RLIMIT_AS || !is_own || space().is_none() {
        return kernel::prlimit(process, which, new, old);
    }
    let before = noted();
    // SAFETY: the caller's limit, or null.
    if let Some(&new) = unsafe { new.as_ref() }
        && note(new) != 0
    {
        return -1;
    }
    if !old.is_null() {
        // SAFETY: the caller's place for it.
        unsafe { old.write(before) };
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn prlimit64(
    process: pid_t,
    which: c_uint,
    new: *const rlimit,
    old: *mut rlimit,
) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { prlimit(process, which, new, old) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn setrlimit(which: c_uint, new: *const rlimit) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { prlimit(0, which, new, ptr::null_mut()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn setrlimit64(which: c_uint, new: *const rlimit) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { prlimit(0, which, new, ptr::null_mut()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getrlimit(which: c_uint, old: *mut rlimit) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { prlimit(0, which, ptr::null(), old) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getrlimit64(which: c_uint, old: *mut rlimit) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { prlimit(0, which, ptr::null(), old) }
}
