//! `mremap` of mappings in the space.

use std::ffi::c_void;
use std::ops::Range;
use std::ptr;

use libc::{MAP_FAILED, c_int, size_t};
use warmswap_page::PAGE_BYTES;
use warmswap_program::{Over, Protection, Space, SpaceError};

use crate::kernel::{self, errno, fail, keeping_errno};
use crate::mapping::{errno_of, give_up, space, split, whole_pages};
use crate::{attributes, files, keeper, limits, mover, stacks};

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
    keeping_errno(MAP_FAILED, || {
        // SAFETY: passed on to the caller.
        unsafe { remap_all(address, old, new, flags, to) }
    })
}

/// # Safety
/// As for `mremap`.
unsafe fn remap_all(
    address: *mut c_void,
    old: size_t,
    new: size_t,
    flags: c_int,
    to: *mut c_void,
) -> *mut c_void {
    let fixed = flags & libc::MREMAP_FIXED != 0;
    let ours = space().and_then(|space| {
        let from = source(address, old)?;
        let target = if fixed { whole_pages(to, new) } else { None };
        let touched = |range: &Range<usize>| !split(space, range).0.is_empty();
        (touched(&from) || target.as_ref().is_some_and(touched)).then_some((space, from, target))
    });
    let Some((space, from, target)) = ours else {
        // SAFETY: passed on to the caller.
        return unsafe { kernel::mremap(address, old, new, flags, to) };
    };
    let bytes = new_bytes(&from, new, flags, target.is_some())
        .filter(|_| can_be_source(space, &from))
        .ok_or(libc::EINVAL);
    let result = bytes.and_then(|bytes| match target {
        Some(target) if split(space, &from).0.is_empty() => replace(space, &from, &target, flags),
        target => remap(space, &from, bytes, flags, target),
    });
    match result {
        Ok(address) => ptr::with_exposed_provenance_mut(address),
        Err(errno) => failed(errno),
    }
}

/// What is to be elsewhere. An old size of 0 asks for a second view of what is shared there, so that nothing is taken away.
fn source(address: *mut c_void, old: size_t) -> Option<Range<usize>> {
    match old {
        0 => whole_pages(address, PAGE_BYTES).map(|page| page.start..page.start),
        old => whole_pages(address, old),
    }
}

/// Whether there can be a second view of the source, if that is asked for: the space's own memory is not shared.
fn can_be_source(space: &Space, from: &Range<usize>) -> bool {
    let is_foreign = || space.is_foreign(from.start, PAGE_BYTES);
    !from.is_empty() || !space.range().contains(&from.start) || stacks::call(space, is_foreign)
}

/// A mapping of the kernel's takes the place of something in the space.
fn replace(
    space: &Space,
    from: &Range<usize>,
    target: &Range<usize>,
    flags: c_int,
) -> Result<usize, c_int> {
    if from.start < target.end && target.start < from.end {
        return Err(libc::EINVAL);
    }
    let (within, _) = split(space, target);
    let give = || space.give_away(within.start, within.len(), Over::Anything);
    stacks::call(space, give).map_err(|error| errno_of(&error))?;
    let source = ptr::with_exposed_provenance_mut(from.start);
    let to = ptr::with_exposed_provenance_mut(target.start);
    // SAFETY: the program wants its mapping there.
    let moved = unsafe { kernel::mremap(source, from.len(), target.len(), flags, to) };
    if moved == MAP_FAILED {
        give_up(to, target.len());
        return Err(errno());
    }
    Ok(moved.expose_provenance())
}

/// Does as `mremap` with a range that is in the space in part; where it is then.
fn remap(
    space: &Space,
    from: &Range<usize>,
    bytes: usize,
    flags: c_int,
    target: Option<Range<usize>>,
) -> Result<usize, c_int> {
    let moved = files::remap(space, from, bytes, flags, target.as_ref())
        .or_else(|| remap_foreign(space, from, bytes, flags, target.as_ref()));
    if let Some(moved) = moved {
        return moved;
    }
    let keeps = flags & libc::MREMAP_DONTUNMAP != 0;
    if let Some(target) = target {
        return relocate(space, from, target, keeps);
    }
    if bytes <= from.len() && !keeps {
        return shrink(space, from, bytes);
    }
    match grow(space, from, bytes) {
        Err(libc::ENOMEM)
            if flags & libc::MREMAP_MAYMOVE != 0
                && limits::allow(space, bytes.saturating_sub(from.len())) =>
        {
            let map = || space.map(None, bytes, Protection::READ_WRITE);
            let to = stacks::call(space, map).map_err(|error| errno_of(&error))?;
            let moved = relocate(space, from, to..to + bytes, keeps);
            if moved.is_err() {
                give_up(ptr::with_exposed_provenance_mut(to), bytes);
            }
            moved
        }
        grown => {
            stacks::call(space, || keeper::mapped(space));
            grown
        }
    }
}

/// Bytes of the range as it is to be; `None` for what the kernel does not take (EINVAL).
fn new_bytes(from: &Range<usize>, new: usize, flags: c_int, has_target: bool) -> Option<usize> {
    let bytes = new.checked_next_multiple_of(PAGE_BYTES)?;
    let fixed = flags & libc::MREMAP_FIXED != 0;
    let can_move = flags & libc::MREMAP_MAYMOVE != 0;
    let keeps = flags & libc::MREMAP_DONTUNMAP != 0;
    let known = libc::MREMAP_FIXED | libc::MREMAP_MAYMOVE | libc::MREMAP_DONTUNMAP;
    let is_sound = bytes > 0
        && flags & !known == 0
        && (can_move || !fixed && !keeps)
        && (!fixed || has_target)
        && (!keeps || bytes == from.len());
    is_sound.then_some(bytes)
}

/// What the program mapped over addresses of the space, or across its end, is the kernel's, which moves it as it is: it may
/// be shared. `None` for other ranges, and for one that only becomes shorter.
fn remap_foreign(
    space: &Space,
    from: &Range<usize>,
    bytes: usize,
    flags: c_int,
    target: Option<&Range<usize>>,
) -> Option<Result<usize, c_int>> {
    let shrinks = target.is_none() && bytes <= from.len() && flags & libc::MREMAP_DONTUNMAP == 0;
    let (ours, _) = split(space, from);
    let is_foreign = || space.is_foreign(ours.start, ours.len());
    if shrinks || !stacks::call(space, is_foreign) {
        return None;
    }
    if let Some(target) = target {
        if from.start < target.end && target.start < from.end {
            return Some(Err(libc::EINVAL));
        }
        let (within, _) = split(space, target);
        let give = || space.give_away(within.start, within.len(), Over::Anything);
        if !within.is_empty()
            && let Err(error) = stacks::call(space, give)
        {
            return Some(Err(errno_of(&error)));
        }
    }
    let source: *mut c_void = ptr::with_exposed_provenance_mut(from.start);
    let to = ptr::with_exposed_provenance_mut(target.map_or(0, |target| target.start));
    // SAFETY: the program's own mapping, which it wants there.
    let moved = unsafe { kernel::mremap(source, from.len(), bytes, flags, to) };
    if moved == MAP_FAILED {
        if let Some(target) = target {
            give_up(to, target.len());
        }
        return Some(Err(errno()));
    }
    if moved != source && flags & libc::MREMAP_DONTUNMAP == 0 {
        // The addresses are the space's again.
        // SAFETY: nothing is there any more.
        unsafe { libc::munmap(ptr::with_exposed_provenance_mut(ours.start), ours.len()) };
    }
    Some(Ok(moved.expose_provenance()))
}

fn shrink(space: &Space, from: &Range<usize>, bytes: usize) -> Result<usize, c_int> {
    let is_there = || space.has_mapped(from.start, PAGE_BYTES);
    if space.range().contains(&from.start) && !stacks::call(space, is_there) {
        return Err(libc::EFAULT);
    }
    let tail = from.start + bytes..from.end;
    let address = ptr::with_exposed_provenance_mut(tail.start);
    // SAFETY: the program's own range, maybe outside of the space in part; it does not want it any more.
    if !tail.is_empty() && unsafe { libc::munmap(address, tail.len()) } != 0 {
        return Err(errno());
    }
    Ok(from.start)
}

/// Grows in place.
fn grow(space: &Space, from: &Range<usize>, bytes: usize) -> Result<usize, c_int> {
    let end = from.start.checked_add(bytes).ok_or(libc::ENOMEM)?;
    let more = end - from.end;
    if !limits::allow(space, more) {
        return Err(libc::ENOMEM);
    }
    let ours = space.range();
    if more == 0 || from.start < ours.start || end > ours.end {
        return Err(libc::ENOMEM);
    }
    stacks::call(space, || {
        let Some(protection) = space.protection(from.start, from.len()) else {
            return Err(libc::EFAULT);
        };
        match space.map_at(from.end, more, protection, Over::Nothing) {
            Ok(()) => {
                attributes::forget(from.end, more);
                Ok(from.start)
            }
            // Something is there, or was a moment ago.
            Err(SpaceError::InUse { .. } | SpaceError::NotOurs { .. }) => Err(libc::ENOMEM),
            Err(error) => Err(errno_of(&error)),
        }
    })
}

/// Moves the content to another place, which replaces what is there. The old one is unmapped, or reads as zeros if the
/// program `keeps` it.
fn relocate(
    space: &Space,
    from: &Range<usize>,
    to: Range<usize>,
    keeps: bool,
) -> Result<usize, c_int> {
    if from.start < to.end && to.start < from.end {
        return Err(libc::EINVAL);
    }
    let (within, _) = split(space, from);
    let protection = || space.protection(within.start, within.len());
    // The kernel moves what is one mapping.
    let protection = stacks::call(space, protection).ok_or(libc::EFAULT)?;
    if protection == Protection::READ_WRITE
        && let Some(moved) = relocate_at_once(space, from, &to, keeps)
    {
        return moved;
    }
    if keeps && protection == Protection::READ_WRITE && !is_ours(space, from, &to) {
        // A copy would lose what other threads write meanwhile. The kernel says so of what is several mappings to it.
        return Err(libc::EFAULT);
    }
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let target = ptr::with_exposed_provenance_mut(to.start);
    let source: *mut c_void = ptr::with_exposed_provenance_mut(from.start);
    let open_both = || {
        // SAFETY: the program wants its memory there, in place of what is there; both ranges are the program's.
        let is_open = unsafe {
            libc::mmap(target, to.len(), access, flags, -1, 0) != MAP_FAILED
                && libc::mprotect(source, from.len(), access) == 0
        };
        if is_open { Ok(()) } else { Err(errno()) }
    };
    open_both()?;
    // Both are memory that is read and written by now.
    let moved = relocate_at_once(space, from, &to, true).transpose()?;
    if moved.is_none() && keeps && protection == Protection::READ_WRITE {
        return Err(libc::EFAULT);
    }
    if moved.is_none() {
        // A kernel that refused may have unmapped the new place.
        open_both()?;
        let bytes = from.len().min(to.len());
        for start in (0..bytes).step_by(STEP_BYTES) {
            let len = STEP_BYTES.min(bytes - start);
            // SAFETY: both are mapped for reading and writing and do not overlap.
            unsafe {
                copy(source.byte_add(start), target.byte_add(start), len);
                libc::madvise(source.byte_add(start), len, libc::MADV_DONTNEED);
            }
        }
    }
    // SAFETY: the program's own ranges, as it wants them.
    unsafe {
        if protection != Protection::READ_WRITE {
            libc::mprotect(target, to.len(), protection.0 as c_int);
        }
        if !keeps {
            libc::munmap(source, from.len());
        } else if protection != Protection::READ_WRITE {
            libc::mprotect(source, from.len(), protection.0 as c_int);
        }
    }
    Ok(to.start)
}

fn is_ours(space: &Space, from: &Range<usize>, to: &Range<usize>) -> bool {
    [from, to]
        .iter()
        .all(|range| split(space, range).0 == **range)
}

/// The same without a moment in which another thread's write is lost, or the new place reads as zeros. `None` where it cannot
/// be done so: one of the places is not all in the space, or the kernel cannot.
fn relocate_at_once(
    space: &Space,
    from: &Range<usize>,
    to: &Range<usize>,
    keeps: bool,
) -> Option<Result<usize, c_int>> {
    if !is_ours(space, from, to) {
        return None;
    }
    let head = from.len().min(to.len());
    let moved = stacks::call(space, || {
        let tail = to.start + head..to.end;
        let map = |over| space.map_at(tail.start, tail.len(), Protection::READ_WRITE, over);
        // Where something foreign is in the way it is given up first.
        if !tail.is_empty() && map(Over::Anything).is_err() {
            return Ok(false);
        }
        attributes::forget(to.start, to.len());
        mover::relocate(space, &(from.start..from.start + head), to.start)
    });
    match moved {
        Ok(true) => stacks::call(space, || keeper::mapped(space)),
        Ok(false) => return None,
        Err(error) => return Some(Err(errno_of(&error))),
    }
    let source = ptr::with_exposed_provenance_mut(from.start);
    // SAFETY: the program's own range, which it does not want any more; its content is elsewhere.
    if !keeps && unsafe { libc::munmap(source, from.len()) } != 0 {
        return Some(Err(errno()));
    }
    Some(Ok(to.start))
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
