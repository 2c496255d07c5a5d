//! The chunks of pool and backing file: where each is, and which pages it holds. 12 bytes a chunk.

use serde::{Deserialize, Serialize};
use warmswap_policy::room::make_room;
use warmswap_policy::{ChunkId, Hotness, PageId};

/// Where a chunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Place {
    /// Nowhere: the number is free.
    Unused,
    /// Being compressed, or written as it is; its pages are still in their frames.
    Storing,
    /// In the pool.
    Pool,
    /// In the pool, on its way to the backing file.
    WritingBack,
    /// In the backing file.
    Backing,
}

/// The largest chunk, in pages (128 KiB).
pub const MAX_CHUNK_PAGES: usize = 32;

/// Numbers are given out in clusters, as the kernel gives out swap slots: chunks that are stored one
/// after another get consecutive numbers, as far as possible.
const CLUSTER: usize = 64;

/// The flag of [`Chunk::wants_sample`], above place (3 bits) and hotness (2 bits).
const WANTS_SAMPLE: u8 = 1 << 5;
/// The flag of [`Chunk::is_of_file`].
const OF_FILE: u8 = 1 << 6;
/// The flag of [`Chunk::is_set_aside`].
const SET_ASIDE: u8 = 1 << 7;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk {
    /// One page: the page. Several: where its members begin.
    members: u32,
    /// Size in pool or backing file.
    pub stored_bytes: u32,
    len: u8,
    /// Members whose valid copy is here (`page.chunk` is this chunk).
    pub live: u8,
    /// Of them, those whose content is only here.
    pub absent: u8,
    flags: u8,
}

impl Chunk {
    const UNUSED: Self = Self {
        members: 0,
        stored_bytes: 0,
        len: 0,
        live: 0,
        absent: 0,
        flags: 0,
    };

    pub fn place(&self) -> Place {
        match self.flags & 7 {
            0 => Place::Unused,
            1 => Place::Storing,
            2 => Place::Pool,
            3 => Place::WritingBack,
            _ => Place::Backing,
        }
    }

    pub fn set_place(&mut self, place: Place) {
        self.flags = self.flags & !7 | place as u8;
    }

    pub fn hotness(&self) -> Hotness {
        Hotness::ALL[usize::from(self.flags >> 3 & 3)]
    }

    /// Whether the admission policy is to see the head of its first page before it is stored.
    pub fn wants_sample(&self) -> bool {
        self.flags & WANTS_SAMPLE != 0
    }

    pub fn set_wants_sample(&mut self, wants: bool) {
        self.set_flag(WANTS_SAMPLE, wants);
    }

    /// Whether its pages are those of files.
    pub fn is_of_file(&self) -> bool {
        self.flags & OF_FILE != 0
    }

    pub fn set_of_file(&mut self, is_of_file: bool) {
        self.set_flag(OF_FILE, is_of_file);
    }

    /// Whether it is no candidate for eviction, although it could be one, since the backing file takes nothing.
    pub fn is_set_aside(&self) -> bool {
        self.flags & SET_ASIDE != 0
    }

    pub fn set_set_aside(&mut self, is_set_aside: bool) {
        self.set_flag(SET_ASIDE, is_set_aside);
    }

    fn set_flag(&mut self, flag: u8, on: bool) {
        self.flags = self.flags & !flag | if on { flag } else { 0 };
    }

    /// Pages that it was made of.
    pub fn page_count(&self) -> u32 {
        self.len.into()
    }
}

/// All chunks, and the numbers that are free.
#[derive(Debug, Default)]
pub(crate) struct ChunkTable {
    chunks: Vec<Chunk>,
    members: Members,
    /// Free numbers in each cluster.
    free_in: Vec<u8>,
    free: usize,
    /// The next number to try.
    cursor: usize,
}

impl ChunkTable {
    /// A new chunk, `Storing`, of these pages.
    pub fn insert(&mut self, pages: &[PageId], hotness: Hotness) -> ChunkId {
        debug_assert!((1..=MAX_CHUNK_PAGES).contains(&pages.len()));
        let slot = self.take_slot();
        let members = match pages {
            [page] => page.0,
            pages => self.members.insert(pages),
        };
        let len = pages.len() as u8;
        let flags = Place::Storing as u8 | (hotness as u8) << 3;
        self.chunks[slot] = Chunk {
            members,
            stored_bytes: 0,
            len,
            live: len,
            absent: 0,
            flags,
        };
        ChunkId(slot as u32)
    }

    /// Gives the number back.
    pub fn remove(&mut self, chunk: ChunkId) {
        let Chunk { members, len, .. } = self[chunk];
        if len > 1 {
            self.members.remove(members, usize::from(len));
        }
        self[chunk] = Chunk::UNUSED;
        self.free_in[chunk.index() / CLUSTER] += 1;
        self.free += 1;
    }

    /// The chunk, if there is one of that number.
    pub fn get(&self, chunk: ChunkId) -> Option<&Chunk> {
        self.chunks.get(chunk.index()).filter(|chunk| chunk.len > 0)
    }

    /// The pages that the chunk was made of, in their order; some may have no copy here any more.
    pub fn pages(&self, chunk: ChunkId) -> ChunkPages<'_> {
        let Chunk { members, len, .. } = self[chunk];
        match len {
            1 => ChunkPages::One([PageId(members)]),
            len => ChunkPages::Many(self.members.get(members, usize::from(len))),
        }
    }

    /// How many chunks are in use.
    pub fn len(&self) -> usize {
        self.chunks.len() - self.free
    }

    /// Every chunk in use.
    pub fn iter(&self) -> impl Iterator<Item = (ChunkId, &Chunk)> {
        (0..)
            .map(ChunkId)
            .zip(&self.chunks)
            .filter(|(_, chunk)| chunk.len > 0)
    }

    /// Bytes of memory held.
    pub fn state_bytes(&self) -> usize {
        self.chunks.capacity() * size_of::<Chunk>()
            + self.free_in.capacity()
            + self.members.state_bytes()
    }

    fn take_slot(&mut self) -> usize {
        if !self.cursor.is_multiple_of(CLUSTER) && self.is_free(self.cursor) {
            return self.use_slot(self.cursor);
        }
        // The rest of this cluster first, so that numbers go on upwards.
        let end = self.cursor.next_multiple_of(CLUSTER).min(self.chunks.len());
        if let Some(slot) = (self.cursor..end).find(|&slot| self.is_free(slot)) {
            return self.use_slot(slot);
        }
        // Then the next cluster that has free numbers, if an eighth of all is free; else a new cluster.
        if self.free == 0 || self.free < self.chunks.len() / 8 {
            let slot = self.chunks.len();
            make_room(&mut self.chunks, slot + CLUSTER, CLUSTER);
            self.chunks.resize(slot + CLUSTER, Chunk::UNUSED);
            self.free_in.push(CLUSTER as u8);
            self.free += CLUSTER;
            return self.use_slot(slot);
        }
        let clusters = self.free_in.len();
        let from = end / CLUSTER;
        let cluster = (0..clusters)
            .map(|n| (from + n) % clusters)
            .find(|&cluster| self.free_in[cluster] > 0)
            .expect("free counts the free numbers of all clusters");
        let first = cluster * CLUSTER;
        let slot = (first..first + CLUSTER)
            .find(|&slot| self.is_free(slot))
            .expect("free_in counts this cluster's");
        self.use_slot(slot)
    }

    fn is_free(&self, slot: usize) -> bool {
        self.chunks.get(slot).is_some_and(|chunk| chunk.len == 0)
    }

    fn use_slot(&mut self, slot: usize) -> usize {
        self.free_in[slot / CLUSTER] -= 1;
        self.free -= 1;
        self.cursor = slot + 1;
        slot
    }
}

impl std::ops::Index<ChunkId> for ChunkTable {
    type Output = Chunk;
    fn index(&self, chunk: ChunkId) -> &Chunk {
        &self.chunks[chunk.index()]
    }
}

impl std::ops::IndexMut<ChunkId> for ChunkTable {
    fn index_mut(&mut self, chunk: ChunkId) -> &mut Chunk {
        &mut self.chunks[chunk.index()]
    }
}

/// The pages of a chunk.
#[derive(Clone, Copy, Debug)]
pub enum ChunkPages<'a> {
    /// A chunk of one page, or of pieces of one.
    One([PageId; 1]),
    /// A chunk of several pages.
    Many(&'a [PageId]),
}

impl std::ops::Deref for ChunkPages<'_> {
    type Target = [PageId];
    fn deref(&self) -> &[PageId] {
        match self {
            Self::One(page) => page,
            Self::Many(pages) => pages,
        }
    }
}

/// Member lists of chunks of several pages, in runs of 2, 4, 8, 16 or 32 places.
#[derive(Debug, Default)]
struct Members {
    places: Vec<PageId>,
    free: [Vec<u32>; 6],
}

impl Members {
    fn class(len: usize) -> usize {
        len.next_power_of_two().trailing_zeros() as usize
    }

    fn insert(&mut self, pages: &[PageId]) -> u32 {
        let class = Self::class(pages.len());
        let first = self.free[class].pop().unwrap_or_else(|| {
            let first = self.places.len();
            let places = 1 << class;
            make_room(&mut self.places, first + places, 1024);
            self.places.resize(first + places, PageId::NONE);
            first as u32
        });
        self.places[first as usize..][..pages.len()].copy_from_slice(pages);
        first
    }

    fn remove(&mut self, first: u32, len: usize) {
        self.free[Self::class(len)].push(first);
    }

    fn get(&self, first: u32, len: usize) -> &[PageId] {
        &self.places[first as usize..][..len]
    }

    fn state_bytes(&self) -> usize {
        (self.places.capacity() + self.free.iter().map(Vec::capacity).sum::<usize>()) * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(table: &mut ChunkTable, page: u32) -> ChunkId {
        table.insert(&[PageId(page)], Hotness::Cold)
    }

    #[test]
    fn a_chunk_costs_12_bytes() {
        assert_eq!(size_of::<Chunk>(), 12);
    }

    #[test]
    fn chunks_stored_in_a_row_have_consecutive_numbers() {
        let mut table = ChunkTable::default();
        let ids: Vec<_> = (0..200).map(|n| one(&mut table, n).0).collect();
        assert_eq!(ids, (0..200).collect::<Vec<_>>());
    }

    #[test]
    fn freed_numbers_are_used_again_in_runs_and_the_table_stays_small() {
        let mut table = ChunkTable::default();
        let ids: Vec<_> = (0..1000).map(|n| one(&mut table, n)).collect();
        ids[100..400].iter().for_each(|&id| table.remove(id));
        let again: Vec<_> = (0..300).map(|n| one(&mut table, n).0).collect();
        let consecutive = again
            .windows(2)
            .filter(|pair| pair[1] == pair[0] + 1)
            .count();
        assert!(consecutive >= 295, "{consecutive}");
        assert!(table.chunks.len() <= 1088);
    }

    #[test]
    fn several_members_keep_their_order_and_their_place_is_used_again() {
        let mut table = ChunkTable::default();
        let pages: Vec<_> = (10..15).map(PageId).collect();
        let a = table.insert(&pages, Hotness::Hot);
        assert_eq!(&*table.pages(a), &pages[..]);
        assert_eq!(table[a].hotness(), Hotness::Hot);
        assert_eq!(table[a].place(), Place::Storing);
        let held = table.members.places.len();
        table.remove(a);
        table.insert(&pages[..4], Hotness::Hot);
        table.insert(&pages, Hotness::Warm);
        assert_eq!(table.members.places.len(), held + 4);
    }
}
