//! Pages in the place of a file's, filled from the kernel's own map of it.

use super::super::Twin;
use super::{Failure, ForkedMemory, PagedError, PagedMemory, Parts, UffdError, Wake};
use warmswap_page::PAGE_BYTES;

/// What the kernel says of a source that cannot be read.
const UNREADABLE: Failure = Failure::Other(libc::EFAULT);

impl PagedMemory {
    /// Fills missing pages with copies of what the twin has from `offset` on, in new frames, and wakes threads that wait for
    /// them; how many at the front were, since the file may have become shorter, or fail to be read.
    ///
    /// The caller sees to it that this part of the twin stays.
    ///
    /// # Errors
    /// [`UffdError`].
    pub fn copy_in_from(
        &self,
        first: usize,
        pages: usize,
        (twin, offset): (&Twin, usize),
    ) -> Result<usize, UffdError> {
        let mut parts = Parts::new(pages * PAGE_BYTES);
        let mut filled = pages;
        while let Some(part) = parts.next() {
            let (to, from) = (
                self.address(first) + part.start,
                twin.address() + offset + part.start,
            );
            // SAFETY: users reach pages by raw pointers only; the kernel refuses what is not registered.
            let result = unsafe { self.uffd.copy_from(to, from, part.len(), self.wake) };
            match parts.note(result).map_err(|error| (error.failure, error)) {
                Ok(()) => {}
                Err((Failure::Partially(bytes), _)) => {
                    filled = bytes / PAGE_BYTES;
                    break;
                }
                Err((UNREADABLE, _)) => {
                    filled = 0;
                    break;
                }
                Err((_, error)) => return Err(error),
            }
        }
        twin.let_go(&(offset..offset + pages * PAGE_BYTES));
        Ok(filled)
    }

    /// Has an access to a missing page raise SIGBUS from now on, as to a page behind the end of a file, and wakes threads
    /// that wait for it. The kernel counts something as being there.
    ///
    /// # Errors
    /// [`UffdError`], on a kernel before Linux 6.6.
    pub fn poison(&self, page: usize) -> Result<(), UffdError> {
        // SAFETY: users reach pages by raw pointers only; the caller has no content for this page.
        unsafe { self.uffd.poison(self.address(page), PAGE_BYTES) }
    }

    /// Puts the part of the twin from `offset` on in the place of pages, for good: their faults are the kernel's from
    /// now on. A thread that looks at them sees either what they were or what the twin has.
    ///
    /// # Errors
    /// [`PagedError::Map`]; nothing has changed then.
    pub fn give_to(
        &self,
        first: usize,
        pages: usize,
        (twin, offset): (&Twin, usize),
    ) -> Result<(), PagedError> {
        let part = offset..offset + pages * PAGE_BYTES;
        // SAFETY: users reach pages by raw pointers only.
        let result = unsafe { twin.put(part, self.address(first)) };
        result.map_err(|errno| self.refused(first, pages, errno))
    }
}

impl ForkedMemory {
    /// Brings a page that a thread of the child waits for from a twin of this process, or has the access raise SIGBUS
    /// where the file has none.
    ///
    /// # Errors
    /// [`UffdError`].
    pub fn copy_in_from(
        &self,
        address: usize,
        (twin, offset): (&Twin, usize),
    ) -> Result<(), UffdError> {
        let from = twin.address() + offset;
        // SAFETY: the child's users reach its memory by raw pointers only; the kernel refuses what is not
        // registered, and pages that are there.
        match unsafe { self.uffd.copy_from(address, from, PAGE_BYTES, Wake::Yes) } {
            Err(UffdError {
                failure: Failure::PageExists,
                ..
            }) => self.uffd.wake(address, PAGE_BYTES),
            Err(UffdError {
                failure: UNREADABLE,
                ..
            }) => {
                // SAFETY: as above; the page has no content.
                unsafe { self.uffd.poison(address, PAGE_BYTES) }
            }
            result => result,
        }
    }
}
