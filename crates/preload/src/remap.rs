//! `mremap` of mappings in the space.

use std::ffi::c_void;
use std::ops::Range;
use std::ptr;

use libc::{MAP_FAILED, c_int, size_t};
use warmswap_page::PAGE_BYTES;
use warmswap_process::{Over, Protection, Space, SpaceError};

use crate::kernel::{self, fail};
use crate::mapping::{errno_of, space, split, whole_pages};
use crate::{attributes, files, stacks};

/// Bytes that are moved at a time: as much is there twice at most.
const STEP_BYTES: usize = 256 << 10;

fn failed(errno: c_int) -> *mut c_void {
    fail(errno);
    MAP_FAILED
}

/// The C library declares the last parameter as a variable one; it is passed in the same place.
#[unsafe(no_mangle)]
unsafe extern "C" fn mremap(
    address: *mut c_void,
    old: size_t,
    new: size_t,
    flags: c_int,
    to: *mut c_void,
) -> *mut c_void {
    let fixed = flags & libc::MREMAP_FIXED != 0;
    let ours = space().and_then(|space| {
        let from = whole_pages(address, old)?;
        let target = if fixed { whole_pages(to, new) } else { None };
        let touched = |range: &Range<usize>| !split(space, range).0.is_empty();
        (touched(&from) || target.as_ref().is_some_and(touched)).then_some((space, from, target))
    });
    let Some((space, from, target)) = ours else {
        // SAFETY: passed on to the caller.
        return unsafe { kernel::mremap(address, old, new, flags, to) };
    };
    if let Some(target) = target.as_ref().filter(|_| split(space, &from).0.is_empty()) {
        // A map of the kernel's is to replace something in the space.
        let (within, _) = split(space, target);
        let give = || space.give_away(within.start, within.len(), Over::Anything);
        let given = stacks::call(space, give);
        if let Err(error) = given {
            return failed(errno_of(&error));
        }
        // SAFETY: passed on to the caller.
        return unsafe { kernel::mremap(address, old, new, flags, to) };
    }
    let Some(bytes) = new.checked_next_multiple_of(PAGE_BYTES).filter(|&n| n > 0) else {
        return failed(libc::EINVAL);
    };
    let can_move = flags & libc::MREMAP_MAYMOVE != 0;
    if flags & !(libc::MREMAP_FIXED | libc::MREMAP_MAYMOVE) != 0 || (fixed && !can_move) {
        return failed(libc::EINVAL);
    }
    let moved = files::remap(space, &from, bytes, flags, target.as_ref());
    let result = moved.unwrap_or_else(|| match target {
        Some(target) => relocate(space, &from, target),
        None if bytes <= from.len() => shrink(&from, bytes),
        None => grow(space, &from, bytes).or_else(|errno| {
            if !can_move {
                return Err(errno);
            }
            let map = || space.map(None, bytes, Protection::READ_WRITE);
            let to = stacks::call(space, map).map_err(|error| errno_of(&error))?;
            relocate(space, &from, to..to + bytes)
        }),
    });
    match result {
        Ok(address) => ptr::with_exposed_provenance_mut(address),
        Err(errno) => failed(errno),
    }
}

fn shrink(from: &Range<usize>, bytes: usize) -> Result<usize, c_int> {
    let tail = from.start + bytes..from.end;
    let address = ptr::with_exposed_provenance_mut(tail.start);
    // SAFETY: the program's own range, some of which may be outside of the space; it does not want it any more.
    if !tail.is_empty() && unsafe { libc::munmap(address, tail.len()) } != 0 {
        // SAFETY: the location is the calling thread's own and always valid.
        return Err(unsafe { *libc::__errno_location() });
    }
    Ok(from.start)
}

/// Grows in place.
fn grow(space: &Space, from: &Range<usize>, bytes: usize) -> Result<usize, c_int> {
    let more = bytes - from.len();
    let ours = space.range();
    if from.start < ours.start || from.end + more > ours.end {
        return Err(libc::ENOMEM);
    }
    stacks::call(space, || {
        let Some(protection) = space.protection(from.start) else {
            return Err(libc::EFAULT);
        };
        match space.map_at(from.end, more, protection, Over::Nothing) {
            Ok(()) => {
                attributes::forget(from.end, more);
                Ok(from.start)
            }
            Err(SpaceError::InUse { .. }) => Err(libc::ENOMEM),
            Err(error) => Err(errno_of(&error)),
        }
    })
}

/// Moves the content to another place, which replaces what is there, and unmaps the old one.
fn relocate(space: &Space, from: &Range<usize>, to: Range<usize>) -> Result<usize, c_int> {
    if from.start < to.end && to.start < from.end {
        return Err(libc::EINVAL);
    }
    let protection = space
        .range()
        .contains(&from.start)
        .then(|| stacks::call(space, || space.protection(from.start)))
        .flatten()
        .unwrap_or(Protection::READ_WRITE);
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let target = ptr::with_exposed_provenance_mut(to.start);
    let source: *mut c_void = ptr::with_exposed_provenance_mut(from.start);
    // SAFETY: the program wants its memory there, in place of what is there; both ranges are the program's.
    unsafe {
        if libc::mmap(target, to.len(), access, flags, -1, 0) == MAP_FAILED
            || libc::mprotect(source, from.len(), access) != 0
        {
            return Err(*libc::__errno_location());
        }
    }
    let bytes = from.len().min(to.len());
    for start in (0..bytes).step_by(STEP_BYTES) {
        let len = STEP_BYTES.min(bytes - start);
        // SAFETY: both are mapped for reading and writing and do not overlap.
        unsafe {
            copy(source.byte_add(start), target.byte_add(start), len);
            libc::madvise(source.byte_add(start), len, libc::MADV_DONTNEED);
        }
    }
    // SAFETY: the program's own ranges, as it wants them.
    unsafe {
        if protection != Protection::READ_WRITE {
            libc::mprotect(target, to.len(), protection.0 as c_int);
        }
        libc::munmap(source, from.len());
    }
    Ok(to.start)
}

/// Copies whole pages to fresh ones; those of zeros stay as they are.
///
/// # Safety
/// As `ptr::copy_nonoverlapping`, of `len` bytes.
unsafe fn copy(from: *mut c_void, to: *mut c_void, len: usize) {
    for start in (0..len).step_by(PAGE_BYTES) {
        // SAFETY: passed on to the caller.
        unsafe {
            let page = from.byte_add(start).cast::<[u64; PAGE_BYTES / 8]>();
            if (*page).iter().any(|&word| word != 0) {
                page.copy_to_nonoverlapping(to.byte_add(start).cast(), 1);
            }
        }
    }
}
