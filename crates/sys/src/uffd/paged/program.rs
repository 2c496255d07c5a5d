//! The memory of a whole program: one mapping, parts of which the program makes accessible as it likes, and
//! which becomes ours only when it is adopted. A child of `fork` can have it.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::io::{DupFlags, dup3};
use rustix::mm::Advice;

use super::{Addresses, PagedError, PagedMemory, open_pagemap, open_uffd};
use crate::PAGE_BYTES;
use crate::uffd::reserve::{Protection, Reserve};

/// What huge pages would be aligned to, so that nobody's alignment is worse than the kernel's.
const ALIGN_BYTES: usize = PAGE_BYTES << 9;

/// Reserves the space of a program, at the address that is wanted if nothing is there.
pub(super) fn space(at: usize, len: usize) -> Result<Reserve, PagedError> {
    let reserve = Reserve::at(at, len).or_else(|_| Reserve::new(len, ALIGN_BYTES));
    reserve
        .and_then(|reserve| {
            // A kernel without huge pages refuses, which is just as well.
            let _ = reserve.advise(0, len, Advice::LinuxNoHugepage);
            reserve.advise(0, len, Advice::LinuxDontFork)?;
            Ok(reserve)
        })
        .map_err(|errno| PagedError::Map {
            address: at,
            len,
            source: errno.into(),
        })
}

impl PagedMemory {
    /// Changes what may be done with pages. They stay where they are.
    ///
    /// # Errors
    /// [`PagedError::Map`].
    pub fn protect(&self, first: usize, pages: usize, to: Protection) -> Result<(), PagedError> {
        debug_assert!(matches!(self.config.addresses, Addresses::Whole { .. }));
        let (offset, len) = (first * PAGE_BYTES, pages * PAGE_BYTES);
        // SAFETY: it is what the program wants for its own memory.
        let result = unsafe { self.space.protect(offset, len, to) };
        result.map_err(|errno| self.refused(first, pages, errno))
    }

    /// Makes the faults of pages ours. Pages that have a frame keep it.
    ///
    /// # Errors
    /// [`PagedError`].
    pub fn adopt(&self, first: usize, pages: usize) -> Result<(), PagedError> {
        let (address, len) = (self.address(first), pages * PAGE_BYTES);
        let protects = self.config.mechanism == super::Mechanism::Copy;
        // SAFETY: part of our own mapping; for who uses it an access waits, and is served.
        Ok(unsafe { self.uffd.register(address, len, protects)? })
    }

    /// Says whether a child of `fork` has these pages. A child that does not ends by a segmentation fault
    /// when it uses them; one that does reads zeros where pages are missing, until it has called
    /// [`Self::reopen`] and adopted them itself.
    ///
    /// # Errors
    /// [`PagedError::Map`].
    pub fn inherit(&self, first: usize, pages: usize, yes: bool) -> Result<(), PagedError> {
        let (offset, len) = (first * PAGE_BYTES, pages * PAGE_BYTES);
        let result = self.space.advise(offset, len, fork_advice(yes));
        result.map_err(|errno| self.refused(first, pages, errno))
    }

    /// The same for the staging area.
    ///
    /// # Errors
    /// [`PagedError::Map`].
    pub fn inherit_staging(&self, yes: bool) -> Result<(), PagedError> {
        let len = self.config.slots * PAGE_BYTES;
        let result = self.staging.advise(0, len, fork_advice(yes));
        result.map_err(|errno| PagedError::Map {
            address: self.staging.address(),
            len,
            source: errno.into(),
        })
    }

    /// Closes the descriptors. Until [`Self::reopen`], memory can be protected and discarded, and nothing else;
    /// nothing may be adopted.
    pub fn close(&self) {
        for fd in [self.uffd.as_fd(), self.pagemap.as_fd()] {
            // SAFETY: the descriptor is this value's, and from now on its number stands for nothing. It is
            // closed again at the end of the value, which lives as long as the process.
            unsafe { rustix::io::close(fd.as_raw_fd()) };
        }
    }

    /// Opens descriptors for this process under the numbers that they had, and makes the staging area's faults
    /// ours. The calling thread and those that share its descriptors have nothing else under these numbers:
    /// they are a thread of whoever called [`Self::close`], or in the child of a `fork`.
    ///
    /// # Errors
    /// [`PagedError`].
    pub fn reopen(&self) -> Result<(), PagedError> {
        let (uffd, _) = open_uffd(self.config)?;
        replace(self.uffd.as_fd(), uffd.as_fd())?;
        replace(self.pagemap.as_fd(), open_pagemap()?.as_fd())?;
        let (address, len) = (self.staging.address(), self.config.slots * PAGE_BYTES);
        let protects = self.config.mechanism == super::Mechanism::Copy;
        // SAFETY: the staging area is ours alone.
        Ok(unsafe { self.uffd.register(address, len, protects)? })
    }

    /// Calls `visit` with each page of a range that has a frame, ascending.
    ///
    /// # Errors
    /// [`PagedError::Pagemap`].
    pub fn for_frames(
        &self,
        first: usize,
        pages: usize,
        mut visit: impl FnMut(usize),
    ) -> Result<(), PagedError> {
        const PRESENT_OR_SWAPPED: u64 = 3 << 62;
        let mut entries = [0; 4096];
        let mut page = first;
        while page < first + pages {
            let want = (first + pages - page).min(entries.len() / 8) * 8;
            let offset = (self.address(page) / PAGE_BYTES * 8) as u64;
            let read = rustix::io::pread(&self.pagemap, &mut entries[..want], offset)
                .map_err(|errno| PagedError::Pagemap(errno.into()))?;
            if read == 0 {
                return Ok(());
            }
            for entry in entries[..read].as_chunks::<8>().0 {
                if u64::from_ne_bytes(*entry) & PRESENT_OR_SWAPPED != 0 {
                    visit(page);
                }
                page += 1;
            }
        }
        Ok(())
    }

    fn refused(&self, first: usize, pages: usize, errno: rustix::io::Errno) -> PagedError {
        PagedError::Map {
            address: self.address(first),
            len: pages * PAGE_BYTES,
            source: errno.into(),
        }
    }
}

fn fork_advice(inherited: bool) -> Advice {
    if inherited {
        Advice::LinuxDoFork
    } else {
        Advice::LinuxDontFork
    }
}

/// Makes the number of `old` mean what `new` does.
fn replace(old: BorrowedFd<'_>, new: BorrowedFd<'_>) -> Result<(), PagedError> {
    // SAFETY: the number is one of this crate's descriptors, which nobody else closes; it stays open.
    let mut old = std::mem::ManuallyDrop::new(unsafe {
        <std::os::fd::OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(old.as_raw_fd())
    });
    dup3(new, &mut old, DupFlags::CLOEXEC).map_err(|errno| PagedError::Pagemap(errno.into()))
}
