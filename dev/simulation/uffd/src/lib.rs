//! The files of `warmswap-uffd`, compiled over the simulation's system.
#![cfg(not(test))] // The unit tests of these files are for the real system.
#![allow(unsafe_code)] // As the crate whose files these are.

// What these files and those of the arena use of `warmswap-sys` is here.
extern crate self as warmswap_sys;
extern crate warmswap_sim_os as libc;
extern crate warmswap_sim_os as rustix;
extern crate warmswap_sim_os as std;

#[path = "../../../../linux/uffd/src/lib.rs"]
#[allow(dead_code, reason = "the simulation does not use all of it")]
mod real;

#[path = "../../../../linux/sys/src/touch.rs"]
pub mod touch;

pub use real::*;

/// The kernel of the model looks for no pages by itself: their entries are read.
pub mod pagemap {
    use std::ops::Range;
    use std::os::fd::BorrowedFd;

    /// Finds nothing.
    pub fn scan_used(_: BorrowedFd<'_>, addresses: Range<u64>, _: impl FnMut(Range<u64>)) -> u64 {
        addresses.start
    }
}

/// The page size is checked by the real crate only.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("pages of {found_bytes} bytes")]
pub struct WrongPageSize {
    /// The machine's page size.
    pub found_bytes: usize,
}

/// Nothing.
///
/// # Errors
/// Never.
pub fn check_page_size() -> Result<(), WrongPageSize> {
    Ok(())
}
