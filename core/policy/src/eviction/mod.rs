//! Eviction: when the pool is full, which chunk leaves it, for the backing file or, if it is of a file, for good?

mod by_page;
mod chunk_groups;
mod chunk_list;
mod coldest;
mod coldest_lottery;
mod lottery;
mod lru;
mod lru_pages;
mod none;

pub use by_page::ByPage;
pub use coldest::Coldest;
pub use coldest_lottery::ColdestLottery;
pub use lottery::{CATEGORIES, Lottery};
pub use lru::LruChunks;
pub use lru_pages::LruPages;
pub use none::Refuse;

use crate::entry::PolicyEntry;
use crate::page::ChunkId;
use crate::stored::StoredChunk;
use serde::{Deserialize, Serialize};

/// The eviction policies.
pub const ENTRIES: &[PolicyEntry<dyn Eviction>] = &[
    none::ENTRY,
    lru::ENTRY,
    lru_pages::ENTRY,
    coldest::ENTRY,
    lottery::ENTRY,
    coldest_lottery::ENTRY,
];

/// Pages of the pool that were chosen for eviction, by how many chunks they had, and how many of these
/// were of files: 1/0, 1/1, 2/0, 2/1, 2/2, 3/0, 3/1, 3/2, 3/3 (ezswap Figure 11).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Chosen(pub [u64; 9]);

impl Chosen {
    /// What stands at each place: chunks, and those of files among them.
    pub const KINDS: [(usize, usize); 9] = [
        (1, 0),
        (1, 1),
        (2, 0),
        (2, 1),
        (2, 2),
        (3, 0),
        (3, 1),
        (3, 2),
        (3, 3),
    ];

    fn add(&mut self, chunks: usize, files: usize) {
        let kind = Self::KINDS.iter().position(|&kind| kind == (chunks, files));
        if let Some(kind) = kind {
            self.0[kind] += 1;
        }
    }
}

impl std::iter::Sum for Chosen {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| {
            Self(std::array::from_fn(|kind| sum.0[kind] + one.0[kind]))
        })
    }
}

/// Orders the chunks of the pool.
///
/// The engine guarantees: `placed` for every chunk that comes into the pool; `insert` once while it is
/// in the pool and may be evicted, then `remove` once when it no longer may, whichever way, any number of
/// times in turn; `victim` names a chunk and leaves it in place.
pub trait Eviction: Send + std::fmt::Debug {
    /// The chunk's object lies in this page of the pool, where the pool's layout is one of pages with a
    /// few objects each; that holds until the chunk leaves the pool.
    fn placed(&mut self, chunk: ChunkId, pool_page: Option<u32>) {
        let _ = (chunk, pool_page);
    }

    /// The chunk is in the pool and may be evicted.
    fn insert(&mut self, chunk: ChunkId, stored: StoredChunk);

    /// The chunk left the pool, or may stay.
    fn remove(&mut self, chunk: ChunkId);

    /// The next chunk that is to leave, `None` when none is. Constant time.
    fn victim(&mut self) -> Option<ChunkId>;

    /// Reads what [`Self::remove`] reads of chunks that will be removed soon, so that the latencies of memory overlap; what it
    /// returns means nothing.
    fn read_neighbours(&self, chunks: &[ChunkId]) -> u32 {
        let _ = chunks;
        0
    }

    /// What was chosen so far, by a policy that evicts by page of the pool.
    fn chosen(&self) -> Option<Chosen> {
        None
    }

    /// Bytes of memory that the policy holds.
    fn state_bytes(&self) -> usize;
}
