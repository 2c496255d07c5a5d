//! `s3-fifo`: a small queue that most pages leave from, a main queue for those that were touched again.

use super::{Arrival, Reclaim, Urgency, take_all_of};
use crate::entry::{Entry, no_arguments};
use crate::list::PageList;
use crate::page::{Hotness, PageId, PageTable};
use warmswap_page::AppId;

pub(super) const ENTRY: Entry<dyn Reclaim> = Entry {
    name: "s3-fifo",
    summary: "a small queue, a main queue, and what left the small one lately; by arrival",
    source: "Yang et al., FIFO Queues are All You Need for Cache Eviction, SOSP 2023, Algorithm 1",
    build: |arguments| {
        no_arguments(arguments)?;
        Ok(Box::new(S3Fifo::default()))
    },
};

const SMALL: u8 = 1;
const MAIN: u8 = 2;
/// It left the small queue, and its note says as which.
const GHOST: u8 = 3;
/// Of the label, the queue; above it the touches, at most three.
const QUEUE: u8 = 3;
const TOUCH: u8 = 4;
const MOST_TOUCHES: u8 = 3;

/// S3-FIFO. The small queue has a tenth of the resident pages. A page that was touched more than once in it moves to
/// the main queue; another leaves, and goes to the main queue if it is missed before as many others left the small queue
/// as the main queue has pages. In the main queue each touch is worth a round. Constant time, amortized.
#[derive(Debug, Default)]
pub struct S3Fifo {
    small: PageList,
    main: PageList,
    /// Pages that left the small queue so far.
    departures: u32,
}

impl S3Fifo {
    fn touches(table: &PageTable, page: PageId) -> u8 {
        table[page].label / TOUCH
    }

    fn enter_main(&mut self, table: &mut PageTable, page: PageId, touches: u8) {
        table[page].label = MAIN + touches * TOUCH;
        self.main.push_back(table, page);
    }

    fn take_from_small(&mut self, table: &mut PageTable) -> Option<PageId> {
        let page = self.small.pop_front(table)?;
        if Self::touches(table, page) > 1 {
            self.enter_main(table, page, 0);
            return None;
        }
        self.departures = self.departures.wrapping_add(1);
        table[page].label = GHOST;
        table[page].set_note(self.departures);
        Some(page)
    }

    fn take_from_main(&mut self, table: &mut PageTable) -> Option<PageId> {
        let page = self.main.pop_front(table)?;
        if let Some(left) = Self::touches(table, page).checked_sub(1) {
            self.enter_main(table, page, left);
            return None;
        }
        table[page].label = 0;
        Some(page)
    }

    fn take(&mut self, table: &mut PageTable) -> Option<PageId> {
        while self.small.len() + self.main.len() > 0 {
            let resident = self.small.len() + self.main.len();
            let is_small_full = self.small.len() >= resident.div_ceil(10);
            let taken = if is_small_full || self.main.is_empty() {
                self.take_from_small(table)
            } else {
                self.take_from_main(table)
            };
            if taken.is_some() {
                return taken;
            }
        }
        None
    }
}

impl Reclaim for S3Fifo {
    fn insert(&mut self, table: &mut PageTable, page: PageId, _: Arrival) {
        let entry = &table[page];
        let since = self.departures.wrapping_sub(entry.note()) as usize;
        if entry.label == GHOST && since < self.main.len() {
            return self.enter_main(table, page, 0);
        }
        table[page].label = SMALL;
        self.small.push_back(table, page);
    }

    fn touch(&mut self, table: &mut PageTable, page: PageId) {
        if Self::touches(table, page) < MOST_TOUCHES {
            table[page].label += TOUCH;
        }
    }

    fn remove(&mut self, table: &mut PageTable, page: PageId) {
        match table[page].label & QUEUE {
            SMALL => self.small.remove(table, page),
            _ => self.main.remove(table, page),
        }
        table[page].label = 0;
    }

    fn victims(&mut self, table: &mut PageTable, want: usize, _: Urgency, out: &mut Vec<PageId>) {
        out.extend(std::iter::from_fn(|| self.take(table)).take(want));
    }

    fn victims_of(&mut self, table: &mut PageTable, app: AppId, out: &mut Vec<PageId>) {
        take_all_of(self, table, app, out);
    }

    fn hotness(&self, table: &PageTable, page: PageId) -> Hotness {
        match table[page].label & QUEUE {
            MAIN => Hotness::Warm,
            _ => Hotness::Cold,
        }
    }

    fn dump(&self, table: &PageTable) -> Vec<PageId> {
        let lists = [&self.small, &self.main];
        lists
            .into_iter()
            .flat_map(|list| list.iter(table))
            .collect()
    }
}
