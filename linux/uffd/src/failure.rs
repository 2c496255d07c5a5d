//! Why an operation of userfaultfd failed.

use std::io;

use super::Features;

/// What went wrong with an operation on a range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// A page is there already (EEXIST): another thread was first.
    #[error("a page is there already")]
    PageExists,
    /// Only so many bytes at the front were done (EAGAIN with a count); the rest is to be tried again.
    #[error("only {0} bytes were done")]
    Partially(usize),
    /// Nothing was done, since the layout changes or a page is locked (EAGAIN): to be tried again, once
    /// events were read.
    #[error("the layout changes")]
    Again,
    /// The page is pinned, or shared with another process (EBUSY).
    #[error("the page is pinned or shared")]
    Busy,
    /// The mappings differ in protection or locking (EINVAL).
    #[error("the mappings are not alike")]
    Unlike,
    /// There is no page, or the range is not registered (ENOENT).
    #[error("no page is there, or the range is not registered")]
    Missing,
    /// The address space is gone (ESRCH).
    #[error("the address space is gone")]
    Gone,
    /// The kernel has no memory (ENOMEM).
    #[error("out of memory")]
    OutOfMemory,
    /// Anything else.
    #[error("errno {0}")]
    Other(i32),
}

impl Failure {
    pub(super) fn of(errno: i32, done: i64) -> Self {
        match errno {
            libc::EAGAIN if done > 0 => Self::Partially(done as usize),
            libc::EAGAIN => Self::Again,
            libc::EEXIST => Self::PageExists,
            libc::EBUSY => Self::Busy,
            libc::EINVAL => Self::Unlike,
            libc::ENOENT => Self::Missing,
            libc::ESRCH => Self::Gone,
            libc::ENOMEM => Self::OutOfMemory,
            errno => Self::Other(errno),
        }
    }
}

/// An operation failed, on these addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("userfaultfd cannot {operation} {len} bytes at {address:#x}: {failure}")]
pub struct UffdError {
    /// What was tried, as a verb.
    pub operation: &'static str,
    /// First address.
    pub address: usize,
    /// Length in bytes.
    pub len: usize,
    /// Why not.
    pub failure: Failure,
}

/// The system gives no usable descriptor.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The call failed: an old kernel, a filter, or missing rights.
    #[error("cannot open a userfaultfd: {0}")]
    Open(#[source] io::Error),
    /// The kernel lacks a feature.
    #[error("this kernel's userfaultfd lacks {0}")]
    Lacks(Features),
    /// The kernel refused the handshake.
    #[error("userfaultfd handshake failed: {0}")]
    Handshake(#[source] io::Error),
}
