//! What can go wrong with a heap.

use warmswap_arena::ArenaError;
use warmswap_sys::FileError;

/// A heap cannot be made, or its memory does not do what it is told.
#[derive(Debug, thiserror::Error)]
pub enum HeapError {
    /// Outside what a heap can be.
    #[error("a heap of {bytes} bytes is not possible: {least} to {most} bytes are")]
    Size {
        /// Bytes asked for.
        bytes: usize,
        /// Fewest possible.
        least: usize,
        /// Most possible.
        most: usize,
    },
    /// A factor of the heap limit below 1, or not a number.
    #[error("the factor {factor} of the heap limit is not at least 1")]
    Factor {
        /// The factor asked for.
        factor: f64,
    },
    /// The memory given is smaller than the configuration needs.
    #[error("the heap needs {needed} bytes of addresses, and its memory has {bytes}")]
    Memory {
        /// Bytes needed.
        needed: usize,
        /// Bytes given.
        bytes: usize,
    },
    /// The memory refuses.
    #[error(transparent)]
    Arena(#[from] ArenaError),
    /// The kernel refuses.
    #[error("cannot {action} {bytes} bytes at {address:#x}: {source}")]
    System {
        /// What was tried, as a verb.
        action: &'static str,
        /// First address.
        address: usize,
        /// Bytes.
        bytes: usize,
        /// The kernel's answer.
        #[source]
        source: std::io::Error,
    },
    /// A thread of the heap cannot be started.
    #[error("cannot start a thread of the heap: {0}")]
    Thread(#[source] std::io::Error),
    /// The daemon cannot be followed.
    #[error("cannot follow the daemon: {0}")]
    Follow(#[source] FileError),
    /// This thread has a mutator of this heap already.
    #[error("this thread has a mutator of this heap already")]
    Attached,
}

/// An object cannot be allocated. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AllocError {
    /// The heap has reached its size limit. A collection may help: [`Mutator::collect`](crate::Mutator::collect).
    #[error("the heap is full: no room for {bytes} bytes")]
    Full {
        /// Bytes asked for, header included.
        bytes: usize,
    },
    /// The object is larger than the heap, or than 4 GiB.
    #[error("an object of {bytes} bytes is larger than the heap")]
    TooLarge {
        /// Bytes asked for.
        bytes: usize,
    },
}
