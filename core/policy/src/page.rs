//! What the engine and its policies know of a page: 16 bytes each, in blocks of 64 neighbours.

use crate::room::make_room;
use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;
use serde::{Deserialize, Serialize};
use std::hash::BuildHasher;
use warmswap_page::{AppId, FileId, PageAddr};

/// Pages of one block: neighbours in the same address space share an index entry.
pub const BLOCK_PAGES: usize = 64;
const BLOCK_SHIFT: u32 = BLOCK_PAGES.trailing_zeros();

/// A page that the table knows; dense, so that lists and marks are plain arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PageId(pub u32);

impl PageId {
    /// No page: the end of a list.
    pub const NONE: Self = Self(u32::MAX);

    /// The index in arrays over all pages.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A chunk in the pool or in the backing file; its number is its place in store order, as the sector
/// is in a zram device: a chunk stored right after another has, as a rule, the next number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ChunkId(pub u32);

impl ChunkId {
    /// No chunk: the page has no stored copy.
    pub const NONE: Self = Self(u32::MAX);

    /// The index in arrays over all chunks.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// An application's index in per-application arrays.
pub type AppIndex = usize;

/// How hot a page is (Ariadne section 1): used by relaunches, used by execution, or neither.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Hotness {
    /// Touched in the last launch window.
    Hot,
    /// Touched in an earlier launch window, or again during execution.
    Warm,
    /// Neither.
    Cold,
}

impl Hotness {
    /// All classes, hottest first.
    pub const ALL: [Self; 3] = [Self::Hot, Self::Warm, Self::Cold];

    /// The index in arrays over the three classes.
    pub fn index(self) -> usize {
        self as usize
    }
}

/// Where the content of a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PageState {
    /// Nowhere: not touched yet, or freed.
    Absent,
    /// In a frame, on a list of the reclaim policy.
    Resident,
    /// In a frame, on its way out: its chunk is being stored.
    Leaving,
    /// In a frame of the prefetch buffer, not asked for yet.
    Buffered,
    /// In its chunk only.
    Stored,
    /// On its way in: its chunk is being loaded.
    Loading,
    /// In its file only (a clean page of a file that was reclaimed).
    Discarded,
}

/// What the engine and its policies know of a page. 16 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Page {
    /// The neighbour towards the front (least recently used) of the list it is on.
    pub(crate) prev: PageId,
    /// The neighbour towards the back (most recently used); on no list, what [`Page::set_note`] keeps.
    pub(crate) next: PageId,
    /// The chunk that holds a valid copy of the page's content, or [`ChunkId::NONE`].
    pub chunk: ChunkId,
    /// Where the content is.
    pub state: PageState,
    /// The reclaim policy's label: a list of it. Kept while the page is stored, so that hotness survives.
    pub label: u8,
    marks: u8,
    /// The reclaim policy's stamp: for HotnessOrg the launch in which the page was last touched.
    pub epoch: u8,
}

/// One bit that is known of a page.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub enum Mark {
    /// Written since it last had a valid stored copy, or never stored; for a page of a file, written since
    /// it was read.
    Dirty = 1,
    /// Touched since the reclaim policy last looked.
    Referenced = 2,
    /// Came into its frame by prefetch and was not touched since.
    Prefetched = 4,
    /// The admission policy has admitted it, on its way out.
    Admitted = 8,
    /// Part of the footprint of the launch under way: brought back, or on its way, and not touched since.
    Expected = 16,
}

impl Page {
    const ABSENT: Self = Self {
        prev: PageId::NONE,
        next: PageId::NONE,
        chunk: ChunkId::NONE,
        state: PageState::Absent,
        label: 0,
        marks: 0,
        epoch: 0,
    };

    /// True when the mark is set.
    pub fn has(&self, mark: Mark) -> bool {
        self.marks & mark as u8 != 0
    }

    /// Sets the mark.
    pub fn set(&mut self, mark: Mark) {
        self.marks |= mark as u8;
    }

    /// Clears the mark and tells whether it was set.
    pub fn take(&mut self, mark: Mark) -> bool {
        let was = self.has(mark);
        self.marks &= !(mark as u8);
        was
    }

    /// Makes the page one that never existed. It must be on no list.
    pub fn reset(&mut self) {
        *self = Self::ABSENT;
    }

    /// Keeps a number with a page that is on no list; it is there until the page is put on one.
    pub(crate) fn set_note(&mut self, note: u32) {
        self.next = PageId(note);
    }

    /// The number that was kept; any other if the page was on a list since.
    pub(crate) fn note(&self) -> u32 {
        self.next.0
    }

    /// True when the page has a frame, be it on its way in or out.
    pub fn in_frame(&self) -> bool {
        matches!(
            self.state,
            PageState::Resident | PageState::Leaving | PageState::Buffered | PageState::Loading
        )
    }
}

/// The address space that a block of pages belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Space {
    App(AppId),
    File(FileId),
}

/// The address space of a block, and its number there.
type Key = (Space, u64);

#[derive(Clone, Copy, Debug)]
struct Block {
    space: Space,
    /// The application whose page it is; for a file, the one that touched the block first.
    owner: AppId,
    number: u64,
}

impl Block {
    fn key(&self) -> Key {
        (self.space, self.number)
    }

    /// The number of its first page in its space.
    fn first_page(&self) -> u64 {
        self.number << BLOCK_SHIFT
    }
}

fn hash(key: Key) -> u64 {
    FxBuildHasher.hash_one(key)
}

/// All pages that the engine knows: 16 bytes a page, and about one byte a page for blocks and index.
///
/// A look-up costs one hash of a small map (one entry for 64 pages), skipped when the block is the one
/// of the last look-up.
#[derive(Debug)]
pub struct PageTable {
    pages: Vec<Page>,
    blocks: Vec<Block>,
    /// Numbers of blocks, by space and number of the block.
    index: HashTable<u32>,
    free_blocks: Vec<u32>,
    by_app: Vec<Vec<u32>>,
    last: (Key, u32),
    /// What [`Self::anticipate`] found for the look-ups that follow, in their order, and how much of it they took.
    ahead: (Vec<(Key, u32)>, usize),
}

impl Default for PageTable {
    fn default() -> Self {
        Self {
            pages: Vec::new(),
            blocks: Vec::new(),
            index: HashTable::new(),
            free_blocks: Vec::new(),
            by_app: Vec::new(),
            last: NO_BLOCK,
            ahead: (Vec::new(), 0),
        }
    }
}

/// Of no look-up.
const NO_BLOCK: (Key, u32) = ((Space::App(AppId(u16::MAX)), u64::MAX), 0);

fn pages_of_block(number: u32) -> impl Iterator<Item = PageId> {
    let first = number << BLOCK_SHIFT;
    (first..first + BLOCK_PAGES as u32).map(PageId)
}

fn split(app: AppId, addr: PageAddr) -> (Key, u32) {
    let (space, number) = match addr {
        PageAddr::Anon { number } => (Space::App(app), number),
        PageAddr::File { file, number } => (Space::File(file), number),
    };
    (
        (space, number >> BLOCK_SHIFT),
        (number as u32) & (BLOCK_PAGES as u32 - 1),
    )
}

impl PageTable {
    /// The page at an address, if the table knows its block.
    pub fn find(&mut self, app: AppId, addr: PageAddr) -> Option<PageId> {
        let (key, offset) = split(app, addr);
        if self.last.0 != key {
            let (ahead, taken) = &mut self.ahead;
            self.last = match ahead.get(*taken) {
                Some(&found) if found.0 == key => {
                    *taken += 1;
                    found
                }
                _ => self.search(key)?,
            };
        }
        Some(PageId((self.last.1 << BLOCK_SHIFT) + offset))
    }

    fn search(&self, key: Key) -> Option<(Key, u32)> {
        let is_it = |&block: &u32| self.blocks[block as usize].key() == key;
        let block = self.index.find(hash(key), is_it)?;
        Some((key, *block))
    }

    /// Looks up pages that will be looked up next, in that order, which is not searched for again then. Those that the
    /// table knows are put into `pages`; their number.
    pub fn anticipate(
        &mut self,
        accesses: impl Iterator<Item = (AppId, PageAddr)>,
        pages: &mut [PageId],
    ) -> usize {
        self.ahead.0.clear();
        self.ahead.1 = 0;
        let (mut last, mut len) = (self.last, 0);
        for (app, addr) in accesses.take(pages.len()) {
            let (key, offset) = split(app, addr);
            if last.0 != key {
                let Some(found) = self.search(key) else {
                    continue;
                };
                self.ahead.0.push(found);
                last = found;
            }
            pages[len] = PageId((last.1 << BLOCK_SHIFT) + offset);
            len += 1;
        }
        len
    }

    /// Reads what a list reads to move the page, so that it is near; what it returns means nothing.
    pub fn read_neighbours(&self, page: PageId) -> u32 {
        let Page { prev, next, .. } = self[page];
        let read = |page: PageId| self.pages.get(page.index()).map_or(0, |page| page.chunk.0);
        read(prev) ^ read(next)
    }

    /// The page at an address; its block is made if the table does not know it.
    pub fn find_or_insert(&mut self, app: AppId, addr: PageAddr) -> PageId {
        if let Some(page) = self.find(app, addr) {
            return page;
        }
        let (key, offset) = split(app, addr);
        let block = Block {
            space: key.0,
            owner: app,
            number: key.1,
        };
        let number = match self.free_blocks.pop() {
            Some(number) => {
                self.blocks[number as usize] = block;
                number
            }
            None => {
                let number = self.blocks.len() as u32;
                self.grow();
                self.blocks.push(block);
                self.pages.extend([Page::ABSENT; BLOCK_PAGES]);
                number
            }
        };
        let blocks = &self.blocks;
        let rehash = |&block: &u32| hash(blocks[block as usize].key());
        self.index.insert_unique(hash(key), number, rehash);
        if let Space::App(app) = key.0 {
            let app = usize::from(app.0);
            if self.by_app.len() <= app {
                self.by_app.resize_with(app + 1, Vec::new);
            }
            self.by_app[app].push(number);
        }
        self.last = (key, number);
        PageId((number << BLOCK_SHIFT) + offset)
    }

    /// Room for one more block.
    fn grow(&mut self) {
        let blocks = self.blocks.len() + 1;
        make_room(&mut self.blocks, blocks, 64);
        make_room(&mut self.pages, blocks * BLOCK_PAGES, 64 * BLOCK_PAGES);
    }

    /// Forgets those of an application's blocks for whose first page, by its number, `is_gone` holds. The caller has
    /// taken their pages off every list and chunk; from now on the numbers may stand for other pages. Linear in the
    /// application's blocks.
    pub fn forget_blocks(&mut self, app: AppId, is_gone: impl Fn(u64) -> bool) {
        let Some(blocks) = self.by_app.get_mut(usize::from(app.0)) else {
            return;
        };
        blocks.retain(|&number| {
            let block = self.blocks[number as usize];
            if !is_gone(block.first_page()) {
                return true;
            }
            if let Ok(entry) = self
                .index
                .find_entry(hash(block.key()), |&other| other == number)
            {
                entry.remove();
            }
            let first = (number as usize) << BLOCK_SHIFT;
            self.pages[first..first + BLOCK_PAGES].fill(Page::ABSENT);
            self.free_blocks.push(number);
            false
        });
        if blocks.is_empty() {
            *blocks = Vec::new();
        }
        self.last = NO_BLOCK;
        self.ahead.0.clear();
    }

    /// The application's anonymous pages, block by block in the order in which the blocks were first
    /// touched; absent ones included.
    pub fn pages_of(&self, app: AppId) -> impl Iterator<Item = PageId> + '_ {
        self.by_app
            .get(usize::from(app.0))
            .into_iter()
            .flatten()
            .flat_map(|&number| pages_of_block(number))
    }

    /// The pages of those of the application's blocks for whose first page, by its number, `is_wanted` holds; absent
    /// ones included.
    pub fn pages_of_blocks(
        &self,
        app: AppId,
        is_wanted: impl Fn(u64) -> bool,
    ) -> impl Iterator<Item = PageId> {
        let blocks = self.by_app.get(usize::from(app.0)).into_iter().flatten();
        let wanted =
            blocks.filter(move |&&number| is_wanted(self.blocks[number as usize].first_page()));
        wanted.flat_map(|&number| pages_of_block(number))
    }

    /// Every page of the table, absent ones included.
    pub fn all(&self) -> impl Iterator<Item = PageId> + use<> {
        (0..self.pages.len() as u32).map(PageId)
    }

    /// The application that owns the page.
    pub fn owner(&self, page: PageId) -> AppId {
        self.blocks[page.index() >> BLOCK_SHIFT].owner
    }

    /// True for a page of a file.
    pub fn is_file(&self, page: PageId) -> bool {
        matches!(
            self.blocks[page.index() >> BLOCK_SHIFT].space,
            Space::File(_)
        )
    }

    /// The page's address; together with [`Self::owner`] it is what the host called the page.
    pub fn addr(&self, page: PageId) -> PageAddr {
        let block = &self.blocks[page.index() >> BLOCK_SHIFT];
        let number = (block.number << BLOCK_SHIFT) + u64::from(page.0 & (BLOCK_PAGES as u32 - 1));
        match block.space {
            Space::App(_) => PageAddr::Anon { number },
            Space::File(file) => PageAddr::File { file, number },
        }
    }

    /// Bytes of memory that the table holds.
    pub fn state_bytes(&self) -> usize {
        self.pages.capacity() * size_of::<Page>()
            + self.blocks.capacity() * size_of::<Block>()
            + self.index.allocation_size()
            + self
                .by_app
                .iter()
                .map(|blocks| blocks.capacity() * 4)
                .sum::<usize>()
            + self.free_blocks.capacity() * 4
            + self.ahead.0.capacity() * size_of::<(Key, u32)>()
    }
}

impl std::ops::Index<PageId> for PageTable {
    type Output = Page;
    fn index(&self, page: PageId) -> &Page {
        &self.pages[page.index()]
    }
}

impl std::ops::IndexMut<PageId> for PageTable {
    fn index_mut(&mut self, page: PageId) -> &mut Page {
        &mut self.pages[page.index()]
    }
}

#[cfg(test)]
mod tests;
