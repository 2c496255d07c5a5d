//! The way of a page back into a frame: faults, the other pages of their chunk, and the prefetch buffer.

use crate::chunks::{MAX_CHUNK_PAGES, Place};
use crate::decision::{Action, Cause};
use crate::engine::{Engine, Outcome};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use warmswap_policy::page::Mark;
use warmswap_policy::reclaim::Arrival;
use warmswap_policy::{ChunkId, PageId, PageState};

/// Pages that were loaded before they were asked for, oldest first, each with the chunk that it came
/// from (PreDecomp's buffer, Ariadne section 4.4).
#[derive(Debug)]
pub(crate) struct PrefetchBuffer {
    capacity_pages: usize,
    order: VecDeque<(PageId, u64)>,
    entries: FxHashMap<PageId, (ChunkId, u64)>,
    serial: u64,
}

impl PrefetchBuffer {
    pub fn new(capacity_pages: usize) -> Self {
        Self {
            capacity_pages,
            order: VecDeque::new(),
            entries: FxHashMap::default(),
            serial: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    fn insert(&mut self, page: PageId, origin: ChunkId) {
        self.serial += 1;
        self.order.push_back((page, self.serial));
        self.entries.insert(page, (origin, self.serial));
    }

    /// Takes a page out and names the chunk that it came from.
    pub fn remove(&mut self, page: PageId) -> Option<ChunkId> {
        self.entries.remove(&page).map(|(origin, _)| origin)
    }

    /// The oldest page, if there are more than the buffer holds.
    fn overflow(&mut self) -> Option<PageId> {
        if self.entries.len() <= self.capacity_pages {
            return None;
        }
        loop {
            let (page, serial) = self.order.pop_front()?;
            // An entry of the queue is void when its page was taken out, even if it came in again.
            if self
                .entries
                .get(&page)
                .is_some_and(|&(_, current)| current == serial)
            {
                self.entries.remove(&page);
                return Some(page);
            }
        }
    }
}

impl Engine {
    /// A stored page was touched: it comes back, and with it what its chunk holds beside it, as far as
    /// there are frames.
    pub(crate) fn fault(&mut self, page: PageId) -> Outcome {
        let chunk = self.table[page].chunk;
        let place = self.chunks[chunk].place();
        match place {
            Place::Backing => self.counters.backing_faults += 1,
            _ => self.counters.pool_faults += 1,
        }
        self.loads.push((chunk, Some(page)));
        let room = self.budget.free_frames().saturating_sub(1);
        self.start_loading(page);
        self.load_rest(chunk, room, Cause::Fault);
        Outcome::Fault(place)
    }

    /// A page whose load is under way was touched.
    pub(crate) fn wait_for(&mut self, page: PageId) {
        self.loads.push((self.table[page].chunk, Some(page)));
    }

    /// A prefetched page was touched: it is used, and what is behind it is asked for next.
    pub(crate) fn touch_buffered(&mut self, page: PageId) -> Outcome {
        self.counters.buffer_hits += 1;
        let origin = self.buffer.remove(page);
        self.make_resident(page, Arrival::Touched);
        if let Some(origin) = origin {
            self.prefetch_behind(origin);
        }
        Outcome::BufferHit
    }

    fn start_loading(&mut self, page: PageId) {
        self.table[page].state = PageState::Loading;
        self.budget.usage.frames += 1;
    }

    /// Adds the chunk's other stored pages to its load, up to `room`, and has it loaded.
    fn load_rest(&mut self, chunk: ChunkId, room: u64, cause: Cause) {
        let mut pages = [PageId::NONE; MAX_CHUNK_PAGES];
        let mut len = 0;
        for &page in &*self.chunks.pages(chunk) {
            let entry = &self.table[page];
            if entry.chunk == chunk && entry.state == PageState::Stored && (len as u64) < room {
                pages[len] = page;
                len += 1;
            }
        }
        pages[..len]
            .iter()
            .for_each(|&page| self.start_loading(page));
        let place = self.chunks[chunk].place();
        self.decide(Action::Load { chunk, place }, cause);
    }

    /// A `Load` was done: the pages for which [`Engine::is_loading`] held are in their frames.
    pub fn loaded(&mut self, chunk: ChunkId) {
        let mut waited = [PageId::NONE; MAX_CHUNK_PAGES];
        let mut waited_len = 0;
        let mut is_prefetch = false;
        self.loads.retain(|&(loaded, page)| {
            if loaded != chunk {
                return true;
            }
            match page {
                Some(page) if waited_len < MAX_CHUNK_PAGES => {
                    waited[waited_len] = page;
                    waited_len += 1;
                }
                Some(_) => {}
                None => is_prefetch = true,
            }
            false
        });
        let waited = &waited[..waited_len];
        let pages = self.chunks.pages(chunk);
        let pages: ([PageId; MAX_CHUNK_PAGES], usize) = {
            let mut all = [PageId::NONE; MAX_CHUNK_PAGES];
            all[..pages.len()].copy_from_slice(&pages);
            (all, pages.len())
        };
        for &page in &pages.0[..pages.1] {
            if self.is_loading(chunk, page) {
                self.absent_less(chunk);
                self.arrive(page, chunk, waited.contains(&page), is_prefetch);
            }
        }
        self.settle(chunk);
        if !waited.is_empty() {
            self.prefetch_behind(chunk);
        }
        self.trim_buffer();
    }

    fn arrive(&mut self, page: PageId, chunk: ChunkId, waited_for: bool, is_prefetch: bool) {
        if waited_for {
            self.make_resident(page, Arrival::Touched);
        } else if is_prefetch {
            self.counters.prefetched += 1;
            self.table[page].state = PageState::Buffered;
            self.buffer.insert(page, chunk);
        } else {
            self.counters.neighbours_loaded += 1;
            self.table[page].set(Mark::Prefetched);
            self.make_resident(page, Arrival::Untouched);
        }
        let written = self.table[page].has(Mark::Dirty);
        if written || !self.scheme.keep_copies {
            // The caller settles the chunk.
            self.table[page].chunk = ChunkId::NONE;
            self.table[page].set(Mark::Dirty);
            self.chunks[chunk].live -= 1;
        }
    }

    /// Loads what the prefetch policy expects behind a chunk that was asked for, while there are frames
    /// above the reserve.
    fn prefetch_behind(&mut self, chunk: ChunkId) {
        let mut next = Vec::new();
        self.scheme.prefetch.on_demand(chunk, &mut next);
        for chunk in next {
            let Some(entry) = self.chunks.get(chunk) else {
                continue;
            };
            let spare = self
                .budget
                .free_frames()
                .saturating_sub(self.budget.watermarks.min_frames);
            let wanted = u64::from(entry.absent);
            let under_way = self.loads.iter().any(|&(loading, _)| loading == chunk);
            if entry.place() == Place::Pool && (1..=spare).contains(&wanted) && !under_way {
                self.loads.push((chunk, None));
                self.load_rest(chunk, wanted, Cause::Prefetch);
            }
        }
    }

    /// What does not fit in the buffer goes back: to its kept copy, or into a chunk of its own.
    fn trim_buffer(&mut self) {
        let mut pages = std::mem::take(&mut self.scratch);
        while let Some(page) = self.buffer.overflow() {
            self.counters.prefetch_wasted += 1;
            pages.push(page);
        }
        self.send_off(&mut pages, Cause::Prefetch);
        self.scratch = pages;
    }
}
