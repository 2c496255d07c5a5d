//! `sieve`: one queue in the order of arrival, and a hand that spares what was touched since it last came by.

use super::{Arrival, Reclaim, Urgency, take_all_of};
use crate::entry::{PolicyEntry, no_arguments};
use crate::list::PageList;
use crate::page::{Hotness, Mark, PageId, PageTable};
use warmswap_page::AppId;

pub(super) const ENTRY: PolicyEntry<dyn Reclaim> = PolicyEntry {
    name: "sieve",
    summary: "one queue by arrival, and a hand that spares what was touched",
    source: "Zhang et al., SIEVE is Simpler than LRU, NSDI 2024, Algorithm 1",
    build: |arguments| {
        no_arguments(arguments)?;
        Ok(Box::new(Sieve::default()))
    },
};

/// SIEVE. A page stays at its place in the queue when it is touched. The hand goes from the oldest page to the newest
/// and begins again; it clears the mark of a touched page, and takes the first one without. Constant time, amortized.
#[derive(Debug, Default)]
pub struct Sieve {
    queue: PageList,
    hand: Option<PageId>,
}

impl Sieve {
    fn after(&self, table: &PageTable, page: PageId) -> Option<PageId> {
        let next = table[page].next;
        (next != PageId::NONE).then_some(next)
    }

    /// Puts a page that is on no list at the newest end, unmarked: what brought the page is no second use.
    pub(super) fn push(&mut self, table: &mut PageTable, page: PageId) {
        table[page].take(Mark::Referenced);
        self.queue.push_back(table, page);
    }

    /// Marks a page of the queue as touched.
    pub(super) fn mark(table: &mut PageTable, page: PageId) {
        table[page].set(Mark::Referenced);
    }

    /// Takes a page off the queue, on which it must be.
    pub(super) fn unlink(&mut self, table: &mut PageTable, page: PageId) {
        if self.hand == Some(page) {
            self.hand = self.after(table, page);
        }
        table[page].take(Mark::Referenced);
        self.queue.remove(table, page);
    }

    /// The pages from the oldest to the newest.
    pub(super) fn iter<'a>(&'a self, table: &'a PageTable) -> impl Iterator<Item = PageId> + 'a {
        self.queue.iter(table)
    }

    /// Takes off the page that should leave next.
    pub(super) fn take(&mut self, table: &mut PageTable) -> Option<PageId> {
        loop {
            let page = self.hand.or_else(|| self.queue.front())?;
            let was_touched = table[page].take(Mark::Referenced);
            self.hand = self.after(table, page);
            if !was_touched {
                self.queue.remove(table, page);
                return Some(page);
            }
        }
    }
}

impl Reclaim for Sieve {
    fn insert(&mut self, table: &mut PageTable, page: PageId, _: Arrival) {
        self.push(table, page);
    }

    fn touch(&mut self, table: &mut PageTable, page: PageId) {
        Self::mark(table, page);
    }

    fn remove(&mut self, table: &mut PageTable, page: PageId) {
        self.unlink(table, page);
    }

    fn victims(&mut self, table: &mut PageTable, want: usize, _: Urgency, out: &mut Vec<PageId>) {
        out.extend(std::iter::from_fn(|| self.take(table)).take(want));
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
        self.iter(table).collect()
    }
}
