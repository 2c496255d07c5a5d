//! Limits of the program that the library cannot keep.

use std::mem::MaybeUninit;

/// Whether the program may have only so many addresses, or so much data (`ulimit -v`, `ulimit -d`). The library needs
/// many, most of which are never used.
pub fn are_addresses_limited() -> bool {
    [libc::RLIMIT_AS, libc::RLIMIT_DATA]
        .into_iter()
        .any(|which| {
            let mut limit = MaybeUninit::<libc::rlimit>::uninit();
            // SAFETY: the call fills in the limit.
            let result = unsafe { libc::getrlimit(which, limit.as_mut_ptr()) };
            // SAFETY: filled in by the call, which succeeded.
            result == 0 && unsafe { limit.assume_init() }.rlim_cur != libc::RLIM_INFINITY
        })
}
