//! What the simulation puts in the place of `std`, `parking_lot`, `rustix` and `libc`.
//!
//! The crates under simulation are the real ones: their files are compiled a second time, in packages that call this
//! crate by those four names (`extern crate warmswap_sim_os as std`). What they take from the operating system, or to meet
//! other threads, is the simulation's then; everything else is passed on. So nothing in the real code knows of this.
//!
//! - [`machine`]: tasks in the place of threads, a scheduler that a seed decides, time.
//! - [`kernel`]: a model of userfaultfd, with what it refuses.
//! - the other modules: the four crates' names for these.
#![allow(unsafe_code)] // The kernel of the model writes to memory, and the scheduler knows the stacks of tasks.

pub mod atomic;
pub mod kernel;
mod lock;
pub mod machine;
pub mod random;
mod system;
pub mod thread;

pub use ::std as real_std;
pub use ::std::*;

// parking_lot
pub use lock::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

// libc
pub use ::libc::{
    __errno_location, _exit, EAGAIN, EBUSY, EEXIST, EFAULT, EINTR, EINVAL, ENOENT, ENOMEM, ENOSPC,
    ESRCH, Ioctl, MADV_DONTNEED_LOCKED, MADV_POPULATE_WRITE, POLLIN, SA_RESTART, SA_SIGINFO,
    SCHED_IDLE, SIG_DFL, SIG_IGN, SIGBUS, STDERR_FILENO, c_int, c_void, fork, nfds_t, pollfd,
    raise, sched_param, sigaction, sigfillset, siginfo_t, size_t, waitpid,
};
pub use system::{ioctl, madvise, poll, read, sched_setscheduler};

// rustix
pub use ::rustix::{param, stdio};
pub use system::{event, fs, io, mm, process, time};

/// `std::sync`.
pub mod sync {
    pub use crate::atomic;
    pub use crate::lock::std_sync::{Mutex, MutexGuard, OnceLock};
    pub use ::std::sync::*;
}
