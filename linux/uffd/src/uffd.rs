//! The descriptor, with its operations.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd};

use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::mm::{UserfaultfdFlags, userfaultfd};

use super::{Event, Failure, Features, OpenError, UffdError, abi, event};

/// The device that gives descriptors of full reach to any process that may open it (Linux 6.1).
pub const DEVICE: &str = "/dev/userfaultfd";

/// Whose faults a descriptor gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Those of user code. Needs no rights; a system call that is given a missing page fails with EFAULT.
    UserOnly,
    /// Those within system calls too. Needs CAP_SYS_PTRACE, the `vm.unprivileged_userfaultfd` setting, or
    /// access to [`DEVICE`].
    Everything,
}

/// Whether threads that wait for a page are woken by the operation that brings it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// They are.
    Yes,
    /// They are not: no thread waits, or [`Uffd::wake`] follows.
    No,
}

/// A userfaultfd after its handshake. Reading it never blocks.
#[derive(Debug)]
pub struct Uffd {
    fd: OwnedFd,
    features: Features,
}

/// Requests of [`Uffd::transfer`], with their names.
const COPY: (&str, libc::Ioctl) = ("copy", abi::UFFDIO_COPY);
const MOVE: (&str, libc::Ioctl) = ("move", abi::UFFDIO_MOVE);

impl Uffd {
    /// What this kernel can do, found out on a descriptor of its own: the handshake works once for each,
    /// and asking for an unknown feature spoils it.
    ///
    /// # Errors
    /// [`OpenError`], when there is no userfaultfd at all.
    pub fn probe() -> Result<Features, OpenError> {
        let fd = open(Reach::UserOnly).map_err(OpenError::Open)?;
        handshake(&fd, Features::NONE)
    }

    /// Opens a descriptor with exactly these features.
    ///
    /// # Errors
    /// [`OpenError`]; [`OpenError::Lacks`] names what is missing.
    pub fn open(reach: Reach, features: Features) -> Result<Self, OpenError> {
        let missing = features.without(Self::probe()?);
        if missing != Features::NONE {
            return Err(OpenError::Lacks(missing));
        }
        let fd = open(reach).and_then(beyond_standard);
        let fd = fd.map_err(OpenError::Open)?;
        handshake(&fd, features)?;
        Ok(Self { fd, features })
    }

    /// The descriptor of a forked child, which the parent's came with.
    pub(super) fn of_child(fd: OwnedFd, features: Features) -> Self {
        Self { fd, features }
    }

    pub(super) fn into_descriptor(self) -> OwnedFd {
        self.fd
    }

    /// The features that it was opened with.
    #[must_use]
    pub fn features(&self) -> Features {
        self.features
    }

    /// From now on, faults on missing pages of the range (and with `write_protect`, on protected ones) are
    /// this descriptor's.
    ///
    /// # Errors
    /// [`UffdError`].
    ///
    /// # Safety
    /// The range is whole pages of mappings that the caller owns, and code that accesses them knows that an
    /// access waits, or raises SIGBUS, until the page is brought.
    pub unsafe fn register(
        &self,
        address: usize,
        len: usize,
        write_protect: bool,
    ) -> Result<(), UffdError> {
        let wp = if write_protect { abi::REGISTER_WP } else { 0 };
        let mut argument = abi::Register {
            range: range(address, len),
            mode: abi::REGISTER_MISSING | wp,
            ioctls: 0,
        };
        // SAFETY: the argument is the structure that the request expects; the caller vouches for the range.
        let result = unsafe { self.ioctl(abi::UFFDIO_REGISTER, &raw mut argument) };
        result.map_err(|errno| error("register", address, len, Failure::of(errno, 0)))
    }

    /// Faults of the range are the kernel's again: missing pages read as zeros from now on.
    ///
    /// # Errors
    /// [`UffdError`].
    ///
    /// # Safety
    /// No code relies on the content of missing pages of the range any more.
    pub unsafe fn unregister(&self, address: usize, len: usize) -> Result<(), UffdError> {
        let mut argument = range(address, len);
        // SAFETY: the argument is the structure that the request expects.
        let result = unsafe { self.ioctl(abi::UFFDIO_UNREGISTER, &raw mut argument) };
        result.map_err(|errno| error("unregister", address, len, Failure::of(errno, 0)))
    }

    /// Fills missing pages with copies of `source`, in new frames. With `protect` they are write-protected
    /// from the start.
    ///
    /// # Errors
    /// [`UffdError`]; [`Failure::Partially`] says how much was done.
    ///
    /// # Safety
    /// The destination is registered with this descriptor, and no reference to it exists.
    pub unsafe fn copy(
        &self,
        destination: usize,
        source: &[u8],
        wake: Wake,
        protect: bool,
    ) -> Result<(), UffdError> {
        let protect = if protect { abi::COPY_WP } else { 0 };
        let (from, len) = (source.as_ptr().addr(), source.len());
        // SAFETY: the kernel reads the source, a live slice; for the destination the caller vouches.
        unsafe { self.transfer(destination, from, len, dont_wake(wake) | protect, COPY) }
    }

    /// The same with what is at an address, which may be gone: that is EFAULT ([`Failure::Other`]).
    ///
    /// # Errors
    /// As [`Self::copy`].
    ///
    /// # Safety
    /// As [`Self::copy`].
    pub(super) unsafe fn copy_from(
        &self,
        destination: usize,
        source: usize,
        len: usize,
        wake: Wake,
    ) -> Result<(), UffdError> {
        // SAFETY: the kernel itself reads the source, and says so if it cannot; the rest is passed on to the caller.
        unsafe { self.transfer(destination, source, len, dont_wake(wake), COPY) }
    }

    /// # Safety
    /// As [`Self::copy`] or [`Self::move_pages`], whichever is requested.
    unsafe fn transfer(
        &self,
        destination: usize,
        source: usize,
        len: usize,
        mode: u64,
        (name, request): (&'static str, libc::Ioctl),
    ) -> Result<(), UffdError> {
        let mut argument = abi::Transfer {
            dst: destination as u64,
            src: source as u64,
            len: len as u64,
            mode,
            done: 0,
        };
        // SAFETY: the argument is the structure that both requests expect; the kernel reads or takes the source and
        // fills missing pages of the destination, for which the caller vouches.
        let result = unsafe { self.ioctl(request, &raw mut argument) };
        finish(name, destination, len, result, argument.done)
    }

    /// Moves the frames of `len` bytes at `source` to missing pages at `destination`. The source pages are
    /// missing afterwards, atomically for every thread of the process.
    ///
    /// # Errors
    /// [`UffdError`]; [`Failure::Busy`] for pinned and shared pages, [`Failure::Partially`] says how much
    /// was done.
    ///
    /// # Safety
    /// Both ranges are private anonymous mappings of the caller, the destination is registered with this
    /// descriptor, and no reference to either exists.
    pub unsafe fn move_pages(
        &self,
        destination: usize,
        source: usize,
        len: usize,
        wake: Wake,
    ) -> Result<(), UffdError> {
        // SAFETY: passed on to the caller.
        unsafe { self.transfer(destination, source, len, dont_wake(wake), MOVE) }
    }

    /// Fills missing pages with the kernel's zero page.
    ///
    /// # Errors
    /// [`UffdError`].
    ///
    /// # Safety
    /// As [`Self::copy`].
    pub unsafe fn zero(&self, address: usize, len: usize, wake: Wake) -> Result<(), UffdError> {
        let mut argument = abi::ZeroPage {
            range: range(address, len),
            mode: dont_wake(wake),
            done: 0,
        };
        // SAFETY: the argument is the structure that the request expects; the caller vouches for the range.
        let result = unsafe { self.ioctl(abi::UFFDIO_ZEROPAGE, &raw mut argument) };
        finish("fill with zeros", address, len, result, argument.done)
    }

    /// Marks missing pages as poisoned: an access raises SIGBUS, as for memory that failed.
    ///
    /// # Errors
    /// [`UffdError`].
    ///
    /// # Safety
    /// As [`Self::copy`]; besides, the pages' content is lost on purpose.
    pub unsafe fn poison(&self, address: usize, len: usize) -> Result<(), UffdError> {
        let mut argument = abi::ZeroPage {
            range: range(address, len),
            mode: 0,
            done: 0,
        };
        // SAFETY: the argument is the structure that the request expects; the caller vouches for the range.
        let result = unsafe { self.ioctl(abi::UFFDIO_POISON, &raw mut argument) };
        finish("poison", address, len, result, argument.done)
    }

    /// Protects present pages against writing, or lifts that. Lifting wakes writers that wait.
    ///
    /// Memory stays as it is, so this is safe: a write to a protected page is a fault of this descriptor.
    ///
    /// # Errors
    /// [`UffdError`]; [`Failure::Again`] while the layout changes.
    pub fn write_protect(&self, address: usize, len: usize, on: bool) -> Result<(), UffdError> {
        let mut argument = abi::WriteProtect {
            range: range(address, len),
            mode: if on { abi::WRITEPROTECT_ON } else { 0 },
        };
        // SAFETY: the argument is the structure that the request expects; no memory changes.
        let result = unsafe { self.ioctl(abi::UFFDIO_WRITEPROTECT, &raw mut argument) };
        result.map_err(|errno| error("write-protect", address, len, Failure::of(errno, 0)))
    }

    /// Wakes threads that wait for pages of the range; they try again.
    ///
    /// # Errors
    /// [`UffdError`].
    pub fn wake(&self, address: usize, len: usize) -> Result<(), UffdError> {
        let mut argument = range(address, len);
        // SAFETY: the argument is the structure that the request expects; no memory changes.
        let result = unsafe { self.ioctl(abi::UFFDIO_WAKE, &raw mut argument) };
        result.map_err(|errno| error("wake", address, len, Failure::of(errno, 0)))
    }

    /// The next event; `None` when there is none now.
    ///
    /// # Errors
    /// The system's answer.
    pub fn read_event(&self) -> io::Result<Option<Event>> {
        event::read(self.fd.as_fd())
    }

    /// Calls an operation of the descriptor; the error number on failure.
    ///
    /// # Safety
    /// `argument` points to the structure that `request` takes, and what the request does to memory is
    /// allowed.
    unsafe fn ioctl<T>(&self, request: libc::Ioctl, argument: *mut T) -> Result<(), i32> {
        // SAFETY: passed on to the caller.
        let result = unsafe { libc::ioctl(self.fd.as_raw_fd(), request, argument) };
        if result == 0 { Ok(()) } else { Err(errno()) }
    }
}

impl AsFd for Uffd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn open(reach: Reach) -> io::Result<OwnedFd> {
    let mut flags = UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::NONBLOCK;
    if reach == Reach::UserOnly {
        // UFFD_USER_MODE_ONLY
        flags |= UserfaultfdFlags::from_bits_retain(1);
    }
    // SAFETY: the descriptor alone changes nothing; its operations state their own obligations.
    match unsafe { userfaultfd(flags) } {
        Err(Errno::PERM) if reach == Reach::Everything => open_by_device(flags),
        result => Ok(result?),
    }
}

/// The same file under a number that does not stand for a standard stream, which may be closed, be opened again, and be
/// written to at any time.
pub(super) fn beyond_standard(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() > libc::STDERR_FILENO {
        return Ok(fd);
    }
    Ok(fcntl_dupfd_cloexec(fd, libc::STDERR_FILENO + 1)?)
}

/// By the device, whose file mode says which users may (Linux 6.1). Where that fails too, the answer is the system
/// call's: permission.
pub(super) fn open_by_device(flags: UserfaultfdFlags) -> io::Result<OwnedFd> {
    let denied = || io::Error::from(Errno::PERM);
    let device = std::fs::File::options().read(true).write(true).open(DEVICE);
    let device = device.map_err(|_| denied())?;
    // SAFETY: the request takes flags by value and gives a new descriptor; no memory changes.
    let fd = unsafe { libc::ioctl(device.as_raw_fd(), abi::USERFAULTFD_IOC_NEW, flags.bits()) };
    if fd < 0 {
        return Err(denied());
    }
    // SAFETY: the kernel made this descriptor for us, and no other code knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

pub(super) fn handshake(fd: &OwnedFd, features: Features) -> Result<Features, OpenError> {
    let mut argument = abi::Api {
        api: abi::API,
        features: features.bits(),
        ioctls: 0,
    };
    // SAFETY: the argument is the structure that the request expects; no memory changes.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), abi::UFFDIO_API, &raw mut argument) };
    if result == 0 {
        Ok(Features::from_bits(argument.features))
    } else {
        Err(OpenError::Handshake(io::Error::last_os_error()))
    }
}

/// The calling thread's error number, without allocating.
pub(super) fn errno() -> i32 {
    // SAFETY: the location is the calling thread's own and always valid.
    unsafe { *libc::__errno_location() }
}

fn range(address: usize, len: usize) -> abi::Range {
    abi::Range {
        start: address as u64,
        len: len as u64,
    }
}

fn dont_wake(wake: Wake) -> u64 {
    match wake {
        Wake::Yes => 0,
        Wake::No => abi::TRANSFER_DONTWAKE,
    }
}

fn error(operation: &'static str, address: usize, len: usize, failure: Failure) -> UffdError {
    UffdError {
        operation,
        address,
        len,
        failure,
    }
}

/// A success that did less than all is partial too; a count of 0 or below is no progress.
fn finish(
    operation: &'static str,
    address: usize,
    len: usize,
    result: Result<(), i32>,
    done: i64,
) -> Result<(), UffdError> {
    let failure = match result {
        Ok(()) if done == len as i64 => return Ok(()),
        Ok(()) if done > 0 => Failure::Partially(done as usize),
        Ok(()) => Failure::Again,
        Err(errno) => Failure::of(errno, done),
    };
    Err(error(operation, address, len, failure))
}
