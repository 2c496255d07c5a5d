//! What the kernel keeps of addresses beside their protection. To the kernel the space is one mapping that is always
//! there; to the program a new mapping has nothing of the one that was there before.

use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{c_int, size_t};

use crate::kernel::{self, errno};

/// Some memory of the space was left out of core dumps.
static HAS_UNDUMPED: AtomicBool = AtomicBool::new(false);
/// Some has had a protection key.
static HAS_KEYS: AtomicBool = AtomicBool::new(false);
/// Some was locked, and not all that is to come.
static HAS_LOCKED: AtomicBool = AtomicBool::new(false);

/// Some was locked at some time.
static WAS_LOCKED: AtomicBool = AtomicBool::new(false);

/// Leaves memory out of core dumps, or does not any more.
pub fn advise_dump(range: &Range<usize>, advice: c_int) -> c_int {
    HAS_UNDUMPED.store(true, Ordering::Relaxed);
    let address = ptr::with_exposed_provenance_mut(range.start);
    // SAFETY: it changes no content.
    unsafe { kernel::madvise(address, range.len(), advice) }
}

/// Some memory is about to have a key.
pub fn have_keys() {
    HAS_KEYS.store(true, Ordering::Relaxed);
}

/// Some memory is about to be locked.
pub fn have_locked(has: bool) {
    HAS_LOCKED.store(has, Ordering::Relaxed);
    WAS_LOCKED.store(true, Ordering::Relaxed);
}

/// Whether some of a range is locked, so that the kernel would not give up its content.
pub fn is_locked(range: &Range<usize>) -> bool {
    let address = ptr::with_exposed_provenance_mut(range.start);
    // Advice that changes no content, and that the kernel does not take on locked memory either.
    // SAFETY: it changes no content.
    WAS_LOCKED.load(Ordering::Relaxed)
        && unsafe { kernel::madvise(address, range.len(), libc::MADV_COLD) } != 0
        && errno() == libc::EINVAL
}

/// Something was mapped: core dumps have it, whatever was said of these addresses before, and it is not locked.
pub fn forget(start: usize, len: size_t) {
    let address = ptr::with_exposed_provenance_mut(start);
    if HAS_UNDUMPED.load(Ordering::Relaxed) {
        // SAFETY: it changes no content.
        unsafe { kernel::madvise(address, len, libc::MADV_DODUMP) };
    }
    unlock(start, len);
}

/// What is locked of addresses that are used anew would count against the program's limit for ever.
fn unlock(start: usize, len: size_t) {
    if HAS_LOCKED.load(Ordering::Relaxed) {
        kernel::munlock(start, len);
    }
}

/// Something is unmapped: it has no key any more, and is not locked.
pub fn unmapped(range: &Range<usize>) {
    unlock(range.start, range.len());
    if HAS_KEYS.load(Ordering::Relaxed) {
        let address = ptr::with_exposed_provenance_mut(range.start);
        // SAFETY: what is unmapped is not accessed.
        unsafe { kernel::pkey_mprotect(address, range.len(), libc::PROT_NONE, 0) };
    }
}
