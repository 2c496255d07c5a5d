//! `w-tinylfu`: a small recency list before a segmented one, which a page enters only if it was touched more often.

use super::{Arrival, Reclaim, Urgency, take_all_of};
use crate::entry::{Entry, no_arguments};
use crate::list::PageList;
use crate::page::{Hotness, PageId, PageTable};
use warmswap_page::AppId;

pub(super) const ENTRY: Entry<dyn Reclaim> = Entry {
    name: "w-tinylfu",
    summary: "a window list of 1 %, then a segmented LRU with admission by frequency",
    source: "Einziger, Friedman, Manes, TinyLFU: A Highly Efficient Cache Admission Policy, \
             ACM Transactions on Storage 13(4), 2017, sections 3 and 4",
    build: |arguments| {
        no_arguments(arguments)?;
        Ok(Box::new(WTinyLfu::default()))
    },
};

const WINDOW: u8 = 1;
const PROBATION: u8 = 2;
const PROTECTED: u8 = 3;

/// Counters have four bits, as in the paper.
const MOST_TOUCHES: u8 = 15;
/// Counters are halved after so many touches for each resident page: the sample of the paper.
const SAMPLE: usize = 10;
/// A hundredth of the pages is in the window.
const WINDOW_PART: usize = 100;
/// Of the main part, four fifths are protected.
const PROTECTED_OF_5: usize = 4;

/// W-TinyLFU. Pages have dense numbers, so that an exact counter for each takes the place of the sketch, and there is no
/// doorkeeper. Pages for which there was room enter the main part uncontested. Constant time, amortized. Memory: a byte a
/// page.
#[derive(Debug, Default)]
pub struct WTinyLfu {
    window: PageList,
    probation: PageList,
    protected: PageList,
    touches: Vec<u8>,
    /// Touches since the counters were halved.
    counted: usize,
}

impl WTinyLfu {
    fn resident(&self) -> usize {
        self.window.len() + self.main()
    }

    fn main(&self) -> usize {
        self.probation.len() + self.protected.len()
    }

    fn window_room(&self) -> usize {
        (self.resident() / WINDOW_PART).max(1)
    }

    fn list(&mut self, label: u8) -> &mut PageList {
        match label {
            WINDOW => &mut self.window,
            PROBATION => &mut self.probation,
            _ => &mut self.protected,
        }
    }

    fn push(&mut self, table: &mut PageTable, page: PageId, label: u8) {
        table[page].label = label;
        self.list(label).push_back(table, page);
    }

    fn count(&mut self, page: PageId) {
        if self.touches.len() <= page.index() {
            self.touches.resize(page.index() + 1, 0);
        }
        let touches = &mut self.touches[page.index()];
        *touches = MOST_TOUCHES.min(*touches + 1);
        self.counted += 1;
        if self.counted >= SAMPLE * self.resident().max(1) {
            self.touches.iter_mut().for_each(|touches| *touches /= 2);
            self.counted /= 2;
        }
    }

    fn touches(&self, page: Option<PageId>) -> Option<u8> {
        page.map(|page| self.touches.get(page.index()).copied().unwrap_or(0))
    }

    fn take(&mut self, table: &mut PageTable) -> Option<PageId> {
        let room = self.window_room();
        let newcomer = self.touches(self.window.front());
        let incumbent = self.touches(self.probation.front());
        let loser = match (newcomer, incumbent) {
            (Some(newcomer), Some(incumbent)) if self.window.len() > room => {
                if newcomer > incumbent {
                    let page = self.window.pop_front(table)?;
                    self.push(table, page, PROBATION);
                    PROBATION
                } else {
                    WINDOW
                }
            }
            (_, Some(_)) => PROBATION,
            (Some(_), None) if self.window.len() > room || self.protected.is_empty() => WINDOW,
            _ => PROTECTED,
        };
        let page = self.list(loser).pop_front(table)?;
        table[page].label = 0;
        Some(page)
    }
}

impl Reclaim for WTinyLfu {
    fn insert(&mut self, table: &mut PageTable, page: PageId, arrival: Arrival) {
        self.push(table, page, WINDOW);
        if arrival == Arrival::Touched {
            self.count(page);
        }
    }

    fn touch(&mut self, table: &mut PageTable, page: PageId) {
        let label = table[page].label;
        self.list(label).remove(table, page);
        let to = if label == WINDOW { WINDOW } else { PROTECTED };
        self.push(table, page, to);
        self.count(page);
        if PROTECTED_OF_5 * self.main() < 5 * self.protected.len()
            && let Some(page) = self.protected.pop_front(table)
        {
            self.push(table, page, PROBATION);
        }
    }

    fn remove(&mut self, table: &mut PageTable, page: PageId) {
        let label = table[page].label;
        self.list(label).remove(table, page);
        table[page].label = 0;
    }

    fn victims(&mut self, table: &mut PageTable, want: usize, _: Urgency, out: &mut Vec<PageId>) {
        let room = self.window_room();
        while self.window.len() > room + want
            && let Some(page) = self.window.pop_front(table)
        {
            self.push(table, page, PROBATION);
        }
        out.extend(std::iter::from_fn(|| self.take(table)).take(want));
    }

    fn victims_of(&mut self, table: &mut PageTable, app: AppId, out: &mut Vec<PageId>) {
        take_all_of(self, table, app, out);
    }

    fn hotness(&self, table: &PageTable, page: PageId) -> Hotness {
        match table[page].label {
            PROTECTED => Hotness::Warm,
            _ => Hotness::Cold,
        }
    }

    fn forget(&mut self, _: &PageTable, page: PageId) {
        if let Some(touches) = self.touches.get_mut(page.index()) {
            *touches = 0;
        }
    }

    fn state_bytes(&self) -> usize {
        self.touches.capacity()
    }

    fn dump(&self, table: &PageTable) -> Vec<PageId> {
        let lists = [&self.window, &self.probation, &self.protected];
        lists
            .into_iter()
            .flat_map(|list| list.iter(table))
            .collect()
    }
}
