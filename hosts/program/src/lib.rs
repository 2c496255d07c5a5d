//! A program's whole address space, paged: what it maps, protects, discards and unmaps, the files that it maps, its
//! forks, and where its threads run. The paging itself is the arena's ([`warmswap_arena::mechanism`]).
//!
//! | module | subject |
//! |---|---|
//! | [`Space`] | what a library that stands between a program and its calls of `mmap` uses |
//! | `program` | what is mapped where |
//! | `addresses` | what changes a mapping, with the pager's lock held |
//! | `fork` | faults in the moment of a fork |
//! | `affinity`, `binding` | handler and faulting thread on one processor |

mod addresses;
mod affinity;
mod binding;
mod error;
mod fork;
mod hooks;
mod program;
mod space;

pub use error::SpaceError;
pub use space::{Over, Space, SpaceUsage};
pub use warmswap_uffd::{Protection, Twin};
