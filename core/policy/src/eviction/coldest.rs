//! `coldest`: chunks of cold pages are written back first, then warm, then hot ones (Ariadne section 4.1).

use super::Eviction;
use super::chunk_list::ChunkLists;
use crate::entry::{PolicyEntry, no_arguments};
use crate::page::{ChunkId, Hotness};
use crate::stored::StoredChunk;

pub(super) const ENTRY: PolicyEntry<dyn Eviction> = PolicyEntry {
    name: "coldest",
    summary: "cold chunks are written back first, then warm, then hot; the oldest of a class first",
    source: "Ariadne section 4.1: cold data is swapped out first",
    build: |arguments| {
        no_arguments(arguments)?;
        Ok(Box::new(Coldest::default()))
    },
};

/// A list for each class, in the order of entry. A chunk has the class that its pages had when they left.
#[derive(Debug, Default)]
pub struct Coldest {
    lists: ChunkLists<3>,
}

impl Eviction for Coldest {
    fn insert(&mut self, chunk: ChunkId, stored: StoredChunk) {
        self.lists.push_back(stored.hotness.index(), chunk);
    }
    fn remove(&mut self, chunk: ChunkId) {
        self.lists.remove(chunk);
    }
    fn victim(&mut self) -> Option<ChunkId> {
        [Hotness::Cold, Hotness::Warm, Hotness::Hot]
            .iter()
            .find_map(|class| self.lists.front(class.index()))
    }
    fn read_neighbours(&self, chunks: &[ChunkId]) -> u32 {
        self.lists.read_neighbours(chunks)
    }
    fn state_bytes(&self) -> usize {
        self.lists.state_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_cold_chunk_goes_first_and_hot_ones_last() {
        let mut policy = Coldest::default();
        let classes = [Hotness::Hot, Hotness::Warm, Hotness::Cold, Hotness::Cold];
        (0..).zip(classes).for_each(|(n, hotness)| {
            let stored = StoredChunk {
                hotness,
                is_file: false,
                pages: 1,
                bytes: 1000,
            };
            policy.insert(ChunkId(n), stored);
        });
        let order: Vec<_> = std::iter::from_fn(|| {
            let victim = policy.victim()?;
            policy.remove(victim);
            Some(victim.0)
        })
        .collect();
        assert_eq!(order, [2, 3, 1, 0]);
    }
}
