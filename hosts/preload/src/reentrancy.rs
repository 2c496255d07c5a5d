//! When a thread works for this library.

use std::mem::MaybeUninit;

use libc::c_int;

use crate::filters;
use crate::thread_words::thread_words;

// How deep the thread is within.
thread_words!("warmswap_within_depth", 1);

fn set(now: usize) {
    // SAFETY: the word is the calling thread's alone, and lives as long as it runs.
    unsafe { words().write(now) }
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
        let depth = first_word();
        let before = (depth == 0 && !filters::is_left_alone()).then(block_all);
        let mut cancellation = NOT_CANCELLED;
        if before.is_some() {
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
        first_word() > 0
    }

    /// For threads of the library: they are within as long as they live.
    pub fn forever() {
        std::mem::forget(Self::enter());
    }
}

impl Drop for ReentrancyGuard {
    fn drop(&mut self) {
        set(first_word() - 1);
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
