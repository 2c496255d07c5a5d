//! What a host may ask of an engine.

use super::Engine;
use super::evidence::Evidence;
use crate::budget::{Limits, Usage};
use crate::chunks::ChunkPages;
use crate::counters::Counters;
use warmswap_page::{AppId, PageAddr};
use warmswap_policy::eviction::Chosen;
use warmswap_policy::reclaim::{NextUse, Ruling};
use warmswap_policy::{ChunkId, Hotness, PageId, PageState};

impl Engine {
    /// Which rule of reclaim rules, where there are several.
    pub fn ruling(&self) -> Option<Ruling> {
        self.scheme.reclaim.ruling()
    }

    /// Whether the scheme asks when pages are used next.
    pub fn wants_future(&self) -> bool {
        self.scheme.reclaim.wants_future()
    }

    /// The page, which is about to be touched, is used again then: for a scheme that knows the future.
    pub fn foresee(&mut self, page: PageId, next: NextUse) {
        self.scheme.reclaim.foresee(page, next);
    }

    /// The pages of a chunk, in the order in which they were stored.
    pub fn chunk_pages(&self, chunk: ChunkId) -> ChunkPages<'_> {
        self.chunks.pages(chunk)
    }

    /// Bytes of a chunk where it is stored, as they were reported.
    pub fn chunk_bytes(&self, chunk: ChunkId) -> u32 {
        self.chunks[chunk].stored_bytes()
    }

    /// Whether the `Load` of this chunk that is under way is to bring back this page of it. It may become
    /// false before the load is reported, when the page is freed, but not true.
    pub fn is_loading(&self, chunk: ChunkId, page: PageId) -> bool {
        self.table[page].chunk == chunk
            && self.table[page].state == PageState::Loading
            && !self.late.contains(&(chunk, page))
    }

    /// Whether a `Store` of this chunk still has to include this page; a page that was touched or freed
    /// since has a hole in the chunk.
    pub fn is_leaving(&self, chunk: ChunkId, page: PageId) -> bool {
        self.table[page].chunk == chunk && self.table[page].state == PageState::Leaving
    }

    /// Whether a `Drop` of this page still holds. It does not when the page came back or was freed since; a
    /// page that was chosen again meanwhile has two of them. One that a prediction wants back is dropped as long as
    /// nothing touched it: after a touch its load counts on its frame.
    pub fn is_dropped(&self, page: PageId) -> bool {
        let entry = &self.table[page];
        match entry.state {
            PageState::Stored => entry.chunk != ChunkId::NONE,
            PageState::Loading => {
                self.is_loading(entry.chunk, page) && !self.loads.is_waited_for(entry.chunk, page)
            }
            _ => false,
        }
    }

    /// Pages whose content is in the pool or the backing file, and in no frame yet.
    pub fn stored_only_pages(&self) -> u64 {
        self.stored_only_pages
    }

    /// The application that owns a page, and the page's address.
    pub fn locate(&self, page: PageId) -> (AppId, PageAddr) {
        (self.table.owner(page), self.table.addr(page))
    }

    /// The page at an address, made known if it was not.
    pub fn page(&mut self, app: AppId, addr: PageAddr) -> PageId {
        self.table.find_or_insert(app, addr)
    }

    /// The application's anonymous pages that are held to be hot, resident or not. Linear in its pages.
    pub fn hot_set(&self, app: AppId) -> impl Iterator<Item = PageId> + '_ {
        let knows_any = self.scheme.reclaim.knows_hot_pages();
        let pages = knows_any.then(|| self.table.pages_of(app));
        pages.into_iter().flatten().filter(|&page| {
            self.table[page].state != PageState::Absent
                && self.scheme.reclaim.hotness(&self.table, page) == Hotness::Hot
        })
    }

    /// Whether a page of the application exists and is held to be hot.
    pub fn is_hot(&mut self, app: AppId, addr: PageAddr) -> bool {
        let page = self.table.find(app, addr);
        page.is_some_and(|page| {
            self.table[page].state != PageState::Absent
                && self.scheme.reclaim.hotness(&self.table, page) == Hotness::Hot
        })
    }

    /// Where the content of a page is.
    pub fn page_state(&self, page: PageId) -> PageState {
        self.table[page].state
    }

    /// How many pages of the application are held to be hot.
    pub fn hot_pages(&self, app: AppId) -> u64 {
        self.scheme.reclaim.hot_pages(app)
    }

    /// Counters since the beginning.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The pages of the pool that were chosen for eviction, where the scheme evicts by page.
    pub fn evicted_pool_pages(&self) -> Option<Chosen> {
        self.scheme.eviction.chosen()
    }

    /// What is used now.
    pub fn usage(&self) -> Usage {
        self.budget.usage
    }

    /// Bytes used beyond the budget; not 0 only after every background application was killed.
    pub fn exceeded_bytes(&self) -> u64 {
        self.budget.exceeded_bytes()
    }

    /// Whether the pool accepts nothing.
    pub fn pool_is_full(&self) -> bool {
        self.budget.pool_is_full()
    }

    /// Whether no store accepts a page: the pool is full, and nothing in it can give way to the backing file.
    pub fn stores_are_full(&self) -> bool {
        self.pool_is_full() && !self.backing_takes_a_page()
    }

    /// What may be used.
    pub fn limits(&self) -> Limits {
        self.budget.limits
    }

    /// Bytes of memory that the engine itself holds for pages and chunks.
    pub fn state_bytes(&self) -> usize {
        self.table.state_bytes()
            + self.chunks.state_bytes()
            + self.scheme.eviction.state_bytes()
            + self.scheme.reclaim.state_bytes()
            + self.evidence.as_ref().map_or(0, Evidence::state_bytes)
    }
}
