//! The way of a page out of its frame: victims, chunks, pool, backing file; and what gives way when
//! there is no room.

use crate::chunks::{MAX_CHUNK_PAGES, Place};
use crate::decision::{Action, Cause, Refusal};
use crate::engine::Engine;
use rustc_hash::FxHashSet;
use warmswap_policy::admission::Candidate;
use warmswap_policy::page::Mark;
use warmswap_policy::reclaim::{Arrival, Urgency};
use warmswap_policy::{ChunkId, Hotness, PageId, PageState};
use warmswap_trace::PAGE_BYTES;

/// Pages that are taken off the lists at a time, as the kernel's SWAP_CLUSTER_MAX.
const BATCH_PAGES: usize = 32;

impl Engine {
    /// Takes one batch of victims and sends them off, or gives up something else. False when the scheme
    /// has nothing to give at this urgency.
    pub(crate) fn reclaim(&mut self, cause: Cause, urgency: Urgency) -> bool {
        let mut pages = std::mem::take(&mut self.scratch);
        self.scheme
            .reclaim
            .victims(&mut self.table, BATCH_PAGES, urgency, &mut pages);
        let found = !pages.is_empty();
        self.send_off(&mut pages, cause);
        self.scratch = pages;
        found || urgency == Urgency::Direct && self.give_way(cause)
    }

    /// Whether reclaim may find something: not while a kill takes effect, nor again after it found
    /// nothing and nothing happened since.
    pub(crate) fn can_reclaim(&self) -> bool {
        !self.scheme.reclaim.is_unlimited() && self.dying.is_none() && !self.stuck
    }

    /// Victims, off the lists now, start their way out. `pages` is empty afterwards.
    pub(crate) fn send_off(&mut self, pages: &mut Vec<PageId>, cause: Cause) {
        for page in pages.drain(..) {
            self.table[page].take(Mark::Prefetched);
            if self.table.is_file(page) {
                let dirty = self.table[page].take(Mark::Dirty);
                self.table[page].state = PageState::Discarded;
                self.budget.usage.frames -= 1;
                self.counters.discarded += 1;
                self.counters.discarded_dirty += u64::from(dirty);
                self.decide(Action::Discard { page, dirty }, cause);
            } else if self.table[page].chunk != ChunkId::NONE {
                self.drop_to_copy(page, cause);
            } else {
                self.table[page].state = PageState::Leaving;
                self.budget.leaving += 1;
                self.outbox.push_back((page, cause));
            }
        }
    }

    /// The page's frame is given up for the copy that its chunk holds.
    pub(crate) fn drop_to_copy(&mut self, page: PageId, cause: Cause) {
        self.table[page].state = PageState::Stored;
        self.budget.usage.frames -= 1;
        self.counters.dropped += 1;
        self.absent_more(self.table[page].chunk);
        self.decide(Action::Drop { page }, cause);
    }

    /// Makes one chunk of the pages at the head of the outbox and has it stored, or makes room first.
    pub(crate) fn pack_outbox(&mut self) {
        let Some((hotness, cause)) = self.outbox_head() else {
            return;
        };
        let app = self.table.owner(self.outbox[0].0);
        let candidate = Candidate {
            hotness,
            is_file: false,
            pages: 1,
        };
        if !self.scheme.admission.admits(candidate) {
            return self.store_raw(hotness, cause);
        }
        if self.budget.pool_is_full() {
            return self.make_room_or_return(hotness, cause);
        }
        let plan = self.scheme.sizing.plan(hotness);
        let mut pages = [PageId::NONE; MAX_CHUNK_PAGES];
        let mut len = 0;
        while len < plan.max_pages() {
            let Some((next, _)) = self.outbox_head() else {
                break;
            };
            let page = self.outbox[0].0;
            if next != hotness || self.table.owner(page) != app {
                break;
            }
            // A page that was touched on its way out and then chosen again is in the outbox twice.
            if !pages[..len].contains(&page) {
                pages[len] = page;
                len += 1;
            }
            self.outbox.pop_front();
        }
        let chunk = self.bind(&pages[..len], hotness);
        self.decide(Action::Store { chunk, plan }, cause);
    }

    /// The class and cause of the first page of the outbox that still has to leave; entries before it
    /// that were touched or freed since are dropped.
    fn outbox_head(&mut self) -> Option<(Hotness, Cause)> {
        while let Some(&(page, cause)) = self.outbox.front() {
            let entry = &self.table[page];
            if entry.state == PageState::Leaving && entry.chunk == ChunkId::NONE {
                return Some((self.scheme.reclaim.hotness(&self.table, page), cause));
            }
            self.outbox.pop_front();
        }
        None
    }

    fn bind(&mut self, pages: &[PageId], hotness: Hotness) -> ChunkId {
        let chunk = self.chunks.insert(pages, hotness);
        pages
            .iter()
            .for_each(|&page| self.table[page].chunk = chunk);
        chunk
    }

    /// The first page of the outbox goes to the backing file as it is, or stays.
    fn store_raw(&mut self, hotness: Hotness, cause: Cause) {
        let Some((page, _)) = self.outbox.pop_front() else {
            return;
        };
        if self.backing_failed || !self.budget.backing_has_room(PAGE_BYTES as u64) {
            if self.drop_kept(Place::Backing, cause) {
                return self.outbox.push_front((page, cause));
            }
            return self.take_back(page);
        }
        let chunk = self.bind(&[page], hotness);
        self.decide(Action::StoreRaw { chunk }, cause);
    }

    /// The pool has no room. Something in it gives way; if nothing can, the page goes to the backing
    /// file as it is, as in zswap, or stays in its frame.
    fn make_room_or_return(&mut self, hotness: Hotness, cause: Cause) {
        if self.drop_kept(Place::Pool, cause) || self.write_back_one(cause) {
            return;
        }
        self.store_raw(hotness, cause);
    }

    /// The page stays in its frame, since nobody takes it.
    fn take_back(&mut self, page: PageId) {
        self.counters.refused += 1;
        self.budget.leaving -= 1;
        self.make_resident(page, Arrival::Untouched);
        if self.outbox.is_empty() {
            // A whole batch was refused. Those who wait need memory; others can wait for better times.
            self.stuck = self.budget.free_soon() >= self.budget.watermarks.min_frames
                || !self.kill_one(Cause::DirectReclaim);
        }
    }

    /// Gives up something that is not a resident page. False when there is nothing left to give.
    pub(crate) fn give_way(&mut self, cause: Cause) -> bool {
        let gave = self.drop_kept(Place::Pool, cause)
            || self.send_back_buffered(cause)
            || self.write_back_one(cause)
            || self.kill_one(cause);
        self.stuck = !gave;
        gave
    }

    /// Kills the least used application in the background; with none left, the budget is exceeded.
    fn kill_one(&mut self, cause: Cause) -> bool {
        let Some(app) = self.least_used_app() else {
            self.counters.budget_exceeded += 1;
            return false;
        };
        self.dying = Some(app);
        self.counters.kills += 1;
        self.decide(Action::Kill { app }, cause);
        true
    }

    /// Gives up the oldest kept copy in pool or backing file.
    fn drop_kept(&mut self, place: Place, cause: Cause) -> bool {
        let queue = usize::from(place == Place::Backing);
        while let Some(chunk) = self.kept[queue].pop_front() {
            if self.is_kept(chunk, place) {
                self.counters.kept_copies_dropped += 1;
                let pages: Vec<_> = self.chunks.pages(chunk).to_vec();
                for page in pages {
                    if self.table[page].chunk == chunk {
                        self.table[page].chunk = ChunkId::NONE;
                        self.table[page].set(Mark::Dirty);
                    }
                }
                self.chunks.remove(chunk);
                self.decide(Action::Free { chunk, place }, cause);
                return true;
            }
        }
        false
    }

    /// Notes a chunk that can be given up. Entries of chunks that changed since are swept out when they are
    /// the larger part, so that the queue stays as short as the chunks are few.
    fn note_kept(&mut self, chunk: ChunkId, place: Place) {
        let queue = usize::from(place == Place::Backing);
        self.kept[queue].push_back(chunk);
        if self.kept[queue].len() > 2 * self.chunks.len() + 64 {
            let mut seen = FxHashSet::default();
            let mut entries: Vec<_> = std::mem::take(&mut self.kept[queue]).into();
            entries.reverse();
            entries.retain(|&chunk| self.is_kept(chunk, place) && seen.insert(chunk));
            entries.reverse();
            self.kept[queue] = entries.into();
        }
    }

    /// Whether all pages that have their copy in this chunk are in their frames, so that it can be given
    /// up. A load that is under way still reads it.
    pub(crate) fn is_kept(&self, chunk: ChunkId, place: Place) -> bool {
        self.chunks
            .get(chunk)
            .is_some_and(|c| c.absent == 0 && c.live > 0 && c.place() == place)
            && !self.is_under_way(chunk)
    }

    /// Sends the next victim of the eviction policy to the backing file.
    fn write_back_one(&mut self, cause: Cause) -> bool {
        if self.backing_failed || self.budget.limits.backing_limit_bytes == 0 {
            return false;
        }
        let Some(chunk) = self.scheme.eviction.victim() else {
            return false;
        };
        let bytes = u64::from(self.chunks[chunk].stored_bytes);
        if !self.budget.backing_has_room(bytes) {
            return self.drop_kept(Place::Backing, cause);
        }
        self.scheme.eviction.remove(chunk);
        self.chunks[chunk].set_place(Place::WritingBack);
        self.budget.writing_back_bytes += bytes;
        self.decide(Action::WriteBack { chunk }, cause);
        true
    }

    /// A `Store` or `StoreRaw` was done: the chunk takes `stored_bytes` where it is. The frames of its
    /// pages are free, except of those that were touched in the meantime.
    pub fn stored(&mut self, chunk: ChunkId, place: Place, stored_bytes: u32) {
        debug_assert!(matches!(place, Place::Pool | Place::Backing));
        let entry = &mut self.chunks[chunk];
        debug_assert_eq!(entry.place(), Place::Storing);
        entry.set_place(place);
        entry.stored_bytes = stored_bytes;
        let mut absent = 0u8;
        for &page in &*self.chunks.pages(chunk) {
            let entry = &mut self.table[page];
            if entry.chunk == chunk && entry.state == PageState::Leaving {
                entry.state = PageState::Stored;
                entry.take(Mark::Dirty);
                absent += 1;
            }
        }
        self.budget.leaving -= u64::from(absent);
        self.budget.usage.frames -= u64::from(absent);
        match place {
            Place::Pool => self.counters.stored += u64::from(absent),
            _ => self.counters.stored_raw += u64::from(absent),
        }
        (0..absent).for_each(|_| self.absent_more(chunk));
        self.settle(chunk);
    }

    /// A `Store` or `StoreRaw` could not be done: its pages still have their frames.
    pub fn refused(&mut self, chunk: ChunkId, refusal: Refusal) {
        let pages: Vec<_> = self.chunks.pages(chunk).to_vec();
        self.chunks.remove(chunk);
        match refusal {
            Refusal::PoolFull => self.budget.mark_pool_full(),
            Refusal::BackingFailed => self.backing_failed = true,
        }
        for &page in pages.iter().rev() {
            if self.table[page].chunk != chunk {
                continue;
            }
            self.table[page].chunk = ChunkId::NONE;
            if self.table[page].state == PageState::Leaving {
                self.outbox.push_front((page, Cause::DirectReclaim));
            }
        }
    }

    /// A `WriteBack` was done: the chunk is in the backing file, and no longer in the pool.
    pub fn written_back(&mut self, chunk: ChunkId) {
        let bytes = u64::from(self.chunks[chunk].stored_bytes);
        self.chunks[chunk].set_place(Place::Backing);
        self.budget.writing_back_bytes -= bytes;
        self.counters.written_back_chunks += 1;
        self.counters.written_back_bytes += bytes;
        self.settle(chunk);
    }

    /// A `WriteBack` failed: the chunk is still in the pool.
    pub fn write_back_failed(&mut self, chunk: ChunkId) {
        self.counters.write_back_failures += 1;
        self.backing_failed = true;
        self.chunks[chunk].set_place(Place::Pool);
        self.budget.writing_back_bytes -= u64::from(self.chunks[chunk].stored_bytes);
        if self.chunks[chunk].absent > 0 {
            self.scheme
                .eviction
                .insert(chunk, self.chunks[chunk].hotness());
        }
        self.settle(chunk);
    }

    /// One more page's content is only in this chunk. A chunk of the pool is a candidate for write-back
    /// exactly while that holds for one of its pages.
    pub(crate) fn absent_more(&mut self, chunk: ChunkId) {
        let entry = &mut self.chunks[chunk];
        entry.absent += 1;
        if entry.absent == 1 && entry.place() == Place::Pool {
            self.scheme.eviction.insert(chunk, entry.hotness());
        }
    }

    /// One page less; see [`Self::absent_more`].
    pub(crate) fn absent_less(&mut self, chunk: ChunkId) {
        let entry = &mut self.chunks[chunk];
        entry.absent -= 1;
        if entry.absent == 0 && entry.place() == Place::Pool {
            self.scheme.eviction.remove(chunk);
        }
    }

    /// After the pages of a chunk changed: frees it when no page has its copy there, and notes it among
    /// the kept ones when all those that have are in their frames.
    pub(crate) fn settle(&mut self, chunk: ChunkId) {
        let entry = &self.chunks[chunk];
        let place = entry.place();
        if !matches!(place, Place::Pool | Place::Backing) || entry.absent > 0 {
            return;
        }
        if entry.live > 0 {
            self.note_kept(chunk, place);
        } else if !self.is_under_way(chunk) {
            self.chunks.remove(chunk);
            self.decide(Action::Free { chunk, place }, Cause::Background);
        }
    }
}
