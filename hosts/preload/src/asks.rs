//! Calls that say what is mapped. To the kernel the space is one mapping that is always there; to the program there are
//! holes in it. Unwinders look so before they read what may be no address.

use std::ffi::c_void;

use libc::{c_int, size_t};

use crate::kernel::{self, fail};
use crate::mapping::{space, split, whole_pages};
use crate::stacks;

/// Whether the program has mapped nothing in some of a range of the space.
fn has_hole(address: *mut c_void, len: size_t) -> bool {
    let Some((space, range)) = space().zip(whole_pages(address, len)) else {
        return false;
    };
    let (ours, _) = split(space, &range);
    !ours.is_empty() && stacks::call(space, || space.has_hole(ours.start, ours.len()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mincore(address: *mut c_void, len: size_t, in_memory: *mut u8) -> c_int {
    if has_hole(address, len) {
        return fail(libc::ENOMEM);
    }
    // SAFETY: passed on to the caller.
    unsafe { kernel::mincore(address, len, in_memory) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn msync(address: *mut c_void, len: size_t, flags: c_int) -> c_int {
    if has_hole(address, len) {
        return fail(libc::ENOMEM);
    }
    kernel::msync(address.addr(), len, flags)
}
