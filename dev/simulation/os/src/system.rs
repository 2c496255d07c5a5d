//! System calls, by the names of `libc` and `rustix`.

use std::ffi::c_void;

use libc::{c_int, nfds_t, pollfd, sched_param};

use crate::kernel;

fn answer(result: Result<(), i32>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(errno) => {
            // SAFETY: the location is the calling thread's own.
            unsafe { *libc::__errno_location() = errno };
            -1
        }
    }
}

/// A request of the one userfaultfd that there is.
///
/// # Safety
/// As the request.
pub unsafe fn ioctl<T: Argument>(_: c_int, request: libc::Ioctl, argument: T) -> c_int {
    let Some(argument) = argument.pointer() else {
        return -1;
    };
    // SAFETY: passed on to the caller.
    answer(unsafe { kernel::ioctl(request, argument) })
}

/// What a request is given.
pub trait Argument {
    /// Its structure, if it is one.
    fn pointer(self) -> Option<*mut c_void>;
}

impl<T> Argument for *mut T {
    fn pointer(self) -> Option<*mut c_void> {
        Some(self.cast())
    }
}

impl Argument for u32 {
    fn pointer(self) -> Option<*mut c_void> {
        None
    }
}

/// Reads an event.
///
/// # Safety
/// As read(2).
pub unsafe fn read(_: c_int, buffer: *mut c_void, bytes: usize) -> isize {
    match kernel::read_event() {
        Some(message) if bytes == size_of_val(&message) => {
            // SAFETY: the caller's buffer has so many bytes.
            unsafe { buffer.cast::<[u64; 4]>().write(message) };
            bytes as isize
        }
        _ => {
            answer(Err(libc::EAGAIN));
            -1
        }
    }
}

/// Waits for an event.
///
/// # Safety
/// As poll(2).
pub unsafe fn poll(_: *mut pollfd, _: nfds_t, timeout_ms: c_int) -> c_int {
    let timeout_ns = u64::try_from(timeout_ms).map(|ms| ms * 1_000_000);
    kernel::wait_event(timeout_ns.ok());
    1
}

/// Gives pages up; anything else is refused.
///
/// # Safety
/// As madvise(2).
pub unsafe fn madvise(address: *mut c_void, len: usize, advice: c_int) -> c_int {
    if advice == libc::MADV_DONTNEED_LOCKED && kernel::discard(address.addr(), len) {
        return 0;
    }
    answer(Err(libc::EINVAL))
}

/// Refused: there is no idle priority.
///
/// # Safety
/// As sched_setscheduler(2).
pub unsafe fn sched_setscheduler(_: c_int, _: c_int, _: *const sched_param) -> c_int {
    answer(Err(libc::EPERM))
}

/// `rustix::mm`.
pub mod mm {
    use std::ffi::c_void;
    use std::os::fd::OwnedFd;

    use ::rustix::io::Errno;
    pub use ::rustix::mm::*;

    use crate::kernel::{self, PAGE_BYTES};

    /// A descriptor that stands for the one userfaultfd.
    ///
    /// # Safety
    /// None.
    ///
    /// # Errors
    /// No descriptors are left.
    pub unsafe fn userfaultfd(_: UserfaultfdFlags) -> Result<OwnedFd, Errno> {
        super::event::descriptor()
    }

    /// Maps memory; what was registered there is no more.
    ///
    /// # Safety
    /// As the real one.
    ///
    /// # Errors
    /// As the real one.
    pub unsafe fn mmap_anonymous(
        address: *mut c_void,
        len: usize,
        protection: ProtFlags,
        flags: MapFlags,
    ) -> Result<*mut c_void, Errno> {
        if flags.contains(MapFlags::FIXED) {
            kernel::unmap(address.addr() / PAGE_BYTES..(address.addr() + len) / PAGE_BYTES);
        }
        // SAFETY: passed on to the caller.
        unsafe { ::rustix::mm::mmap_anonymous(address, len, protection, flags) }
    }

    /// Bytes that are cleared more cheaply than the kernel takes them back and brings them again.
    const CLEARED_BYTES: usize = 64 << 10;

    /// Advice; registered pages lose their frames in the model, other memory is only cleared, and has its pages.
    ///
    /// # Safety
    /// As the real one.
    ///
    /// # Errors
    /// As the real one.
    pub unsafe fn madvise(address: *mut c_void, len: usize, advice: Advice) -> Result<(), Errno> {
        if advice == Advice::LinuxPopulateWrite {
            return Ok(());
        }
        if advice == Advice::LinuxDontNeed {
            if kernel::discard(address.addr(), len) {
                return Ok(());
            }
            if len <= CLEARED_BYTES {
                // SAFETY: the caller gives up memory of its own, which it may write to.
                unsafe { address.cast::<u8>().write_bytes(0, len) };
                return Ok(());
            }
        }
        // SAFETY: passed on to the caller.
        unsafe { ::rustix::mm::madvise(address, len, advice) }
    }
}

/// `std::io` and `rustix::io`.
pub mod io {
    use std::os::fd::AsFd;

    pub use ::rustix::io::{DupFlags, Errno, close, dup3, fcntl_dupfd_cloexec, write};
    pub use std::io::*;

    use crate::kernel;

    /// Reads entries of the page map.
    ///
    /// # Errors
    /// Never.
    pub fn pread(
        _: impl AsFd,
        buffer: &mut [u8],
        offset: u64,
    ) -> std::result::Result<usize, Errno> {
        let first = offset as usize / 8;
        for (i, entry) in buffer.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            *entry = kernel::pagemap_entry(first + i).to_ne_bytes();
        }
        Ok(buffer.len())
    }
}

/// `std::fs` and `rustix::fs`.
pub mod fs {
    pub use ::rustix::fs::{Mode, OFlags, open};
    pub use std::fs::*;
}

/// `std::process` and `rustix::process`.
pub mod process {
    pub use ::rustix::process::geteuid;
    pub use std::process::*;

    /// Ends the simulation.
    ///
    /// # Panics
    /// Always.
    pub fn abort() -> ! {
        panic!("the process was ended: the reason stands above");
    }
}

/// `std::time` and `rustix::time`.
pub mod time {
    pub use ::rustix::time::{ClockId, clock_gettime};
    pub use std::time::Duration;

    use crate::machine::now_ns;

    /// A point in simulated time.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub struct Instant(u64);

    impl Instant {
        /// Now.
        #[must_use]
        pub fn now() -> Self {
            Self(now_ns())
        }

        /// Time since then.
        #[must_use]
        pub fn elapsed(&self) -> Duration {
            Duration::from_nanos(now_ns() - self.0)
        }
    }
}

/// `rustix::event`.
pub mod event {
    use std::os::fd::OwnedFd;

    pub use ::rustix::event::Timespec;
    use ::rustix::fs::{Mode, OFlags};
    use ::rustix::io::Errno;

    /// A descriptor that stands for something of the model.
    pub(super) fn descriptor() -> Result<OwnedFd, Errno> {
        rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
    }

    /// `rustix::event::epoll`.
    pub mod epoll {
        use std::os::fd::{AsFd, OwnedFd};

        pub use ::rustix::event::epoll::{CreateFlags, Event, EventData, EventFlags};
        use ::rustix::io::Errno;

        use super::Timespec;
        use crate::kernel;

        /// One that waits for the one userfaultfd.
        ///
        /// # Errors
        /// No descriptors are left.
        pub fn create(_: CreateFlags) -> Result<OwnedFd, Errno> {
            super::descriptor()
        }

        /// Nothing: see [`create`].
        ///
        /// # Errors
        /// Never.
        pub fn add(_: impl AsFd, _: impl AsFd, _: EventData, _: EventFlags) -> Result<(), Errno> {
            Ok(())
        }

        /// Waits for an event of the userfaultfd.
        ///
        /// # Errors
        /// Never.
        pub fn wait(
            _: impl AsFd,
            _: &mut [Event],
            timeout: Option<&Timespec>,
        ) -> Result<usize, Errno> {
            let timeout_ns = timeout.map(|t| t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64);
            kernel::wait_event(timeout_ns);
            Ok(1)
        }
    }
}
