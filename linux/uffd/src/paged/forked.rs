//! The memory of a forked child.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use super::super::event;
use super::{Event, Failure, Parts, Uffd, UffdError, Wake};
use warmswap_page::PAGE_BYTES;

/// The memory of a forked child, seen from its parent. Its addresses are the parent's. When this is dropped, the
/// faults of the child are its own.
#[derive(Debug)]
pub struct ForkedMemory {
    pub(super) uffd: Uffd,
}

impl ForkedMemory {
    /// The next event; `None` when there is none now.
    ///
    /// # Errors
    /// The system's answer.
    pub fn read_event(&self) -> io::Result<Option<Event>> {
        self.uffd.read_event()
    }

    /// Waits until the child has an event, or `timeout_ms` milliseconds have passed.
    ///
    /// # Errors
    /// The system's answer.
    pub fn wait_events(&self, timeout_ms: i32) -> io::Result<bool> {
        event::wait(&[self.uffd.as_fd()], timeout_ms)
    }

    /// Whether the child has ended.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        /// No program has registered memory there: the kernel looks for the child's memory first, and then does nothing.
        const NOT_OURS: usize = 1 << 20;
        let lifted = self.uffd.write_protect(NOT_OURS, PAGE_BYTES, false);
        lifted.is_err_and(|error| error.failure == Failure::Gone)
    }

    /// Brings a page that a thread of the child waits for.
    ///
    /// # Errors
    /// [`UffdError`]; [`Failure::Gone`] when the child has ended.
    pub fn copy_in(&self, address: usize, page: &[u8; PAGE_BYTES]) -> Result<(), UffdError> {
        let mut parts = Parts::new(PAGE_BYTES);
        while parts.next().is_some() {
            // SAFETY: the child's users reach its memory by raw pointers only; the kernel refuses what is not
            // registered, and pages that are there.
            match unsafe { self.uffd.copy(address, page, Wake::Yes, false) } {
                Err(UffdError {
                    failure: Failure::PageExists,
                    ..
                }) => return self.uffd.wake(address, PAGE_BYTES),
                result => parts.note(result)?,
            }
        }
        Ok(())
    }

    /// Lets threads of the child that wait for a page look again.
    ///
    /// # Errors
    /// [`UffdError`].
    pub fn wake(&self, address: usize) -> Result<(), UffdError> {
        self.uffd.wake(address, PAGE_BYTES)
    }

    /// Lets a thread of the child write that waits to.
    ///
    /// # Errors
    /// [`UffdError`].
    pub fn unprotect(&self, address: usize) -> Result<(), UffdError> {
        self.uffd.write_protect(address, PAGE_BYTES, false)
    }
}

impl AsFd for ForkedMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.uffd.as_fd()
    }
}
