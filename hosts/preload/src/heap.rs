//! Memory of this library's own, apart from the program's and never paged.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use dlmalloc::{Allocator, Dlmalloc};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use rustix::thread::futex;
use warmswap_arena::mechanism::is_dying;

use crate::reentrancy::ReentrancyGuard;
use crate::{kernel, limits};

/// Addresses that the heap may use. They cost nothing until they are used: no access is allowed to them before, so that
/// they do not count as the program's data, and are not locked with it.
const RANGE_BYTES: usize = 32 << 30;
/// The same where the program's address space is limited: enough to say that it is not paged.
const LIMITED_BYTES: usize = 16 << 20;
/// The range is opened in steps.
const STEP_BYTES: usize = 1 << 20;
/// Of them, the last ones are for the stacks of the library's threads. The program cannot know that there are more
/// threads than its own: where it unmapped something it may unmap again.
pub const STACKS_BYTES: usize = 1 << 30;

/// From so many bytes on a block's memory goes back to the kernel when the block is freed.
const LARGE_BYTES: usize = 128 << 10;

/// First address of the heap's range, once it is reserved.
static START: AtomicUsize = AtomicUsize::new(0);
/// Bytes of the range, once it is reserved.
static LEN: AtomicUsize = AtomicUsize::new(0);
/// Bytes of the range that were handed to the allocator.
static USED: AtomicUsize = AtomicUsize::new(0);
/// Bytes of the range that are open, from its start on.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// Bytes for the words of a process that ends.
const LAST_BYTES: usize = 16 << 10;

/// Memory for a process that ends with a line: the thread that has the heap's lock may wait, in a `fork`, for the one that
/// says the line.
struct LastWords {
    bytes: UnsafeCell<[u8; LAST_BYTES]>,
    used: AtomicUsize,
}

// SAFETY: every byte is given out once.
unsafe impl Sync for LastWords {}

static LAST_WORDS: LastWords = LastWords {
    bytes: UnsafeCell::new([0; LAST_BYTES]),
    used: AtomicUsize::new(0),
};

impl LastWords {
    /// Memory of zeros, which is never given back; null when there is none.
    fn allocate(&self, size: usize, align: usize) -> *mut u8 {
        let start = self.bytes.get().cast::<u8>();
        let at = self
            .used
            .fetch_add(size.saturating_add(align), Ordering::Relaxed);
        let at = (start.addr() + at).next_multiple_of(align) - start.addr();
        match at.checked_add(size) {
            // SAFETY: inside of the bytes.
            Some(end) if end <= LAST_BYTES => unsafe { start.add(at) },
            _ => ptr::null_mut(),
        }
    }
}

/// The heap: one allocator behind one lock. It is used for tables that grow seldom.
pub struct Heap {
    allocator: UnsafeCell<Dlmalloc<Addresses>>,
    lock: Lock,
}

// SAFETY: the allocator is used only with the lock held.
unsafe impl Sync for Heap {}

/// A lock of one word, which a thread can hold over its fork.
struct Lock(AtomicU32);

const FREE: u32 = 0;
const HELD: u32 = 1;
const WAITED_FOR: u32 = 2;

impl Lock {
    fn acquire(&self) {
        let word = &self.0;
        if word
            .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
        {
            return;
        }
        while word.swap(WAITED_FOR, Ordering::Acquire) != FREE {
            let _ = futex::wait(word, futex::Flags::PRIVATE, WAITED_FOR, None);
        }
    }

    fn release(&self) {
        if self.0.swap(FREE, Ordering::Release) == WAITED_FOR {
            let _ = futex::wake(&self.0, futex::Flags::PRIVATE, 1);
        }
    }
}

impl Heap {
    pub const fn new() -> Self {
        Self {
            allocator: UnsafeCell::new(Dlmalloc::new_with_allocator(Addresses)),
            lock: Lock(AtomicU32::new(FREE)),
        }
    }

    fn with<R>(&self, use_it: impl FnOnce(&mut Dlmalloc<Addresses>) -> R) -> R {
        // The program calls some functions of this library with its signals open. A handler that interrupted the holder
        // of the lock and forked would wait for it forever.
        let _within = (!ReentrancyGuard::is()).then(ReentrancyGuard::enter);
        self.lock.acquire();
        // SAFETY: the lock is held, and `use_it` does not come back here.
        let result = use_it(unsafe { &mut *self.allocator.get() });
        self.lock.release();
        result
    }

    /// Holds the lock over a `fork`.
    pub fn lock(&self) {
        self.lock.acquire();
    }

    /// Gives up what [`Self::lock`] holds, in parent or child.
    pub fn unlock(&self) {
        self.lock.release();
    }

    /// Whether the heap gave out this address.
    pub fn owns(address: usize) -> bool {
        let start = START.load(Ordering::Relaxed);
        start != 0 && address.wrapping_sub(start) < LEN.load(Ordering::Relaxed)
    }

    /// The first address for stacks; none as long as nothing was allocated, or where there is no room for any.
    pub fn stacks() -> Option<usize> {
        let start = START.load(Ordering::Relaxed);
        let has_stacks = LEN.load(Ordering::Relaxed) == RANGE_BYTES;
        has_stacks.then_some(start + RANGE_BYTES - STACKS_BYTES)
    }

    /// Bytes of addresses that it has reserved.
    pub fn reserved_bytes() -> usize {
        LEN.load(Ordering::Relaxed)
    }

    /// Memory of that size and alignment; null when there is none.
    pub fn allocate(&self, size: usize, align: usize) -> *mut u8 {
        if is_dying() {
            return LAST_WORDS.allocate(size, align);
        }
        // SAFETY: the caller frees it by `free` only.
        self.with(|allocator| unsafe { allocator.malloc(size.max(1), align) })
    }

    /// Bytes that can be used at an address of the heap.
    ///
    /// # Safety
    /// The heap gave it out.
    pub unsafe fn usable(address: *mut u8) -> usize {
        // SAFETY: passed on to the caller; the size is in the word before, with its lowest bits as flags.
        let head = unsafe { address.cast::<usize>().sub(1).read() };
        (head & !7) - 2 * size_of::<usize>()
    }

    /// Gives memory back.
    ///
    /// # Safety
    /// The heap gave it out, and it is not used.
    pub unsafe fn free(&self, address: *mut u8) {
        if is_dying() {
            return;
        }
        // SAFETY: passed on to the caller.
        unsafe { empty(address) };
        // SAFETY: passed on to the caller.
        self.with(|allocator| unsafe { allocator.c_free(address) });
    }
}

// SAFETY: the allocator keeps the contract; the lock makes it one thread's at a time.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.allocate(layout.size(), layout.align())
    }

    unsafe fn dealloc(&self, address: *mut u8, _: Layout) {
        // SAFETY: passed on to the caller.
        unsafe { self.free(address) };
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_dying() {
            return self.allocate(layout.size(), layout.align());
        }
        if layout.size() >= LARGE_BYTES {
            let block = self.allocate(layout.size(), layout.align());
            if !block.is_null() {
                // SAFETY: it was just given out, and is as large as that.
                unsafe { clear(block, layout.size()) };
            }
            return block;
        }
        // SAFETY: passed on to the caller.
        self.with(|allocator| unsafe { allocator.calloc(layout.size(), layout.align()) })
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let (old, align) = (layout.size(), layout.align());
        if old < LARGE_BYTES && !is_dying() {
            // SAFETY: passed on to the caller.
            return self.with(|allocator| unsafe { allocator.realloc(address, old, align, size) });
        }
        // SAFETY: passed on to the caller.
        if !is_dying() && (old..=unsafe { Self::usable(address) }).contains(&size) {
            return address;
        }
        // A table that grows by little each time is moved seldom: addresses that nothing was written to take no memory.
        // A thread that waits for a page may wait for the thread that moves it.
        let mut new = ptr::null_mut();
        if size > old {
            new = self.allocate(size.max(2 * old), align);
        }
        if new.is_null() {
            new = self.allocate(size, align);
        }
        if !new.is_null() {
            // SAFETY: both are as large as that, and the new one is the caller's alone.
            unsafe { ptr::copy_nonoverlapping(address, new, old.min(size)) };
            // SAFETY: passed on to the caller.
            unsafe { self.free(address) };
        }
        new
    }
}

/// Gives the kernel back what a large block holds, which is about to be freed: the allocator keeps its addresses, and
/// tables that grew leave one behind each time.
///
/// # Safety
/// The heap gave it out, and it is not used.
unsafe fn empty(address: *mut u8) {
    // SAFETY: passed on to the caller.
    let usable = unsafe { Heap::usable(address) };
    if usable >= LARGE_BYTES {
        // SAFETY: passed on to the caller.
        unsafe { drop_pages(address, usable) };
    }
}

/// Fills a large block with zeros, which take no memory until something is written to them.
///
/// # Safety
/// The heap gave it out with at least so many bytes, and it is not used.
unsafe fn clear(address: *mut u8, bytes: usize) {
    // SAFETY: passed on to the caller.
    let dropped = unsafe { drop_pages(address, bytes) }.unwrap_or(0..0);
    // SAFETY: both parts are inside of the block.
    unsafe {
        address.write_bytes(0, dropped.start);
        address.add(dropped.end).write_bytes(0, bytes - dropped.end);
    }
}

/// Gives the kernel back the whole pages inside of a block: they read as zeros. Where they are in it; none where the
/// kernel keeps them.
///
/// # Safety
/// The heap gave it out with at least so many bytes, and it is not used.
unsafe fn drop_pages(address: *mut u8, bytes: usize) -> Option<Range<usize>> {
    let page = rustix::param::page_size();
    let first = address.addr().next_multiple_of(page) - address.addr();
    let end = (address.addr() + bytes) / page * page - address.addr();
    // SAFETY: inside of the block, whose content is not needed; the allocator's words are around it.
    unsafe {
        madvise(
            address.add(first).cast(),
            end - first,
            Advice::LinuxDontNeed,
        )
    }
    .ok()?;
    Some(first..end)
}

/// Where the allocator gets its memory: the range, from its start on.
struct Addresses;

/// The range, reserved when it is first asked for.
fn range() -> Option<(usize, usize)> {
    let start = START.load(Ordering::Relaxed);
    if start != 0 {
        return Some((start, LEN.load(Ordering::Relaxed)));
    }
    let len = if limits::are_addresses_limited() {
        LIMITED_BYTES
    } else {
        RANGE_BYTES
    };
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new mapping where the kernel likes.
    let mapped = unsafe { mmap_anonymous(ptr::null_mut(), len, ProtFlags::empty(), flags) }.ok()?;
    // SAFETY: it changes no content. A kernel without huge pages refuses, which is just as well.
    let _ = unsafe { madvise(mapped, len, Advice::LinuxNoHugepage) };
    let start = mapped.expose_provenance();
    LEN.store(len, Ordering::Relaxed);
    START.store(start, Ordering::Relaxed);
    Some((start, len))
}

/// Opens the range up to so many bytes; whether that is done.
fn open(start: usize, bytes: usize) -> bool {
    let opened = OPEN.load(Ordering::Relaxed);
    if bytes <= opened {
        return true;
    }
    let more = (bytes - opened).next_multiple_of(STEP_BYTES);
    let address = ptr::with_exposed_provenance_mut(start + opened);
    // SAFETY: addresses of the range that are not used yet.
    let result = unsafe { kernel::mprotect(address, more, libc::PROT_READ | libc::PROT_WRITE) };
    if result == 0 {
        OPEN.store(opened + more, Ordering::Relaxed);
    }
    result == 0
}

// SAFETY: memory of the range is handed out once, is mapped for reading and writing, and is never taken back.
unsafe impl Allocator for Addresses {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        let none = (ptr::null_mut(), 0, 0);
        let size = size.next_multiple_of(64 << 10);
        let Some((start, len)) = range() else {
            return none;
        };
        let used = USED.load(Ordering::Relaxed);
        let end = len.saturating_sub(STACKS_BYTES).max(len.min(LIMITED_BYTES));
        if end - used < size || !open(start, used + size) {
            return none;
        }
        USED.store(used + size, Ordering::Relaxed);
        (ptr::with_exposed_provenance_mut(start + used), size, 0)
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        ptr::null_mut()
    }

    fn free_part(&self, _: *mut u8, _: usize, _: usize) -> bool {
        false
    }

    fn free(&self, _: *mut u8, _: usize) -> bool {
        false
    }

    fn can_release_part(&self, _: u32) -> bool {
        false
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        4096
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::{GlobalAlloc, Layout};

    use super::{Heap, LARGE_BYTES};
    use crate::HEAP;

    #[test]
    fn a_large_block_that_grows_by_little_is_moved_seldom_and_keeps_its_content() {
        let heap = &HEAP;
        let layout = |bytes| Layout::from_size_align(bytes, 16).unwrap();
        let (first, step, last) = (LARGE_BYTES, 4096, 64 * LARGE_BYTES);
        // SAFETY: the layout is not empty.
        let mut block = unsafe { heap.alloc(layout(first)) };
        // SAFETY: the block has so many bytes.
        unsafe { block.write_bytes(1, first) };
        let mut moves = 0;
        for bytes in (first..last).step_by(step) {
            // SAFETY: the block has that layout.
            let grown = unsafe { heap.realloc(block, layout(bytes), bytes + step) };
            moves += u32::from(grown != block);
            block = grown;
            // SAFETY: these bytes are new.
            unsafe { block.add(bytes).write_bytes((bytes / step) as u8, step) };
        }
        assert!(moves <= 7, "{moves} moves");
        // SAFETY: all of it was written to.
        let content = unsafe { std::slice::from_raw_parts(block, last) };
        assert!(content[..first].iter().all(|&byte| byte == 1));
        for (number, page) in content.chunks(step).enumerate().skip(first / step) {
            assert!(page.iter().all(|&byte| byte == number as u8));
        }
        // SAFETY: as above.
        unsafe { heap.dealloc(block, layout(last)) };
    }

    #[test]
    fn a_block_that_shrinks_gives_its_rest_back() {
        let heap = &HEAP;
        let layout = |bytes| Layout::from_size_align(bytes, 16).unwrap();
        // SAFETY: the layout is not empty.
        let block = unsafe { heap.alloc(layout(8 * LARGE_BYTES)) };
        // SAFETY: as above; the result is freed with its layout.
        unsafe {
            block.write_bytes(7, 8 * LARGE_BYTES);
            let small = heap.realloc(block, layout(8 * LARGE_BYTES), LARGE_BYTES);
            assert!(Heap::usable(small) < 2 * LARGE_BYTES);
            assert_eq!(*small.add(LARGE_BYTES - 1), 7);
            heap.dealloc(small, layout(LARGE_BYTES));
        }
    }
}
