//! Doubly linked lists of chunks over one array of links: 12 bytes a chunk.

use crate::page::ChunkId;

#[derive(Clone, Copy, Debug)]
struct Link {
    prev: ChunkId,
    next: ChunkId,
    /// Which list the chunk is on; [`NO_LIST`] for none.
    list: u8,
}

const NO_LIST: u8 = u8::MAX;

/// `N` lists; a chunk is on at most one. Front = oldest.
#[derive(Debug)]
pub(super) struct ChunkLists<const N: usize> {
    links: Vec<Link>,
    ends: [(ChunkId, ChunkId); N],
}

impl<const N: usize> Default for ChunkLists<N> {
    fn default() -> Self {
        Self {
            links: Vec::new(),
            ends: [(ChunkId::NONE, ChunkId::NONE); N],
        }
    }
}

impl<const N: usize> ChunkLists<N> {
    /// Appends the chunk at the young end of a list; it must be on none.
    pub fn push_back(&mut self, list: usize, chunk: ChunkId) {
        if self.links.len() <= chunk.index() {
            let free = Link {
                prev: ChunkId::NONE,
                next: ChunkId::NONE,
                list: NO_LIST,
            };
            self.links.resize(chunk.index() + 1, free);
        }
        let (_, back) = self.ends[list];
        debug_assert_eq!(self.links[chunk.index()].list, NO_LIST);
        self.links[chunk.index()] = Link {
            prev: back,
            next: ChunkId::NONE,
            list: list as u8,
        };
        match back {
            ChunkId::NONE => self.ends[list].0 = chunk,
            back => self.links[back.index()].next = chunk,
        }
        self.ends[list].1 = chunk;
    }

    /// Takes the chunk off its list.
    pub fn remove(&mut self, chunk: ChunkId) {
        let Link { prev, next, list } = self.links[chunk.index()];
        debug_assert_ne!(list, NO_LIST);
        let ends = &mut self.ends[usize::from(list)];
        match prev {
            ChunkId::NONE => ends.0 = next,
            prev => self.links[prev.index()].next = next,
        }
        match next {
            ChunkId::NONE => ends.1 = prev,
            next => self.links[next.index()].prev = prev,
        }
        self.links[chunk.index()].list = NO_LIST;
    }

    /// The oldest chunk of a list.
    pub fn front(&self, list: usize) -> Option<ChunkId> {
        let front = self.ends[list].0;
        (front != ChunkId::NONE).then_some(front)
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
