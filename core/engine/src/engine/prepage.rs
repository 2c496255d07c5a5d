//! The prepaging manager (ASAP section 5): the footprint of a launch, brought back ahead of use, batch by batch, while no
//! thread waits, as far as the budget allows, until the launch window closes.
//!
//! The policy plans the batches (`prefetch::footprint::plan`); a host carries them out on threads that run when a processor
//! is idle.

use super::swap_in::PrefetchBuffer;
use super::{Engine, Outcome};
use crate::budget::Limits;
use crate::chunks::Place;
use crate::decision::{Action, Cause};
use warmswap_page::{AppId, FileId, LaunchKind, PAGE_BYTES, PageAddr};
use warmswap_policy::page::Mark;
use warmswap_policy::prefetch::footprint::Extent;
use warmswap_policy::prefetch::footprint::plan::{ANON_BATCH_PAGES, Batch};
use warmswap_policy::prefetch::{Access, Prefetch};
use warmswap_policy::reclaim::Arrival;
use warmswap_policy::{ChunkId, PageId, PageState};

/// The launch whose footprint is being brought back.
#[derive(Debug)]
pub(crate) struct Prepaging {
    /// Whose window is open; the latest one, if there are several.
    app: Option<AppId>,
    /// There is something left to bring back.
    is_going_on: bool,
    /// Brought back and not touched yet.
    waiting: PrefetchBuffer,
    /// Of the last batch, what was not asked for yet.
    reads: Option<Read>,
    /// The most pages that one launch brings back.
    most_pages: u64,
    /// How many it brought back so far.
    brought_pages: u64,
    /// The policy hears of windows and of accesses in them.
    watches: bool,
    /// The host does not see touches of pages in their places.
    touches_are_unseen: bool,
}

/// Pages of a file that are to be read.
#[derive(Clone, Copy, Debug)]
struct Read {
    file: FileId,
    extent: Extent,
    is_metadata: bool,
}

/// What a look at the plan came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// There may be decisions now.
    Decided,
    /// There are no frames for the next batch.
    NoRoom,
    /// There is nothing to bring back.
    Done,
}

impl Prepaging {
    /// One launch takes at most half of the frames, so that it never pushes out what it brought in.
    pub fn new(policy: &dyn Prefetch, limits: Limits) -> Self {
        let half = limits.budget_bytes / PAGE_BYTES as u64 / 2;
        Self {
            app: None,
            is_going_on: false,
            waiting: PrefetchBuffer::new(usize::MAX),
            reads: None,
            most_pages: half.min(policy.footprint_pages() as u64),
            brought_pages: 0,
            watches: policy.watches_launches(),
            touches_are_unseen: false,
        }
    }

    /// Pages that were brought back and not touched yet.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether there is something left to bring back.
    pub fn is_going_on(&self) -> bool {
        self.is_going_on
    }

    /// Leaves the rest of the plan to faults.
    pub fn stop(&mut self) {
        self.is_going_on = false;
        self.reads = None;
    }
}

impl Engine {
    // ---- windows ----

    /// A launch window opens: its footprint is asked for. An earlier launch keeps its window, but not the rest
    /// of its plan.
    pub(crate) fn open_window(&mut self, app: AppId, kind: LaunchKind) {
        if !self.prepaging.watches {
            return;
        }
        if self.app(app).in_window {
            self.scheme.prefetch.launch_end(app);
        }
        self.release_expected();
        self.app(app).in_window = true;
        self.scheme.prefetch.launch_begin(app, kind);
        self.prepaging.app = Some(app);
        self.prepaging.is_going_on = true;
        self.prepaging.brought_pages = 0;
    }

    /// The window closes, if it is open: the policy learns from it, and what was brought back in vain is the
    /// first to leave.
    pub(crate) fn close_window(&mut self, app: AppId) {
        if self.prepaging.watches && std::mem::take(&mut self.app(app).in_window) {
            if self.prepaging.touches_are_unseen {
                self.tell_unseen(app);
            }
            self.stop_for(app);
            self.scheme.prefetch.launch_end(app);
        }
    }

    /// The host sees touches only of pages that are not in their places: of the others the policy learns nothing,
    /// neither that they were of use nor that they were not. To be said before the first event; a reclaim policy that
    /// lives on touches is exchanged for the one that it names for such hosts.
    pub fn touches_are_unseen(&mut self) {
        self.prepaging.touches_are_unseen = true;
        if let Some(other) = self.scheme.reclaim.where_touches_are_unseen() {
            self.scheme.reclaim = other;
        }
    }

    /// A page in its place may have been touched or not; one that waits in the prefetch buffer was not.
    fn tell_unseen(&mut self, app: AppId) {
        let table = &mut self.table;
        let mut is_in_place = |addr| {
            let page = table.find(app, addr);
            page.is_some_and(|page| table[page].state == PageState::Resident)
        };
        self.scheme.prefetch.unseen(app, &mut is_in_place);
    }

    /// The application ended: there is nothing to learn from its window.
    pub(crate) fn void_window(&mut self, app: AppId) {
        if self.prepaging.watches {
            self.app(app).in_window = false;
            self.stop_for(app);
            self.scheme.prefetch.exit(app);
        }
    }

    fn stop_for(&mut self, app: AppId) {
        if self.prepaging.app == Some(app) {
            self.release_expected();
        }
    }

    /// Ends the plan. Its pages that were not touched are resident from now on, and unasked for.
    fn release_expected(&mut self) {
        self.prepaging.stop();
        self.prepaging.app = None;
        while let Some(page) = self.pop_expected() {
            self.counters.prefetch_wasted += 1;
            self.make_resident(page, Arrival::Untouched);
        }
    }

    /// An access: within a launch window the policy hears of it.
    pub(crate) fn note_access(&mut self, app: AppId, addr: PageAddr, outcome: Outcome) {
        if !self.prepaging.watches || !self.app(app).in_window {
            return;
        }
        let access = match outcome {
            Outcome::Hit | Outcome::Prepaged => Access::InPlace,
            _ => Access::Fault,
        };
        self.scheme.prefetch.window_access(app, addr, access);
    }

    // ---- the plan ----

    /// Takes the next batch of the plan and decides what brings it back.
    pub(crate) fn prepage(&mut self) -> Step {
        let Some(app) = self.prepaging.app.filter(|_| self.prepaging.is_going_on) else {
            return Step::Done;
        };
        let spare = self.budget.free_frames();
        let spare = spare.saturating_sub(self.budget.watermarks.min_frames);
        let left = self.prepaging.most_pages - self.prepaging.brought_pages;
        if left == 0 {
            self.prepaging.stop();
            return Step::Done;
        }
        // Small memories have small reserves: less than a batch is better than nothing.
        let batch = (ANON_BATCH_PAGES as u64).min(self.budget.watermarks.min_frames.max(1));
        if spare < batch {
            return Step::NoRoom;
        }
        let room = spare.min(left);
        if let Some(read) = self.prepaging.reads.take() {
            self.read(app, read, room);
            return Step::Decided;
        }
        match self.scheme.prefetch.next_batch() {
            None => {
                self.prepaging.stop();
                return Step::Done;
            }
            Some(Batch::Anon(numbers)) => self.load_batch(app, &numbers, room),
            Some(Batch::Metadata { file, page }) => {
                let extent = Extent::page(page);
                self.prepaging.reads = Some(Read {
                    file,
                    extent,
                    is_metadata: true,
                });
            }
            Some(Batch::Read { file, extent }) => {
                self.prepaging.reads = Some(Read {
                    file,
                    extent,
                    is_metadata: false,
                });
            }
        }
        Step::Decided
    }

    /// Has the stored ones of these pages loaded, chunk by chunk.
    fn load_batch(&mut self, app: AppId, numbers: &[u64], room: u64) {
        let mut left = room;
        for &number in numbers {
            if let Some(page) = self.table.find(app, PageAddr::Anon { number }) {
                self.load_expected(app, page, &mut left);
            }
        }
    }

    /// Has the chunk of a stored page loaded: the page, and what else in it belongs to the footprint.
    fn load_expected(&mut self, app: AppId, page: PageId, left: &mut u64) {
        let chunk = self.table[page].chunk;
        if self.table[page].state != PageState::Stored || *left == 0 {
            return;
        }
        let place = self.chunks[chunk].place();
        if !matches!(place, Place::Pool | Place::Backing) || self.loads.is_under_way(chunk) {
            return;
        }
        let neighbours = self.chunks.pages(chunk).to_vec();
        for other in neighbours {
            let entry = &self.table[other];
            let is_stored = entry.chunk == chunk && entry.state == PageState::Stored;
            let is_expected = || self.scheme.prefetch.expects(app, self.table.addr(other));
            if *left > 0 && is_stored && (other == page || is_expected()) {
                *left -= 1;
                self.prepaging.brought_pages += 1;
                self.table[other].set(Mark::Expected);
                self.start_loading(other);
                let addr = self.table.addr(other);
                self.scheme.prefetch.fetched(app, addr);
            }
        }
        self.loads.prefetch(chunk);
        self.decide(Action::Load { chunk, place }, Cause::Prepage);
    }

    /// Has the first run of pages read that are not in memory; the rest waits for the next step.
    fn read(&mut self, app: AppId, read: Read, room: u64) {
        let page_addr = |number| PageAddr::File {
            file: read.file,
            number,
        };
        let (mut first, end) = (read.extent.first, read.extent.end());
        let is_away = |state| matches!(state, PageState::Absent | PageState::Discarded);
        while first < end {
            let page = self.table.find_or_insert(app, page_addr(first));
            match self.table[page].state {
                state if is_away(state) => break,
                PageState::Stored => {
                    // The pool has it, as it may have clean pages of files.
                    let mut left = room;
                    self.load_expected(app, page, &mut left);
                    return self.read_later(read, first + 1);
                }
                _ => first += 1,
            }
        }
        let mut next = first;
        while next < end && next - first < room {
            let page = self.table.find_or_insert(app, page_addr(next));
            if !is_away(self.table[page].state) {
                break;
            }
            self.table[page].state = PageState::Buffered;
            self.budget.usage.frames += 1;
            self.prepaging.brought_pages += 1;
            self.expect(page, ChunkId::NONE);
            self.scheme.prefetch.fetched(app, page_addr(next));
            next += 1;
        }
        if next > first {
            let action = Action::ReadFile {
                file: read.file,
                first,
                pages: (next - first) as u32,
                is_metadata: read.is_metadata,
            };
            self.decide(action, Cause::Prepage);
        }
        self.read_later(read, next);
    }

    /// The pages from `next` on are for the next step.
    fn read_later(&mut self, read: Read, next: u64) {
        let end = read.extent.end();
        if next < end {
            let extent = Extent {
                first: next,
                pages: end - next,
            };
            self.prepaging.reads = Some(Read { extent, ..read });
        }
    }

    // ---- pages that wait ----

    /// A page of the footprint is in its frame: it waits for its touch, unless the window closed meanwhile.
    pub(crate) fn arrive_expected(&mut self, page: PageId, chunk: ChunkId) {
        if self.prepaging.app.is_some() {
            self.table[page].state = PageState::Buffered;
            self.expect(page, chunk);
        } else {
            self.counters.prefetched += 1;
            self.counters.prepaged += 1;
            self.counters.prefetch_wasted += 1;
            self.make_resident(page, Arrival::Untouched);
        }
    }

    fn expect(&mut self, page: PageId, origin: ChunkId) {
        self.counters.prefetched += 1;
        self.counters.prepaged += 1;
        self.table[page].set(Mark::Expected);
        self.prepaging.waiting.insert(page, origin);
    }

    /// Takes a prefetched page out of whichever buffer it is in.
    pub(crate) fn unbuffer(&mut self, page: PageId) {
        if self.table[page].take(Mark::Expected) {
            self.prepaging.waiting.remove(page);
        } else {
            self.buffer.remove(page);
        }
    }

    /// The page of the footprint that has waited for the longest time, out of its buffer.
    pub(crate) fn pop_expected(&mut self) -> Option<PageId> {
        let page = self.prepaging.waiting.pop_oldest()?;
        self.table[page].take(Mark::Expected);
        Some(page)
    }

    /// Whether something of the footprint of a launch is still to be asked for.
    pub fn is_prepaging(&self) -> bool {
        self.prepaging.is_going_on
    }

    /// Whether a page of the application's footprint was not touched in the last window that could tell: for a
    /// host that does not see every touch.
    pub fn doubts(&self, app: AppId, addr: PageAddr) -> bool {
        self.scheme.prefetch.doubts(app, addr)
    }

    /// Whether a page belongs to the application's footprint.
    pub fn expects(&self, app: AppId, addr: PageAddr) -> bool {
        self.scheme.prefetch.expects(app, addr)
    }

    /// Bytes that the prefetch policy has learned about an application.
    pub fn learned_bytes(&self, app: AppId) -> usize {
        self.scheme.prefetch.state_bytes(app)
    }
}
