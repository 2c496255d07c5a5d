//! Page faults of this process served by this process: userfaultfd.
//!
//! [`Uffd`] is the descriptor with its operations, narrow errors included. Above it, [`PagedMemory`] is
//! what a host of paged memory needs in terms of pages and slots, without unsafe code on the host's side:
//! a reserved address range, staging slots, and the ways of a page between them. [`sigbus`] delivers
//! faults to the thread that made them.
//!
//! Which operations are the unsafe ones: those that change what an address holds ([`Uffd::copy`],
//! [`Uffd::move_pages`], [`Uffd::zero`]) or whether it can be accessed at all ([`Uffd::register`]).
#![allow(unsafe_code)] // Each block states its obligations.

mod abi;
mod atomic {
    pub use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
}
mod event;
mod failure;
mod features;
mod idle;
mod lazy;
mod paged;
mod reserve;
pub mod sigbus;
mod slots;
#[cfg(test)]
mod slots_model;
#[cfg(test)]
mod slots_tests;
#[cfg(test)]
mod stress_tests;
#[cfg(test)]
mod tests;
mod twin;
mod uffd;

pub use event::{Event, Waiter};
pub use failure::{Failure, OpenError, UffdError};
pub use features::{Feature, Features};
pub use idle::{be_idle, is_idle};
pub use lazy::{AtomicTable, Word};
pub use paged::{
    Addresses, FaultDelivery, ForkedMemory, Mechanism, PagedConfig, PagedError, PagedMemory,
};
pub use reserve::Protection;
pub use slots::{SlotBag, Slots};
pub use twin::Twin;
pub use uffd::{DEVICE, Reach, Uffd, Wake};

use uffd::{beyond_standard, errno};
