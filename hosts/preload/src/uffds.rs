//! A program that has page faults of its own memory by a userfaultfd (virtual machines that migrate or are restored,
//! tests): what it registers is its own, and is not paged.

use std::ffi::c_void;

use libc::{c_int, c_ulong};

use crate::kernel::errno;
use crate::mapping::{space, split, whole_pages};
use crate::real::RealSymbol;
use crate::{keeper, stacks};

type Ioctl = unsafe extern "C" fn(c_int, c_ulong, *mut c_void) -> c_int;

/// The C library's function.
static IOCTL: RealSymbol = RealSymbol::new(c"ioctl");

/// `UFFDIO_REGISTER`.
const REGISTER: c_ulong = 0xc020_aa00;

/// What a registration begins with: `struct uffdio_range`.
#[repr(C)]
struct Addresses {
    start: u64,
    len: u64,
}

/// Finds the C library's function while there is only one thread.
pub fn start() {
    IOCTL.function();
}

/// The third argument of all requests is a pointer, a number, or not there: passed on as it is.
#[unsafe(no_mangle)]
unsafe extern "C" fn ioctl(file: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    let function = IOCTL.or_abort();
    let call = || {
        // SAFETY: what has that name is a function of this type; the arguments are passed on from the caller.
        unsafe { std::mem::transmute::<*mut c_void, Ioctl>(function)(file, request, argument) }
    };
    let result = call();
    if result == -1 && request == REGISTER && errno() == libc::EBUSY {
        // SAFETY: the kernel has just read the request's argument, which begins with the range.
        let addresses = unsafe { argument.cast::<Addresses>().read() };
        if leave(&addresses) {
            return call();
        }
    }
    result
}

/// Leaves what is the space's of a range to the kernel; false if that is none of it.
fn leave(addresses: &Addresses) -> bool {
    let start = std::ptr::without_provenance_mut(addresses.start as usize);
    let Some((space, range)) = space().zip(whole_pages(start, addresses.len as usize)) else {
        return false;
    };
    let (ours, _) = split(space, &range);
    // As long as nothing is paged, the one that has it is another of the program's.
    !ours.is_empty()
        && stacks::call(space, || {
            let is_paged = space.is_adopted();
            if is_paged {
                keeper::leave(&ours);
            }
            is_paged
        })
}
