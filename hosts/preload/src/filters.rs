//! Filters of system calls (seccomp). Threads of this library would be under one that the program sets for all of its threads,
//! and those that come later under the one of the thread that creates them; and a filter may end the process at a call that
//! it does not know. So a program that filters its own calls before it is paged is not paged.
//!
//! One that runs under a filter from the start (containers, services of systemd) is paged if that lets through what paging
//! needs, which is tried out in a process of its own.

use std::ffi::c_void;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use libc::{c_int, c_long, c_ulong};
use warmswap_sys::fork::survives;
use warmswap_uffd::{Features, Reach, Uffd};

use crate::kernel::fail;
use crate::real::RealSymbol;
use crate::reentrancy::ReentrancyGuard;
use crate::{gate, keeper, report, rights};

type Prctl = unsafe extern "C" fn(c_int, c_ulong, c_ulong, c_ulong, c_ulong) -> c_int;

/// Has calls from all code but a range come back to the program as signals. This library's would, too, so that there is no such
/// thing here, as in kernels before Linux 5.11.
const PR_SET_SYSCALL_USER_DISPATCH: c_int = 59;

/// The C library's function.
static PRCTL: RealSymbol = RealSymbol::new(c"prctl");

/// Finds the C library's function while there is only one thread.
pub fn start() {
    PRCTL.function();
}

/// Whether the process is under a filter.
pub fn are_set() -> bool {
    // SAFETY: it changes nothing.
    unsafe { libc::prctl(libc::PR_GET_SECCOMP) > 0 }
}

/// Whether a filter that the process was started under lets through what paging needs.
pub fn let_paging_through() -> bool {
    let needs_all = || {
        let _ = Uffd::open(Reach::Everything, Features::NONE);
        let _ = Uffd::open(Reach::UserOnly, Features::NONE);
        let _ = rustix::thread::sched_getaffinity(None);
    };
    !are_set() || survives(needs_all).unwrap_or(true)
}

/// The program is not paged, and filters its system calls.
static IS_LEFT_ALONE: AtomicBool = AtomicBool::new(false);

/// Whether the program has set a filter and is not paged. Then this library makes no system call but those that the program
/// asks for.
pub fn is_left_alone() -> bool {
    IS_LEFT_ALONE.load(Relaxed)
}

/// The program is about to filter its system calls.
extern "C" fn will_filter() {
    if !ReentrancyGuard::is() && report::is_own_process() {
        let _within = ReentrancyGuard::enter();
        gate::do_without_membarrier();
        let is_paged = !keeper::end_unless_paged("it filters its system calls (seccomp)");
        // At its end it may open and write no file.
        report::finish_early(is_paged);
        IS_LEFT_ALONE.store(!is_paged, Relaxed);
    }
}

/// The C library declares all but the first parameter as variable ones; they are passed in the same places.
#[unsafe(no_mangle)]
unsafe extern "C" fn prctl(option: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int {
    if option == libc::PR_SET_SECCOMP {
        will_filter();
    }
    if option == PR_SET_SYSCALL_USER_DISPATCH && a != 0 {
        return fail(libc::EINVAL);
    }
    if option == libc::PR_SET_KEEPCAPS && a != 0 {
        rights::will_keep_capabilities();
    }
    // SAFETY: what has that name is a function of this type; the arguments are passed on from the caller.
    unsafe { std::mem::transmute::<*mut c_void, Prctl>(PRCTL.or_abort())(option, a, b, c, d) }
}

/// What a system call that failed returns.
extern "C" fn failed(errno: c_int) -> c_long {
    c_long::from(fail(errno))
}

/// As the C library's: seccomp has no function of its own there. It is the same few instructions, since what is called may
/// return on another stack, or be called before this library has begun.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn syscall() {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!(
        "cmp rdi, {seccomp}",
        "jne 2f",
        "push rdi", "push rsi", "push rdx", "push rcx", "push r8",
        "call {will_filter}",
        "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi",
        "2:",
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "mov r9, [rsp + 8]",
        "syscall",
        "cmp rax, -4095",
        "jae 3f",
        "ret",
        "3:",
        "mov edi, eax",
        "neg edi",
        "jmp {failed}",
        seccomp = const libc::SYS_seccomp,
        will_filter = sym will_filter,
        failed = sym failed,
    );
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!(
        "cmp x0, {seccomp}",
        "b.ne 2f",
        "stp x29, x30, [sp, -48]!",
        "stp x0, x1, [sp, 16]",
        "stp x2, x3, [sp, 32]",
        "bl {will_filter}",
        "ldp x0, x1, [sp, 16]",
        "ldp x2, x3, [sp, 32]",
        "ldp x29, x30, [sp], 48",
        "2:",
        "mov x8, x0",
        "mov x0, x1",
        "mov x1, x2",
        "mov x2, x3",
        "mov x3, x4",
        "mov x4, x5",
        "mov x5, x6",
        "svc 0",
        "cmn x0, 4095",
        "b.cs 3f",
        "ret",
        "3:",
        "neg w0, w0",
        "b {failed}",
        seccomp = const libc::SYS_seccomp,
        will_filter = sym will_filter,
        failed = sym failed,
    );
}
