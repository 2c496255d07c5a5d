//! The five policy slots of a scheme: reclaim, sizing, admission, eviction, prefetch.
//!
//! A scheme is one policy in each slot. Every policy is one file below the folder of its slot and one
//! line in that folder's `ENTRIES`; names, the command line, the table in the docs and the conformance
//! tests follow from that line.
//!
//! | slot | question that it answers |
//! |---|---|
//! | [`reclaim`] | which resident pages leave, in which order, and how hot are they? |
//! | [`sizing`] | how are the leaving pages cut into chunks, and by which codec? |
//! | [`admission`] | does this page enter the compressed pool at all? |
//! | [`eviction`] | when the pool is full, what leaves it? |
//! | [`prefetch`] | what comes back before it is asked for? |
//!
//! Policies hold no page contents, do no I/O and know no clock. What they know of a page stands in the
//! [`PageTable`], which the engine owns and lends to them.

pub mod admission;
pub mod entry;
pub mod eviction;
pub mod learned;
pub mod list;
pub mod page;
pub mod prefetch;
pub mod reclaim;
pub mod room;
pub mod scheme;
pub mod sizing;
pub mod stored;

pub use entry::{Entry, PolicyError};
pub use learned::Learned;
pub use page::{AppIndex, ChunkId, Hotness, Page, PageId, PageState, PageTable};
pub use scheme::{Scheme, SchemeSpec};
pub use stored::Stored;
pub use warmswap_page::Layout;
