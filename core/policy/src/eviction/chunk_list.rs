//! Doubly linked lists of chunks over one array of links: 8 bytes a chunk.

use crate::page::ChunkId;
use crate::room::make_room;

/// The neighbours in a ring: places in the array.
#[derive(Clone, Copy, Debug)]
struct Link {
    prev: u32,
    next: u32,
}

impl Link {
    /// In a ring of its own.
    fn alone(at: usize) -> Self {
        let at = at as u32;
        Self { prev: at, next: at }
    }
}

/// `N` lists; a chunk is on at most one. Front = oldest. Each is a ring, closed by the head that it has at the place of its
/// number; the chunks follow behind the heads.
#[derive(Debug)]
pub(super) struct ChunkLists<const N: usize> {
    links: Vec<Link>,
}

impl<const N: usize> Default for ChunkLists<N> {
    fn default() -> Self {
        Self {
            links: (0..N).map(Link::alone).collect(),
        }
    }
}

impl<const N: usize> ChunkLists<N> {
    /// Appends the chunk at the young end of a list; it must be on none.
    pub fn push_back(&mut self, list: usize, chunk: ChunkId) {
        let at = N + chunk.index();
        if self.links.len() <= at {
            make_room(&mut self.links, at + 1, 64);
            let more = self.links.len()..=at;
            self.links.extend(more.map(Link::alone));
        }
        debug_assert_eq!(self.links[at].prev, at as u32);
        let back = self.links[list].prev;
        self.links[at] = Link {
            prev: back,
            next: list as u32,
        };
        self.links[back as usize].next = at as u32;
        self.links[list].prev = at as u32;
    }

    /// Takes the chunk off its list.
    pub fn remove(&mut self, chunk: ChunkId) {
        let at = N + chunk.index();
        let Link { prev, next } = std::mem::replace(&mut self.links[at], Link::alone(at));
        debug_assert_ne!(prev, at as u32);
        self.links[prev as usize].next = next;
        self.links[next as usize].prev = prev;
    }

    /// The oldest chunk of a list.
    pub fn front(&self, list: usize) -> Option<ChunkId> {
        let front = self.links[list].next as usize;
        (front >= N).then(|| ChunkId((front - N) as u32))
    }

    /// Reads what [`Self::remove`] reads: the chunks, then their neighbours. What it returns means nothing.
    pub fn read_neighbours(&self, chunks: &[ChunkId]) -> u32 {
        let links = || {
            chunks
                .iter()
                .filter_map(|chunk| self.links.get(N + chunk.index()))
        };
        let seen = links().fold(0, |seen, link| seen ^ link.prev);
        links().fold(seen, |seen, link| {
            seen ^ self.links[link.prev as usize].next ^ self.links[link.next as usize].prev
        })
    }

    /// Bytes of memory held.
    pub fn state_bytes(&self) -> usize {
        self.links.capacity() * size_of::<Link>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_their_order_and_do_not_mix() {
        let mut lists = ChunkLists::<2>::default();
        [3, 1, 4]
            .into_iter()
            .for_each(|n| lists.push_back(0, ChunkId(n)));
        lists.push_back(1, ChunkId(5));
        assert_eq!(lists.front(0), Some(ChunkId(3)));
        lists.remove(ChunkId(1));
        lists.remove(ChunkId(3));
        assert_eq!(
            (lists.front(0), lists.front(1)),
            (Some(ChunkId(4)), Some(ChunkId(5)))
        );
        lists.remove(ChunkId(4));
        assert_eq!(lists.front(0), None);
        lists.push_back(0, ChunkId(1));
        assert_eq!(lists.front(0), Some(ChunkId(1)));
    }
}
