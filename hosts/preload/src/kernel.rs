//! System calls past the replaced functions, which report failure as the C library does.

use std::ffi::c_void;

use libc::{c_int, c_uint, off_t, pid_t, rlimit, size_t};

/// `mmap`.
///
/// # Safety
/// As for the system call.
pub unsafe fn mmap(
    address: *mut c_void,
    len: size_t,
    protection: c_int,
    flags: c_int,
    (file, offset): (c_int, off_t),
) -> *mut c_void {
    // SAFETY: passed on to the caller.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mmap,
            address,
            len,
            protection,
            flags,
            file,
            offset,
        )
    };
    result as *mut c_void
}

/// `munmap`.
///
/// # Safety
/// As for the system call.
pub unsafe fn munmap(address: *mut c_void, len: size_t) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { libc::syscall(libc::SYS_munmap, address, len) as c_int }
}

/// `mprotect`.
///
/// # Safety
/// As for the system call.
pub unsafe fn mprotect(address: *mut c_void, len: size_t, protection: c_int) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { libc::syscall(libc::SYS_mprotect, address, len, protection) as c_int }
}

/// `pkey_mprotect`.
///
/// # Safety
/// As for the system call.
pub unsafe fn pkey_mprotect(
    address: *mut c_void,
    len: size_t,
    protection: c_int,
    key: c_int,
) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { libc::syscall(libc::SYS_pkey_mprotect, address, len, protection, key) as c_int }
}

/// `madvise`.
///
/// # Safety
/// As for the system call.
pub unsafe fn madvise(address: *mut c_void, len: size_t, advice: c_int) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { libc::syscall(libc::SYS_madvise, address, len, advice) as c_int }
}

/// `process_madvise`.
///
/// # Safety
/// As for the system call.
pub unsafe fn process_madvise(
    process: c_int,
    ranges: *const libc::iovec,
    count: size_t,
    advice: c_int,
    flags: c_uint,
) -> libc::ssize_t {
    // SAFETY: passed on to the caller.
    let result = unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            process,
            ranges,
            count,
            advice,
            flags,
        )
    };
    result as libc::ssize_t
}

/// `mremap`.
///
/// # Safety
/// As for the system call.
pub unsafe fn mremap(
    address: *mut c_void,
    old: size_t,
    new: size_t,
    flags: c_int,
    to: *mut c_void,
) -> *mut c_void {
    // SAFETY: passed on to the caller.
    unsafe { libc::syscall(libc::SYS_mremap, address, old, new, flags, to) as *mut c_void }
}

/// `mlockall`.
pub fn mlockall(flags: c_int) -> c_int {
    // SAFETY: it changes no content.
    unsafe { libc::syscall(libc::SYS_mlockall, flags) as c_int }
}

/// `mlock2`.
pub fn mlock2(address: usize, len: size_t, flags: c_int) -> c_int {
    // SAFETY: it changes no content.
    unsafe { libc::syscall(libc::SYS_mlock2, address, len, flags) as c_int }
}

/// `munlock`.
pub fn munlock(address: usize, len: size_t) -> c_int {
    // SAFETY: it changes no content.
    unsafe { libc::syscall(libc::SYS_munlock, address, len) as c_int }
}

/// `prlimit`, with limits of the caller's or null.
pub fn prlimit(process: pid_t, which: c_uint, new: *const rlimit, old: *mut rlimit) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { libc::syscall(libc::SYS_prlimit64, process, which, new, old) as c_int }
}

/// `mincore`.
///
/// # Safety
/// `in_memory` has room for a byte a page.
pub unsafe fn mincore(address: *mut c_void, len: size_t, in_memory: *mut u8) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { libc::syscall(libc::SYS_mincore, address, len, in_memory) as c_int }
}

/// `msync`.
pub fn msync(address: usize, len: size_t, flags: c_int) -> c_int {
    // SAFETY: it changes no content.
    unsafe { libc::syscall(libc::SYS_msync, address, len, flags) as c_int }
}

/// Why the last call failed.
pub fn errno() -> c_int {
    // SAFETY: the location is the calling thread's own and always valid.
    unsafe { *libc::__errno_location() }
}

/// Sets `errno` and gives what a call that failed returns.
pub fn fail(errno: c_int) -> c_int {
    // SAFETY: the location is the calling thread's own and always valid.
    unsafe { *libc::__errno_location() = errno };
    -1
}

/// What a call that succeeds leaves `errno` as, whatever was tried for it: `free` and its like change it never.
pub fn keeping_errno<R: PartialEq>(failed: R, call: impl FnOnce() -> R) -> R {
    let before = errno();
    let result = call();
    if result != failed {
        fail(before);
    }
    result
}
