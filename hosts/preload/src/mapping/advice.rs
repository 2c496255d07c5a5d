//! `madvise` and `posix_madvise`: advice on memory of the space.

use std::cell::Cell;
use std::ffi::c_void;
use std::ops::Range;
use std::ptr;

use libc::{c_int, size_t};
use warmswap_program::Space;

use super::{answer, on_both};
use crate::kernel::{self, errno, fail};
use crate::{attributes, stacks};

/// Huge pages at once (Linux 6.1).
const MADV_COLLAPSE: c_int = 25;

/// Where nothing is mapped it fails (ENOMEM), after all else has been advised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madvise(address: *mut c_void, len: size_t, advice: c_int) -> c_int {
    let has_hole = Cell::new(false);
    let unless_hole = |done: c_int| {
        let is_hole = done != 0 && errno() == libc::ENOMEM;
        has_hole.set(has_hole.get() || is_hole);
        if is_hole { 0 } else { done }
    };
    let ours = |space: &Space, range: &Range<usize>| unless_hole(advise(space, range, advice));
    let done = on_both((address, len), ours, |address, len| {
        // SAFETY: passed on to the caller.
        unless_hole(unsafe { kernel::madvise(address, len, advice) })
    });
    if has_hole.get() && done == 0 {
        return fail(libc::ENOMEM);
    }
    done
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_madvise(address: *mut c_void, len: size_t, advice: c_int) -> c_int {
    let before = errno();
    // It does not give content up. The others are those of `madvise`; some have no such name.
    let done = match advice {
        libc::POSIX_MADV_DONTNEED => 0,
        // SAFETY: passed on to the caller.
        libc::POSIX_MADV_NORMAL..=libc::POSIX_MADV_WILLNEED => unsafe {
            madvise(address, len, advice)
        },
        _ => fail(libc::EINVAL),
    };
    let answer = if done == 0 { 0 } else { errno() };
    fail(before);
    answer
}

/// Advice on memory of the space.
fn advise(space: &Space, range: &Range<usize>, advice: c_int) -> c_int {
    if stacks::call(space, || space.is_foreign(range.start, range.len())) {
        let address = ptr::with_exposed_provenance_mut(range.start);
        // SAFETY: the program's own mapping, which it gives advice on.
        return unsafe { kernel::madvise(address, range.len(), advice) };
    }
    match advice {
        libc::MADV_DONTNEED | libc::MADV_FREE if attributes::is_locked(range) => fail(libc::EINVAL),
        libc::MADV_DONTNEED | libc::MADV_FREE | libc::MADV_DONTNEED_LOCKED => {
            stacks::call(space, || answer(space.discard(range.start, range.len())))
        }
        // Bringing pages in is what the fault path does, for the kernel's own accesses too.
        libc::MADV_POPULATE_READ | libc::MADV_POPULATE_WRITE => {
            let address = ptr::with_exposed_provenance_mut(range.start);
            // SAFETY: it changes no content.
            let done = unsafe { kernel::madvise(address, range.len(), advice) };
            let why = errno();
            // The kernel takes what is not mapped for memory without access.
            match done {
                0 => 0,
                _ if unless_hole(space, range) != 0 => done,
                _ => fail(why),
            }
        }
        libc::MADV_WILLNEED => {
            stacks::call(space, || space.will_need(range.start, range.len()));
            unless_hole(space, range)
        }
        libc::MADV_DONTDUMP | libc::MADV_DODUMP => attributes::advise_dump(range, advice),
        // The space cannot keep what these promise.
        libc::MADV_WIPEONFORK | libc::MADV_DONTFORK | libc::MADV_REMOVE | libc::MADV_MERGEABLE => {
            fail(libc::EINVAL)
        }
        libc::MADV_NORMAL..=libc::MADV_SEQUENTIAL
        | libc::MADV_DOFORK
        | libc::MADV_KEEPONFORK
        | libc::MADV_UNMERGEABLE
        | libc::MADV_HUGEPAGE
        | libc::MADV_NOHUGEPAGE
        | libc::MADV_COLD
        | libc::MADV_PAGEOUT
        | MADV_COLLAPSE => unless_hole(space, range),
        // What is no hint, or not known, must not be taken for done: such as guard pages (MADV_GUARD_INSTALL).
        _ => fail(libc::EINVAL),
    }
}

/// A hint has nothing to do, but fails where nothing is mapped.
fn unless_hole(space: &Space, range: &Range<usize>) -> c_int {
    if stacks::call(space, || space.has_hole(range.start, range.len())) {
        return fail(libc::ENOMEM);
    }
    0
}
