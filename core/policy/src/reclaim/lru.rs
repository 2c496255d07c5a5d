//! `lru`: exact LRU, all pages in the order of their last touch.

use super::{Arrival, Reclaim, Urgency, take_all_of};
use crate::entry::{PolicyEntry, no_arguments};
use crate::list::PageList;
use crate::page::{Hotness, PageId, PageTable};
use warmswap_page::AppId;

pub(super) const ENTRY: PolicyEntry<dyn Reclaim> = PolicyEntry {
    name: "lru",
    summary: "exact LRU: the page whose last touch is longest ago leaves first",
    source: "Mattson, Gecsei, Slutz, Traiger, IBM Systems Journal 1970",
    build: |arguments| {
        no_arguments(arguments)?;
        Ok(Box::new(Lru::default()))
    },
};

/// One list in the order of the last touch. Where a host sees faults only, that is the order of the last faults.
///
/// A page that comes back untouched was touched before all others were: it is the next to leave. Constant time.
#[derive(Debug, Default)]
pub struct Lru {
    pages: PageList,
}

impl Reclaim for Lru {
    fn insert(&mut self, table: &mut PageTable, page: PageId, arrival: Arrival) {
        match arrival {
            Arrival::Touched => self.pages.push_back(table, page),
            Arrival::Untouched => self.pages.push_front(table, page),
        }
    }

    fn touch(&mut self, table: &mut PageTable, page: PageId) {
        self.pages.remove(table, page);
        self.pages.push_back(table, page);
    }

    fn remove(&mut self, table: &mut PageTable, page: PageId) {
        self.pages.remove(table, page);
    }

    fn victims(&mut self, table: &mut PageTable, want: usize, _: Urgency, out: &mut Vec<PageId>) {
        out.extend(std::iter::from_fn(|| self.pages.pop_front(table)).take(want));
    }

    fn victims_of(&mut self, table: &mut PageTable, app: AppId, out: &mut Vec<PageId>) {
        take_all_of(self, table, app, out);
    }

    fn knows_hot_pages(&self) -> bool {
        false
    }

    fn hotness(&self, _: &PageTable, _: PageId) -> Hotness {
        Hotness::Cold
    }

    fn dump(&self, table: &PageTable) -> Vec<PageId> {
        self.pages.iter(table).collect()
    }
}
