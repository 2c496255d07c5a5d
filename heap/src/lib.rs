//! A managed heap whose garbage collector and swap are designed together: Fleet (ASPLOS '24) for authors of language
//! runtimes and in-process stores.
//!
//! ```
//! use warmswap_heap::{Field, Heap, HeapConfig, KernelMemory, object};
//!
//! object! {
//!     struct Element {
//!         value: u64,
//!         next: Field<Element>,
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = HeapConfig::new(16 << 20);
//! let heap = Heap::new(KernelMemory::new(config.address_bytes())?, config)?;
//! let mut mutator = heap.mutator()?;
//!
//! let first = mutator.alloc(Element { value: 1, next: Field::null() })?;
//! let second = mutator.alloc(Element { value: 2, next: Field::null() })?;
//! first.next.set(&mutator, Some(second));
//! let list = mutator.root(first); // keeps it across safepoints
//!
//! mutator.safepoint(); // objects may move here; `first` and `second` cannot be used any more
//! let first = list.get(&mutator);
//! assert_eq!(first.next.get(&mutator).map(|second| second.value), Some(2));
//! # Ok(())
//! # }
//! ```
//!
//! # What there is
//!
//! | subject | where |
//! |---|---|
//! | objects and references | [`object!`], [`Ref`], [`Field`], [`Root`], [`Weak`], arrays ([`Refs`], [`Bytes`]), [`Record`] |
//! | threads | [`Mutator`] |
//! | collections | [`Kind`], [`CollectionReport`] |
//! | the application's state | [`Heap::foreground`], [`Heap::launch_done`], [`Heap::background`]; or [`Heap::follow_daemon`] |
//! | memory below | [`ArenaMemory`] (compressed in this process), [`KernelMemory`] (the kernel's swap) |
//!
//! # What holds
//!
//! - A [`Ref`] borrows its mutator, and what is a safepoint borrows it mutably: the compiler refuses a reference that
//!   is kept where objects may move. Nothing is left for a check at run time but that objects and mutators of two heaps
//!   are not mixed, which panics.
//! - Mutators are stopped three times in a collection, each time for as long as a walk over the region table takes.
//!   Everything else is done while they run.
//! - An object is moved by the first thread that needs it, the collector or a mutator (through the read barrier), and never
//!   written to in its old place.
//!
//! On an arena that serves faults by signal, system calls cannot be given bytes of the heap, and no lock that a thread
//! can sleep on may be in an object.

mod array;
mod bitmap;
mod cards;
mod clock;
mod collector;
mod config;
mod error;
mod follow;
mod header;
mod heap;
mod launch;
mod layout;
mod limits;
mod marvin;
mod memory;
mod mutator;
#[cfg(test)]
mod protocol;
mod reference;
mod regions;
mod roots;
mod space;
mod stats;
mod sync;
mod types;
mod verify;
mod world;

pub use array::{Bytes, Record, Refs};
pub use clock::{Clock, SystemClock};
pub use collector::{Cause, CollectionReport, Kind};
pub use config::{Collector, FleetConfig, HeapConfig, LaunchDepth, MarvinConfig};
pub use error::{AllocError, HeapError};
pub use heap::Heap;
pub use launch::LaunchReport;
pub use layout::{LARGE_BYTES, REGION_BYTES};
pub use memory::{ArenaMemory, HeapMemory, KernelMemory};
pub use mutator::Mutator;
pub use reference::{Field, Ref};
pub use roots::{Root, Weak};
pub use stats::HeapStats;
pub use types::{Managed, Object, Trace, TypeCell};
pub use verify::Checked;
