//! Ranges of addresses that belong to this process, whatever is mapped there.

use std::ptr;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// A reserved range of addresses: an inaccessible private mapping, in parts of which memory is made
/// accessible. Given back on drop.
#[derive(Debug)]
pub(super) struct Reserve {
    address: usize,
    len: usize,
}

impl Reserve {
    /// Reserves `len` bytes (whole pages) at an address that is a multiple of `align` bytes.
    pub fn new(len: usize, align: usize) -> Result<Self, Errno> {
        let padded = len.checked_add(align).ok_or(Errno::NOMEM)?;
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                padded,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )?
        };
        let base = base.expose_provenance();
        let address = base.next_multiple_of(align);
        let (front, back) = (address - base, padded - (address - base) - len);
        for (start, len) in [(base, front), (address + len, back)] {
            if len > 0 {
                // SAFETY: the ranges are parts of the mapping just made that nobody knows of.
                unsafe { munmap(ptr::with_exposed_provenance_mut(start), len)? };
            }
        }
        Ok(Self { address, len })
    }

    /// First address.
    pub fn address(&self) -> usize {
        self.address
    }

    /// Whether all of `len` bytes at `offset` are within.
    fn check(&self, offset: usize, len: usize) -> Result<usize, Errno> {
        let end = offset.checked_add(len).ok_or(Errno::INVAL)?;
        if end > self.len {
            return Err(Errno::INVAL);
        }
        Ok(self.address + offset)
    }

    /// Maps fresh memory at `offset`, in small pages, that a child of this process does not inherit when
    /// `inherited` is false.
    ///
    /// # Safety
    /// No reference to what was there exists.
    pub unsafe fn map(&self, offset: usize, len: usize, inherited: bool) -> Result<(), Errno> {
        let address = ptr::with_exposed_provenance_mut(self.check(offset, len)?);
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        // SAFETY: the range lies in this reserve, so nobody else's mapping is replaced; the caller vouches
        // that nobody refers to what was there.
        unsafe {
            mmap_anonymous(address, len, ProtFlags::READ | ProtFlags::WRITE, flags)?;
            // A kernel without huge pages refuses, which is just as well.
            let _ = madvise(address, len, Advice::LinuxNoHugepage);
            if !inherited {
                madvise(address, len, Advice::LinuxDontFork)?;
            }
        }
        Ok(())
    }

    /// Makes `len` bytes at `offset` inaccessible again and gives their memory back.
    ///
    /// # Safety
    /// As [`Self::map`].
    pub unsafe fn unmap(&self, offset: usize, len: usize) -> Result<(), Errno> {
        let address = ptr::with_exposed_provenance_mut(self.check(offset, len)?);
        // SAFETY: as in `map`.
        unsafe {
            mmap_anonymous(
                address,
                len,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE,
            )?;
        }
        Ok(())
    }

    /// Gives the memory of `len` bytes at `offset` back; the pages are missing afterwards.
    ///
    /// # Safety
    /// As [`Self::map`].
    pub unsafe fn discard(&self, offset: usize, len: usize) -> Result<(), Errno> {
        let address = ptr::with_exposed_provenance_mut(self.check(offset, len)?);
        // SAFETY: private anonymous memory within this reserve; the caller vouches for its content.
        unsafe { madvise(address, len, Advice::LinuxDontNeed) }
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        // SAFETY: the range is this value's, and its users are gone with it.
        let unmapped = unsafe { munmap(ptr::with_exposed_provenance_mut(self.address), self.len) };
        debug_assert_eq!(unmapped, Ok(()));
    }
}
