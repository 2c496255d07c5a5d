//! Chunks by the page of the pool that they lie in: what is evicted together.
//!
//! A pool whose pages hold up to three objects wins a page when all of them leave. In a pool of size
//! classes an object shares its memory with dozens of others, which need not leave with it: there,
//! each chunk is a group of its own.

use super::Chosen;
use crate::page::ChunkId;
use crate::stored::StoredChunk;

/// Chunks of one page of the pool at most.
pub(super) const MEMBERS: usize = 3;
/// Pieces that a page's room is counted in, as in z3fold.
pub(super) const PAGE_CHUNKS: u32 = 64;
const CHUNK_BYTES: u32 = 4096 / PAGE_CHUNKS;

/// No group, page, or neighbour.
const NONE: u32 = u32::MAX;

/// The chunks of one page of the pool. 56 bytes.
#[derive(Clone, Copy, Debug)]
pub struct ChunkGroup {
    /// Sum of the stamps of its chunks.
    pub stamps: u64,
    members: [ChunkId; MEMBERS],
    /// The clock when each member came in. It wraps after 2^32 stores, which puts the order of the lists
    /// off until they have turned over, and nothing else.
    stamp_of: [u32; MEMBERS],
    pool_page: u32,
    prev: u32,
    next: u32,
    /// Room of each member, in 64ths of a page; 0 for no member.
    chunks: [u8; MEMBERS],
    is_file: [bool; MEMBERS],
}

impl ChunkGroup {
    const EMPTY: Self = Self {
        stamps: 0,
        members: [ChunkId::NONE; MEMBERS],
        stamp_of: [0; MEMBERS],
        pool_page: NONE,
        prev: NONE,
        next: NONE,
        chunks: [0; MEMBERS],
        is_file: [false; MEMBERS],
    };

    /// Its chunks.
    pub fn members(&self) -> impl Iterator<Item = ChunkId> {
        self.members
            .into_iter()
            .filter(|&chunk| chunk != ChunkId::NONE)
    }

    /// How many chunks it has.
    pub fn len(&self) -> usize {
        self.members().count()
    }

    /// How many of them are of files.
    pub fn files(&self) -> usize {
        self.is_file.into_iter().filter(|&is_file| is_file).count()
    }

    /// Room that is free, in 64ths of a page; the page's header is not.
    pub fn free_chunks(&self) -> u32 {
        let used: u32 = self.chunks.into_iter().map(u32::from).sum();
        (PAGE_CHUNKS - 1).saturating_sub(used)
    }
}

/// A list of groups, with the sum of their stamps.
#[derive(Clone, Copy, Debug)]
pub struct List {
    head: u32,
    tail: u32,
    pub len: u64,
    stamps: u64,
}

impl Default for List {
    fn default() -> Self {
        Self {
            head: NONE,
            tail: NONE,
            len: 0,
            stamps: 0,
        }
    }
}

impl List {
    /// A group of the list lost this much of its stamps.
    pub fn lose(&mut self, stamps: u64) {
        self.stamps -= stamps;
    }

    /// The group at the old end.
    pub fn tail(&self) -> Option<u32> {
        (self.tail != NONE).then_some(self.tail)
    }
}

/// Which end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The young one.
    Head,
    /// The old one.
    Tail,
}

#[derive(Clone, Copy, Debug)]
struct Membership {
    /// The page of the pool, or `NONE` for a chunk by itself.
    pool_page: u32,
    /// The group, or `NONE` for a chunk that is in none.
    group: u32,
}

/// All groups: 56 bytes each, 8 bytes a chunk number, 4 bytes a page of the pool.
#[derive(Debug, Default)]
pub struct ChunkGroups {
    groups: Vec<ChunkGroup>,
    free: Vec<u32>,
    memberships: Vec<Membership>,
    of_pool_page: Vec<u32>,
    clock: u32,
}

impl ChunkGroups {
    /// The chunk lies in this page of the pool, or by itself.
    pub fn placed(&mut self, chunk: ChunkId, pool_page: Option<u32>) {
        let pool_page = pool_page.unwrap_or(NONE);
        if self.memberships.len() <= chunk.index() {
            let nowhere = Membership {
                pool_page: NONE,
                group: NONE,
            };
            self.memberships.resize(chunk.index() + 1, nowhere);
        }
        self.memberships[chunk.index()].pool_page = pool_page;
    }

    /// The group that a chunk would join; `None` when it makes a new one.
    pub fn of(&self, chunk: ChunkId) -> Option<u32> {
        let membership = self.memberships.get(chunk.index())?;
        let group = *self.of_pool_page.get(membership.pool_page as usize)?;
        (group != NONE).then_some(group)
    }

    /// The group that a chunk is in.
    pub fn group_of(&self, chunk: ChunkId) -> Option<u32> {
        let group = self.memberships.get(chunk.index())?.group;
        (group != NONE).then_some(group)
    }

    /// Adds the chunk to its group, which is on no list, and gives it the next stamp.
    pub fn add(&mut self, chunk: ChunkId, stored: StoredChunk) -> u32 {
        if self.memberships.len() <= chunk.index() {
            self.placed(chunk, None);
        }
        let number = self.of(chunk).unwrap_or_else(|| self.new_group(chunk));
        self.memberships[chunk.index()].group = number;
        let group = &mut self.groups[number as usize];
        let at = group
            .members
            .iter()
            .position(|&member| member == ChunkId::NONE)
            .expect("a page of the pool holds three objects");
        group.members[at] = chunk;
        group.stamp_of[at] = self.clock;
        group.stamps += u64::from(self.clock);
        let bytes = stored.bytes.div_ceil(stored.pages.max(1));
        group.chunks[at] = bytes.div_ceil(CHUNK_BYTES).min(PAGE_CHUNKS) as u8;
        group.is_file[at] = stored.is_file;
        self.clock = self.clock.wrapping_add(1);
        number
    }

    /// Takes the chunk out of its group, which is on no list. The group is gone with its last chunk.
    pub fn take(&mut self, chunk: ChunkId) -> Option<u32> {
        let number = std::mem::replace(&mut self.memberships[chunk.index()].group, NONE);
        let group = &mut self.groups[number as usize];
        let at = group
            .members
            .iter()
            .position(|&member| member == chunk)
            .expect("the chunk is in its group");
        group.members[at] = ChunkId::NONE;
        group.stamps -= u64::from(group.stamp_of[at]);
        group.chunks[at] = 0;
        group.is_file[at] = false;
        if group.members().next().is_some() {
            return Some(number);
        }
        if group.pool_page != NONE {
            self.of_pool_page[group.pool_page as usize] = NONE;
        }
        self.free.push(number);
        None
    }

    fn new_group(&mut self, chunk: ChunkId) -> u32 {
        let pool_page = self.memberships[chunk.index()].pool_page;
        let group = ChunkGroup {
            pool_page,
            ..ChunkGroup::EMPTY
        };
        let number = match self.free.pop() {
            Some(number) => {
                self.groups[number as usize] = group;
                number
            }
            None => {
                self.groups.push(group);
                self.groups.len() as u32 - 1
            }
        };
        if pool_page != NONE {
            let at = pool_page as usize;
            if self.of_pool_page.len() <= at {
                self.of_pool_page.resize(at + 1, NONE);
            }
            self.of_pool_page[at] = number;
        }
        number
    }

    /// Puts a group on a list, at one of its ends.
    pub fn link(&mut self, list: &mut List, number: u32, end: End) {
        let group = &mut self.groups[number as usize];
        list.len += 1;
        list.stamps += group.stamps;
        let (prev, next) = match end {
            End::Head => (NONE, std::mem::replace(&mut list.head, number)),
            End::Tail => (std::mem::replace(&mut list.tail, number), NONE),
        };
        (group.prev, group.next) = (prev, next);
        match prev {
            NONE => list.head = number,
            prev => self.groups[prev as usize].next = number,
        }
        match next {
            NONE => list.tail = number,
            next => self.groups[next as usize].prev = number,
        }
    }

    /// The end at which a group belongs: the head when it is younger than the list's average.
    pub fn end_by_age(&self, list: &List, number: u32) -> End {
        if self[number].stamps * list.len > list.stamps {
            End::Head
        } else {
            End::Tail
        }
    }

    /// Takes a group off its list, before it changes.
    pub fn unlink(&mut self, list: &mut List, number: u32) {
        let ChunkGroup {
            prev, next, stamps, ..
        } = self[number];
        list.len -= 1;
        list.stamps -= stamps;
        match prev {
            NONE => list.head = next,
            prev => self.groups[prev as usize].next = next,
        }
        match next {
            NONE => list.tail = prev,
            next => self.groups[next as usize].prev = prev,
        }
    }

    /// Bytes of memory held.
    pub fn state_bytes(&self) -> usize {
        self.groups.capacity() * size_of::<ChunkGroup>()
            + self.memberships.capacity() * size_of::<Membership>()
            + (self.free.capacity() + self.of_pool_page.capacity()) * size_of::<u32>()
    }
}

impl std::ops::Index<u32> for ChunkGroups {
    type Output = ChunkGroup;

    fn index(&self, number: u32) -> &ChunkGroup {
        &self.groups[number as usize]
    }
}

/// The chunks of the group that is being evicted: those that it had when it was chosen.
#[derive(Debug, Default)]
pub(super) struct Condemned {
    chunks: Vec<ChunkId>,
    chosen: Chosen,
}

impl Condemned {
    /// The next of them.
    pub fn next(&self) -> Option<ChunkId> {
        self.chunks.last().copied()
    }

    /// All chunks of this group.
    pub fn choose(&mut self, group: &ChunkGroup) {
        self.chunks.clear();
        self.chunks.extend(group.members());
        self.chosen.add(group.len(), group.files());
    }

    /// What was chosen so far.
    pub fn chosen(&self) -> Chosen {
        self.chosen
    }

    /// The chunk left the pool.
    pub fn strike(&mut self, chunk: ChunkId) {
        self.chunks.retain(|&other| other != chunk);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_costs_56_bytes() {
        assert_eq!(size_of::<ChunkGroup>(), 56);
    }
}
