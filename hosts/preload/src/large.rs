//! Large blocks of `malloc`: mappings of their own, as in the C library.
//!
//! One that is freed gives its memory back, and one that grows has its pages moved in place of copied. Some that were freed are
//! kept for the next of their size, or for one that grows up to it, as the C library keeps the end of its heap: at most
//! [`KEPT_BYTES`], none over a fork, which would copy their tables, and in a paged program none that a moment passes over.
//!
//! A block begins [`HEADER_BYTES`] into its mapping, which by its header says so. The header's word depends on its address: a
//! copy of it elsewhere is none.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use libc::{MAP_FAILED, size_t};
use warmswap_page::PAGE_BYTES;
use warmswap_program::Space;

use crate::kernel::{errno, fail};
use crate::reentrancy::ReentrancyGuard;
use crate::{limits, mapping};

/// From so many bytes on a block is one of these: what lies below, mimalloc has within its segments.
pub const LARGE_BYTES: usize = 1 << 20;

/// What is before a block, which is aligned to as much.
pub const HEADER_BYTES: usize = 64;

/// What lies at the start of a mapping.
#[repr(C)]
struct Header {
    /// [`MARK`] with the mapping's address.
    mark: usize,
    /// Bytes of the mapping up to the block's end, whole pages.
    used: usize,
    /// Bytes of the mapping.
    mapped: usize,
}

/// No address, nor what a program is likely to keep.
const MARK: usize = 0x5bd1_e995_9d3a_c7e3_u64 as usize;

/// A block in use.
#[derive(Clone, Copy)]
pub struct Block(*mut Header);

impl Block {
    /// The block that begins there, if it is one of these.
    ///
    /// # Safety
    /// A block of some allocator begins there.
    #[inline]
    pub unsafe fn at(memory: *mut c_void) -> Option<Self> {
        if memory.addr() % PAGE_BYTES != HEADER_BYTES {
            return None;
        }
        let header: *mut Header = memory.wrapping_byte_sub(HEADER_BYTES).cast();
        // SAFETY: in the same page as the block's first byte. Other blocks may be written there meanwhile.
        let mark = unsafe { (&raw mut (*header).mark).read_volatile() };
        (mark == MARK ^ header.addr()).then_some(Self(header))
    }

    fn memory(self) -> *mut c_void {
        self.0.wrapping_byte_add(HEADER_BYTES).cast()
    }

    fn header(&self) -> &Header {
        // SAFETY: it is the caller's, who does not give it up meanwhile.
        unsafe { &*self.0 }
    }

    /// Bytes that the program may use.
    pub fn usable_bytes(self) -> usize {
        self.header().used - HEADER_BYTES
    }

    /// Bytes of its mapping.
    fn mapped(self) -> usize {
        self.header().mapped
    }

    fn start(address: *mut c_void, used: usize, mapped: usize) -> Self {
        let header: *mut Header = address.cast();
        let content = Header {
            mark: MARK ^ header.addr(),
            used,
            mapped,
        };
        // SAFETY: the start of a mapping that is this thread's alone.
        unsafe { header.write(content) };
        Self(header)
    }

    /// One more that the program has.
    fn given_out(self) -> *mut c_void {
        BLOCKS.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_add(self.mapped(), Ordering::Relaxed);
        self.memory()
    }

    /// One less.
    fn taken_back(self) {
        BLOCKS.fetch_sub(1, Ordering::Relaxed);
        BYTES.fetch_sub(self.mapped(), Ordering::Relaxed);
    }
}

/// What the program has of them.
static BLOCKS: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);

/// How many blocks the program has, and bytes of their mappings.
pub fn in_use() -> (usize, usize) {
    [&BLOCKS, &BYTES]
        .map(|count| count.load(Ordering::Relaxed))
        .into()
}

/// Bytes of a mapping for such a block; `None` if there is no such number.
fn bytes_for(size: size_t) -> Option<usize> {
    size.checked_add(HEADER_BYTES)?
        .checked_next_multiple_of(PAGE_BYTES)
}

/// With room to grow, unless the program counts its addresses. Addresses that are not used take no memory.
fn with_room(bytes: usize) -> usize {
    if limits::are_set() {
        return bytes;
    }
    let room = bytes.saturating_add(bytes / 2) / PAGE_BYTES * PAGE_BYTES;
    if mapping::is_too_much(room) {
        bytes
    } else {
        room
    }
}

/// A block of that size; null where there is no memory.
pub fn allocate(size: size_t) -> *mut c_void {
    let Some(bytes) = bytes_for(size) else {
        return ptr::null_mut();
    };
    if let Some(kept) = Kept::take(bytes) {
        return kept.given_out();
    }
    map(bytes, bytes)
}

/// The same, all zeros.
pub fn allocate_zeroed(size: size_t) -> *mut c_void {
    bytes_for(size).map_or(ptr::null_mut(), |bytes| map(bytes, bytes))
}

/// A block for something that grows, and may go on doing so: a larger one that is kept has the pages that it grows into.
pub fn allocate_growing(size: size_t) -> *mut c_void {
    let Some(bytes) = bytes_for(size) else {
        return ptr::null_mut();
    };
    match Kept::take_to_grow(bytes) {
        Some(kept) => kept.given_out(),
        None => map(bytes, with_room(bytes)),
    }
}

fn map(used: usize, mapped: usize) -> *mut c_void {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping, wherever there is room.
    let address = unsafe { libc::mmap(ptr::null_mut(), mapped, access, flags, -1, 0) };
    if address == MAP_FAILED {
        return ptr::null_mut();
    }
    Block::start(address, used, mapped).given_out()
}

/// The block with another size, here or elsewhere; null where there is no memory, and then it is as before.
pub fn resize(block: Block, size: size_t) -> *mut c_void {
    let &Header { used, mapped, .. } = block.header();
    let is_had = |&bytes: &usize| bytes <= mapped || !mapping::is_too_much(bytes);
    let Some(bytes) = bytes_for(size).filter(is_had) else {
        return ptr::null_mut();
    };
    let address: *mut c_void = block.0.cast();
    let remap = |to: usize| {
        // SAFETY: the mapping is the caller's, who looks for its content where this says.
        let address = unsafe { libc::mremap(address, mapped, to, libc::MREMAP_MAYMOVE) };
        (address != MAP_FAILED).then_some((address, to))
    };
    // Where the thread works for the library the space would not hear of it.
    let remap = |to| (!ReentrancyGuard::is()).then(|| remap(to)).flatten();
    let place = if bytes < used {
        unmap(address.wrapping_byte_add(bytes), mapped - bytes);
        Some((address, bytes))
    } else if bytes <= mapped {
        Some((address, mapped))
    } else if used <= MOST_COPIED
        && let Some(kept) = Kept::take_to_grow(with_room(bytes))
    {
        Block::start(kept.0.cast(), bytes, kept.mapped());
        return copy_to(block, kept.given_out());
    } else {
        remap(with_room(bytes)).or_else(|| remap(bytes))
    };
    let Some((address, now)) = place else {
        return copy_to(block, map(bytes, bytes));
    };
    BYTES.fetch_add(now.wrapping_sub(mapped), Ordering::Relaxed);
    Block::start(address, bytes, now).memory()
}

/// Moves the block's content to a larger one; null where that is none.
fn copy_to(block: Block, copy: *mut c_void) -> *mut c_void {
    if !copy.is_null() {
        let (from, len) = (block.memory().cast::<u8>(), block.usable_bytes());
        // SAFETY: the new one is larger, and this thread's alone.
        unsafe { ptr::copy_nonoverlapping(from, copy.cast(), len) };
        free(block);
    }
    copy
}

/// Gives the block up.
pub fn free(block: Block) {
    let before = errno();
    let (address, mapped) = (block.0, block.mapped());
    block.taken_back();
    // SAFETY: the caller gives it up. What frees it again frees no block.
    unsafe { (*address).mark = 0 };
    if mapped <= KEPT_BYTES {
        Kept::put(address.addr(), mapped);
    } else {
        unmap(address.cast(), mapped);
    }
    fail(before);
}

/// Unmaps what is used no more. Where the thread works for the library it stays: the space would not hear of it.
fn unmap(address: *mut c_void, bytes: usize) {
    if !ReentrancyGuard::is() {
        // SAFETY: it is a mapping of this file's, or the end of one.
        unsafe { libc::munmap(address, bytes) };
    }
}

/// Bytes of blocks that are kept, as many as the C library keeps at the end of its heap at most (`M_TRIM_THRESHOLD`).
const KEPT_BYTES: usize = 64 << 20;
/// A block that grows takes a kept one of at most so many times its size: what it does not grow into stays in memory.
const MOST_GROWTH: usize = 16;
/// A block of so many bytes at most is copied to a kept one that it can grow into: as long as that takes less than the faults
/// of as many new pages.
const MOST_COPIED: usize = 8 << 20;
/// How many.
const MOST_KEPT: usize = 8;

/// Blocks that were freed, each as a [`Kept`]; 0 for none.
static KEPT: [AtomicU64; MOST_KEPT] = [const { AtomicU64::new(0) }; MOST_KEPT];
/// Blocks that were ever kept. Each has the next place, and so takes that of the oldest.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A block that was freed: the number of its first page, of its pages, and of how many were kept before.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Kept(u64);

const ADDRESS_BITS: u32 = 36;
const PAGES_BITS: u32 = 15;
const _: () = assert!(KEPT_BYTES / PAGE_BYTES < 1 << PAGES_BITS);

impl Kept {
    /// `None` if there are no bits for its address.
    fn new(address: usize, mapped: usize, count: usize) -> Option<Self> {
        let page = address / PAGE_BYTES;
        let above = ((count << PAGES_BITS) | (mapped / PAGE_BYTES)) as u64;
        (page < 1 << ADDRESS_BITS).then_some(Self((above << ADDRESS_BITS) | page as u64))
    }

    fn bytes(self) -> usize {
        (self.0 >> ADDRESS_BITS) as usize % (1 << PAGES_BITS) * PAGE_BYTES
    }

    fn address(self) -> *mut c_void {
        let page = self.0 as usize % (1 << ADDRESS_BITS);
        ptr::with_exposed_provenance_mut(page * PAGE_BYTES)
    }

    /// What is kept in a place.
    fn in_place(place: &AtomicU64) -> Option<Self> {
        Some(Self(place.load(Ordering::Relaxed))).filter(|kept| kept.0 != 0)
    }

    /// Takes it out of its place, unless another thread did.
    fn is_taken_from(self, place: &AtomicU64) -> bool {
        place
            .compare_exchange(self.0, 0, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Takes one of so many bytes, or of a quarter more at most.
    fn take(bytes: usize) -> Option<Block> {
        Self::take_up_to(bytes, bytes.saturating_add(bytes / 4))
    }

    /// Takes one for a block of so many bytes that goes on growing.
    fn take_to_grow(bytes: usize) -> Option<Block> {
        Self::take_up_to(bytes, bytes.saturating_mul(MOST_GROWTH))
    }

    /// Takes one of `bytes` to `most` bytes.
    fn take_up_to(bytes: usize, most: usize) -> Option<Block> {
        let fits = |kept: &Self| (bytes..=most).contains(&kept.bytes());
        KEPT.iter().find_map(|place| {
            let kept = Self::in_place(place).filter(fits)?;
            kept.is_taken_from(place)
                .then(|| Block::start(kept.address(), bytes, kept.bytes()))
        })
    }

    /// Keeps a mapping. Others go for it, the oldest first.
    fn put(address: usize, mapped: usize) {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let Some(kept) = Self::new(address, mapped, count) else {
            return unmap(ptr::with_exposed_provenance_mut(address), mapped);
        };
        let place = &KEPT[count % MOST_KEPT];
        let replaced = Self(place.swap(kept.0, Ordering::AcqRel));
        if replaced.0 != 0 {
            unmap(replaced.address(), replaced.bytes());
        }
        let all = || {
            KEPT.iter()
                .filter_map(Self::in_place)
                .map(Self::bytes)
                .sum()
        };
        let mut bytes: usize = all();
        for older in 1..MOST_KEPT {
            if bytes <= KEPT_BYTES {
                return;
            }
            let place = &KEPT[(count + older) % MOST_KEPT];
            if let Some(old) = Self::in_place(place)
                && old.is_taken_from(place)
            {
                unmap(old.address(), old.bytes());
            }
            bytes = all();
        }
    }
}

/// Gives up what is kept, by a thread of the program's.
pub fn give_up_kept() {
    for place in &KEPT {
        if let Some(kept) = Kept::in_place(place)
            && kept.is_taken_from(place)
        {
            unmap(kept.address(), kept.bytes());
        }
    }
}

/// What was kept when the keeper last looked.
#[derive(Default)]
pub struct Look([u64; MOST_KEPT]);

impl Look {
    /// Gives up what has been kept since the last look, by the keeper.
    pub fn again(&mut self, space: &Space) {
        for (place, seen) in KEPT.iter().zip(&mut self.0) {
            let now = Kept::in_place(place);
            if let Some(kept) = now.filter(|kept| kept.0 == *seen)
                && kept.is_taken_from(place)
            {
                mapping::unmap_within(space, kept.address(), kept.bytes());
            }
            *seen = now.map_or(0, |kept| kept.0);
        }
    }
}
