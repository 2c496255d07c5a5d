//! `mmap` and friends: large private anonymous mappings are made in the space, and those of files where they are
//! asked for (`files`).

pub mod advice;

use std::ffi::c_void;
use std::ops::Range;
use std::ptr;

use libc::{MAP_FAILED, c_int, off_t, size_t};
use warmswap_page::PAGE_BYTES;
use warmswap_program::{Over, Protection, Space, SpaceError};
use warmswap_uffd::PagedError;

use crate::kernel::{self, errno, fail, keeping_errno};
use crate::reentrancy::ReentrancyGuard;
use crate::{attributes, files, filters, hints, keeper, kept, limits, settings, stacks};

/// Mappings smaller than this are the kernel's, but for those within the space. The heap of Ruby 3.1 consists of mappings of
/// 32 KiB.
pub const LARGE_BYTES: usize = 16 << 10;

/// For a mapping of so much the kernel is asked whether there may be so much: to it the space is one mapping, and
/// nothing of that counts before it is used.
pub const HUGE_BYTES: usize = 1 << 30;

/// With any of these a mapping is not ours.
pub const NOT_OURS: c_int = libc::MAP_SHARED
    | libc::MAP_GROWSDOWN
    | libc::MAP_HUGETLB
    | libc::MAP_LOCKED
    | libc::MAP_STACK
    | FIRST_2_GIB;

/// Addresses in the first 2 GiB, where a processor has such a flag.
#[cfg(target_arch = "x86_64")]
const FIRST_2_GIB: c_int = libc::MAP_32BIT;
#[cfg(not(target_arch = "x86_64"))]
const FIRST_2_GIB: c_int = 0;

/// The space, for a call of the program's; `None` when the call is the kernel's business: what was mapped in the space is the
/// kernel's memory where the program is left alone.
pub fn space() -> Option<&'static Space> {
    let is_ours = !ReentrancyGuard::is() && !filters::is_left_alone();
    is_ours.then(settings::space).flatten()
}

/// No program has memory behind it. (Where addresses have more bits, the kernel gives those to programs only that hint at
/// them.)
#[cfg(target_arch = "x86_64")]
const ADDRESSES_END: usize = (1 << 47) - PAGE_BYTES;
#[cfg(not(target_arch = "x86_64"))]
const ADDRESSES_END: usize = 1 << 52;

/// A range of whole pages; `None` if the kernel would not have it.
pub fn whole_pages(address: *mut c_void, len: size_t) -> Option<Range<usize>> {
    let start = address.addr();
    let len = len.checked_next_multiple_of(PAGE_BYTES)?;
    let end = start.checked_add(len).filter(|&end| end <= ADDRESSES_END)?;
    (start.is_multiple_of(PAGE_BYTES) && len > 0).then_some(start..end)
}

/// The part of a range that is in the space, and the parts before and behind.
pub fn split(space: &Space, range: &Range<usize>) -> (Range<usize>, [Range<usize>; 2]) {
    let ours = space.range();
    let start = range.start.clamp(ours.start, ours.end);
    let end = range.end.clamp(start, ours.end);
    if start == end {
        return (start..start, [range.clone(), 0..0]);
    }
    (start..end, [range.start..start, end..range.end])
}

pub fn errno_of(error: &SpaceError) -> c_int {
    match error {
        SpaceError::InUse { .. } => libc::EEXIST,
        SpaceError::NotOurs { .. } => libc::EINVAL,
        // What it does not take, or not of this memory: such as protections that there are not.
        SpaceError::Memory(PagedError::Map { source, .. }) => match source.raw_os_error() {
            Some(errno @ (libc::EINVAL | libc::EPERM | libc::EACCES)) => errno,
            _ => libc::ENOMEM,
        },
        _ => libc::ENOMEM,
    }
}

pub fn protection_of(bits: c_int) -> Protection {
    Protection(bits as u32)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mmap(
    address: *mut c_void,
    len: size_t,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: off_t,
) -> *mut c_void {
    keeping_errno(MAP_FAILED, || {
        // SAFETY: passed on to the caller.
        unsafe { map(address, len, protection, flags, (file, offset)) }
    })
}

/// # Safety
/// As for `mmap`.
unsafe fn map(
    address: *mut c_void,
    len: size_t,
    protection: c_int,
    flags: c_int,
    of: (c_int, off_t),
) -> *mut c_void {
    // An offset within a page the kernel refuses.
    let is_sound = (of.1 as usize).is_multiple_of(PAGE_BYTES);
    let (Some(space), Some(range), true) = (space(), whole_pages(address, len), is_sound) else {
        // SAFETY: passed on to the caller.
        return unsafe { kernel::mmap(address, len, protection, flags, of) };
    };
    let wanted = Wanted {
        range,
        protection,
        flags,
        of,
    };
    let mapped = if flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) != 0 {
        map_over(space, &wanted)
    } else if !limits::allow(space, wanted.range.len()) {
        fail(libc::ENOMEM);
        Some(MAP_FAILED)
    } else if wanted.is_ours() && len >= LARGE_BYTES {
        map_anywhere(space, &wanted)
    } else if address.is_null() && files::is_ours(len, protection, flags) {
        Some(files::map(space, &wanted.range, flags, of))
    } else {
        None
    };
    // SAFETY: passed on to the caller.
    mapped.unwrap_or_else(|| unsafe { wanted.by_kernel(flags) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mmap64(
    address: *mut c_void,
    len: size_t,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: off_t,
) -> *mut c_void {
    // SAFETY: passed on to the caller.
    unsafe { mmap(address, len, protection, flags, file, offset) }
}

/// A mapping that the program asks for.
struct Wanted {
    /// Whole pages.
    range: Range<usize>,
    protection: c_int,
    flags: c_int,
    /// The file, and where it begins.
    of: (c_int, off_t),
}

impl Wanted {
    fn address(&self) -> *mut c_void {
        ptr::with_exposed_provenance_mut(self.range.start)
    }

    /// Whether it is of the kind that the space has.
    fn is_ours(&self) -> bool {
        self.flags & libc::MAP_PRIVATE != 0
            && self.flags & libc::MAP_ANONYMOUS != 0
            && self.flags & NOT_OURS == 0
            && self.protection & !(libc::PROT_READ | libc::PROT_WRITE) == 0
    }

    /// Whether the kernel maps it, wherever that is; if not, the error number says why.
    fn is_possible(&self) -> bool {
        const NOT_TRIED: c_int =
            libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE | libc::MAP_POPULATE | libc::MAP_LOCKED;
        let (len, flags) = (self.range.len(), self.flags & !NOT_TRIED);
        // SAFETY: a new mapping at an address of the kernel's choice, which no other code knows of.
        unsafe {
            let tried = kernel::mmap(ptr::null_mut(), len, self.protection, flags, self.of);
            tried != MAP_FAILED && kernel::munmap(tried, len) == 0
        }
    }

    /// Has the kernel map it, with these flags.
    ///
    /// # Safety
    /// As for `mmap`.
    unsafe fn by_kernel(&self, flags: c_int) -> *mut c_void {
        let (address, len) = (self.address(), self.range.len());
        // SAFETY: passed on to the caller.
        unsafe { kernel::mmap(address, len, self.protection, flags, self.of) }
    }
}

/// Whether it is more than the kernel gives a program.
pub fn is_too_much(bytes: usize) -> bool {
    bytes >= HUGE_BYTES && !can_be_had(bytes)
}

fn can_be_had(bytes: usize) -> bool {
    let wanted = Wanted {
        range: 0..bytes,
        protection: libc::PROT_READ | libc::PROT_WRITE,
        flags: libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        of: (-1, 0),
    };
    wanted.is_possible()
}

/// Maps where the program says; `None` where nothing of that is in the space.
fn map_over(space: &Space, wanted: &Wanted) -> Option<*mut c_void> {
    let (within, outside) = split(space, &wanted.range);
    if within.is_empty() {
        return None;
    }
    // Before what is there is given up for it.
    if !wanted.is_ours() && !wanted.is_possible() {
        return Some(MAP_FAILED);
    }
    let is_there = || stacks::call(space, || space.mapped_in(within.start, within.len()));
    if limits::are_set() && !limits::allow(space, wanted.range.len() - is_there()) {
        fail(libc::ENOMEM);
        return Some(MAP_FAILED);
    }
    let keeps = wanted.flags & libc::MAP_FIXED_NOREPLACE == libc::MAP_FIXED_NOREPLACE;
    let is_ours = wanted.is_ours() && outside.iter().all(Range::is_empty);
    let held = if keeps { hold(&outside) } else { Ok(()) };
    let placed = held.and_then(|()| {
        let placed = map_fixed(space, within, is_ours, (wanted.protection, keeps));
        placed.inspect_err(|_| let_go(keeps, &outside))
    });
    match placed {
        Ok(true) => return Some(wanted.address()),
        Ok(false) => {}
        Err(errno) => {
            fail(errno);
            return Some(MAP_FAILED);
        }
    }
    // It replaces the inaccessible mapping that the space has there.
    let flags = wanted.flags & !libc::MAP_FIXED_NOREPLACE | libc::MAP_FIXED;
    // SAFETY: the program wants it there.
    let mapped = unsafe { wanted.by_kernel(flags) };
    if mapped == MAP_FAILED {
        give_up(wanted.address(), wanted.range.len());
    }
    Some(mapped)
}

/// Maps in the space where there is room; `None` when there is none, or the program insists on the address that it
/// hints at.
fn map_anywhere(space: &Space, wanted: &Wanted) -> Option<*mut c_void> {
    let (start, len, protection) = (wanted.range.start, wanted.range.len(), wanted.protection);
    if len >= HUGE_BYTES && !wanted.is_possible() {
        return Some(MAP_FAILED);
    }
    let address = stacks::call(space, || {
        let hint = (start != 0).then_some(start);
        if hint.is_some_and(|hint| hints::are_meant(hint, protection)) {
            return None;
        }
        let address = space.map(hint, len, protection_of(protection)).ok()?;
        attributes::forget(address, len);
        keeper::mapped(space);
        hints::mapped(hint, address);
        Some(address)
    })?;
    let memory = ptr::with_exposed_provenance_mut(address);
    if wanted.flags & libc::MAP_POPULATE != 0 {
        // SAFETY: it was just mapped. That it cannot be filled at once is no failure.
        unsafe { kernel::madvise(memory, len, libc::MADV_POPULATE_WRITE) };
    }
    Some(memory)
}

/// Takes addresses outside of the space; all of them have to be free.
fn hold(outside: &[Range<usize>; 2]) -> Result<(), c_int> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let flags = flags | libc::MAP_FIXED_NOREPLACE;
    for (i, range) in outside.iter().enumerate().filter(|(_, r)| !r.is_empty()) {
        let address: *mut c_void = ptr::with_exposed_provenance_mut(range.start);
        // SAFETY: it replaces nothing.
        let held = unsafe { kernel::mmap(address, range.len(), libc::PROT_NONE, flags, (-1, 0)) };
        if held != address {
            let errno = errno();
            let_go(i == 1, &[outside[0].clone(), 0..0]);
            return Err(errno);
        }
    }
    Ok(())
}

/// What was to be mapped was not: the addresses are free. Keeps the error number.
pub fn give_up(address: *mut c_void, len: size_t) {
    let why = errno();
    // SAFETY: the program wanted something else there.
    unsafe { munmap(address, len) };
    fail(why);
}

/// Gives addresses up that [`hold`] took.
fn let_go(are_held: bool, outside: &[Range<usize>; 2]) {
    for range in outside.iter().filter(|range| are_held && !range.is_empty()) {
        // SAFETY: they were taken just now, and no other code knows of them.
        unsafe { kernel::munmap(ptr::with_exposed_provenance_mut(range.start), range.len()) };
    }
}

/// Maps at addresses of the space: true when it is done, false when the kernel has to, since the mapping is of
/// another kind; the space does not have the addresses then.
fn map_fixed(
    space: &Space,
    range: Range<usize>,
    is_ours: bool,
    (protection, keeps): (c_int, bool),
) -> Result<bool, c_int> {
    let (start, len) = (range.start, range.len());
    let over = if keeps { Over::Nothing } else { Over::Anything };
    let map = || {
        if is_ours {
            match space.map_at(start, len, protection_of(protection), over) {
                Ok(()) => {
                    attributes::forget(start, len);
                    keeper::mapped(space);
                    return Ok(true);
                }
                Err(SpaceError::NotOurs { .. }) => {}
                Err(error) => return Err(errno_of(&error)),
            }
        }
        let given = space.give_away(start, len, over);
        given.map(|()| false).map_err(|error| errno_of(&error))
    };
    stacks::call(space, map)
}

/// Does to a range of the program's what a call asks for: `ours` where the space has it, `theirs` elsewhere, ascending. The
/// first failure is the call's, and ends it.
fn on_both(
    (address, len): (*mut c_void, size_t),
    ours: impl FnOnce(&'static Space, &Range<usize>) -> c_int,
    theirs: impl Fn(*mut c_void, size_t) -> c_int,
) -> c_int {
    let (Some(space), Some(range)) = (space(), whole_pages(address, len)) else {
        return theirs(address, len);
    };
    let (within, [before, behind]) = split(space, &range);
    let outside = |range: Range<usize>| match range.len() {
        0 => 0,
        len => theirs(ptr::with_exposed_provenance_mut(range.start), len),
    };
    keeping_errno(-1, || {
        let mut done = outside(before);
        if done == 0 && !within.is_empty() {
            done = ours(space, &within);
        }
        if done == 0 { outside(behind) } else { done }
    })
}

/// What the program is told of what was done with its memory.
fn answer(result: Result<(), SpaceError>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => fail(errno_of(&error)),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn munmap(address: *mut c_void, len: size_t) -> c_int {
    let ours =
        |space: &Space, range: &Range<usize>| stacks::call(space, || unmap_ours(space, range));
    on_both((address, len), ours, |address, len| {
        // SAFETY: passed on to the caller.
        unsafe { kernel::munmap(address, len) }
    })
}

fn unmap_ours(space: &Space, range: &Range<usize>) -> c_int {
    hints::unmapped(range.start);
    let done = answer(space.unmap(range.start, range.len()));
    if done == 0 {
        attributes::unmapped(range);
    }
    done
}

/// Unmaps memory that the program uses no more, by a thread of the library's.
pub fn unmap_within(space: &Space, address: *mut c_void, len: size_t) {
    let range = address.addr()..address.addr() + len;
    let (within, outside) = split(space, &range);
    if !within.is_empty() {
        unmap_ours(space, &within);
    }
    for range in outside.iter().filter(|range| !range.is_empty()) {
        // SAFETY: the caller's memory, which is used no more.
        unsafe { kernel::munmap(ptr::with_exposed_provenance_mut(range.start), range.len()) };
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mprotect(address: *mut c_void, len: size_t, protection: c_int) -> c_int {
    let ours = |space: &'static Space, range: &Range<usize>| {
        stacks::call(space, || {
            let done = answer(space.protect(range.start, range.len(), protection_of(protection)));
            if done == 0 {
                keeper::mapped(space);
            }
            done
        })
    };
    on_both((address, len), ours, |address, len| {
        // SAFETY: passed on to the caller.
        unsafe { kernel::mprotect(address, len, protection) }
    })
}

/// Whether there is such a key, and memory can be protected so: tried with a page of its own, so that a call that fails
/// changes nothing of the program's.
fn has_key(protection: c_int, key: c_int) -> Result<(), c_int> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address of the kernel's choice, which no other code knows of.
    unsafe {
        let tried = kernel::mmap(ptr::null_mut(), PAGE_BYTES, libc::PROT_NONE, flags, (-1, 0));
        if tried == MAP_FAILED {
            return Err(errno());
        }
        let done = kernel::pkey_mprotect(tried, PAGE_BYTES, protection, key);
        let errno = errno();
        kernel::munmap(tried, PAGE_BYTES);
        if done == 0 { Ok(()) } else { Err(errno) }
    }
}

/// Memory that has a protection key stays where it is: it could not be moved.
#[unsafe(no_mangle)]
unsafe extern "C" fn pkey_mprotect(
    address: *mut c_void,
    len: size_t,
    protection: c_int,
    key: c_int,
) -> c_int {
    if key == -1 {
        // SAFETY: passed on to the caller. Without a key it is the same.
        return unsafe { mprotect(address, len, protection) };
    }
    let with_key = |address, len| {
        // SAFETY: passed on to the caller.
        unsafe { kernel::pkey_mprotect(address, len, protection, key) }
    };
    let ours = |space: &'static Space, range: &Range<usize>| {
        if let Err(errno) = has_key(protection, key) {
            return fail(errno);
        }
        attributes::have_keys();
        let before = stacks::call(space, || space.protection(range.start, range.len()));
        let address = ptr::with_exposed_provenance_mut(range.start);
        // What is away comes back before it has a key. From then on it cannot be moved, whatever else is said of it.
        if before == Some(Protection::READ_WRITE) {
            // Other threads may write to it meanwhile.
            kept::keep(range.start, range.len());
            return with_key(address, range.len());
        }
        // What can only be read stays, too.
        let protect = || answer(space.protect(range.start, range.len(), Protection::READ));
        let done = stacks::call(space, protect);
        if done != 0 {
            return done;
        }
        // SAFETY: it changes no content.
        unsafe { kernel::madvise(address, range.len(), libc::MADV_POPULATE_READ) };
        with_key(address, range.len())
    };
    on_both((address, len), ours, with_key)
}
