//! `arc`: a list of pages that were touched once and one of those that were touched again, whose sizes adapt.

use super::{Arrival, Reclaim, Urgency, take_all_of};
use crate::entry::{Entry, no_arguments};
use crate::list::PageList;
use crate::page::{Hotness, PageId, PageTable};
use std::collections::VecDeque;
use warmswap_page::AppId;

pub(super) const ENTRY: Entry<dyn Reclaim> = Entry {
    name: "arc",
    summary: "recency and frequency list, sizes by the misses of pages that left either lately",
    source: "Megiddo, Modha, ARC: A Self-Tuning, Low Overhead Replacement Cache, FAST 2003, Figure 4",
    build: |arguments| {
        no_arguments(arguments)?;
        Ok(Box::new(Arc::default()))
    },
};

/// Labels: the resident lists T1 and T2, and their ghosts B1 and B2.
const RECENT: u8 = 1;
const FREQUENT: u8 = 2;
const RECENT_GHOST: u8 = 3;
const FREQUENT_GHOST: u8 = 4;

/// Pages that left one of the lists, oldest first. A page that came back or is no more stays in the queue until its turn
/// to be dropped comes, or such pages are the larger part of it; its label and note say that it is none of them.
#[derive(Debug)]
struct Ghosts {
    label: u8,
    queue: VecDeque<(PageId, u32)>,
    len: usize,
    departures: u32,
}

impl Ghosts {
    fn new(label: u8) -> Self {
        Self {
            label,
            queue: VecDeque::new(),
            len: 0,
            departures: 0,
        }
    }

    fn push(&mut self, table: &mut PageTable, page: PageId) {
        self.departures = self.departures.wrapping_add(1);
        table[page].label = self.label;
        table[page].set_note(self.departures);
        self.queue.push_back((page, self.departures));
        self.len += 1;
        if self.queue.len() > 2 * self.len + 64 {
            let label = self.label;
            self.queue
                .retain(|&(page, note)| table[page].label == label && table[page].note() == note);
        }
    }

    /// Drops the oldest until at most `most` are left.
    fn trim(&mut self, table: &mut PageTable, most: usize) {
        while self.len > most {
            let Some((page, note)) = self.queue.pop_front() else {
                return;
            };
            if table[page].label == self.label && table[page].note() == note {
                table[page].label = 0;
                self.len -= 1;
            }
        }
    }

    /// Whether the page is one of them; it is none afterwards.
    fn take(&mut self, label: u8) -> bool {
        let found = label == self.label;
        self.len -= usize::from(found);
        found
    }
}

/// ARC. The capacity is the number of resident pages when one last had to leave. Victims are asked for before it is known
/// which page comes in their place, so that the clause of `REPLACE` about a page of B2, which decides where T1 has
/// exactly its target size, is left out. Constant time, amortized. Memory: 8 bytes a ghost, about as many as resident pages.
#[derive(Debug)]
pub struct Arc {
    recent: PageList,
    frequent: PageList,
    recent_ghosts: Ghosts,
    frequent_ghosts: Ghosts,
    /// `p`: pages that the recency list should have.
    target: usize,
    capacity: usize,
}

impl Default for Arc {
    fn default() -> Self {
        Self {
            recent: PageList::default(),
            frequent: PageList::default(),
            recent_ghosts: Ghosts::new(RECENT_GHOST),
            frequent_ghosts: Ghosts::new(FREQUENT_GHOST),
            target: 0,
            capacity: 0,
        }
    }
}

impl Arc {
    fn resident(&self) -> usize {
        self.recent.len() + self.frequent.len()
    }

    fn push(&mut self, table: &mut PageTable, page: PageId, label: u8) {
        table[page].label = label;
        match label {
            RECENT => self.recent.push_back(table, page),
            _ => self.frequent.push_back(table, page),
        }
    }

    /// `REPLACE`, and the bounds of the ghosts: T1 and B1 have at most `c` pages, all four `2c`.
    fn take(&mut self, table: &mut PageTable) -> Option<PageId> {
        self.capacity = self.resident();
        let from_recent = self.recent.len() > self.target || self.frequent.is_empty();
        let (list, ghosts) = if from_recent && !self.recent.is_empty() {
            (&mut self.recent, &mut self.recent_ghosts)
        } else {
            (&mut self.frequent, &mut self.frequent_ghosts)
        };
        let page = list.pop_front(table)?;
        ghosts.push(table, page);
        let most = self.capacity - self.recent.len();
        self.recent_ghosts.trim(table, most);
        let most = 2 * self.capacity - self.resident() - self.recent_ghosts.len;
        self.frequent_ghosts.trim(table, most);
        Some(page)
    }
}

impl Reclaim for Arc {
    fn insert(&mut self, table: &mut PageTable, page: PageId, arrival: Arrival) {
        let label = table[page].label;
        let ghosts = [self.recent_ghosts.len, self.frequent_ghosts.len];
        let was_recent = self.recent_ghosts.take(label);
        let was_frequent = self.frequent_ghosts.take(label);
        if arrival == Arrival::Untouched || !(was_recent || was_frequent) {
            return self.push(table, page, RECENT);
        }
        let [recent, frequent] = ghosts;
        self.target = if was_recent {
            let step = (frequent / recent).max(1);
            self.capacity.min(self.target + step)
        } else {
            let step = (recent / frequent).max(1);
            self.target.saturating_sub(step)
        };
        self.push(table, page, FREQUENT);
    }

    fn touch(&mut self, table: &mut PageTable, page: PageId) {
        self.remove(table, page);
        self.push(table, page, FREQUENT);
    }

    fn remove(&mut self, table: &mut PageTable, page: PageId) {
        match table[page].label {
            RECENT => self.recent.remove(table, page),
            _ => self.frequent.remove(table, page),
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
        match table[page].label {
            FREQUENT => Hotness::Warm,
            _ => Hotness::Cold,
        }
    }

    fn forget(&mut self, table: &PageTable, page: PageId) {
        let label = table[page].label;
        self.recent_ghosts.take(label);
        self.frequent_ghosts.take(label);
    }

    fn state_bytes(&self) -> usize {
        let queues = [&self.recent_ghosts.queue, &self.frequent_ghosts.queue];
        queues
            .iter()
            .map(|queue| queue.capacity() * size_of::<(PageId, u32)>())
            .sum()
    }

    fn dump(&self, table: &PageTable) -> Vec<PageId> {
        let lists = [&self.recent, &self.frequent];
        lists
            .into_iter()
            .flat_map(|list| list.iter(table))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::PageState;
    use warmswap_page::PageAddr;

    #[test]
    fn pages_that_left_and_are_no_more_do_not_fill_the_queue() {
        const APP: AppId = AppId(0);
        let (mut table, mut arc) = (PageTable::default(), Arc::default());
        for turn in 0..200 {
            let first = turn * 64;
            for number in first..first + 64 {
                let page = table.find_or_insert(APP, PageAddr::Anon { number });
                table[page].state = PageState::Resident;
                arc.insert(&mut table, page, Arrival::Touched);
                arc.touch(&mut table, page);
            }
            let mut gone = Vec::new();
            arc.victims(&mut table, 32, Urgency::Background, &mut gone);
            for page in gone {
                arc.forget(&table, page);
                table[page].reset();
            }
        }
        let queued = arc.recent_ghosts.queue.len() + arc.frequent_ghosts.queue.len();
        assert!(queued <= 128, "{queued}");
    }
}
