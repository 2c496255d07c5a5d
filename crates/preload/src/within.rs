//! When a thread works for this library.

use std::cell::Cell;
use std::mem::MaybeUninit;

thread_local! {
    /// How deep the thread is within.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// The thread works for this library: what it allocates comes from the library's heap, what it maps from the
/// kernel, and no signal handler runs on it. (A handler uses the program's memory. To bring that back may need
/// what the thread holds.)
pub struct Within {
    /// The signals that were blocked before; none if the thread was within already.
    before: Option<libc::sigset_t>,
}

impl Within {
    pub fn enter() -> Self {
        let depth = DEPTH.get();
        let before = (depth == 0).then(block_all);
        DEPTH.set(depth + 1);
        Self { before }
    }

    /// Whether the calling thread is.
    #[inline]
    pub fn is() -> bool {
        DEPTH.get() > 0
    }

    /// For threads of the library: they are within as long as they live.
    pub fn forever() {
        std::mem::forget(Self::enter());
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        if let Some(before) = &self.before {
            // SAFETY: the set was filled in by `block_all`.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
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
