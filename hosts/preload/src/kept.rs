//! Memory of the program that the kernel accesses at the end of a thread, where it does not wait for a page: robust
//! mutexes, and what the C library keeps at the top of a stack that the program provides (`pthread_attr_setstack`).

use std::ffi::c_void;

use libc::{c_int, pthread_mutex_t, pthread_mutexattr_t};
use warmswap_page::PAGE_BYTES;
use warmswap_sys::touch::touch_for_write;

use crate::mapping::space;
use crate::real::RealSymbol;
use crate::stacks;

type Init = unsafe extern "C" fn(*mut pthread_mutex_t, *const pthread_mutexattr_t) -> c_int;

/// The C library's function.
static INIT: RealSymbol = RealSymbol::new(c"pthread_mutex_init");

/// Bytes of what the C library keeps of a thread, from what `pthread_self` gives on, where the kernel does not say where
/// they end. More than any version has.
const THREAD_BYTES: usize = PAGE_BYTES;

/// Finds the C library's function while there is only one thread.
pub fn start() {
    INIT.function();
}

/// Keeps a range of the program's memory, which it may write to, in its place.
pub fn keep(address: usize, bytes: usize) {
    let Some(space) = space() else { return };
    let addresses = space.range();
    let end = (address + bytes).min(addresses.end);
    if address < addresses.start || address >= end {
        return;
    }
    while !stacks::call(space, || space.keep(address, end - address)) {
        for page in (address..end).step_by(PAGE_BYTES).chain([end - 1]) {
            let byte = std::ptr::with_exposed_provenance_mut(page);
            // A write also ends the protection of a page that is about to be compressed in its place.
            // SAFETY: memory of the program's that it uses at this moment, as a mutex or for a thread.
            unsafe { touch_for_write(byte) };
        }
    }
}

/// A thread of the program begins: the kernel says there that it has ended, and which robust mutexes it has.
pub fn thread_begins() {
    // SAFETY: it reads a register.
    let thread = unsafe { libc::pthread_self() } as usize;
    keep(thread, thread_bytes(thread));
}

/// Bytes from what `pthread_self` gives to the end of the list of robust mutexes, the last that the kernel accesses. What
/// is behind may be another mapping, which the program did not mean to have touched.
fn thread_bytes(thread: usize) -> usize {
    let (mut head, mut len) = (0_usize, 0_usize);
    // SAFETY: it writes the two, of the calling thread.
    let result =
        unsafe { libc::syscall(libc::SYS_get_robust_list, 0, &raw mut head, &raw mut len) };
    let end = head.saturating_add(len);
    if result == 0 && (thread..thread + THREAD_BYTES).contains(&head) {
        end - thread
    } else {
        THREAD_BYTES.min(PAGE_BYTES - thread % PAGE_BYTES)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_mutex_init(
    mutex: *mut pthread_mutex_t,
    attributes: *const pthread_mutexattr_t,
) -> c_int {
    let init = INIT.or_abort();
    // SAFETY: what has that name is a function of this type; the arguments are passed on from the caller.
    let result = unsafe { std::mem::transmute::<*mut c_void, Init>(init)(mutex, attributes) };
    if result == 0 && !attributes.is_null() && is_robust(attributes) {
        keep(mutex.addr(), size_of::<pthread_mutex_t>());
    }
    result
}

fn is_robust(attributes: *const pthread_mutexattr_t) -> bool {
    let mut robust = libc::PTHREAD_MUTEX_STALLED;
    // SAFETY: the caller's attributes, which the C library has just read.
    let result = unsafe { libc::pthread_mutexattr_getrobust(attributes, &raw mut robust) };
    result == 0 && robust == libc::PTHREAD_MUTEX_ROBUST
}
