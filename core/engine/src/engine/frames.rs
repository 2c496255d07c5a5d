//! Pages that come into frames, and copies that writes make worthless.

use super::{Engine, Outcome};
use warmswap_policy::page::Mark;
use warmswap_policy::reclaim::Arrival;
use warmswap_policy::{ChunkId, PageId, PageState};

impl Engine {
    pub(super) fn first_touch(&mut self, page: PageId) -> Outcome {
        self.first_touch_as(page, Arrival::Touched)
    }

    pub(super) fn first_touch_as(&mut self, page: PageId, arrival: Arrival) -> Outcome {
        self.take_frame(page, arrival);
        if self.table.is_file(page) {
            return self.read_file();
        }
        let owner = self.table.owner(page);
        self.app(owner).pages += 1;
        self.counters.first_touches += 1;
        self.table[page].set(Mark::Dirty);
        Outcome::FirstTouch
    }

    pub(super) fn take_frame(&mut self, page: PageId, arrival: Arrival) {
        self.budget.usage.frames += 1;
        self.make_resident(page, arrival);
    }

    pub(crate) fn make_resident(&mut self, page: PageId, arrival: Arrival) {
        self.table[page].state = PageState::Resident;
        self.table[page].take(Mark::Admitted);
        self.scheme.reclaim.insert(&mut self.table, page, arrival);
    }

    /// The page's content changed: a stored copy of it is worth nothing now.
    pub(super) fn written(&mut self, page: PageId) {
        self.table[page].set(Mark::Dirty);
        if self.table[page].in_frame() && self.table[page].state != PageState::Loading {
            self.drop_copy(page);
        }
    }

    /// Takes the page out of its chunk, and frees the chunk when it was the last one. The page's content
    /// must be elsewhere, or unwanted.
    pub(crate) fn drop_copy(&mut self, page: PageId) {
        let chunk = std::mem::replace(&mut self.table[page].chunk, ChunkId::NONE);
        if chunk != ChunkId::NONE {
            self.chunks.lose_copy(chunk);
            self.settle(chunk);
        }
    }
}
