//! The compressed pool: size classes, handles, compaction, a limit in bytes.
//!
//! A [`Pool`] keeps objects (compressed chunks, or words that fill a whole page) in little memory
//! and gives a 4-byte [`Handle`] for each. It is used from many threads at once: loads never block
//! each other, and nothing on the path of a load allocates.
//!
//! The usual [`Layout`](warmswap_page::Layout) is the kernel's zsmalloc: objects of nearly the same size share
//! spans of pages, and compaction moves objects out of the emptiest spans. Spans are contiguous in
//! virtual memory, so no object is split. In the layouts of zbud and z3fold, a page holds two or
//! three objects of any size: less dense, but freeing the objects of one page wins a page,
//! which is what eviction by page (ezswap section III-C) works on.
//!
//! # Locks
//!
//! In this order, outermost first:
//!
//! 1. a size class, or all pages of another layout: which slots are taken, and by whom;
//! 2. a span: its bytes (shared for loads, exclusive for writing or moving an object within it, and
//!    for discarding pages);
//! 3. a shard of the free handles: held for a few instructions, never around another lock.
//!
//! Two classes are never locked at once. Two spans are locked at once only by compaction, which
//! holds the lock of their class.
//!
//! The entry of a handle is one atomic word. It changes only under the lock (1) of the place where its
//! object lies, and the bytes of a slot change only under the exclusive lock of their span. A load
//! reads the entry, takes the span shared, and reads the entry again: when it is unchanged, the
//! object was there when the span was locked, and its bytes stay until the span is unlocked, even
//! when the object is moved or freed meanwhile.

mod budget;
mod class;
mod config;
mod entry;
mod folds;
mod geometry;
mod handle;
mod memory;
mod objects;
mod pool;
mod shared;
mod spans;
mod stats;

pub use config::{ConfigError, PoolConfig};
pub use handle::Handle;
pub use pool::{Content, LoadError, MAX_OBJECT_BYTES, MAX_PAGES, ObjectInfo, Pool, Refusal};
pub use stats::{CompactionReport, PoolStats};
