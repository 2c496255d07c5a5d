//! The way of a page back into a frame: faults, the other pages of their chunk, and the prefetch buffer.

use super::{Engine, Outcome};
use crate::chunks::Place;
use crate::decision::{Action, Cause};
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

    /// Entries of the queue, void ones included.
    #[cfg(test)]
    pub fn queue_len(&self) -> usize {
        self.order.len()
    }

    pub fn insert(&mut self, page: PageId, origin: ChunkId) {
        self.serial += 1;
        self.order.push_back((page, self.serial));
        self.entries.insert(page, (origin, self.serial));
    }

    /// Takes a page out and names the chunk that it came from.
    pub fn remove(&mut self, page: PageId) -> Option<ChunkId> {
        let (origin, _) = self.entries.remove(&page)?;
        if self.order.len() > 2 * self.entries.len() + 64 {
            let entries = &self.entries;
            self.order.retain(|&entry| is_current(entries, entry));
        }
        Some(origin)
    }

    /// The oldest page, if there are more than the buffer holds.
    fn overflow(&mut self) -> Option<PageId> {
        if self.entries.len() <= self.capacity_pages {
            return None;
        }
        self.pop_oldest()
    }

    pub fn pop_oldest(&mut self) -> Option<PageId> {
        loop {
            let entry = self.order.pop_front()?;
            if is_current(&self.entries, entry) {
                self.entries.remove(&entry.0);
                return Some(entry.0);
            }
        }
    }
}

/// An entry of the queue is void when its page was taken out, even if it came in again.
fn is_current(entries: &FxHashMap<PageId, (ChunkId, u64)>, (page, serial): (PageId, u64)) -> bool {
    entries
        .get(&page)
        .is_some_and(|&(_, current)| current == serial)
}

impl Engine {
    /// A stored page was touched: it comes back, and with it what its chunk holds beside it, as far as
    /// there are frames.
    pub(crate) fn fault(&mut self, page: PageId) -> Outcome {
        let chunk = self.table[page].chunk;
        let place = self.chunks[chunk].place();
        self.count_fault(place);
        if self.loads.is_under_way(chunk) {
            // The load that is under way does not bring this page: another follows it.
            self.start_loading(page);
            self.late.push((chunk, page));
        } else {
            self.start_loading(page);
            self.load_with_neighbours(chunk, page);
        }
        Outcome::Fault(place)
    }

    /// A page was asked for that is in the pool, or in the backing file.
    pub(crate) fn count_fault(&mut self, place: Place) {
        let from_pool = place != Place::Backing;
        self.scheme.admission.page_in(from_pool);
        if from_pool {
            self.counters.pool_faults += 1;
        } else {
            self.counters.backing_faults += 1;
        }
    }

    /// Loads a page that is waited for, and its neighbours as far as they leave half of the reserve to
    /// the pool, which may have to grow before a frame comes free again.
    fn load_with_neighbours(&mut self, chunk: ChunkId, page: PageId) {
        self.loads.wait_for(chunk, page);
        let reserve = self.budget.watermarks.min_frames / 2;
        let room = self.budget.free_frames().saturating_sub(reserve);
        self.load_rest(chunk, room, Cause::Fault);
    }

    /// A page whose load is under way, or follows one that is, was touched.
    pub(crate) fn wait_for(&mut self, page: PageId) {
        let chunk = self.table[page].chunk;
        if !self.late.contains(&(chunk, page)) {
            self.loads.wait_for(chunk, page);
        }
    }

    /// A prefetched page was touched: it is used, and what is behind it is asked for next, if it was
    /// prefetched on demand itself.
    pub(crate) fn touch_buffered(&mut self, page: PageId) -> Outcome {
        self.counters.buffer_hits += 1;
        if self.table[page].has(Mark::Expected) {
            self.counters.prepaged_used += 1;
            self.unbuffer(page);
            self.make_resident(page, Arrival::Touched);
            return Outcome::Prepaged;
        }
        let origin = self.buffer.remove(page);
        self.make_resident(page, Arrival::Touched);
        if let Some(origin) = origin {
            self.prefetch_behind(origin);
        }
        Outcome::BufferHit
    }

    pub(crate) fn start_loading(&mut self, page: PageId) {
        self.table[page].state = PageState::Loading;
        self.budget.usage.frames += 1;
    }

    /// Adds the chunk's other stored pages to its load, up to `room`, and has it loaded.
    fn load_rest(&mut self, chunk: ChunkId, room: u64, cause: Cause) {
        let mut left = room;
        for at in 0..self.chunks.pages(chunk).len() {
            let page = self.chunks.pages(chunk)[at];
            let entry = &self.table[page];
            if left > 0 && entry.chunk == chunk && entry.state == PageState::Stored {
                self.start_loading(page);
                left -= 1;
            }
        }
        let place = self.chunks[chunk].place();
        self.decide(Action::Load { chunk, place }, cause);
    }

    /// A `Load` was done: the pages for which [`Engine::is_loading`] held are in their frames.
    pub fn loaded(&mut self, chunk: ChunkId) {
        let load = self.loads.take(chunk);
        for at in 0..self.chunks.pages(chunk).len() {
            let page = self.chunks.pages(chunk)[at];
            if self.is_loading(chunk, page) {
                self.absent_less(chunk);
                self.arrive(page, chunk, load.is_waited_for(page), load.is_prefetch);
            }
        }
        self.settle(chunk);
        self.load_late(chunk);
        if load.is_waited_for_at_all() {
            self.prefetch_behind(chunk);
        }
        self.trim_buffer();
    }

    /// Loads the pages that were touched too late for the load of their chunk that was just reported.
    pub(crate) fn load_late(&mut self, chunk: ChunkId) {
        while let Some(at) = self.late.iter().position(|&(loaded, _)| loaded == chunk) {
            let (_, page) = self.late.swap_remove(at);
            if self.loads.is_under_way(chunk) {
                self.loads.wait_for(chunk, page);
            } else {
                self.load_with_neighbours(chunk, page);
            }
        }
    }

    pub(crate) fn arrive(
        &mut self,
        page: PageId,
        chunk: ChunkId,
        waited_for: bool,
        is_prefetch: bool,
    ) {
        let expected = self.table[page].take(Mark::Expected);
        if waited_for {
            self.make_resident(page, Arrival::Touched);
        } else if expected {
            self.arrive_expected(page, chunk);
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
        // A copy in the backing file takes no memory, and is dear to write again.
        let is_in_pool = self.chunks[chunk].place() == Place::Pool;
        let is_needless = is_in_pool && self.scheme.reclaim.stays_long(&self.table, page);
        if written || is_needless || !self.scheme.keep_copies {
            // The caller settles the chunk.
            self.table[page].chunk = ChunkId::NONE;
            self.has_no_copy(page);
            self.chunks.lose_copy(chunk);
        }
    }

    /// Loads what the prefetch policy expects behind a chunk that was asked for, while there are frames
    /// above the reserve.
    pub(crate) fn prefetch_behind(&mut self, chunk: ChunkId) {
        let mut next = Vec::new();
        self.scheme.prefetch.on_demand(chunk, &mut next);
        let most = u64::from(self.scheme.prefetch.chunk_pages());
        for chunk in next {
            let Some(entry) = self.chunks.get(chunk) else {
                continue;
            };
            let spare = self
                .budget
                .free_frames()
                .saturating_sub(self.budget.watermarks.min_frames);
            let wanted = u64::from(self.chunks.counts(chunk).absent);
            let is_idle = entry.place() == Place::Pool && !self.loads.is_under_way(chunk);
            if is_idle && (1..=spare.min(most)).contains(&wanted) {
                self.loads.prefetch(chunk);
                self.load_rest(chunk, wanted, Cause::Prefetch);
            }
        }
    }

    /// Sends the oldest prefetched page back, since its frame is needed. False when there is none.
    pub(crate) fn send_back_buffered(&mut self, cause: Cause) -> bool {
        let oldest = self.buffer.pop_oldest();
        let Some(page) = oldest.or_else(|| self.pop_expected()) else {
            return false;
        };
        self.counters.prefetch_wasted += 1;
        self.send_off(&mut vec![page], cause);
        true
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
