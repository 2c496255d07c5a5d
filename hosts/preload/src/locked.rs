//! Memory that a program locks stays in its place, until it is unlocked or unmapped. A program that locks all of its memory
//! wants none of it to leave: it is not paged.

use std::ffi::c_void;

use libc::{c_int, c_uint, size_t};

use crate::kernel::fail;
use crate::mapping::space;
use crate::reentrancy::ReentrancyGuard;
use crate::{attributes, keeper, kernel};

#[unsafe(no_mangle)]
unsafe extern "C" fn mlock(address: *const c_void, len: size_t) -> c_int {
    attributes::have_locked(true);
    kernel::mlock2(address.addr(), len, 0)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mlock2(address: *const c_void, len: size_t, flags: c_uint) -> c_int {
    attributes::have_locked(true);
    kernel::mlock2(address.addr(), len, flags as c_int)
}

/// Locks what is there without filling it: this library reserves far more than is ever used. What the program has not
/// touched yet is locked when it is.
#[unsafe(no_mangle)]
unsafe extern "C" fn mlockall(flags: c_int) -> c_int {
    let Some(space) = space() else {
        return kernel::mlockall(flags);
    };
    let is_paged = {
        let _within = ReentrancyGuard::enter();
        !keeper::never_page("it locks all of its memory")
    };
    if is_paged {
        // As with a limit of what may be locked.
        return fail(libc::ENOMEM);
    }
    let result = kernel::mlockall(flags | libc::MCL_ONFAULT);
    // All that is mapped from now on stays locked, too.
    attributes::have_locked(false);
    if result == 0 && flags & libc::MCL_CURRENT == 0 {
        // What is mapped in the space from now on is a mapping of today to the kernel.
        let addresses = space.range();
        // That too much is to be locked shows when it is used.
        let _ = kernel::mlock2(
            addresses.start,
            addresses.len(),
            libc::MLOCK_ONFAULT as c_int,
        );
    }
    result
}
