//! System V shared memory that the program attaches at addresses of the space, in the place of its memory (`SHM_REMAP`) or
//! where it has none: these are the kernel's from then on.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use libc::{MAP_FAILED, c_int, shmid_ds};
use warmswap_program::Over;

use crate::kernel::fail;
use crate::mapping::{errno_of, give_up, space, split, whole_pages};
use crate::real::RealSymbol;
use crate::stacks;

type Attach = unsafe extern "C" fn(c_int, *const c_void, c_int) -> *mut c_void;

/// The C library's function.
static ATTACH: RealSymbol = RealSymbol::new(c"shmat");

/// Finds the C library's function while there is only one thread.
pub fn start() {
    ATTACH.function();
}

#[unsafe(no_mangle)]
unsafe extern "C" fn shmat(id: c_int, address: *const c_void, flags: c_int) -> *mut c_void {
    let attach = |flags| {
        // SAFETY: what has that name is a function of this type; the arguments are passed on from the caller.
        unsafe { std::mem::transmute::<*mut c_void, Attach>(ATTACH.or_abort())(id, address, flags) }
    };
    let ours = space().filter(|_| !address.is_null()).and_then(|space| {
        let range = whole_pages(address.cast_mut(), bytes_of(id)?)?;
        let within = split(space, &range).0;
        (!within.is_empty()).then_some((space, range, within))
    });
    let Some((space, range, within)) = ours else {
        return attach(flags);
    };
    let replaces = flags & libc::SHM_REMAP != 0;
    let over = if replaces {
        Over::Anything
    } else {
        Over::Nothing
    };
    let give = || space.give_away(within.start, within.len(), over);
    if let Err(error) = stacks::call(space, give) {
        // The kernel's answer where something is there.
        fail(if replaces {
            errno_of(&error)
        } else {
            libc::EINVAL
        });
        return MAP_FAILED;
    }
    // It replaces the inaccessible mapping that the space has there.
    let attached = attach(flags | libc::SHM_REMAP);
    if attached == MAP_FAILED {
        give_up(address.cast_mut(), range.len());
    }
    attached
}

/// Bytes of a piece of shared memory; none if there is no such.
fn bytes_of(id: c_int) -> Option<usize> {
    let mut status = MaybeUninit::<shmid_ds>::uninit();
    // SAFETY: the call fills in the status, if it succeeds.
    let result = unsafe { libc::shmctl(id, libc::IPC_STAT, status.as_mut_ptr()) };
    // SAFETY: filled in by the call.
    (result == 0).then(|| unsafe { status.assume_init() }.shm_segsz)
}
