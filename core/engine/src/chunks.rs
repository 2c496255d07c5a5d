//! The chunks of pool and backing file: where each is, and which pages it holds. 8 bytes a chunk of one page.

mod members;

use members::Members;
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
const WANTS_SAMPLE: u32 = 1 << 5;
/// The flag of [`Chunk::is_of_file`].
const OF_FILE: u32 = 1 << 6;
/// The flag of [`Chunk::is_set_aside`].
const SET_ASIDE: u32 = 1 << 7;
/// It has several pages.
const SEVERAL: u32 = 1 << 8;
/// Its one page has its valid copy here.
const LIVE: u32 = 1 << 9;
/// Its one page has its content only here.
const ABSENT: u32 = 1 << 10;
/// Above the flags: the size.
const BYTES_SHIFT: u32 = 11;

/// What is known of a chunk. 8 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk {
    /// One page: the page. Several: the number of their group.
    members: u32,
    bits: u32,
}

/// Pages of a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// That it was made of.
    pub pages: u8,
    /// Whose valid copy is here (`page.chunk` is this chunk).
    pub live: u8,
    /// Of them, those whose content is only here.
    pub absent: u8,
}

impl Chunk {
    const UNUSED: Self = Self {
        members: 0,
        bits: 0,
    };

    pub fn place(&self) -> Place {
        match self.bits & 7 {
            0 => Place::Unused,
            1 => Place::Storing,
            2 => Place::Pool,
            3 => Place::WritingBack,
            _ => Place::Backing,
        }
    }

    pub fn set_place(&mut self, place: Place) {
        self.bits = self.bits & !7 | place as u32;
    }

    fn is_unused(&self) -> bool {
        self.bits & 7 == Place::Unused as u32
    }

    pub fn hotness(&self) -> Hotness {
        Hotness::ALL[(self.bits >> 3 & 3) as usize]
    }

    /// Size in pool or backing file.
    pub fn stored_bytes(&self) -> u32 {
        self.bits >> BYTES_SHIFT
    }

    pub fn set_stored_bytes(&mut self, bytes: u32) {
        debug_assert!(bytes < 1 << (32 - BYTES_SHIFT));
        let flags = self.bits & ((1 << BYTES_SHIFT) - 1);
        self.bits = flags | bytes << BYTES_SHIFT;
    }

    /// Whether the admission policy is to see the head of its first page before it is stored.
    pub fn wants_sample(&self) -> bool {
        self.bits & WANTS_SAMPLE != 0
    }

    pub fn set_wants_sample(&mut self, wants: bool) {
        self.set_flag(WANTS_SAMPLE, wants);
    }

    /// Whether its pages are those of files.
    pub fn is_of_file(&self) -> bool {
        self.bits & OF_FILE != 0
    }

    pub fn set_of_file(&mut self, is_of_file: bool) {
        self.set_flag(OF_FILE, is_of_file);
    }

    /// Whether it is no candidate for eviction, although it could be one, since the backing file takes nothing.
    pub fn is_set_aside(&self) -> bool {
        self.bits & SET_ASIDE != 0
    }

    pub fn set_set_aside(&mut self, is_set_aside: bool) {
        self.set_flag(SET_ASIDE, is_set_aside);
    }

    fn set_flag(&mut self, flag: u32, on: bool) {
        self.bits = self.bits & !flag | if on { flag } else { 0 };
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
        let flags = Place::Storing as u32 | (hotness as u32) << 3;
        self.chunks[slot] = match pages {
            [page] => Chunk {
                members: page.0,
                bits: flags | LIVE,
            },
            pages => Chunk {
                members: self.members.insert(pages),
                bits: flags | SEVERAL,
            },
        };
        ChunkId(slot as u32)
    }

    /// Gives the number back.
    pub fn remove(&mut self, chunk: ChunkId) {
        let Chunk { members, bits } = self[chunk];
        if bits & SEVERAL != 0 {
            self.members.remove(members);
        }
        self[chunk] = Chunk::UNUSED;
        self.free_in[chunk.index() / CLUSTER] += 1;
        self.free += 1;
    }

    /// The chunk, if there is one of that number.
    pub fn get(&self, chunk: ChunkId) -> Option<&Chunk> {
        self.chunks
            .get(chunk.index())
            .filter(|chunk| !chunk.is_unused())
    }

    /// The pages that the chunk was made of, in their order; some may have no copy here any more.
    pub fn pages(&self, chunk: ChunkId) -> ChunkPages<'_> {
        let Chunk { members, bits } = self[chunk];
        if bits & SEVERAL != 0 {
            ChunkPages::Many(self.members.get(members))
        } else {
            ChunkPages::One([PageId(members)])
        }
    }

    /// How many pages it has, and what became of them.
    pub fn counts(&self, chunk: ChunkId) -> Counts {
        let Chunk { members, bits } = self[chunk];
        if bits & SEVERAL != 0 {
            return self.members.counts(members);
        }
        Counts {
            pages: 1,
            live: u8::from(bits & LIVE != 0),
            absent: u8::from(bits & ABSENT != 0),
        }
    }

    /// One page less has its valid copy here.
    pub fn lose_copy(&mut self, chunk: ChunkId) {
        let entry = &mut self.chunks[chunk.index()];
        if entry.bits & SEVERAL != 0 {
            self.members.counts_mut(entry.members).live -= 1;
        } else {
            debug_assert_ne!(entry.bits & LIVE, 0);
            entry.set_flag(LIVE, false);
        }
    }

    /// One page more, or less, has its content only here; how many it are now.
    pub fn count_absent(&mut self, chunk: ChunkId, more: bool) -> u8 {
        let entry = &mut self.chunks[chunk.index()];
        if entry.bits & SEVERAL == 0 {
            debug_assert_ne!(entry.bits & ABSENT != 0, more);
            entry.set_flag(ABSENT, more);
            return more.into();
        }
        let absent = &mut self.members.counts_mut(entry.members).absent;
        *absent = if more { *absent + 1 } else { *absent - 1 };
        *absent
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
            .filter(|(_, chunk)| !chunk.is_unused())
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
        self.chunks.get(slot).is_some_and(Chunk::is_unused)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn one(table: &mut ChunkTable, page: u32) -> ChunkId {
        table.insert(&[PageId(page)], Hotness::Cold)
    }

    #[test]
    fn a_chunk_costs_8_bytes() {
        assert_eq!(size_of::<Chunk>(), 8);
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
        let held = table.members.places();
        table.remove(a);
        let b = table.insert(&pages[..4], Hotness::Hot);
        let c = table.insert(&pages, Hotness::Warm);
        assert_eq!(table.members.places(), held + 4);
        assert_eq!(&*table.pages(b), &pages[..4]);
        assert_eq!(&*table.pages(c), &pages[..]);
    }

    #[test]
    fn pages_are_counted_in_chunks_of_one_and_of_several() {
        let mut table = ChunkTable::default();
        for pages in [1, 3] {
            let all: Vec<_> = (0..pages).map(PageId).collect();
            let chunk = table.insert(&all, Hotness::Warm);
            table[chunk].set_stored_bytes(131_072);
            for more in 1..=pages {
                assert_eq!(u32::from(table.count_absent(chunk, true)), more);
            }
            assert_eq!(u32::from(table.count_absent(chunk, false)), pages - 1);
            table.lose_copy(chunk);
            let pages = pages as u8;
            let counts = Counts {
                pages,
                live: pages - 1,
                absent: pages - 1,
            };
            assert_eq!(table.counts(chunk), counts);
            assert_eq!(table[chunk].stored_bytes(), 131_072);
            assert_eq!(table[chunk].hotness(), Hotness::Warm);
        }
    }
}
