//! `optimal`: the clairvoyant reclaim, which no other can beat. For replay, where the future is known.

use super::{Arrival, NextUse, Reclaim, Urgency};
use crate::entry::{PolicyEntry, arguments};
use crate::page::{Hotness, PageId, PageTable};
use std::collections::BTreeSet;
use warmswap_page::AppId;

pub(super) const ENTRY: PolicyEntry<dyn Reclaim> = PolicyEntry {
    name: "optimal",
    summary: "the page that is used last leaves first; for=all|windows (uses in launch windows); replay only",
    source: "Belady, A study of replacement algorithms for a virtual-storage computer, IBM Systems Journal 5(2), 1966",
    build: |text| {
        let mut policy = Optimal::default();
        for (key, value) in arguments(text) {
            policy.windows = match (key, value) {
                ("for", "all") => false,
                ("for", "windows") => true,
                _ => return Err(format!("'{key}={value}' is not for=all|windows")),
            };
        }
        Ok(Box::new(policy))
    },
};

/// Belady's algorithm: of the resident pages, the one whose next use is farthest leaves.
///
/// With `for=windows` only uses in the launch windows of relaunches count; among pages without one, the next use of any
/// kind. A page of whose future nothing was said is never used. Cost of a call: logarithmic in the resident pages.
/// Memory: 8 bytes a page, and a tree over the resident ones.
#[derive(Debug, Default)]
pub struct Optimal {
    windows: bool,
    /// By page: what is compared, the larger the later.
    rank: Vec<u64>,
    /// The resident pages, the next to leave last.
    resident: BTreeSet<(u64, PageId)>,
}

impl Optimal {
    fn rank(&self, page: PageId) -> u64 {
        self.rank.get(page.index()).copied().unwrap_or(u64::MAX)
    }
}

impl Reclaim for Optimal {
    fn insert(&mut self, _: &mut PageTable, page: PageId, _: Arrival) {
        self.resident.insert((self.rank(page), page));
    }

    fn touch(&mut self, _: &mut PageTable, _: PageId) {}

    fn remove(&mut self, _: &mut PageTable, page: PageId) {
        self.resident.remove(&(self.rank(page), page));
    }

    fn victims(&mut self, _: &mut PageTable, want: usize, _: Urgency, out: &mut Vec<PageId>) {
        let farthest = std::iter::from_fn(|| self.resident.pop_last());
        out.extend(farthest.take(want).map(|(_, page)| page));
    }

    fn victims_of(&mut self, table: &mut PageTable, app: AppId, out: &mut Vec<PageId>) {
        let theirs = |&&(_, page): &&(u64, PageId)| table.owner(page) == app;
        let theirs: Vec<_> = self.resident.iter().rev().filter(theirs).copied().collect();
        for entry in theirs {
            self.resident.remove(&entry);
            out.push(entry.1);
        }
    }

    fn knows_hot_pages(&self) -> bool {
        false
    }

    fn hotness(&self, _: &PageTable, _: PageId) -> Hotness {
        Hotness::Cold
    }

    fn wants_future(&self) -> bool {
        true
    }

    fn foresee(&mut self, page: PageId, next: NextUse) {
        let was_resident = self.resident.remove(&(self.rank(page), page));
        if self.rank.len() <= page.index() {
            self.rank.resize(page.index() + 1, u64::MAX);
        }
        let in_window = if self.windows { next.in_window } else { 0 };
        let rank = u64::from(in_window) << 32 | u64::from(next.at);
        self.rank[page.index()] = rank;
        if was_resident {
            self.resident.insert((rank, page));
        }
    }

    fn forget(&mut self, _: &PageTable, page: PageId) {
        if let Some(rank) = self.rank.get_mut(page.index()) {
            *rank = u64::MAX;
        }
    }

    fn dump(&self, _: &PageTable) -> Vec<PageId> {
        self.resident.iter().rev().map(|&(_, page)| page).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmswap_page::PageAddr;

    fn use_at(at: u32, in_window: u32) -> NextUse {
        NextUse { at, in_window }
    }

    #[test]
    fn the_page_that_is_used_last_leaves_first() {
        let mut table = PageTable::default();
        let ids: Vec<_> = (0..4)
            .map(|number| table.find_or_insert(AppId(0), PageAddr::Anon { number }))
            .collect();
        let order = |windows: bool, table: &mut PageTable| {
            let mut policy = Optimal {
                windows,
                ..Optimal::default()
            };
            let never = NextUse::NEVER.at;
            let uses = [(9, 90), (50, 60), (7, never), (20, never)];
            for (&page, (at, in_window)) in ids.iter().zip(uses) {
                policy.insert(table, page, Arrival::Touched);
                policy.foresee(page, use_at(at, in_window));
            }
            let mut out = Vec::new();
            policy.victims(table, 9, Urgency::Direct, &mut out);
            out
        };
        assert_eq!(order(false, &mut table), [ids[1], ids[3], ids[0], ids[2]]);
        assert_eq!(order(true, &mut table), [ids[3], ids[2], ids[0], ids[1]]);
    }

    #[test]
    fn a_page_without_a_future_leaves_before_all_others_and_a_later_use_moves_it() {
        let mut table = PageTable::default();
        let ids: Vec<_> = (0..3)
            .map(|number| table.find_or_insert(AppId(0), PageAddr::Anon { number }))
            .collect();
        let mut policy = Optimal::default();
        for (at, &page) in (5..).zip(&ids) {
            policy.foresee(page, use_at(at, 0));
            policy.insert(&mut table, page, Arrival::Touched);
        }
        policy.foresee(ids[0], use_at(100, 0));
        assert_eq!(policy.dump(&table), [ids[0], ids[2], ids[1]]);
        policy.remove(&mut table, ids[1]);
        policy.forget(&table, ids[1]);
        policy.insert(&mut table, ids[1], Arrival::Untouched);
        assert_eq!(policy.dump(&table), [ids[1], ids[0], ids[2]]);
    }
}
