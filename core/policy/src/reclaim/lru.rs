//! `lru`: active and inactive lists, as the kernel keeps them, for anonymous pages and for file pages.

use super::{Arrival, Reclaim, Urgency};
use crate::entry::{Entry, arguments};
use crate::list::PageList;
use crate::page::{Hotness, Mark, PageId, PageTable};
use warmswap_page::AppId;

pub(super) const ENTRY: Entry<dyn Reclaim> = Entry {
    name: "lru",
    summary: "active/inactive lists with second chance; lru:swappiness=0..200 (100: anonymous and file pages alike)",
    source: "the kernel's mm/vmscan.c; Ariadne section 2.2",
    build: |text| {
        let mut lru = Lru::default();
        for (key, value) in arguments(text) {
            lru.swappiness = match (key, value.parse()) {
                ("swappiness", Ok(swappiness @ 0..=200)) => swappiness,
                _ => return Err(format!("'{key}={value}' is not swappiness=0..200")),
            };
        }
        Ok(Box::new(lru))
    },
};

/// The labels of a page: which of the four lists it is on.
const ANON: u8 = 1;
const FILE: u8 = 3;
const ACTIVE: u8 = 1;

/// Active and inactive list for each of anonymous and file pages.
///
/// A page starts inactive with its referenced mark set by the touch that brought it. At the front of the
/// inactive list a referenced page moves to the active list and an unreferenced one leaves; the active
/// list gives its front to the inactive list, mark cleared, while it is the longer one.
#[derive(Debug)]
pub struct Lru {
    /// Indexed by label - 1.
    lists: [PageList; 4],
    swappiness: u8,
    /// Error diffusion between anonymous and file victims: the side with more pressure goes first.
    balance: i64,
}

impl Default for Lru {
    fn default() -> Self {
        Self {
            lists: [PageList::default(); 4],
            swappiness: 100,
            balance: 0,
        }
    }
}

impl Lru {
    fn list(&mut self, label: u8) -> &mut PageList {
        &mut self.lists[usize::from(label) - 1]
    }

    fn push(&mut self, table: &mut PageTable, page: PageId, label: u8) {
        table[page].label = label;
        self.list(label).push_back(table, page);
    }

    fn len(&self, kind: u8) -> usize {
        let first = usize::from(kind) - 1;
        self.lists[first].len() + self.lists[first + 1].len()
    }

    /// Takes one page of a kind; every page gets at most one second chance in a call, so this ends.
    fn take(&mut self, table: &mut PageTable, kind: u8) -> Option<PageId> {
        let mut chances = self.len(kind);
        loop {
            let (inactive, active) = (usize::from(kind) - 1, usize::from(kind));
            if self.lists[active].len() > self.lists[inactive].len() {
                let page = self.lists[active].pop_front(table)?;
                table[page].take(Mark::Referenced);
                self.push(table, page, kind);
                continue;
            }
            let page = self.lists[inactive].pop_front(table)?;
            if table[page].take(Mark::Referenced) && chances > 0 {
                chances -= 1;
                self.push(table, page, kind + ACTIVE);
                continue;
            }
            return Some(page);
        }
    }

    /// Which kind gives the next victim: in proportion to list length times swappiness.
    fn next_kind(&mut self) -> Option<u8> {
        let (anon, file) = (self.len(ANON) as i64, self.len(FILE) as i64);
        let (anon, file) = (
            anon * i64::from(self.swappiness),
            file * i64::from(200 - self.swappiness),
        );
        match (anon, file) {
            (0, 0) => [ANON, FILE].into_iter().find(|&kind| self.len(kind) > 0),
            (_, 0) => Some(ANON),
            (0, _) => Some(FILE),
            _ => {
                let anon_first = self.balance >= 0;
                let total = anon + file;
                // Each call adds the anonymous share and takes away what the chosen side used.
                self.balance += (anon << 16) / total - if anon_first { 1 << 16 } else { 0 };
                Some(if anon_first { ANON } else { FILE })
            }
        }
    }
}

impl Reclaim for Lru {
    fn insert(&mut self, table: &mut PageTable, page: PageId, arrival: Arrival) {
        if arrival == Arrival::Touched {
            table[page].set(Mark::Referenced);
        }
        let kind = if table.is_file(page) { FILE } else { ANON };
        self.push(table, page, kind);
    }

    fn touch(&mut self, table: &mut PageTable, page: PageId) {
        table[page].set(Mark::Referenced);
    }

    fn remove(&mut self, table: &mut PageTable, page: PageId) {
        let label = table[page].label;
        self.list(label).remove(table, page);
    }

    fn victims(&mut self, table: &mut PageTable, want: usize, _: Urgency, out: &mut Vec<PageId>) {
        for _ in 0..want {
            let Some(kind) = self.next_kind() else { return };
            out.extend(self.take(table, kind));
        }
    }

    fn victims_of(&mut self, table: &mut PageTable, app: AppId, out: &mut Vec<PageId>) {
        for list in &mut self.lists {
            let theirs: Vec<_> = list
                .iter(table)
                .filter(|&page| table.owner(page) == app)
                .collect();
            theirs.iter().for_each(|&page| list.remove(table, page));
            out.extend(theirs);
        }
    }

    fn hotness(&self, table: &PageTable, page: PageId) -> Hotness {
        match table[page].label {
            0 => Hotness::Cold,
            label if (label - 1) & ACTIVE != 0 => Hotness::Warm,
            _ => Hotness::Cold,
        }
    }

    fn dump(&self, table: &PageTable) -> Vec<PageId> {
        self.lists
            .iter()
            .flat_map(|list| list.iter(table))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmswap_page::{FileId, PageAddr};

    fn setup(anon: u64, file: u64) -> (PageTable, Lru, Vec<PageId>) {
        let mut table = PageTable::default();
        let mut lru = Lru::default();
        let ids: Vec<_> = (0..anon)
            .map(|number| PageAddr::Anon { number })
            .chain((0..file).map(|number| PageAddr::File {
                file: FileId(0),
                number,
            }))
            .map(|addr| table.find_or_insert(AppId(0), addr))
            .collect();
        ids.iter()
            .for_each(|&page| lru.insert(&mut table, page, Arrival::Touched));
        (table, lru, ids)
    }

    fn victims(lru: &mut Lru, table: &mut PageTable, want: usize) -> Vec<PageId> {
        let mut out = Vec::new();
        lru.victims(table, want, Urgency::Background, &mut out);
        out
    }

    #[test]
    fn untouched_pages_leave_in_the_order_of_their_arrival() {
        let (mut table, mut lru, ids) = setup(8, 0);
        assert_eq!(victims(&mut lru, &mut table, 3), ids[..3]);
        assert_eq!(victims(&mut lru, &mut table, 9), ids[3..]);
    }

    #[test]
    fn a_page_touched_again_gets_a_second_chance() {
        let (mut table, mut lru, ids) = setup(8, 0);
        victims(&mut lru, &mut table, 2); // everybody's first reference is used up by now or soon
        lru.touch(&mut table, ids[2]);
        lru.touch(&mut table, ids[3]);
        let rest = victims(&mut lru, &mut table, 6);
        let at = |page| rest.iter().position(|&p| p == page).unwrap();
        assert!(
            at(ids[2]) > at(ids[5]) && at(ids[3]) > at(ids[5]),
            "{rest:?}"
        );
    }

    #[test]
    fn swappiness_decides_between_anonymous_and_file_pages() {
        let (mut table, mut lru, _) = setup(100, 100);
        let equal = victims(&mut lru, &mut table, 40);
        assert_eq!(
            equal.iter().filter(|&&page| table.is_file(page)).count(),
            20
        );
        lru.swappiness = 0;
        let files = victims(&mut lru, &mut table, 80);
        assert!(files.iter().all(|&page| table.is_file(page)));
        let last = victims(&mut lru, &mut table, 1)[0];
        assert!(!table.is_file(last), "files are used up");
    }

    #[test]
    fn the_pages_of_one_application_can_be_taken() {
        let (mut table, mut lru, ids) = setup(4, 0);
        let other = table.find_or_insert(AppId(1), PageAddr::Anon { number: 0 });
        lru.insert(&mut table, other, Arrival::Touched);
        let mut out = Vec::new();
        lru.victims_of(&mut table, AppId(0), &mut out);
        assert_eq!(out, ids);
        assert_eq!(lru.dump(&table), [other]);
    }
}
