//! Files that the program maps to read them, when they are asked for: private maps without the right to write or to
//! execute, as large as the memory that is taken.
//!
//! The kernel maps the file as it would have. Then the space takes its place, and keeps the kernel's map as a twin
//! ([`warmswap_program::Twin`]). So there is no descriptor of ours that the program could close, and what cannot be taken
//! is there already.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::path::PathBuf;
use std::{io, ptr};

use libc::{MAP_FAILED, c_int, off_t, size_t};
use warmswap_program::{Over, Space, Twin};

use crate::kernel;
use crate::mapping::{LARGE_BYTES, NOT_OURS, errno_of, split};
use crate::settings::program;
use crate::{keeper, report, stacks};

/// What `fstatfs` says of a file of huge pages: no part of it can be mapped elsewhere.
const HUGETLBFS_MAGIC: libc::__fsword_t = 0x958458f6;

/// Whether a mapping, at no address in particular, is of a kind that is asked for.
pub fn is_ours(len: size_t, protection: c_int, flags: c_int) -> bool {
    const OTHERS: c_int = NOT_OURS | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    program().is_some_and(|program| program.settings.files)
        && len >= LARGE_BYTES
        && protection == libc::PROT_READ
        && flags & libc::MAP_PRIVATE != 0
        && flags & (OTHERS | libc::MAP_FIXED_NOREPLACE) == 0
}

/// Maps a file of such a kind, or fails as the kernel does.
pub fn map(
    space: &Space,
    range: &Range<usize>,
    flags: c_int,
    (file, offset): (c_int, off_t),
) -> *mut c_void {
    // What is populated is the page cache, and the twin shows nothing of it.
    let (len, alone) = (range.len(), flags & !libc::MAP_POPULATE);
    // SAFETY: a new map at an address of the kernel's choice.
    let mapped =
        unsafe { kernel::mmap(ptr::null_mut(), len, libc::PROT_READ, alone, (file, offset)) };
    if mapped == MAP_FAILED {
        return mapped;
    }
    if flags & libc::MAP_POPULATE != 0 {
        // SAFETY: it changes no content. That it cannot be read at once is no failure.
        unsafe { kernel::madvise(mapped, len, libc::MADV_WILLNEED) };
    }
    stacks::call(space, || take(space, mapped, len, (file, offset)))
}

/// Takes a map of a file that the kernel just made: where it is now.
fn take(
    space: &Space,
    mapped: *mut c_void,
    len: usize,
    (file, offset): (c_int, off_t),
) -> *mut c_void {
    let Some(content) = content(file, offset).filter(|&bytes| bytes >= LARGE_BYTES) else {
        return mapped;
    };
    if !keeper::adopted_for(space, len) {
        return mapped;
    }
    // SAFETY: the map is new and as the twin's is to be, and the program does not know it yet.
    let twin = unsafe { Twin::new(mapped.expose_provenance(), len) };
    // What cannot be taken stays the kernel's.
    match space.map_file(twin, (content, len), name(file, offset)) {
        Ok(address) => {
            report::mapped_files(space);
            ptr::with_exposed_provenance_mut(address)
        }
        Err(_) => mapped,
    }
}

/// Bytes that a file has from an offset on, if it is one whose maps can be taken.
fn content(file: c_int, offset: off_t) -> Option<usize> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    let mut system = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the calls fill the structures in, where they succeed.
    let (status, system) = unsafe {
        if libc::fstat(file, status.as_mut_ptr()) != 0
            || libc::fstatfs(file, system.as_mut_ptr()) != 0
        {
            return None;
        }
        (status.assume_init(), system.assume_init())
    };
    let is_plain =
        status.st_mode & libc::S_IFMT == libc::S_IFREG && system.f_type != HUGETLBFS_MAGIC;
    let bytes = usize::try_from(status.st_size.checked_sub(offset)?).ok()?;
    is_plain.then_some(bytes)
}

/// What a part of a file is known by in the next run: its path, and where it begins.
fn name(file: c_int, offset: off_t) -> PathBuf {
    let path = std::fs::read_link(format!("/proc/self/fd/{file}")).unwrap_or_default();
    if offset == 0 {
        return path;
    }
    let mut name = path.into_os_string();
    name.push(format!("@{offset}"));
    name.into()
}

/// `mremap` of a range that is all of one file, but for one that only becomes shorter: the kernel has its own map of it
/// do that, and it is the kernel's from then on. `None` for other ranges.
pub fn remap(
    space: &Space,
    from: &Range<usize>,
    bytes: usize,
    flags: c_int,
    target: Option<&Range<usize>>,
) -> Option<Result<usize, c_int>> {
    let shrinks = target.is_none() && bytes <= from.len();
    if shrinks || split(space, from).0 != *from {
        return None;
    }
    stacks::call(space, || remap_file(space, from, bytes, flags, target))
}

fn remap_file(
    space: &Space,
    from: &Range<usize>,
    bytes: usize,
    flags: c_int,
    target: Option<&Range<usize>>,
) -> Option<Result<usize, c_int>> {
    let remap = |twin: usize| {
        if flags & libc::MREMAP_MAYMOVE == 0 {
            // There is something behind the twin, or might as well be.
            return Err(io::Error::from_raw_os_error(libc::ENOMEM));
        }
        let twin = ptr::with_exposed_provenance_mut(twin);
        let to = target.map_or(0, |target| target.start);
        let to = ptr::with_exposed_provenance_mut(to);
        // SAFETY: the program wants its map there; only this library knows of the twin.
        let moved = unsafe { kernel::mremap(twin, from.len(), bytes, flags, to) };
        if moved == MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(moved.expose_provenance())
    };
    if let Some(target) = target {
        if from.start < target.end && target.start < from.end {
            return None;
        }
        let (within, _) = split(space, target);
        if !within.is_empty() && space.is_file(from.start, from.len()) {
            // What follows replaces the inaccessible mapping that the space has there.
            let given = space.give_away(within.start, within.len(), Over::Anything);
            if let Err(error) = given {
                return Some(Err(errno_of(&error)));
            }
        }
    }
    match space.remap_file(from.start, from.len(), remap) {
        Ok(None) => None,
        Ok(Some(Ok(address))) => Some(Ok(address)),
        Ok(Some(Err(error))) => Some(Err(error.raw_os_error().unwrap_or(libc::EFAULT))),
        Err(error) => Some(Err(errno_of(&error))),
    }
}
