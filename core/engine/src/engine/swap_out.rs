//! The way of a page out of its frame: victims, chunks, pool, backing file; and what gives way when
//! there is no room.

use super::Engine;
use crate::chunks::{Chunk, Counts, MAX_CHUNK_PAGES, Place};
use crate::decision::{Action, Cause, Refusal};
use rustc_hash::FxHashSet;
use warmswap_page::PAGE_BYTES;
use warmswap_policy::admission::{Candidate, Verdict};
use warmswap_policy::page::Mark;
use warmswap_policy::reclaim::{Arrival, Urgency};
use warmswap_policy::{ChunkId, Hotness, PageId, PageState, StoredChunk};

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
        self.reclaimed_pages += pages.len() as u64;
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
        std::hint::black_box(self.read_chunks_of(pages));
        for page in pages.drain(..) {
            self.table[page].take(Mark::Prefetched);
            if self.leaves_to_its_file(page) {
                self.discard(page, cause);
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
        let first = self.outbox[0].0;
        let (app, is_file) = (self.table.owner(first), self.table.is_file(first));
        let verdict = if self.table[first].has(Mark::Admitted) {
            Verdict::Admit
        } else {
            let candidate = Candidate { hotness, is_file };
            self.scheme.admission.verdict(candidate)
        };
        // What has no other place to go is admitted unseen.
        let wants_sample = verdict == Verdict::Sample && (is_file || self.backing_takes_a_page());
        if verdict == Verdict::Refuse {
            return self.pass_by_pool(cause);
        }
        if self.budget.pool_is_full() && !wants_sample {
            return self.make_room_or_return(cause);
        }
        let plan = self.scheme.sizing.plan(hotness);
        let mut pages = [PageId::NONE; MAX_CHUNK_PAGES];
        let mut len = 0;
        while len < plan.max_pages() {
            let Some((next, _)) = self.outbox_head() else {
                break;
            };
            let page = self.outbox[0].0;
            let is_alike = next == hotness
                && self.table.owner(page) == app
                && self.table.is_file(page) == is_file;
            if !is_alike {
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
        self.chunks[chunk].set_wants_sample(wants_sample);
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
        let is_of_file = self.table.is_file(pages[0]);
        self.chunks[chunk].set_of_file(is_of_file);
        pages
            .iter()
            .for_each(|&page| self.table[page].chunk = chunk);
        chunk
    }

    /// Whether a page could be written to the backing file as it is.
    pub(crate) fn backing_takes_a_page(&self) -> bool {
        !self.backing_failed && self.budget.backing_has_room(PAGE_BYTES as u64)
    }

    /// The first page of the outbox does not enter the pool: it goes to the backing file as it is, or to
    /// its file, or stays.
    fn pass_by_pool(&mut self, cause: Cause) {
        if let Some((page, _)) = self.outbox.pop_front() {
            self.pass_page_by_pool(page, cause);
        }
    }

    /// The same of a page that leaves and has no chunk. It returns to the outbox when
    /// room in the backing file was made for it.
    pub(crate) fn pass_page_by_pool(&mut self, page: PageId, cause: Cause) {
        if self.table.is_file(page) {
            self.budget.leaving -= 1;
            self.discard(page, cause);
        } else if self.backing_takes_a_page() {
            let hotness = self.scheme.reclaim.hotness(&self.table, page);
            let chunk = self.bind(&[page], hotness);
            self.decide(Action::StoreRaw { chunk }, cause);
        } else if self.drop_kept(Place::Backing, cause) {
            self.outbox.push_front((page, cause));
        } else {
            self.take_back(page);
        }
    }

    /// The pool has no room. Something in it gives way; if nothing can, the page goes to the backing
    /// file as it is, as in zswap, or stays in its frame.
    fn make_room_or_return(&mut self, cause: Cause) {
        if self.drop_kept(Place::Pool, cause) || self.evict_one(cause) {
            return;
        }
        self.pass_by_pool(cause);
    }

    /// The page stays in its frame, since no store takes it.
    fn take_back(&mut self, page: PageId) {
        self.counters.refused += 1;
        self.budget.leaving -= 1;
        self.make_resident(page, Arrival::Untouched);
        if self.outbox.is_empty() {
            // A whole batch was refused. Threads that wait need memory; others can wait for better times.
            self.stuck = self.budget.free_soon() >= self.budget.watermarks.min_frames
                || !self.kill_one(Cause::DirectReclaim);
        }
    }

    /// Gives up something that is not a resident page. False when there is nothing left to give.
    pub(crate) fn give_way(&mut self, cause: Cause) -> bool {
        let gave = self.drop_kept(Place::Pool, cause)
            || self.send_back_buffered(cause)
            || self.evict_one(cause)
            || self.kill_one(cause);
        self.stuck = !gave;
        gave
    }

    /// Kills the least used application in the background, one at a time; with none left, the budget is exceeded.
    fn kill_one(&mut self, cause: Cause) -> bool {
        if self.dying.is_some() {
            return true;
        }
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
    pub(crate) fn drop_kept(&mut self, place: Place, cause: Cause) -> bool {
        let queue = usize::from(place == Place::Backing);
        while let Some(chunk) = self.kept[queue].pop_front() {
            if self.is_kept(chunk, place) {
                self.counters.kept_copies_dropped += 1;
                let pages: Vec<_> = self.chunks.pages(chunk).to_vec();
                for page in pages {
                    if self.table[page].chunk == chunk {
                        self.table[page].chunk = ChunkId::NONE;
                        self.has_no_copy(page);
                    }
                }
                self.free_chunk(chunk, cause);
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
        let is_there = |entry: &Chunk| {
            let Counts { live, absent, .. } = self.chunks.counts(chunk);
            entry.place() == place && absent == 0 && live > 0
        };
        self.chunks.get(chunk).is_some_and(is_there) && !self.loads.is_under_way(chunk)
    }

    /// An anonymous page in its frame has no stored copy: it cannot leave without being stored.
    pub(crate) fn has_no_copy(&mut self, page: PageId) {
        if !self.table.is_file(page) {
            self.table[page].set(Mark::Dirty);
        }
    }

    pub(crate) fn describe(&self, chunk: ChunkId) -> StoredChunk {
        let entry = &self.chunks[chunk];
        StoredChunk {
            hotness: entry.hotness(),
            is_file: entry.is_of_file(),
            pages: self.chunks.counts(chunk).pages.into(),
            bytes: entry.stored_bytes(),
        }
    }

    /// The chunk, if it is in the pool, leaves it: before it is removed or moved.
    fn leaves_pool(&mut self, chunk: ChunkId) {
        if matches!(self.chunks[chunk].place(), Place::Pool | Place::WritingBack) {
            let stored = self.describe(chunk);
            self.scheme.admission.left(stored);
        }
    }

    /// A `Store` or `StoreRaw` was done: the chunk takes `stored_bytes` where it is. The frames of its
    /// pages are free, except of those that were touched in the meantime.
    pub fn stored(&mut self, chunk: ChunkId, place: Place, stored_bytes: u32) {
        self.stored_at(chunk, place, stored_bytes, None);
    }

    /// The same, with the page of the pool that holds the object, where its layout is one of pages with a
    /// few objects each: what eviction by page goes by.
    pub fn stored_at(
        &mut self,
        chunk: ChunkId,
        place: Place,
        stored_bytes: u32,
        pool_page: Option<u32>,
    ) {
        debug_assert!(matches!(place, Place::Pool | Place::Backing));
        let entry = &mut self.chunks[chunk];
        debug_assert_eq!(entry.place(), Place::Storing);
        entry.set_place(place);
        entry.set_stored_bytes(stored_bytes);
        let mut absent = 0u8;
        for &page in &*self.chunks.pages(chunk) {
            let entry = &mut self.table[page];
            if entry.chunk == chunk && entry.state == PageState::Leaving {
                entry.state = PageState::Stored;
                entry.take(Mark::Dirty);
                entry.take(Mark::Admitted);
                absent += 1;
            }
        }
        self.budget.leaving -= u64::from(absent);
        self.budget.usage.frames -= u64::from(absent);
        if place == Place::Pool {
            let stored = self.describe(chunk);
            self.scheme.admission.entered(stored);
            self.scheme.eviction.placed(chunk, pool_page);
            self.counters.stored += u64::from(absent);
            self.counters.stored_files += u64::from(stored.is_file) * u64::from(absent);
        } else {
            self.counters.stored_raw += u64::from(absent);
        }
        (0..absent).for_each(|_| self.absent_more(chunk));
        self.settle(chunk);
    }

    /// A `Store` or `StoreRaw` could not be done: its pages still have their frames.
    pub fn refused(&mut self, chunk: ChunkId, refusal: Refusal) {
        let pages = self.unbind(chunk);
        match refusal {
            Refusal::PoolFull => self.budget.mark_pool_full(),
            Refusal::BackingFailed => self.backing_failed = true,
            Refusal::TooLarge => self.counters.too_large += pages.len() as u64,
        }
        for page in pages.into_iter().rev() {
            if refusal == Refusal::TooLarge {
                self.pass_page_by_pool(page, Cause::DirectReclaim);
            } else {
                if refusal == Refusal::PoolFull {
                    // Admitted, by the policy or by a host that did not ask it.
                    self.table[page].set(Mark::Admitted);
                }
                self.outbox.push_front((page, Cause::DirectReclaim));
            }
        }
    }

    /// Takes a chunk apart that was to be stored: those of its pages that still leave.
    pub(crate) fn unbind(&mut self, chunk: ChunkId) -> Vec<PageId> {
        let mut pages = self.chunks.pages(chunk).to_vec();
        self.chunks.remove(chunk);
        pages.retain(|&page| self.table[page].chunk == chunk);
        for &page in &pages {
            self.table[page].chunk = ChunkId::NONE;
        }
        pages.retain(|&page| self.table[page].state == PageState::Leaving);
        pages
    }

    /// A `WriteBack` was done: the chunk is in the backing file, and no longer in the pool.
    pub fn written_back(&mut self, chunk: ChunkId) {
        let bytes = u64::from(self.chunks[chunk].stored_bytes());
        self.leaves_pool(chunk);
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
        self.budget.writing_back_bytes -= u64::from(self.chunks[chunk].stored_bytes());
        if self.chunks.counts(chunk).absent > 0 {
            self.may_be_evicted(chunk);
        }
        self.settle(chunk);
    }

    /// One more page's content is only in this chunk. A chunk of the pool that can leave it is a
    /// candidate for eviction exactly while that holds for one of its pages.
    pub(crate) fn absent_more(&mut self, chunk: ChunkId) {
        self.stored_only_pages += 1;
        let absent = self.chunks.count_absent(chunk, true);
        if absent == 1 && self.chunks[chunk].place() == Place::Pool {
            self.may_be_evicted(chunk);
        }
    }

    /// One page less; see [`Self::absent_more`].
    pub(crate) fn absent_less(&mut self, chunk: ChunkId) {
        self.stored_only_pages -= 1;
        let absent = self.chunks.count_absent(chunk, false);
        if absent == 0 && self.chunks[chunk].place() == Place::Pool {
            self.must_stay(chunk);
        }
    }

    /// After the pages of a chunk changed: frees it when no page has its copy there, and notes it among
    /// the kept ones when all those that have are in their frames.
    pub(crate) fn settle(&mut self, chunk: ChunkId) {
        let place = self.chunks[chunk].place();
        let Counts { live, absent, .. } = self.chunks.counts(chunk);
        if !matches!(place, Place::Pool | Place::Backing) || absent > 0 {
            return;
        }
        if live > 0 {
            self.note_kept(chunk, place);
        } else if !self.loads.is_under_way(chunk) {
            self.free_chunk(chunk, Cause::Background);
        }
    }

    /// Forgets a chunk that no page has its copy in any more, and has it freed.
    fn free_chunk(&mut self, chunk: ChunkId, cause: Cause) {
        let entry = &self.chunks[chunk];
        let (place, bytes) = (entry.place(), entry.stored_bytes());
        self.leaves_pool(chunk);
        self.chunks.remove(chunk);
        let free = Action::Free {
            chunk,
            place,
            bytes,
        };
        self.decide(free, cause);
    }
}
