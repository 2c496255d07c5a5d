//! When a thread works for this library.

use std::arch::{asm, global_asm};
use std::mem::MaybeUninit;

use libc::c_int;

// How deep the thread is within. In the initial-exec model, so that a look at it calls nothing: `malloc` looks, and what
// the usual model calls (`__tls_get_addr`) calls `malloc` when it makes a thread's table larger.
global_asm!(
    ".pushsection .tbss.warmswap_within_depth, \"awT\", %nobits",
    ".globl warmswap_within_depth",
    ".hidden warmswap_within_depth",
    ".p2align 2",
    "warmswap_within_depth:",
    ".zero 4",
    ".popsection",
);

/// Where the calling thread's depth is.
#[inline]
fn depth() -> *mut u32 {
    let depth: *mut u32;
    // SAFETY: reads the variable's offset, which the loader knows since the library is loaded with the program, and the
    // thread's pointer.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(
            "mov warmswap_within_depth@gottpoff(%rip), {0}",
            "add %fs:0, {0}",
            out(reg) depth,
            options(att_syntax, pure, readonly, nostack),
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!(
            "mrs {0}, tpidr_el0",
            "adrp {1}, :gottprel:warmswap_within_depth",
            "ldr {1}, [{1}, :gottprel_lo12:warmswap_within_depth]",
            "add {0}, {0}, {1}",
            out(reg) depth,
            out(reg) _,
            options(pure, readonly, nostack),
        );
    }
    depth
}

#[inline]
fn get() -> u32 {
    let now: u32;
    // SAFETY: reads the calling thread's variable, by its offset from the thread's pointer.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(
            "mov warmswap_within_depth@gottpoff(%rip), {0:r}",
            "mov %fs:({0:r}), {0:e}",
            out(reg) now,
            options(att_syntax, pure, readonly, nostack, preserves_flags),
        );
    }
    // SAFETY: the variable is the calling thread's alone, and lives as long as it runs.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        now = depth().read();
    }
    now
}

fn set(now: u32) {
    // SAFETY: the variable is the calling thread's alone, and lives as long as it runs.
    unsafe { depth().write(now) }
}

/// The thread works for this library: what it allocates comes from the library's heap, what it maps from the
/// kernel, and no signal handler runs on it, nor is it cancelled. (A handler uses the program's memory. To bring that back may
/// need what the thread holds.)
pub struct ReentrancyGuard {
    /// The signals that were blocked before; none if the thread was within already.
    before: Option<libc::sigset_t>,
    /// Whether the thread could be cancelled before.
    cancellation: c_int,
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// `PTHREAD_CANCEL_DISABLE`.
const NOT_CANCELLED: c_int = 1;

impl ReentrancyGuard {
    pub fn enter() -> Self {
        let depth = get();
        let before = (depth == 0).then(block_all);
        let mut cancellation = NOT_CANCELLED;
        if depth == 0 {
            // SAFETY: the call fills in the state.
            unsafe { pthread_setcancelstate(NOT_CANCELLED, &raw mut cancellation) };
        }
        set(depth + 1);
        Self {
            before,
            cancellation,
        }
    }

    /// Whether the calling thread is.
    #[inline]
    pub fn is() -> bool {
        get() > 0
    }

    /// For threads of the library: they are within as long as they live.
    pub fn forever() {
        std::mem::forget(Self::enter());
    }
}

impl Drop for ReentrancyGuard {
    fn drop(&mut self) {
        set(get() - 1);
        if let Some(before) = &self.before {
            // SAFETY: the set was filled in by `block_all`.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
            // SAFETY: what it was before.
            unsafe { pthread_setcancelstate(self.cancellation, &raw mut self.cancellation) };
        }
    }
}

/// Blocks every signal for the calling thread; those that were blocked before.
fn block_all() -> libc::sigset_t {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: both sets are filled in by the calls, the second before it is read.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}
