//! `coldest-lottery`: cold chunks leave before warm ones, warm ones before hot ones, and within a class the
//! lottery draws (Ariadne section 4.2, ezswap section III-C).

use super::lottery::{self, Lottery};
use super::{Chosen, Eviction};
use crate::entry::PolicyEntry;
use crate::page::ChunkId;
use crate::stored::StoredChunk;

pub(super) const ENTRY: PolicyEntry<dyn Eviction> = PolicyEntry {
    name: "coldest-lottery",
    summary: "the lottery, drawn among the coldest chunks of the pool (seed=N)",
    source: "Ariadne section 4.2, then ezswap section III-C",
    build: |text| Ok(Box::new(ColdestLottery::new(lottery::seed(text)?))),
};

/// A [`Lottery`] for each class of hotness; the coldest one that has chunks draws. Constant time.
///
/// Where a page of the pool holds chunks of several classes, each class has those of its own, and a draw
/// leaves the others in the page.
#[derive(Debug)]
pub struct ColdestLottery {
    /// By [`Hotness::index`](crate::Hotness::index), so that the coldest is the last.
    classes: [Lottery; 3],
}

impl ColdestLottery {
    /// An empty one; all classes have the same seed.
    pub fn new(seed: u64) -> Self {
        Self {
            classes: [(); 3].map(|()| Lottery::new(seed)),
        }
    }
}

impl Eviction for ColdestLottery {
    fn placed(&mut self, chunk: ChunkId, pool_page: Option<u32>) {
        for class in &mut self.classes {
            class.placed(chunk, pool_page);
        }
    }

    fn insert(&mut self, chunk: ChunkId, stored: StoredChunk) {
        self.classes[stored.hotness.index()].insert(chunk, stored);
    }

    /// Classes that do not have the chunk pass it over.
    fn remove(&mut self, chunk: ChunkId) {
        for class in &mut self.classes {
            class.remove(chunk);
        }
    }

    fn victim(&mut self) -> Option<ChunkId> {
        self.classes.iter_mut().rev().find_map(Eviction::victim)
    }

    fn chosen(&self) -> Option<Chosen> {
        self.classes.iter().map(Eviction::chosen).sum()
    }

    fn state_bytes(&self) -> usize {
        self.classes.iter().map(Eviction::state_bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Hotness;

    fn stored(hotness: Hotness, is_file: bool) -> StoredChunk {
        StoredChunk {
            hotness,
            is_file,
            pages: 1,
            bytes: 1200,
        }
    }

    /// Evicts one chunk, and says which.
    fn evict(policy: &mut ColdestLottery) -> Option<u32> {
        let victim = policy.victim()?;
        policy.remove(victim);
        Some(victim.0)
    }

    #[test]
    fn classes_leave_in_their_order_and_chunks_of_a_class_by_lot() {
        let mut policy = ColdestLottery::new(1);
        (0..300).for_each(|n| {
            let hotness = Hotness::ALL[n as usize % 3];
            policy.insert(ChunkId(n), stored(hotness, n.is_multiple_of(2)));
        });
        let order: Vec<u32> = std::iter::from_fn(|| evict(&mut policy)).collect();
        let classes: Vec<u32> = order.iter().map(|n| n % 3).collect();
        assert!(classes.is_sorted_by(|a, b| a >= b), "{classes:?}");
        assert_eq!(order.len(), 300);
        assert!(!order[..100].is_sorted(), "the oldest is not always drawn");
        // A chunk of a file has four times the tickets of another.
        let files = order[..50].iter().filter(|n| n.is_multiple_of(2)).count();
        assert!(files > 30, "{files}");
    }

    #[test]
    fn a_draw_takes_the_chunks_of_its_class_out_of_a_page_and_leaves_the_others() {
        let mut policy = ColdestLottery::new(1);
        for (n, hotness) in (0..).zip([Hotness::Cold, Hotness::Warm, Hotness::Cold]) {
            policy.placed(ChunkId(n), Some(7));
            policy.insert(ChunkId(n), stored(hotness, false));
        }
        let first_two = [evict(&mut policy), evict(&mut policy)];
        assert!(first_two.iter().all(|n| [Some(0), Some(2)].contains(n)));
        let chosen = policy.chosen().unwrap().0;
        assert_eq!(chosen.iter().sum::<u64>(), 1, "both were in one page");
        assert_eq!(evict(&mut policy), Some(1));
        assert_eq!(policy.victim(), None);
    }

    #[test]
    fn a_colder_chunk_goes_before_the_rest_of_a_page_that_was_drawn() {
        let mut policy = ColdestLottery::new(1);
        for n in 0..2 {
            policy.placed(ChunkId(n), Some(7));
            policy.insert(ChunkId(n), stored(Hotness::Warm, false));
        }
        evict(&mut policy);
        policy.insert(ChunkId(2), stored(Hotness::Cold, false));
        assert_eq!(evict(&mut policy), Some(2));
        assert!(evict(&mut policy).is_some_and(|n| n < 2));
    }
}
