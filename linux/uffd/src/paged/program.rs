//! The memory of a whole program: one mapping whose parts the program makes accessible as it likes, and
//! which becomes ours only when it is adopted. A child of `fork` can have it.

use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::io::{DupFlags, Errno, dup3};
use rustix::mm::Advice;

use super::super::event;
use super::super::reserve::{Protection, Reserve};
use super::{
    Addresses, Failure, Feature, ForkedMemory, Mechanism, PRESENT_OR_SWAPPED, PagedError,
    PagedMemory, Uffd, UffdError, open_pagemap, open_uffd,
};
use warmswap_page::PAGE_BYTES;
use warmswap_sys::pagemap::scan_used;

/// What huge pages would be aligned to, so that no alignment is worse than the kernel's.
const ALIGN_BYTES: usize = PAGE_BYTES << 9;

/// Reserves the space of a program, at the address that is wanted if nothing is there.
pub(super) fn space(at: usize, len: usize) -> Result<Reserve, PagedError> {
    let reserve = Reserve::at(at, len).or_else(|_| Reserve::new(len, ALIGN_BYTES));
    let reserve = reserve.map_err(|errno| PagedError::Map {
        address: at,
        len,
        source: errno.into(),
    })?;
    // A kernel without huge pages refuses, which is just as well.
    let _ = reserve.advise(0, len, Advice::LinuxNoHugepage);
    Ok(reserve)
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

    /// Moves the content of pages that the kernel alone manages to others, in place of their content: an access of another
    /// thread finds it in one place or the other. The pages that it was in read as zeros then. False if the kernel does not
    /// do that (before Linux 5.7), or the new place is several mappings to it (before 6.17): the new place is reserved then,
    /// and has no content.
    ///
    /// # Errors
    /// [`PagedError::Map`].
    pub fn remap(&self, first: usize, pages: usize, to: usize) -> Result<bool, PagedError> {
        let (offset, len) = (first * PAGE_BYTES, pages * PAGE_BYTES);
        // SAFETY: it is what the program wants for its own memory, which is reached by raw pointers only.
        match unsafe { self.space.remap(offset, len, to * PAGE_BYTES) } {
            Ok(()) => Ok(true),
            Err(Errno::FAULT | Errno::INVAL) => {
                // The kernel may have unmapped what was there before it refused.
                self.unmap(to, pages)?;
                let _ = self
                    .space
                    .advise(to * PAGE_BYTES, len, Advice::LinuxNoHugepage);
                Ok(false)
            }
            Err(errno) => Err(self.refused(first, pages, errno)),
        }
    }

    /// Moves the frame of a page to a missing page, and wakes threads that wait for that; false if the kernel does not, since
    /// the frame is pinned, locked or shared.
    ///
    /// # Errors
    /// [`UffdError`].
    pub fn relocate(&self, page: usize, to: usize) -> Result<bool, UffdError> {
        let (from, target) = (self.address(page), self.address(to));
        // SAFETY: users reach pages by raw pointers only; both pages are the space's, and no other thread fills either.
        match unsafe { self.move_frames(target, from, 1, self.wake) } {
            // A frame that the kernel itself swaps out at that moment is moved although it says that it was not.
            Err(error) if error.failure == Failure::PageExists && !self.has_frame(page) => {
                self.wake(to)?;
                Ok(true)
            }
            moved => Ok(moved? == 1),
        }
    }

    /// Has a thread that serves faults end the write protection of a page, by an access of the calling thread, which
    /// holds nothing that serving needs. Without the descriptors of this value, which a thread of the program
    /// does not have.
    ///
    /// # Errors
    /// [`PagedError::Map`]: it may not be written to (any more).
    pub fn touch_for_write(&self, page: usize) -> Result<(), PagedError> {
        // SAFETY: the program could write to it when it asked for another protection.
        let result = unsafe { self.space.touch_for_write(page * PAGE_BYTES, PAGE_BYTES) };
        result.map_err(|errno| self.refused(page, 1, errno))
    }

    /// Makes the faults of pages ours. Pages that have a frame keep it.
    ///
    /// # Errors
    /// [`PagedError`]; [`Failure::Busy`] where another userfaultfd has some of them ([`Self::of_other_uffds`]).
    pub fn adopt(&self, first: usize, pages: usize) -> Result<(), PagedError> {
        let (address, len) = (self.address(first), pages * PAGE_BYTES);
        // SAFETY: part of our own mapping; an access waits, and is served.
        Ok(unsafe { self.uffd.register(address, len, self.can_protect()) }?)
    }

    /// The same in the child of a `fork`. Waits until the parent has let them go.
    ///
    /// # Errors
    /// [`PagedError`].
    pub fn adopt_in_child(&self, first: usize, pages: usize) -> Result<(), PagedError> {
        self.register_waiting(self.address(first), pages * PAGE_BYTES)
    }

    /// Leaves the faults of pages to the kernel. All of them are in their places, or were never touched.
    ///
    /// # Errors
    /// [`PagedError`].
    pub fn leave(&self, first: usize, pages: usize) -> Result<(), PagedError> {
        let (address, len) = (self.address(first), pages * PAGE_BYTES);
        if self.can_protect() {
            self.write_protect(first, pages, false)?;
        }
        // SAFETY: no page's content is anywhere else, so that what the kernel does for a fault is right.
        Ok(unsafe { self.uffd.unregister(address, len) }?)
    }

    /// The pages of a range that a userfaultfd has, ascending: another one's, where none of them was adopted.
    ///
    /// # Errors
    /// [`PagedError::Map`]: `/proc/self/smaps` cannot be read.
    pub fn of_other_uffds(
        &self,
        first: usize,
        pages: usize,
    ) -> Result<Vec<Range<usize>>, PagedError> {
        let (start, end) = (
            self.address(first),
            self.address(first) + pages * PAGE_BYTES,
        );
        let smaps =
            std::fs::read_to_string("/proc/self/smaps").map_err(|source| PagedError::Map {
                address: start,
                len: pages * PAGE_BYTES,
                source,
            })?;
        let page = |address: usize| first + (address - start) / PAGE_BYTES;
        let tracked = tracked(&smaps).into_iter();
        Ok(tracked
            .map(|range| range.start.max(start)..range.end.min(end))
            .filter(|range| range.start < range.end)
            .map(|range| page(range.start)..page(range.end))
            .collect())
    }

    /// The same for pages where something else was mapped, and which were unmapped since.
    ///
    /// # Errors
    /// [`PagedError`].
    pub fn adopt_again(&self, first: usize, pages: usize) -> Result<(), PagedError> {
        let (offset, len) = (first * PAGE_BYTES, pages * PAGE_BYTES);
        // A kernel without huge pages refuses, which is just as well.
        let _ = self.space.advise(offset, len, Advice::LinuxNoHugepage);
        self.adopt(first, pages)
    }

    /// Makes the faults of parts of our mappings ours.
    fn register_waiting(&self, address: usize, len: usize) -> Result<(), PagedError> {
        loop {
            // SAFETY: part of our own mapping; an access waits, and is served.
            match unsafe { self.uffd.register(address, len, self.can_protect()) } {
                // In a child: the parent has not let it go yet.
                Err(UffdError {
                    failure: Failure::Busy,
                    ..
                }) => std::thread::yield_now(),
                result => return Ok(result?),
            }
        }
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

    /// Opens descriptors for this process under the numbers that they had. The calling thread and those that
    /// share its descriptors have nothing else under these numbers: they are a thread of the process that called
    /// [`Self::close`], or in the child of a `fork`.
    ///
    /// # Errors
    /// [`PagedError`]; [`PagedError::RightLost`] where faults within system calls could be served before.
    pub fn reopen(&self) -> Result<(), PagedError> {
        let (uffd, reach) = open_uffd(self.config)?;
        if reach != self.reach {
            return Err(PagedError::RightLost);
        }
        replace(self.uffd.as_fd(), uffd.into_descriptor())?;
        replace(self.pagemap.as_fd(), open_pagemap()?)
    }

    /// Makes the staging area ready for frames. From here on, a fork in which the child gets it waits until
    /// a thread has read of it.
    ///
    /// # Errors
    /// [`PagedError`].
    pub fn adopt_staging(&self) -> Result<(), PagedError> {
        match self.config.mechanism {
            // Frames can only be moved to registered memory.
            Mechanism::Move => {
                let len = self.config.slots * PAGE_BYTES;
                self.register_waiting(self.staging.address(), len)
            }
            Mechanism::Copy => Ok(()),
        }
    }

    /// Runs `lend`, in which a copy of this process can be made whose staging area is plain memory, and which no process has
    /// to read an event for. Nothing is moved meanwhile.
    ///
    /// # Errors
    /// [`PagedError`]: the staging area cannot be used any more.
    pub fn lend_staging<R>(&self, lend: impl FnOnce() -> R) -> Result<R, PagedError> {
        let (address, len) = (self.staging.address(), self.config.slots * PAGE_BYTES);
        if self.config.mechanism == Mechanism::Move {
            // SAFETY: no slot is in use, so that nothing relies on what missing pages read as.
            unsafe { self.uffd.unregister(address, len)? };
        }
        self.inherit_staging(true)?;
        let result = lend();
        self.inherit_staging(false)?;
        self.adopt_staging()?;
        Ok(result)
    }

    /// Whether the page's frame is also another process's, after a fork.
    #[must_use]
    pub fn is_shared(&self, page: usize) -> bool {
        const PRESENT: u64 = 1 << 63;
        const EXCLUSIVE: u64 = 1 << 56;
        self.entry(self.address(page)) & (PRESENT | EXCLUSIVE) == PRESENT
    }

    /// Writes what a page holds to it, for one byte and at once: if its frame was another process's before and
    /// is this one's alone by now, the kernel notices. The page is present, and stays so meanwhile.
    pub fn take_frame(&self, page: usize) {
        let byte: *mut u8 = std::ptr::with_exposed_provenance_mut(self.address(page));
        // SAFETY: the page is mapped for writing as long as the caller holds it, and every access to this byte
        // here is atomic; the value does not change.
        let byte = unsafe { AtomicU8::from_ptr(byte) };
        let value = byte.load(Ordering::Relaxed);
        // A write by another thread does as well.
        let _ = byte.compare_exchange(value, value, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Whether forks are events, and the child's faults come to this process until [`ForkedMemory`] is dropped.
    #[must_use]
    pub fn hears_of_forks(&self) -> bool {
        self.uffd.features().has(Feature::EventFork)
    }

    /// The memory of a child whose descriptor came with an [`Event::Fork`](super::Event::Fork).
    #[must_use]
    pub fn forked(&self, descriptor: OwnedFd) -> ForkedMemory {
        ForkedMemory {
            uffd: Uffd::of_child(descriptor, self.uffd.features()),
        }
    }

    /// Waits until this memory or a child's has an event, or `timeout_ms` milliseconds have passed; whether there may
    /// be an event.
    ///
    /// # Errors
    /// The system's answer.
    pub fn wait_events(
        &self,
        child: Option<&ForkedMemory>,
        timeout_ms: i32,
    ) -> std::io::Result<bool> {
        match child {
            Some(child) => event::wait(&[self.uffd.as_fd(), child.uffd.as_fd()], timeout_ms),
            None => event::wait(&[self.uffd.as_fd()], timeout_ms),
        }
    }

    /// Gives the frame of a page back to the kernel, but for one that the program has locked in memory; whether it did.
    ///
    /// # Errors
    /// [`PagedError::Map`].
    pub fn give_up(&self, page: usize) -> Result<bool, PagedError> {
        // SAFETY: users reach pages by raw pointers only, and a missing page is a fault of ours.
        match unsafe { self.space.discard(page * PAGE_BYTES, PAGE_BYTES) } {
            Err(Errno::INVAL) => Ok(false),
            result => result
                .map(|()| true)
                .map_err(|errno| self.refused(page, 1, errno)),
        }
    }

    /// Calls `visit` with each page of a range that has a frame, ascending. Costs nothing for pages that have none, where the
    /// kernel can look for the others by itself (Linux 6.7).
    ///
    /// # Errors
    /// [`PagedError::Pagemap`].
    pub fn for_frames(
        &self,
        first: usize,
        pages: usize,
        mut visit: impl FnMut(usize),
    ) -> Result<(), PagedError> {
        let address = self.address(first) as u64;
        let number = |at: u64| first + (at - address) as usize / PAGE_BYTES;
        let all = address..address + (pages * PAGE_BYTES) as u64;
        let scanned = scan_used(self.pagemap.as_fd(), all, |run| {
            (number(run.start)..number(run.end)).for_each(&mut visit);
        });
        let mut page = number(scanned);
        let mut entries = [0; 4096];
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

    pub(super) fn refused(
        &self,
        first: usize,
        pages: usize,
        errno: rustix::io::Errno,
    ) -> PagedError {
        PagedError::Map {
            address: self.address(first),
            len: pages * PAGE_BYTES,
            source: errno.into(),
        }
    }
}

/// Addresses of mappings that a userfaultfd has, by their `VmFlags`.
fn tracked(smaps: &str) -> Vec<Range<usize>> {
    const FLAGS: [&str; 3] = ["um", "uw", "ui"];
    let mut ranges = Vec::new();
    let mut range = None;
    for line in smaps.lines() {
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            let is_tracked = flags.split_whitespace().any(|flag| FLAGS.contains(&flag));
            ranges.extend(range.take().filter(|_| is_tracked));
        } else if let Some((start, rest)) = line.split_once('-')
            && let Some((end, _)) = rest.split_once(' ')
            && let (Ok(start), Ok(end)) = (
                usize::from_str_radix(start, 16),
                usize::from_str_radix(end, 16),
            )
        {
            range = Some(start..end);
        }
    }
    ranges
}

#[cfg(test)]
#[test]
fn mappings_with_a_userfaultfd_are_found() {
    let smaps = "7f10-7f20 rw-p 00000000 00:00 0 \nSize: 4 kB\nVmFlags: rd wr mr um sd \n\
        7f20-7f30 rw-p 00000000 00:00 0 [anon: a-b]\nVmFlags: rd wr sd \n\
        7f30-7f40 rw-p 00000000 00:00 0 \nVmFlags: rd uw\n";
    assert_eq!(tracked(smaps), [0x7f10..0x7f20, 0x7f30..0x7f40]);
}

fn fork_advice(inherited: bool) -> Advice {
    if inherited {
        Advice::LinuxDoFork
    } else {
        Advice::LinuxDontFork
    }
}

/// Makes the number of `old` mean what `new` does.
fn replace(old: BorrowedFd<'_>, new: OwnedFd) -> Result<(), PagedError> {
    if old.as_raw_fd() == new.as_raw_fd() {
        // It came to have that number by itself.
        std::mem::forget(new);
        return Ok(());
    }
    // SAFETY: the number is one of this crate's descriptors, which no other code closes; it stays open.
    let mut old = std::mem::ManuallyDrop::new(unsafe {
        <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(old.as_raw_fd())
    });
    dup3(new, &mut old, DupFlags::CLOEXEC).map_err(|errno| PagedError::Pagemap(errno.into()))
}
