//! Stacks for threads of the program that call into the space while their own stack is the space's memory (coroutines,
//! `pthread_attr_setstack`).
//!
//! Such a stack may be away, or be what the call is about: a pool of coroutines gives up what lies below the one that
//! runs. The work is done on a stack of the kernel's memory, where no page fault is the space's.

use std::sync::atomic::{AtomicUsize, Ordering};

use libc::MAP_FAILED;
use warmswap_program::Space;

use crate::kernel;
use crate::reentrancy::ReentrancyGuard;

/// Bytes of a stack. No call into the space needs a tenth.
const STACK_BYTES: usize = 256 << 10;
/// Below each, so that one that is used up is noticed.
const GUARD_BYTES: usize = 64 << 10;
/// Stacks that are kept for the next call. More threads than that map and unmap theirs.
const MOST_KEPT: usize = 32;

/// First bytes of stacks that no thread uses; 0 for none.
static KEPT: [AtomicUsize; MOST_KEPT] = [const { AtomicUsize::new(0) }; MOST_KEPT];

/// Calls into the space: within the library, and on a stack that is not the space's.
pub fn call<R>(space: &Space, work: impl FnOnce() -> R) -> R {
    let _within = ReentrancyGuard::enter();
    if !space.range().contains(&psm::stack_pointer().addr()) {
        return work();
    }
    let Some(stack) = Stack::take() else {
        // As with a program that reached its limit of mappings: it works unless the stack is away at a bad moment.
        return work();
    };
    let work = || {
        let _abort = AbortOnPanic;
        work()
    };
    // SAFETY: the stack is mapped for reading and writing and is this call's alone; `work` does not unwind.
    unsafe { psm::on_stack(stack.base(), STACK_BYTES, work) }
}

struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

/// A stack of this call's.
struct Stack(usize);

impl Stack {
    fn take() -> Option<Self> {
        // One look, without a write, at places that are empty.
        let kept = KEPT
            .iter()
            .filter(|place| place.load(Ordering::Relaxed) != 0);
        let taken = kept.map(|place| place.swap(0, Ordering::AcqRel));
        let taken = taken.filter(|&start| start != 0).map(Self).next();
        taken.or_else(Self::map)
    }

    fn map() -> Option<Self> {
        let (readable, private) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        );
        let bytes = GUARD_BYTES + STACK_BYTES;
        // SAFETY: a new mapping at an address of the kernel's choice, and protection of a part of it.
        unsafe {
            let all = kernel::mmap(std::ptr::null_mut(), bytes, readable, private, (-1, 0));
            if all == MAP_FAILED {
                return None;
            }
            if kernel::mprotect(all, GUARD_BYTES, libc::PROT_NONE) != 0 {
                kernel::munmap(all, bytes);
                return None;
            }
            Some(Self(all.expose_provenance() + GUARD_BYTES))
        }
    }

    fn base(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.0)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let is_kept = KEPT.iter().any(|place| {
            place
                .compare_exchange(0, self.0, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        });
        if !is_kept {
            let all = std::ptr::with_exposed_provenance_mut(self.0 - GUARD_BYTES);
            // SAFETY: no thread runs on it any more, and no place refers to it.
            unsafe { kernel::munmap(all, GUARD_BYTES + STACK_BYTES) };
        }
    }
}
