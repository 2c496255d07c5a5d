//! `lru`: the chunk that entered the pool first is written back first, as in zswap.

use super::Eviction;
use super::chunk_list::ChunkLists;
use crate::entry::{PolicyEntry, no_arguments};
use crate::page::ChunkId;
use crate::stored::StoredChunk;

pub(super) const ENTRY: PolicyEntry<dyn Eviction> = PolicyEntry {
    name: "lru",
    summary: "the oldest chunk of the pool is written back first",
    source: "the kernel's mm/zswap.c",
    build: |arguments| {
        no_arguments(arguments)?;
        Ok(Box::new(LruChunks::default()))
    },
};

/// One list in the order of entry: a chunk that is asked for leaves the pool, so that entry order is
/// recency order.
#[derive(Debug, Default)]
pub struct LruChunks {
    lists: ChunkLists<1>,
}

impl Eviction for LruChunks {
    fn insert(&mut self, chunk: ChunkId, _: StoredChunk) {
        self.lists.push_back(0, chunk);
    }
    fn remove(&mut self, chunk: ChunkId) {
        self.lists.remove(chunk);
    }
    fn victim(&mut self) -> Option<ChunkId> {
        self.lists.front(0)
    }
    fn read_neighbours(&self, chunks: &[ChunkId]) -> u32 {
        self.lists.read_neighbours(chunks)
    }
    fn state_bytes(&self) -> usize {
        self.lists.state_bytes()
    }
}
