//! `kernel-lru`: active and inactive lists with the refault distance, as the kernel has them.

use super::{Arrival, Reclaim, Urgency, take_all_of};
use crate::entry::{PolicyEntry, no_arguments};
use crate::list::PageList;
use crate::page::{Hotness, Mark, PageId, PageTable};
use warmswap_page::AppId;

pub(super) const ENTRY: PolicyEntry<dyn Reclaim> = PolicyEntry {
    name: "kernel-lru",
    summary: "active and inactive list, refault distance; anonymous and file pages alike",
    source: "Linux 6.12, mm/vmscan.c (folio_check_references, shrink_active_list), mm/workingset.c",
    build: |arguments| {
        no_arguments(arguments)?;
        Ok(Box::new(KernelLru::default()))
    },
};

const INACTIVE: u8 = 1;
const ACTIVE: u8 = 2;
/// It left, and its note says when.
const SHADOW: u8 = 3;
const LIST: u8 = 3;
/// `PG_referenced`: it was found touched once on the inactive list.
const FOUND_TOUCHED: u8 = 4;

/// The kernel's two lists.
///
/// A page begins on the inactive list. At its end, a page that was touched goes around once more, and to the active list
/// when it was touched again by then; another leaves. The active list gives its oldest page to the inactive one while it
/// is the longer (the kernel's ratio below 1 GiB). What leaves is stamped with the age of the lists, which grows by
/// each departure and each activation; a page that is missed within as many steps as the active list is long goes
/// there at once, as it would have been touched had the inactive list been longer by those pages.
///
/// Where it departs from the kernel: one pair of lists for anonymous and file pages, so that there is no balance between
/// them, and no mark for executable pages. Constant time, amortized.
#[derive(Debug, Default)]
pub struct KernelLru {
    inactive: PageList,
    active: PageList,
    /// `nonresident_age`.
    age: u32,
}

impl KernelLru {
    fn push(&mut self, table: &mut PageTable, page: PageId, label: u8) {
        table[page].label = label;
        match label & LIST {
            ACTIVE => self.active.push_back(table, page),
            _ => self.inactive.push_back(table, page),
        }
    }

    fn activate(&mut self, table: &mut PageTable, page: PageId) {
        self.age = self.age.wrapping_add(1);
        self.push(table, page, ACTIVE);
    }

    fn take(&mut self, table: &mut PageTable) -> Option<PageId> {
        loop {
            if self.active.len() > self.inactive.len() {
                let page = self.active.pop_front(table)?;
                table[page].take(Mark::Referenced);
                self.push(table, page, INACTIVE);
                continue;
            }
            let page = self.inactive.pop_front(table)?;
            let was_found = table[page].label & FOUND_TOUCHED != 0;
            match (table[page].take(Mark::Referenced), was_found) {
                (true, true) => self.activate(table, page),
                (true, false) => self.push(table, page, INACTIVE | FOUND_TOUCHED),
                (false, _) => {
                    table[page].label = SHADOW;
                    table[page].set_note(self.age);
                    self.age = self.age.wrapping_add(1);
                    return Some(page);
                }
            }
        }
    }
}

impl Reclaim for KernelLru {
    fn insert(&mut self, table: &mut PageTable, page: PageId, arrival: Arrival) {
        let entry = &mut table[page];
        if arrival == Arrival::Touched {
            entry.set(Mark::Referenced);
        }
        let distance = self.age.wrapping_sub(entry.note()) as usize;
        let is_refault = entry.label == SHADOW && arrival == Arrival::Touched;
        if is_refault && distance <= self.active.len() {
            self.activate(table, page);
        } else {
            self.push(table, page, INACTIVE);
        }
    }

    fn touch(&mut self, table: &mut PageTable, page: PageId) {
        table[page].set(Mark::Referenced);
    }

    fn remove(&mut self, table: &mut PageTable, page: PageId) {
        match table[page].label & LIST {
            ACTIVE => self.active.remove(table, page),
            _ => self.inactive.remove(table, page),
        }
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
        match table[page].label & LIST {
            ACTIVE => Hotness::Warm,
            _ => Hotness::Cold,
        }
    }

    fn dump(&self, table: &PageTable) -> Vec<PageId> {
        let lists = [&self.inactive, &self.active];
        lists
            .into_iter()
            .flat_map(|list| list.iter(table))
            .collect()
    }
}
