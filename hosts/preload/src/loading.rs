//! Libraries that the program loads call this library's functions, too.
//!
//! With `RTLD_DEEPBIND`, as web servers load plugins, they would call the C library's own instead: blocks go to and fro between
//! two allocators, and memory of the space would be unmapped or discarded behind it. So the flag has no effect. In a
//! namespace of its own (`dlmopen`) a library has another C library, and keeps it.
//!
//! `dlopen` knows the object that calls it by its return address, and searches where that says (`RUNPATH`, `$ORIGIN`). Were
//! the C library's function called from here, it would search as this library says, and its namespace and audit modules
//! would be told of the wrong object. So it is jumped to with the flag taken away, as if it had been called.

use std::ffi::c_void;

use libc::RTLD_DEEPBIND;

use crate::real::RealSymbol;

static DLOPEN: RealSymbol = RealSymbol::new(c"dlopen");
static DLMOPEN: RealSymbol = RealSymbol::new(c"dlmopen");

/// Finds the C library's functions while there is only one thread.
pub fn start() {
    DLOPEN.function();
    DLMOPEN.function();
}

/// Where to go on.
extern "C" fn real(function: &RealSymbol) -> *mut c_void {
    function.or_abort()
}

// SAFETY: the argument registers but for the flags, and the stack, are as they were when the C library's function begins: to
// that function it is as if it had been called from where this was.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn dlopen() {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!(
        "push rdi",
        "and esi, {without}",
        "push rsi",
        "sub rsp, 8",
        "lea rdi, [rip + {function}]",
        "call {real}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "jmp rax",
        without = const !RTLD_DEEPBIND,
        function = sym DLOPEN,
        real = sym real,
    );
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!(
        "stp x29, x30, [sp, -32]!",
        "and w1, w1, {without}",
        "stp x0, x1, [sp, 16]",
        "adrp x0, {function}",
        "add x0, x0, :lo12:{function}",
        "bl {real}",
        "mov x16, x0",
        "ldp x0, x1, [sp, 16]",
        "ldp x29, x30, [sp], 32",
        "br x16",
        without = const !RTLD_DEEPBIND,
        function = sym DLOPEN,
        real = sym real,
    );
}

// SAFETY: as of `dlopen`; the namespace comes first, and the program's own is 0.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn dlmopen() {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!(
        "test rdi, rdi",
        "jnz 2f",
        "and edx, {without}",
        "2:",
        "push rdi",
        "push rsi",
        "push rdx",
        "lea rdi, [rip + {function}]",
        "call {real}",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "jmp rax",
        without = const !RTLD_DEEPBIND,
        function = sym DLMOPEN,
        real = sym real,
    );
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!(
        "stp x29, x30, [sp, -48]!",
        "stp x0, x1, [sp, 16]",
        "cbnz x0, 2f",
        "and w2, w2, {without}",
        "2:",
        "str x2, [sp, 32]",
        "adrp x0, {function}",
        "add x0, x0, :lo12:{function}",
        "bl {real}",
        "mov x16, x0",
        "ldp x0, x1, [sp, 16]",
        "ldr x2, [sp, 32]",
        "ldp x29, x30, [sp], 48",
        "br x16",
        without = const !RTLD_DEEPBIND,
        function = sym DLMOPEN,
        real = sym real,
    );
}
