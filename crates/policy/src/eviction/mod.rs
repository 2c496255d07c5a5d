//! Eviction: when the pool is full, which chunk goes to the backing file?

mod chunk_list;
mod coldest;
mod lru;
mod none;

pub use coldest::Coldest;
pub use lru::LruChunks;
pub use none::Refuse;

use crate::entry::Entry;
use crate::page::{ChunkId, Hotness};

/// The eviction policies.
pub const ENTRIES: &[Entry<dyn Eviction>] = &[none::ENTRY, lru::ENTRY, coldest::ENTRY];

/// Orders the chunks of the pool.
///
/// The engine guarantees: `insert` once for a chunk that is in the pool, then `remove` once when it
/// leaves it, whichever way; `victim` names a chunk and leaves it in place.
pub trait Eviction: Send + std::fmt::Debug {
    /// The chunk entered the pool.
    fn insert(&mut self, chunk: ChunkId, hotness: Hotness);

    /// The chunk left the pool.
    fn remove(&mut self, chunk: ChunkId);

    /// The next chunk to be written back, `None` when nothing is to be written back. Constant time.
    fn victim(&mut self) -> Option<ChunkId>;

    /// Bytes of memory that the policy holds.
    fn state_bytes(&self) -> usize;
}
