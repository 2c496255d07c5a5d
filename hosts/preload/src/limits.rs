//! Limits of the program that the library cannot keep, or keeps in the kernel's place.
//!
//! Where addresses or data are limited from the start, the program is not paged. A limit that the program sets for itself is
//! kept here: to the kernel, what the library has reserved is used up, and what it needs for itself would be refused. It is
//! the kernel's again in programs that this one becomes (`exec`).

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use libc::{c_int, c_uint, pid_t, rlimit};
use warmswap_program::Space;

use crate::heap::Heap;
use crate::kernel::{self, fail};
use crate::mapping::space;
use crate::reentrancy::ReentrancyGuard;
use crate::report;

/// A limit that the program has set.
struct Kept {
    /// Bytes now, and at most.
    soft: AtomicU64,
    hard: AtomicU64,
    is_set: AtomicBool,
}

/// Of its addresses.
static ADDRESSES: Kept = Kept::new();
/// Of its data, as far as it is in the space: elsewhere the library's own cannot be told apart.
static DATA: Kept = Kept::new();
/// Bytes of addresses that the library reserved with the space.
static RESERVED: AtomicU64 = AtomicU64::new(0);

/// Whether the program may have only so many addresses, or so much data (`ulimit -v`, `ulimit -d`). The library needs
/// many, and never uses most of them.
pub fn are_addresses_limited() -> bool {
    [libc::RLIMIT_AS, libc::RLIMIT_DATA]
        .into_iter()
        .any(is_limited)
}

/// Whether the kernel has such a limit for the process.
fn is_limited(which: c_uint) -> bool {
    let mut limit = MaybeUninit::<rlimit>::uninit();
    let result = kernel::prlimit(0, which, ptr::null(), limit.as_mut_ptr());
    // SAFETY: filled in by the call, which succeeded.
    result == 0 && unsafe { limit.assume_init() }.rlim_cur != libc::RLIM_INFINITY
}

/// Does what reserves addresses for the library.
pub fn reserve<R>(work: impl FnOnce() -> R) -> R {
    let before = address_bytes();
    let result = work();
    let more = address_bytes().saturating_sub(before);
    RESERVED.store(more, Ordering::Relaxed);
    result
}

/// Whether the program has set a limit for itself.
pub fn are_set() -> bool {
    DATA.is_set() || ADDRESSES.is_set()
}

/// Whether the program may map so many bytes more, by the limits that it has set for itself.
pub fn allow(space: &Space, bytes: usize) -> bool {
    if !are_set() {
        return true;
    }
    let bytes = bytes as u64;
    let _within = ReentrancyGuard::enter();
    let is_data = || DATA.allows(space.mapped_bytes().saturating_add(bytes));
    let is_addresses = || {
        let own = RESERVED.load(Ordering::Relaxed) + Heap::reserved_bytes() as u64;
        let used = address_bytes().saturating_sub(own) + space.mapped_bytes();
        ADDRESSES.allows(used.saturating_add(bytes))
    };
    (!DATA.is_set() || is_data()) && (!ADDRESSES.is_set() || is_addresses())
}

/// The process is about to be another program: the kernel keeps the limit from now on.
pub fn hand_over() {
    for which in [libc::RLIMIT_AS, libc::RLIMIT_DATA] {
        // A child of `vfork` may have set one of its own.
        if let Some(kept) = kept(which).filter(|kept| kept.is_set())
            && (report::is_own_process() || !is_limited(which))
        {
            kernel::prlimit(0, which, &kept.noted(), ptr::null_mut());
        }
    }
}

fn kept(which: c_uint) -> Option<&'static Kept> {
    match which {
        libc::RLIMIT_AS => Some(&ADDRESSES),
        libc::RLIMIT_DATA => Some(&DATA),
        _ => None,
    }
}

/// Bytes of addresses that the process has, to the kernel.
fn address_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: Option<u64> = statm.split(' ').next().and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0) * 4096
}

impl Kept {
    const fn new() -> Self {
        Self {
            soft: AtomicU64::new(libc::RLIM_INFINITY),
            hard: AtomicU64::new(libc::RLIM_INFINITY),
            is_set: AtomicBool::new(false),
        }
    }

    fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }

    fn allows(&self, bytes: u64) -> bool {
        bytes <= self.soft.load(Ordering::Relaxed)
    }

    fn noted(&self) -> rlimit {
        rlimit {
            rlim_cur: self.soft.load(Ordering::Relaxed),
            rlim_max: self.hard.load(Ordering::Relaxed),
        }
    }

    fn note(&self, limit: rlimit) -> c_int {
        if limit.rlim_cur > limit.rlim_max {
            return fail(libc::EINVAL);
        }
        let is_raised = limit.rlim_max > self.hard.load(Ordering::Relaxed);
        if is_raised && !rustix::process::geteuid().is_root() {
            return fail(libc::EPERM);
        }
        self.soft.store(limit.rlim_cur, Ordering::Relaxed);
        self.hard.store(limit.rlim_max, Ordering::Relaxed);
        self.is_set.store(true, Ordering::Release);
        0
    }
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
    let kept = kept(which).filter(|_| is_own && space().is_some());
    let Some(kept) = kept else {
        return kernel::prlimit(process, which, new, old);
    };
    let before = kept.noted();
    // SAFETY: the caller's limit, or null.
    if let Some(&new) = unsafe { new.as_ref() }
        && kept.note(new) != 0
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
