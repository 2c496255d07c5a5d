//! A model of what the kernel does with registered memory: userfaultfd(2), and madvise(2) and the page map as far as they
//! touch it.
//!
//! Contents are real: an address of the simulation is one of this process, and always accessible to the code under test.
//! What the model keeps is whether the kernel would have a page there. Where it would not, words of a pattern that no
//! program writes are all over the page, so that nothing that is read there goes unnoticed.
//!
//! One call is one step: nothing else runs while it changes memory, but a call that does a part of its work and says so
//! lets others go between the parts.

mod access;
mod pages;

pub use access::{is_present, read, share, write};

use std::collections::VecDeque;
use std::ffi::c_void;

use self::pages::{Page, Pages};
use crate::machine::{self, Wait};

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;

/// What pages hold here and there that the kernel does not have. No page with such a word is what it should be: pages are
/// read as wholes.
const POISON: u64 = 0xdbdb_dbdb_dbdb_dbdb;

/// Of so many words of such a page the first one is poison, so that no part of it is what it should be.
const WORDS_A_POISON: usize = 64;

/// How often the kernel refuses, in a thousand calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Nothing is done: the layout changes, or a page is locked (EAGAIN).
    pub again: u32,
    /// Only the front of a range is done.
    pub partial: u32,
    /// For each page of a move: it is pinned, or shared with a child, for some time (EBUSY).
    pub busy: u32,
    /// For each page of a move: the frame is moved, but the kernel says that it was not.
    pub denied: u32,
    /// No memory for a copy (ENOMEM).
    pub no_memory: u32,
    /// For each access to a missing page: its thread wakes up although the page is not there.
    pub spurious: u32,
}

/// What the kernel did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Faults that were delivered.
    pub faults: u64,
    /// Pages that were filled by a copy.
    pub copied: u64,
    /// Pages whose frame was moved in or out.
    pub moved: u64,
    /// Pages whose frame was given up.
    pub discarded: u64,
    /// Calls, or pages of them, that were refused.
    pub refused: u64,
}

#[derive(Clone, Copy, Debug)]
struct Fault {
    page: usize,
    is_write: bool,
    is_protected: bool,
    task: usize,
}

/// The state of the kernel. Pages are named by their addresses, divided by [`PAGE_BYTES`].
pub(crate) struct Kernel {
    config: Config,
    pages: Pages,
    faults: VecDeque<Fault>,
    features: u64,
    pub counts: Counts,
}

/// Faults raise SIGBUS.
const FEATURE_SIGBUS: u64 = 1 << 7;
const FEATURE_THREAD_ID: u64 = 1 << 8;
/// Every feature but those of huge pages and shared memory.
const FEATURES: u64 = 0x1_fdcf;

const DONT_WAKE: u64 = 1;
const PROTECT: u64 = 2;

impl Kernel {
    pub fn new(config: Config) -> Self {
        Self {
            config,
            pages: Pages::default(),
            faults: VecDeque::new(),
            features: 0,
            counts: Counts::default(),
        }
    }
}

fn poison(page: usize) {
    let words: *mut u64 = std::ptr::with_exposed_provenance_mut(page * PAGE_BYTES);
    for i in (0..PAGE_BYTES / 8).step_by(WORDS_A_POISON) {
        // SAFETY: registered pages are mapped for reading and writing, and no reference to a missing page exists.
        unsafe { words.add(i).write(POISON) };
    }
}

/// # Safety
/// Both are pages of this process that may be read and written; no reference to the destination exists.
unsafe fn copy_page(to: usize, from: usize) {
    let to: *mut u8 = std::ptr::with_exposed_provenance_mut(to);
    let from: *const u8 = std::ptr::with_exposed_provenance(from);
    // SAFETY: passed on to the caller.
    unsafe { to.copy_from(from, PAGE_BYTES) };
}

fn pages_of(start: usize, len: usize) -> std::ops::Range<usize> {
    start / PAGE_BYTES..(start + len) / PAGE_BYTES
}

/// A negative error number.
type Errno = i32;

/// `struct uffdio_copy` and `struct uffdio_move`.
#[repr(C)]
struct Transfer {
    to: u64,
    from: u64,
    len: u64,
    mode: u64,
    done: i64,
}

/// `struct uffdio_range`, with what follows it in other requests.
#[repr(C)]
struct Range {
    start: u64,
    len: u64,
    mode: u64,
    done: i64,
}

/// Carries out a request of the userfaultfd.
///
/// # Safety
/// As the request itself; `argument` is its structure.
pub(crate) unsafe fn ioctl(request: u64, argument: *mut c_void) -> Result<(), Errno> {
    machine::step();
    let number = request & 0xff;
    // SAFETY: each of these is the first field, or all, of the structure of its request.
    unsafe {
        match number {
            0x3f => {
                let features = argument.cast::<[u64; 3]>();
                let wanted = (*features)[1];
                (*features)[1] = FEATURES;
                machine::with(|m| m.kernel.features = wanted);
                Ok(())
            }
            // What a range has beyond its first two fields is there only in some.
            0x00..=0x02 => {
                let [start, len] = *argument.cast::<[u64; 2]>();
                let pages = pages_of(start as usize, len as usize);
                match number {
                    0x00 => register(pages),
                    0x01 => unregister(pages),
                    _ => wake(pages),
                }
                Ok(())
            }
            0x03 => copy(&mut *argument.cast()),
            0x04 => zero(&mut *argument.cast()),
            0x05 => move_pages(&mut *argument.cast()),
            0x06 => {
                let range = argument.cast::<[u64; 3]>();
                let [start, len, mode] = *range;
                protect(pages_of(start as usize, len as usize), mode & 1 != 0)
            }
            _ => Err(libc::EINVAL),
        }
    }
}

fn register(pages: std::ops::Range<usize>) {
    machine::machine(|m| {
        for page in pages {
            poison(page);
            m.kernel.pages.insert(page);
        }
    });
}

fn unregister(pages: std::ops::Range<usize>) {
    wake(pages.clone());
    unmap(pages);
}

/// Something else is mapped there.
pub(crate) fn unmap(pages: std::ops::Range<usize>) {
    machine::with(|m| {
        if !m.kernel.pages.is_empty() && pages.len() <= 1 << 16 {
            for page in pages {
                m.kernel.pages.remove(page);
            }
        }
    });
}

/// Wakes tasks that wait for pages; what they asked for is not to be read any more.
fn wake(pages: std::ops::Range<usize>) {
    machine::machine(|m| {
        let is_it = |wait| matches!(wait, Wait::Page(page) if pages.contains(&page));
        if m.wake(usize::MAX, is_it) > 0 {
            m.kernel.faults.retain(|fault| !pages.contains(&fault.page));
        }
    });
}

/// Notes what was done of a range, wakes its waiters and gives the answer of the system call.
fn finish(
    (start, len): (u64, u64),
    mode: u64,
    done: &mut i64,
    (bytes, errno): (usize, Errno),
) -> Result<(), Errno> {
    if bytes == 0 && len > 0 {
        *done = -i64::from(errno);
        return Err(errno);
    }
    *done = bytes as i64;
    if mode & DONT_WAKE == 0 {
        wake(pages_of(start as usize, bytes));
    }
    if bytes as u64 == len {
        Ok(())
    } else {
        Err(libc::EAGAIN)
    }
}

/// Fills missing pages one by one until one cannot be filled; how many bytes were, and why no more.
fn fill(start: u64, len: u64, protect: bool, with: impl Fn(usize)) -> (usize, Errno) {
    machine::machine(|m| {
        let config = m.kernel.config;
        if m.random.per_mille(config.again) {
            m.kernel.counts.refused += 1;
            return (0, libc::EAGAIN);
        }
        let pages = pages_of(start as usize, len as usize);
        for (i, page) in pages.enumerate() {
            let is_cut = i > 0 && m.random.per_mille(config.partial);
            if is_cut || m.random.per_mille(config.no_memory) {
                m.kernel.counts.refused += 1;
                return (i * PAGE_BYTES, libc::ENOMEM);
            }
            match m.kernel.pages.get_mut(page) {
                None => return (i * PAGE_BYTES, libc::ENOENT),
                Some(found) if found.is_present => return (i * PAGE_BYTES, libc::EEXIST),
                Some(found) => {
                    with(i);
                    *found = Page {
                        is_present: true,
                        is_protected: protect,
                        fills: found.fills + 1,
                        ..Page::default()
                    };
                    m.kernel.counts.copied += 1;
                }
            }
        }
        (len as usize, 0)
    })
}

/// # Safety
/// As `UFFDIO_COPY`.
unsafe fn copy(argument: &mut Transfer) -> Result<(), Errno> {
    let (to, from) = (argument.to, argument.from);
    let result = fill(to, argument.len, argument.mode & PROTECT != 0, |i| {
        let offset = i * PAGE_BYTES;
        // SAFETY: the caller vouches for both ranges.
        unsafe { copy_page(to as usize + offset, from as usize + offset) };
    });
    finish(
        (to, argument.len),
        argument.mode,
        &mut argument.done,
        result,
    )
}

/// # Safety
/// As `UFFDIO_ZEROPAGE`.
unsafe fn zero(argument: &mut Range) -> Result<(), Errno> {
    let (start, len) = (argument.start, argument.len);
    let result = fill(start, len, false, |i| {
        let address = start as usize + i * PAGE_BYTES;
        let bytes: *mut u8 = std::ptr::with_exposed_provenance_mut(address);
        // SAFETY: the caller vouches for the range.
        unsafe { bytes.write_bytes(0, PAGE_BYTES) };
    });
    finish((start, len), argument.mode, &mut argument.done, result)
}

/// # Safety
/// As `UFFDIO_MOVE`.
unsafe fn move_pages(argument: &mut Transfer) -> Result<(), Errno> {
    let (to, from, len) = (
        argument.to as usize,
        argument.from as usize,
        argument.len as usize,
    );
    let result = machine::machine(|m| {
        if m.random.per_mille(m.kernel.config.again) {
            m.kernel.counts.refused += 1;
            return (0, libc::EAGAIN);
        }
        for offset in (0..len).step_by(PAGE_BYTES) {
            if offset > 0 && m.random.per_mille(m.kernel.config.partial) {
                m.kernel.counts.refused += 1;
                return (offset, libc::EAGAIN);
            }
            // SAFETY: passed on to the caller.
            if let Err(errno) = unsafe { m.move_page(to + offset, from + offset) } {
                return (offset, errno);
            }
        }
        (len, 0)
    });
    let range = (argument.to, argument.len);
    finish(range, argument.mode, &mut argument.done, result)
}

impl machine::Machine {
    /// # Safety
    /// As `UFFDIO_MOVE`.
    unsafe fn move_page(&mut self, to: usize, from: usize) -> Result<(), Errno> {
        let config = self.kernel.config;
        let now_ns = self.now();
        let (to_page, from_page) = (to / PAGE_BYTES, from / PAGE_BYTES);
        match self.kernel.pages.get(to_page) {
            None => return Err(libc::ENOENT),
            Some(page) if page.is_present => return Err(libc::EEXIST),
            Some(_) => {}
        }
        let Some(source) = self.kernel.pages.get_mut(from_page) else {
            return Err(libc::ENOENT);
        };
        if !source.is_present {
            return Err(libc::ENOENT);
        }
        if self.random.per_mille(config.busy) {
            // A call of another thread has a reference to the frame, or a child came to have it.
            if self.random.per_mille(500) {
                source.is_shared = true;
            } else {
                source.pinned_until_ns = now_ns + self.random.below(2_000_000);
            }
        }
        if source.is_shared || source.pinned_until_ns > now_ns {
            self.kernel.counts.refused += 1;
            return Err(libc::EBUSY);
        }
        let frame = std::mem::replace(
            source,
            Page {
                fills: source.fills,
                ..Page::default()
            },
        );
        // SAFETY: passed on to the caller.
        unsafe { copy_page(to, from) };
        poison(from_page);
        if let Some(page) = self.kernel.pages.get_mut(to_page) {
            *page = Page {
                fills: page.fills + 1,
                ..frame
            };
        }
        self.kernel.counts.moved += 1;
        if self.random.per_mille(config.denied) {
            self.kernel.counts.refused += 1;
            return Err(libc::EAGAIN);
        }
        Ok(())
    }
}

fn protect(pages: std::ops::Range<usize>, on: bool) -> Result<(), Errno> {
    machine::machine(|m| {
        let config = m.kernel.config;
        if m.random.per_mille(config.again) {
            m.kernel.counts.refused += 1;
            return Err(libc::EAGAIN);
        }
        // Kernels before 6.4 take a range in one mapping only.
        if pages.len() > 1 && m.random.per_mille(config.partial) {
            m.kernel.counts.refused += 1;
            return Err(libc::ENOENT);
        }
        for page in pages.clone() {
            if let Some(page) = m.kernel.pages.get_mut(page) {
                page.is_protected = on && page.is_present;
            }
        }
        Ok(())
    })?;
    if !on {
        wake(pages);
    }
    Ok(())
}

/// Gives up the frames of a range; whether it is one of the model's.
pub(crate) fn discard(address: usize, len: usize) -> bool {
    machine::step();
    let pages = pages_of(address, len);
    machine::with(|m| {
        if m.kernel.pages.get(pages.start).is_none() {
            return false;
        }
        for page in pages {
            if let Some(found) = m.kernel.pages.get_mut(page) {
                m.kernel.counts.discarded += u64::from(found.is_present);
                *found = Page {
                    fills: found.fills,
                    ..Page::default()
                };
                poison(page);
            }
        }
        true
    })
    .unwrap_or(false)
}

/// The entry of a page in `/proc/self/pagemap`.
pub(crate) fn pagemap_entry(page: usize) -> u64 {
    machine::step();
    let exclusive = |page: &Page| if page.is_shared { 0 } else { 1 << 56 };
    machine::machine(|m| match m.kernel.pages.get(page) {
        Some(page) if page.is_present => 1 << 63 | exclusive(page),
        _ => 0,
    })
}

/// Something was written to an address, not by [`write`].
pub(crate) fn was_written(address: usize) {
    machine::with(|m| {
        if let Some(page) = m.kernel.pages.get_mut(address / PAGE_BYTES) {
            page.is_shared = false;
        }
    });
}

/// Reads one event, as the kernel lays it out; `None` when there is none.
pub(crate) fn read_event() -> Option<[u64; 4]> {
    machine::step();
    machine::machine(|m| {
        let fault = m.kernel.faults.pop_front()?;
        let flags = u64::from(fault.is_write) | u64::from(fault.is_protected) << 1;
        let thread = if m.kernel.features & FEATURE_THREAD_ID != 0 {
            fault.task as u64 + 1
        } else {
            0
        };
        Some([0x12, flags, (fault.page * PAGE_BYTES) as u64, thread])
    })
}

/// Waits for an event.
pub(crate) fn wait_event(timeout_ns: Option<u64>) {
    machine::step();
    let has_event = machine::machine(|m| !m.kernel.faults.is_empty());
    if !has_event {
        machine::block(Wait::Event, timeout_ns);
    }
}
