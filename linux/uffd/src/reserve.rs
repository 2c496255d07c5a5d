//! Ranges of addresses that belong to this process, whatever is mapped there.

use std::ptr;

use rustix::io::Errno;
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, MremapFlags, ProtFlags, madvise, mmap_anonymous, mprotect,
    mremap_fixed, munmap,
};
use warmswap_page::PAGE_BYTES;

use super::errno;
use warmswap_sys::touch::touch_for_write;

/// What may be done with memory: the bits of `PROT_READ`, `PROT_WRITE` and the like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protection(pub u32);

impl Protection {
    /// No access.
    pub const NONE: Self = Self(0);
    /// Reading.
    pub const READ: Self = Self(1);
    /// Reading and writing: the only kind whose frames the kernel moves.
    pub const READ_WRITE: Self = Self(1 | 2);
}

/// A reserved range of addresses: an inaccessible private mapping, where parts are made
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
                // SAFETY: the ranges are parts of the mapping just made that no other code knows of.
                unsafe { munmap(ptr::with_exposed_provenance_mut(start), len)? };
            }
        }
        Ok(Self { address, len })
    }

    /// Reserves `len` bytes at that address, if nothing is there.
    pub fn at(address: usize, len: usize) -> Result<Self, Errno> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
        let wanted = ptr::with_exposed_provenance_mut(address);
        // SAFETY: the kernel replaces nothing that is there.
        let base = unsafe { mmap_anonymous(wanted, len, ProtFlags::empty(), flags)? };
        let reserve = Self {
            address: base.expose_provenance(),
            len,
        };
        // A kernel before 4.17 takes the address for a mere wish.
        if reserve.address == address {
            Ok(reserve)
        } else {
            Err(Errno::EXIST)
        }
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
        // SAFETY: the range lies in this reserve, so no other mapping is replaced; the caller vouches
        // that nothing refers to what was there.
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

    /// Changes what may be done with the memory at `offset`.
    ///
    /// # Safety
    /// No code relies on an access that is not possible any more.
    pub unsafe fn protect(&self, offset: usize, len: usize, to: Protection) -> Result<(), Errno> {
        let address = ptr::with_exposed_provenance_mut(self.check(offset, len)?);
        // SAFETY: passed on to the caller.
        unsafe { mprotect(address, len, MprotectFlags::from_bits_retain(to.0)) }
    }

    /// Gives the mapping at `offset` an attribute: small pages, not in core dumps, or whether a child of this
    /// process has it.
    pub fn advise(&self, offset: usize, len: usize, advice: Advice) -> Result<(), Errno> {
        debug_assert!(matches!(
            advice,
            Advice::LinuxNoHugepage
                | Advice::LinuxDontDump
                | Advice::LinuxDontFork
                | Advice::LinuxDoFork
        ));
        let address = ptr::with_exposed_provenance_mut(self.check(offset, len)?);
        // SAFETY: these change no content.
        unsafe { madvise(address, len, advice) }
    }

    /// Writes to the memory at `offset` without changing it: a write-protected page is resolved as for any other
    /// write. Before Linux 5.14 it is a store of the calling thread, so that the memory has to be writable.
    ///
    /// # Safety
    /// The memory is accessed by its users while they run, and only so.
    pub unsafe fn touch_for_write(&self, offset: usize, len: usize) -> Result<(), Errno> {
        let start = self.check(offset, len)?;
        let address: *mut std::ffi::c_void = ptr::with_exposed_provenance_mut(start);
        // SAFETY: it changes no content, and fails where nothing is mapped or nothing may be written.
        if unsafe { libc::madvise(address, len, libc::MADV_POPULATE_WRITE) } == 0 {
            return Ok(());
        }
        let errno = Errno::from_raw_os_error(errno());
        if errno != Errno::INVAL {
            return Err(errno);
        }
        for page in (start..start + len).step_by(PAGE_BYTES) {
            let byte = ptr::with_exposed_provenance_mut(page);
            // SAFETY: the caller vouches for writable memory.
            unsafe { touch_for_write(byte) };
        }
        Ok(())
    }

    /// Moves what is mapped privately in a part to another part, in place of what is there; the part that it was in is
    /// mapped as it was, without content.
    ///
    /// # Safety
    /// No reference to either part exists.
    pub unsafe fn remap(&self, offset: usize, len: usize, to: usize) -> Result<(), Errno> {
        debug_assert!(offset.max(to) + len <= self.len);
        let at = |offset: usize| ptr::with_exposed_provenance_mut(self.address + offset);
        let flags = MremapFlags::MAYMOVE | MremapFlags::DONTUNMAP;
        // SAFETY: both parts are within the reserve; what becomes of them is passed on to the caller.
        unsafe { mremap_fixed(at(offset), len, len, flags, at(to))? };
        Ok(())
    }

    /// Gives the memory of `len` bytes at `offset` back; the pages are missing afterwards. Not of pages that are
    /// locked in memory: EINVAL.
    ///
    /// # Safety
    /// As [`Self::map`].
    pub unsafe fn discard(&self, offset: usize, len: usize) -> Result<(), Errno> {
        let address = ptr::with_exposed_provenance_mut(self.check(offset, len)?);
        // SAFETY: private anonymous memory within this reserve; the caller vouches for its content.
        unsafe { madvise(address, len, Advice::LinuxDontNeed) }
    }

    /// The same, locked or not (Linux 5.18).
    ///
    /// # Safety
    /// As [`Self::map`].
    pub unsafe fn discard_locked(&self, offset: usize, len: usize) -> Result<(), Errno> {
        let address = self.check(offset, len)?;
        let address: *mut std::ffi::c_void = ptr::with_exposed_provenance_mut(address);
        // SAFETY: as in `discard`.
        match unsafe { libc::madvise(address, len, libc::MADV_DONTNEED_LOCKED) } {
            0 => Ok(()),
            _ => Err(Errno::from_raw_os_error(errno())),
        }
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        // SAFETY: the range is this value's, and its users are gone with it.
        let unmapped = unsafe { munmap(ptr::with_exposed_provenance_mut(self.address), self.len) };
        debug_assert_eq!(unmapped, Ok(()));
    }
}
