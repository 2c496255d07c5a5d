//! Exact LRU: a time for each page, and a search for the least.

use super::simple::Simple;
use std::collections::BTreeMap;
use warmswap_policy::PageId;

/// The time of the last touch of every page in a frame. A page that comes untouched is older than all others.
#[derive(Default)]
pub struct ExactLru {
    touched_at: BTreeMap<PageId, i64>,
    now: i64,
}

impl Simple for ExactLru {
    fn hit(&mut self, page: PageId) {
        self.enter(page, true);
    }

    fn enter(&mut self, page: PageId, touched: bool) {
        self.now += 1;
        let at = if touched { self.now } else { -self.now };
        self.touched_at.insert(page, at);
    }

    fn leave(&mut self) -> Option<PageId> {
        let (&page, _) = self.touched_at.iter().min_by_key(|&(_, &at)| at)?;
        self.remove(page);
        Some(page)
    }

    fn remove(&mut self, page: PageId) {
        self.touched_at.remove(&page);
    }

    fn forget(&mut self, _: PageId) {}

    fn order(&self) -> Vec<PageId> {
        let mut pages: Vec<_> = self.touched_at.iter().collect();
        pages.sort_by_key(|&(_, &at)| at);
        pages.into_iter().map(|(&page, _)| page).collect()
    }

    fn is_warm(&self, _: PageId) -> bool {
        false
    }
}
