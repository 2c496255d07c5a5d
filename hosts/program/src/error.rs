//! What can go wrong in a program's address space.

use warmswap_arena::mechanism::FaultError;
use warmswap_uffd::PagedError;

/// A program cannot map, protect or discard what it wants to.
#[derive(Debug, thiserror::Error)]
pub enum SpaceError {
    /// No free addresses, or some that are not mapped (ENOMEM).
    #[error("no room for {bytes} bytes")]
    Full {
        /// Bytes asked for.
        bytes: usize,
    },
    /// Something is mapped there.
    #[error("something is mapped at {address:#x} or behind it")]
    InUse {
        /// First address.
        address: usize,
    },
    /// Something else is mapped there.
    #[error("what is at {address:#x} is not the space's")]
    NotOurs {
        /// First address.
        address: usize,
    },
    /// The kernel refuses.
    #[error(transparent)]
    Memory(#[from] PagedError),
    /// A page cannot be given up.
    #[error("{0}")]
    Serve(String),
}

impl From<FaultError> for SpaceError {
    fn from(error: FaultError) -> Self {
        match error {
            FaultError::Memory(error) => Self::Memory(error),
            error => Self::Serve(error.to_string()),
        }
    }
}
