//! Memory in pages, and the ways of a page in and out of it.

mod file;
mod forked;
mod open;
mod parts;
mod program;

pub use forked::ForkedMemory;

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::mm::Advice;

use open::{open_pagemap, open_uffd};
use parts::Parts;

use super::reserve::Reserve;
use super::{
    Event, Failure, Feature, Features, OpenError, Reach, SlotBag, Slots, Uffd, UffdError, Waiter,
    Wake,
};
use warmswap_page::PAGE_BYTES;

/// How frames come and go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// Frames are moved between memory and staging (Linux 6.8).
    Move,
    /// Pages are copied in; on their way out they are write-protected and given up.
    Copy,
}

/// Where a fault is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultDelivery {
    /// The thread that made it, by SIGBUS. System calls that are given a missing page fail with EFAULT.
    Signal,
    /// The thread that reads [`PagedMemory::read_event`].
    Events,
}

/// How the address space is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addresses {
    /// Parts of it are mapped and unmapped. A child of `fork` does not have them.
    Parts,
    /// It is one mapping, at this address if nothing is there; parts of it are made accessible, see
    /// [`PagedMemory::protect`]. A child of `fork` can have it.
    Whole {
        /// The address that is wanted.
        at: usize,
    },
}

/// What memory to make.
#[derive(Debug, Clone, Copy)]
pub struct PagedConfig {
    /// Pages of address space.
    pub pages: usize,
    /// How they are mapped.
    pub addresses: Addresses,
    /// Slots of the staging area.
    pub slots: usize,
    /// How frames come and go.
    pub mechanism: Mechanism,
    /// Where a fault is delivered.
    pub delivery: FaultDelivery,
}

/// Memory cannot be made or changed.
#[derive(Debug, thiserror::Error)]
pub enum PagedError {
    /// No usable userfaultfd.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The kernel refuses an operation on it.
    #[error(transparent)]
    Uffd(#[from] UffdError),
    /// No mapping can be made or changed.
    #[error("cannot map {len} bytes at {address:#x}: {source}")]
    Map {
        /// First address, or 0 for a place of the kernel's choice.
        address: usize,
        /// Bytes.
        len: usize,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The map of this process's pages cannot be opened.
    #[error("cannot open /proc/self/pagemap: {0}")]
    Pagemap(#[source] io::Error),
    /// The process gave up a right that it had before.
    #[error("it gave up the right to serve page faults within system calls (root, CAP_SYS_PTRACE)")]
    RightLost,
}

/// Address space in pages, whose faults are this process's own, and a staging area of slots.
///
/// Pages are numbered from 0 over the whole address space; parts of it are mapped and unmapped. Memory is
/// reached by users through raw pointers only ([`Self::address`]), so that nothing here breaks a reference:
/// users of the pointers know that pages come and go. A slot holds a frame or none; its bytes are
/// those of the owner of its [`Slots`]. In the forked child of this process neither exists.
#[derive(Debug)]
pub struct PagedMemory {
    uffd: Uffd,
    space: Reserve,
    staging: Reserve,
    config: PagedConfig,
    reach: Reach,
    /// With SIGBUS no thread sleeps in the kernel for a page.
    wake: Wake,
    pagemap: OwnedFd,
}

impl PagedMemory {
    /// Makes the address space, nothing of it mapped, and the staging area, its slots without frames.
    ///
    /// # Errors
    /// [`PagedError`].
    pub fn new(config: PagedConfig) -> Result<(Self, Slots), PagedError> {
        let (uffd, reach) = open_uffd(config)?;
        let reserve = |len: usize| {
            Reserve::new(len, PAGE_BYTES << 9).map_err(|errno| PagedError::Map {
                address: 0,
                len,
                source: errno.into(),
            })
        };
        let space = match config.addresses {
            Addresses::Parts => reserve(config.pages * PAGE_BYTES)?,
            Addresses::Whole { at } => program::space(at, config.pages * PAGE_BYTES)?,
        };
        let staging = reserve(config.slots * PAGE_BYTES)?;
        // Pages on their way, which may themselves be kept out of core dumps.
        let _ = staging.advise(0, config.slots * PAGE_BYTES, Advice::LinuxDontDump);
        let pagemap = open_pagemap()?;
        let memory = Self {
            uffd,
            space,
            staging,
            config,
            reach,
            wake: match config.delivery {
                FaultDelivery::Signal => Wake::No,
                FaultDelivery::Events => Wake::Yes,
            },
            pagemap,
        };
        if config.mechanism == Mechanism::Move {
            let len = config.slots * PAGE_BYTES;
            // SAFETY: the staging area is new, so nothing refers to it. It is registered because pages can only
            // be moved to registered memory.
            unsafe { memory.map_registered(&memory.staging, 0, len)? };
        } else {
            // SAFETY: the staging area is new, so nothing refers to it.
            let mapped = unsafe { memory.staging.map(0, config.slots * PAGE_BYTES, false) };
            mapped.map_err(|errno| PagedError::Map {
                address: memory.staging.address(),
                len: config.slots * PAGE_BYTES,
                source: errno.into(),
            })?;
        }
        let slots = Slots::all(config.slots as u32);
        Ok((memory, slots))
    }

    /// How frames come and go.
    #[must_use]
    pub fn mechanism(&self) -> Mechanism {
        self.config.mechanism
    }

    /// Whether faults within system calls are served.
    #[must_use]
    pub fn reach(&self) -> Reach {
        self.reach
    }

    /// The addresses of all pages, mapped or not.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        let start = self.space.address();
        start..start + self.config.pages * PAGE_BYTES
    }

    /// The address of a page.
    #[must_use]
    pub fn address(&self, page: usize) -> usize {
        self.space.address() + page * PAGE_BYTES
    }

    /// The page of an address, if it is one of ours.
    #[must_use]
    pub fn page_of(&self, address: usize) -> Option<usize> {
        self.range()
            .contains(&address)
            .then(|| (address - self.space.address()) / PAGE_BYTES)
    }

    /// Maps pages, all missing, and makes their faults ours.
    ///
    /// # Errors
    /// [`PagedError`].
    pub fn map(&self, first: usize, pages: usize) -> Result<(), PagedError> {
        // SAFETY: users reach the space by raw pointers only.
        unsafe { self.map_registered(&self.space, first * PAGE_BYTES, pages * PAGE_BYTES) }
    }

    /// Unmaps pages; their content is gone, and an access is a segmentation fault.
    ///
    /// # Errors
    /// [`PagedError`].
    pub fn unmap(&self, first: usize, pages: usize) -> Result<(), PagedError> {
        let (offset, len) = (first * PAGE_BYTES, pages * PAGE_BYTES);
        // SAFETY: users reach the space by raw pointers only. Mapping anew ends the registration: at no time
        // does a missing page read as zeros.
        let result = unsafe { self.space.unmap(offset, len) };
        result.map_err(|errno| PagedError::Map {
            address: self.address(first),
            len,
            source: errno.into(),
        })
    }

    /// # Safety
    /// No reference to that part of the reserve exists.
    unsafe fn map_registered(
        &self,
        reserve: &Reserve,
        offset: usize,
        len: usize,
    ) -> Result<(), PagedError> {
        let address = reserve.address() + offset;
        // SAFETY: passed on to the caller.
        let mapped = unsafe { reserve.map(offset, len, false) };
        mapped.map_err(|errno| PagedError::Map {
            address,
            len,
            source: errno.into(),
        })?;
        // SAFETY: our own new mapping; its users know that their accesses may wait or raise SIGBUS.
        unsafe { self.uffd.register(address, len, self.can_protect())? };
        Ok(())
    }

    /// Moves frames of pages into empty slots, as many as there are slots or until one cannot be moved; how many
    /// were. The pages are missing afterwards.
    ///
    /// # Errors
    /// [`UffdError`]; not of a frame that is pinned or shared, nor of a mapping that is not like the slots'.
    pub fn move_out(&self, first: usize, slots: &mut Slots) -> Result<usize, UffdError> {
        let (from, to) = (self.address(first), self.slot_address(slots));
        // SAFETY: the slots are the caller's alone; users reach pages by raw pointers only, and for them
        // nothing changes but that the next access is a fault. No thread waits for a slot.
        unsafe { self.move_frames(to, from, slots.len(), Wake::No) }
    }

    /// Moves the frames of slots to missing pages and wakes threads that wait for those, until one cannot be moved; how
    /// many were. The slots are empty afterwards.
    ///
    /// # Errors
    /// As [`Self::move_out`].
    pub fn move_in(&self, first: usize, slots: &mut Slots) -> Result<usize, UffdError> {
        let (from, to) = (self.slot_address(slots), self.address(first));
        // SAFETY: the slots are the caller's alone; users reach pages by raw pointers only.
        unsafe { self.move_frames(to, from, slots.len(), self.wake) }
    }

    /// Fills missing pages with copies of `bytes` (whole pages), in new frames, and wakes threads that wait for them.
    ///
    /// # Errors
    /// [`Failure::Partially`] names the bytes at the front that were done.
    pub fn copy_in(&self, first: usize, bytes: &[u8]) -> Result<(), UffdError> {
        let mut parts = Parts::new(bytes.len());
        while let Some(part) = parts.next() {
            let address = self.address(first) + part.start;
            // SAFETY: users reach pages by raw pointers only; the kernel refuses what is not registered.
            let result = unsafe { self.uffd.copy(address, &bytes[part], self.wake, false) };
            parts.note(result)?;
        }
        Ok(())
    }

    /// # Safety
    /// As [`Uffd::move_pages`].
    unsafe fn move_frames(
        &self,
        to: usize,
        from: usize,
        pages: usize,
        wake: Wake,
    ) -> Result<usize, UffdError> {
        let mut parts = Parts::new(pages * PAGE_BYTES);
        while let Some(part) = parts.next() {
            // SAFETY: passed on to the caller.
            let result = unsafe {
                self.uffd
                    .move_pages(to + part.start, from + part.start, part.len(), wake)
            };
            match parts.note(result).map_err(|error| (error.failure, error)) {
                Ok(()) => {}
                Err((Failure::Partially(bytes), _)) => return Ok(bytes / PAGE_BYTES),
                Err((Failure::Busy | Failure::Unlike, _)) => return Ok(0),
                Err((_, error)) => return Err(error),
            }
        }
        Ok(pages)
    }

    /// Protects present pages against writing, or lifts the protection and wakes threads that wait.
    ///
    /// # Errors
    /// [`UffdError`].
    pub fn write_protect(&self, first: usize, pages: usize, on: bool) -> Result<(), UffdError> {
        // Before Linux 6.4 all of the range has to lie in one mapping.
        let mut parts = Parts::new(pages * PAGE_BYTES);
        while let Some(part) = parts.next() {
            let address = self.address(first) + part.start;
            parts.note(self.uffd.write_protect(address, part.len(), on))?;
        }
        Ok(())
    }

    /// Copies a page that is present and will stay so into slots or elsewhere. While others write to it, the
    /// copy may be torn.
    pub fn read_page(&self, page: usize, into: &mut [u8; PAGE_BYTES]) {
        let from: *const u8 = std::ptr::with_exposed_provenance(self.address(page));
        // SAFETY: the page is within a mapping of the space, which the caller keeps mapped; the destination is
        // a live buffer elsewhere. Volatile words, so that concurrent writers make the copy torn and no worse.
        unsafe {
            for (i, word) in into.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                *word = from.cast::<[u8; 8]>().add(i).read_volatile();
            }
        }
    }

    /// Gives the frames of pages back to the kernel; the pages are missing afterwards.
    ///
    /// # Errors
    /// [`PagedError::Map`].
    pub fn discard(&self, first: usize, pages: usize) -> Result<(), PagedError> {
        let (offset, len) = (first * PAGE_BYTES, pages * PAGE_BYTES);
        // SAFETY: users reach pages by raw pointers only, and a missing page is a fault of ours.
        let result = unsafe {
            match self.space.discard(offset, len) {
                // Their content is not wanted any more, locked in memory or not.
                Err(Errno::INVAL) => self.space.discard_locked(offset, len),
                result => result,
            }
        };
        result.map_err(|errno| self.refused(first, pages, errno))
    }

    /// Gives the frames of slots back to the kernel; the slots are empty afterwards.
    ///
    /// # Errors
    /// [`PagedError::Map`].
    pub fn discard_slots(&self, slots: &mut Slots) -> Result<(), PagedError> {
        let (offset, len) = (slots.first() * PAGE_BYTES, slots.len() * PAGE_BYTES);
        // SAFETY: the slots are the caller's alone, and their bytes are not borrowed.
        let result = unsafe { self.staging.discard(offset, len) };
        result.map_err(|errno| PagedError::Map {
            address: self.slot_address(slots),
            len,
            source: errno.into(),
        })
    }

    /// Gives empty slots new frames, filled with zeros.
    ///
    /// # Errors
    /// [`UffdError`].
    pub fn fill_slots(&self, slots: &mut Slots) -> Result<(), UffdError> {
        for i in 0..slots.len() {
            let address = self.slot_address(slots) + i * PAGE_BYTES;
            let mut parts = Parts::new(PAGE_BYTES);
            while parts.next().is_some() {
                // SAFETY: the slots are the caller's alone.
                parts.note(unsafe { self.uffd.copy(address, &ZEROS, Wake::No, false) })?;
            }
        }
        Ok(())
    }

    /// The bytes of slots that have frames.
    #[must_use]
    pub fn bytes<'a>(&'a self, slots: &'a Slots) -> &'a [u8] {
        let start = std::ptr::with_exposed_provenance(self.slot_address(slots));
        // SAFETY: the slots lie in the staging area, which lives as long as `self`; they are borrowed shared
        // from their one owner; anonymous memory is always initialised.
        unsafe { std::slice::from_raw_parts(start, slots.len() * PAGE_BYTES) }
    }

    /// The bytes of slots that have frames, to be written.
    #[must_use]
    pub fn bytes_mut<'a>(&'a self, slots: &'a mut Slots) -> &'a mut [u8] {
        let start = std::ptr::with_exposed_provenance_mut(self.slot_address(slots));
        // SAFETY: as in `bytes`, and the slots are borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(start, slots.len() * PAGE_BYTES) }
    }

    fn slot_address(&self, slots: &Slots) -> usize {
        debug_assert!(slots.first() + slots.len() <= self.config.slots);
        self.staging.address() + slots.first() * PAGE_BYTES
    }

    /// Whether the kernel holds anything for a page: present, or in the machine's own swap.
    #[must_use]
    pub fn has_frame(&self, page: usize) -> bool {
        self.entry(self.address(page)) & PRESENT_OR_SWAPPED != 0
    }

    /// Whether the kernel holds anything for the first of these slots.
    #[must_use]
    pub fn slot_has_frame(&self, slots: &Slots) -> bool {
        self.entry(self.slot_address(slots)) & PRESENT_OR_SWAPPED != 0
    }

    /// What the kernel says of the page at an address (Documentation/admin-guide/mm/pagemap.rst); 0 when it does
    /// not.
    fn entry(&self, address: usize) -> u64 {
        let mut entry = [0; 8];
        let offset = (address / PAGE_BYTES * entry.len()) as u64;
        match rustix::io::pread(&self.pagemap, &mut entry, offset) {
            Ok(8) => u64::from_ne_bytes(entry),
            _ => 0,
        }
    }

    /// Whether pages can be protected against writing: where they are copied, and in a program, whose frames
    /// may be shared with a child.
    #[must_use]
    pub fn can_protect(&self) -> bool {
        self.config.mechanism == Mechanism::Copy
            || matches!(self.config.addresses, Addresses::Whole { .. })
    }

    /// Wakes threads that wait for a page.
    ///
    /// # Errors
    /// [`UffdError`].
    pub fn wake(&self, page: usize) -> Result<(), UffdError> {
        self.uffd.wake(self.address(page), PAGE_BYTES)
    }

    /// The next event, of [`FaultDelivery::Events`]; `None` when there is none now.
    ///
    /// # Errors
    /// The system's answer.
    pub fn read_event(&self) -> io::Result<Option<Event>> {
        self.uffd.read_event()
    }

    /// For a thread that waits for events beside others.
    ///
    /// # Errors
    /// The system's answer.
    pub fn waiter(&self) -> io::Result<Waiter> {
        Waiter::new(self.uffd.as_fd())
    }

    /// A bag for the slots of this staging area.
    #[must_use]
    pub fn bag(&self) -> SlotBag {
        SlotBag::new(self.config.slots)
    }
}

/// The bits of an entry of the page map that say that there is a frame, or a page in the machine's own swap.
const PRESENT_OR_SWAPPED: u64 = 3 << 62;

/// A page of zeros.
static ZEROS: [u8; PAGE_BYTES] = [0; PAGE_BYTES];
