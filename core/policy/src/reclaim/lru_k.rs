//! `lru-k`: the page whose last touch but one is longest ago leaves first.

use super::{Arrival, Reclaim, Urgency, take_all_of};
use crate::entry::{PolicyEntry, no_arguments};
use crate::page::{Hotness, PageId, PageTable};
use std::collections::BTreeSet;
use warmswap_page::AppId;

pub(super) const ENTRY: PolicyEntry<dyn Reclaim> = PolicyEntry {
    name: "lru-k",
    summary: "LRU-2: by the last touch but one, pages with a single touch first",
    source: "O'Neil, O'Neil, Weikum, The LRU-K Page Replacement Algorithm, SIGMOD 1993, section 2.1",
    build: |arguments| {
        no_arguments(arguments)?;
        Ok(Box::new(LruK::default()))
    },
};

/// The last touch but one, and the last, on a clock that counts touches; 0 for none.
type Touches = (u64, u64);

/// LRU-2, without a correlated reference period. What is known of a page is kept while it is away.
///
/// A touch costs the logarithm of the resident pages. Memory: 16 bytes a page, and a tree over the resident ones.
#[derive(Debug, Default)]
pub struct LruK {
    clock: u64,
    touches: Vec<Touches>,
    resident: BTreeSet<(Touches, PageId)>,
}

impl LruK {
    fn touches(&mut self, page: PageId) -> &mut Touches {
        if self.touches.len() <= page.index() {
            self.touches.resize(page.index() + 1, (0, 0));
        }
        &mut self.touches[page.index()]
    }

    fn note(&mut self, page: PageId) {
        self.clock += 1;
        let clock = self.clock;
        let touches = self.touches(page);
        *touches = (touches.1, clock);
    }
}

impl Reclaim for LruK {
    fn insert(&mut self, _: &mut PageTable, page: PageId, arrival: Arrival) {
        if arrival == Arrival::Touched {
            self.note(page);
        }
        let touches = *self.touches(page);
        self.resident.insert((touches, page));
    }

    fn touch(&mut self, table: &mut PageTable, page: PageId) {
        self.remove(table, page);
        self.insert(table, page, Arrival::Touched);
    }

    fn remove(&mut self, _: &mut PageTable, page: PageId) {
        let touches = *self.touches(page);
        self.resident.remove(&(touches, page));
    }

    fn victims(&mut self, _: &mut PageTable, want: usize, _: Urgency, out: &mut Vec<PageId>) {
        let first = std::iter::from_fn(|| self.resident.pop_first());
        out.extend(first.take(want).map(|(_, page)| page));
    }

    fn victims_of(&mut self, table: &mut PageTable, app: AppId, out: &mut Vec<PageId>) {
        take_all_of(self, table, app, out);
    }

    fn knows_hot_pages(&self) -> bool {
        false
    }

    fn hotness(&self, _: &PageTable, page: PageId) -> Hotness {
        match self.touches.get(page.index()) {
            Some((1.., _)) => Hotness::Warm,
            _ => Hotness::Cold,
        }
    }

    fn forget(&mut self, _: &PageTable, page: PageId) {
        *self.touches(page) = (0, 0);
    }

    fn dump(&self, _: &PageTable) -> Vec<PageId> {
        self.resident.iter().map(|&(_, page)| page).collect()
    }
}
