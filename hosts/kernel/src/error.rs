//! Why a host cannot be had, or cannot do what it was asked for.

use warmswap_sys::memcg::MemcgError;
use warmswap_sys::{FileError, WrongPageSize};

/// A host cannot be made, or was asked for something that is not there. What programs do while they are
/// watched is never an error: it is counted ([`Counters`](crate::Counters)).
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The machine has pages of another size.
    #[error(transparent)]
    PageSize(#[from] WrongPageSize),
    /// A file of the kernel cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A control group cannot be used.
    #[error(transparent)]
    Group(#[from] MemcgError),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] std::io::Error),
    /// Two applications of one name.
    #[error("there is an application {0:?} already")]
    NameTaken(String),
    /// No application of that name.
    #[error("there is no application {0:?}")]
    NoSuchApp(String),
    /// More applications than numbers for them.
    #[error("there are 65535 applications already")]
    TooManyApps,
}
