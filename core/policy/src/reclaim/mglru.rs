//! `mglru`: generations of pages; the oldest leaves.

use super::{Arrival, Reclaim, Urgency, take_all_of};
use crate::entry::{PolicyEntry, no_arguments};
use crate::list::PageList;
use crate::page::{Hotness, Mark, PageId, PageTable};
use warmswap_page::AppId;

pub(super) const ENTRY: PolicyEntry<dyn Reclaim> = PolicyEntry {
    name: "mglru",
    summary: "two to four generations, the oldest leaves; anonymous and file pages alike",
    source: "Linux 6.12, mm/vmscan.c (lru_gen_*), Documentation/mm/multigen_lru.rst",
    build: |arguments| {
        no_arguments(arguments)?;
        Ok(Box::new(Mglru::default()))
    },
};

/// `MAX_NR_GENS` and `MIN_NR_GENS`.
const MOST_GENERATIONS: usize = 4;
const LEAST_GENERATIONS: u64 = 2;

/// The kernel's multi-generational LRU.
///
/// A page that is touched enters the youngest generation, one that came along the oldest. The oldest one gives its
/// pages: those that were touched since move to the youngest. When there are only two generations left, a new one is
/// begun, into which all pages that were touched move, as by the kernel's walk of page tables.
///
/// Where it departs from the kernel: no tiers of pages that are read through descriptors, no Bloom filter for the walk,
/// which is a pass over the lists here, and no balance between anonymous and file pages. A call is constant time but for
/// that pass, one for each generation.
#[derive(Debug)]
pub struct Mglru {
    /// By generation modulo four; a page's label is that and one more.
    generations: [PageList; MOST_GENERATIONS],
    oldest: u64,
    youngest: u64,
}

impl Default for Mglru {
    fn default() -> Self {
        Self {
            generations: Default::default(),
            oldest: 0,
            youngest: LEAST_GENERATIONS,
        }
    }
}

impl Mglru {
    fn slot(generation: u64) -> usize {
        generation as usize % MOST_GENERATIONS
    }

    fn push(&mut self, table: &mut PageTable, page: PageId, generation: u64) {
        let slot = Self::slot(generation);
        table[page].label = slot as u8 + 1;
        self.generations[slot].push_back(table, page);
    }

    /// Begins a generation, and moves there what was touched.
    fn age(&mut self, table: &mut PageTable) {
        self.youngest += 1;
        for generation in self.oldest..self.youngest {
            let list = self.generations[Self::slot(generation)];
            let touched = |&page: &PageId| table[page].has(Mark::Referenced);
            let touched: Vec<_> = list.iter(table).filter(touched).collect();
            for page in touched {
                self.generations[Self::slot(generation)].remove(table, page);
                table[page].take(Mark::Referenced);
                self.push(table, page, self.youngest);
            }
        }
    }

    fn take(&mut self, table: &mut PageTable) -> Option<PageId> {
        if self.generations.iter().all(PageList::is_empty) {
            return None;
        }
        loop {
            if self.youngest - self.oldest < LEAST_GENERATIONS {
                self.age(table);
            }
            let Some(page) = self.generations[Self::slot(self.oldest)].pop_front(table) else {
                self.oldest += 1;
                continue;
            };
            if !table[page].take(Mark::Referenced) {
                table[page].label = 0;
                return Some(page);
            }
            self.push(table, page, self.youngest);
        }
    }
}

impl Reclaim for Mglru {
    fn insert(&mut self, table: &mut PageTable, page: PageId, arrival: Arrival) {
        let generation = match arrival {
            Arrival::Touched => self.youngest,
            Arrival::Untouched => self.oldest,
        };
        self.push(table, page, generation);
    }

    fn touch(&mut self, table: &mut PageTable, page: PageId) {
        table[page].set(Mark::Referenced);
    }

    fn remove(&mut self, table: &mut PageTable, page: PageId) {
        let slot = usize::from(table[page].label) - 1;
        self.generations[slot].remove(table, page);
        table[page].take(Mark::Referenced);
        table[page].label = 0;
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

    fn hotness(&self, table: &PageTable, page: PageId) -> Hotness {
        let young = [self.youngest, self.youngest - 1].map(|it| Self::slot(it) as u8 + 1);
        if young.contains(&table[page].label) {
            Hotness::Warm
        } else {
            Hotness::Cold
        }
    }

    fn dump(&self, table: &PageTable) -> Vec<PageId> {
        let generations = self.oldest..=self.youngest;
        generations
            .flat_map(|it| self.generations[Self::slot(it)].iter(table))
            .collect()
    }
}
