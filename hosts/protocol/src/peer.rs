//! The user at the other end of a connection.

use std::io;
use std::os::fd::AsFd;

/// The user at the other end of a connection, as the kernel noted it when the connection was made: what the process
/// becomes later, or to which process it hands the connection, changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The user's number.
    pub user: u32,
}

impl Peer {
    /// The user whom nothing is kept from.
    pub const ROOT: Self = Self { user: 0 };

    /// The peer of a connected Unix socket.
    ///
    /// # Errors
    /// The error of `SO_PEERCRED`.
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
        let user = warmswap_sys::peer::user(socket)?;
        Ok(Self { user })
    }

    /// Whether it is root.
    #[must_use]
    pub fn is_root(self) -> bool {
        self == Self::ROOT
    }
}
