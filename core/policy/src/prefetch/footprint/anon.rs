//! Which anonymous pages the next switch will touch (ASAP section 4.3).

use rustc_hash::FxHashMap;

/// Switches that a page may miss before it leaves its table (section 4.3).
pub const TIMEOUT_SWITCHES: u8 = 5;

/// Which table a page is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    /// The online candidate table: it faulted in a switch.
    Candidate,
    /// The prepaging target table: it was accessed in a later switch, too.
    Target,
}

/// What is known of a page in the window that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Untouched,
    Accessed,
    /// Whether it was accessed cannot be told.
    Unknown,
}

/// What is known of a page of one of the tables; with its number 16 bytes.
#[derive(Clone, Copy, Debug)]
struct TableEntry {
    /// Its place among the pages of the last window that accessed it.
    order: u32,
    /// Switches that it may still miss.
    timeout: u8,
    table: Table,
    seen: Seen,
}

impl TableEntry {
    fn new(order: u32, timeout: u8, table: Table) -> Self {
        Self {
            order,
            timeout,
            table,
            seen: Seen::Untouched,
        }
    }
}

/// What the end of a window changed; in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnonUpdate {
    /// New candidates.
    pub inserted: u64,
    /// Candidates that became targets.
    pub promoted: u64,
    /// Pages that left their table, since they were not accessed for too long.
    pub evicted: u64,
}

/// The estimator for anonymous pages of one application.
///
/// A host opens a window when the application comes to the foreground, reports faults and accesses, and
/// closes it when the application has answered. A host that sees accesses only by bits that the processor
/// sets clears them when the window opens, and reports those that are set again before it closes.
///
/// - A page that faults in a window and is in no table becomes a candidate.
/// - A candidate that is accessed in a later window becomes a target: it is brought back at the next switch.
/// - A page that is not accessed in [`TIMEOUT_SWITCHES`] windows in a row leaves its table.
///
/// It knows page numbers only: no addresses are followed, nothing is read. Memory: 17 bytes for each
/// place of the table, and 8 for each fault of the open window.
#[derive(Debug)]
pub struct AnonEstimator {
    timeout: u8,
    entries: FxHashMap<u64, TableEntry>,
    /// The fault buffer: pages in no table, in the order of their faults, with their place in the window.
    faults: Vec<(u64, u32)>,
    /// Accesses in the open window so far.
    clock: u32,
}

impl Default for AnonEstimator {
    fn default() -> Self {
        Self::new(TIMEOUT_SWITCHES)
    }
}

impl AnonEstimator {
    /// An estimator that knows nothing. `timeout_switches` of 0 counts as 1.
    pub fn new(timeout_switches: u8) -> Self {
        Self {
            timeout: timeout_switches.max(1),
            entries: FxHashMap::default(),
            faults: Vec::new(),
            clock: 0,
        }
    }

    /// A window opens: what was seen since the last one closed does not count.
    pub fn window_begin(&mut self) {
        self.faults.clear();
        self.clock = 0;
        for entry in self.entries.values_mut() {
            entry.seen = Seen::Untouched;
        }
    }

    /// A page was accessed in the window; `faulted` if it was not in its place. Constant time.
    pub fn accessed(&mut self, page: u64, faulted: bool) {
        match self.entries.get_mut(&page) {
            Some(entry) if entry.seen != Seen::Accessed => {
                entry.seen = Seen::Accessed;
                entry.order = self.clock;
                self.clock += 1;
            }
            Some(_) => {}
            None if faulted => {
                self.faults.push((page, self.clock));
                self.clock += 1;
            }
            None => {}
        }
    }

    /// Of the pages for which `is_unseen`, it is not known whether they were accessed in the window, unless that
    /// was reported: they neither age nor are they promoted. Linear in the pages of the tables.
    pub fn unseen(&mut self, mut is_unseen: impl FnMut(u64) -> bool) {
        for (&page, entry) in &mut self.entries {
            if entry.seen != Seen::Accessed && is_unseen(page) {
                entry.seen = Seen::Unknown;
            }
        }
    }

    /// Whether a page of the tables was not accessed in the last window that could tell.
    pub fn doubts(&self, page: u64) -> bool {
        let entry = self.entries.get(&page);
        entry.is_some_and(|entry| entry.timeout < self.timeout)
    }

    /// The window closes: candidates come, are promoted, and what was not accessed for too long goes.
    /// Linear in the pages of the tables and of the fault buffer.
    pub fn window_end(&mut self) -> AnonUpdate {
        let mut update = AnonUpdate::default();
        let timeout = self.timeout;
        self.entries.retain(|_, entry| {
            let seen = std::mem::replace(&mut entry.seen, Seen::Untouched);
            if seen == Seen::Unknown {
                return true;
            }
            if seen == Seen::Accessed {
                entry.timeout = timeout;
                if entry.table == Table::Candidate {
                    entry.table = Table::Target;
                    update.promoted += 1;
                }
                return true;
            }
            entry.timeout -= 1;
            update.evicted += u64::from(entry.timeout == 0);
            entry.timeout > 0
        });
        for (page, order) in std::mem::take(&mut self.faults) {
            self.entries.entry(page).or_insert_with(|| {
                update.inserted += 1;
                TableEntry::new(order, timeout, Table::Candidate)
            });
        }
        if self.entries.capacity() > 4 * self.entries.len() + 64 {
            self.entries.shrink_to_fit();
        }
        update
    }

    /// The prepaging target table: the pages to bring back at a switch, in the order in which they were first accessed in
    /// the last window that accessed them.
    pub fn targets(&self) -> Vec<u64> {
        self.in_order(Table::Target)
    }

    /// The online candidate table, in the same order.
    pub fn candidates(&self) -> Vec<u64> {
        self.in_order(Table::Candidate)
    }

    fn in_order(&self, table: Table) -> Vec<u64> {
        let entries = self.entries.iter().filter(|(_, e)| e.table == table);
        let mut pages: Vec<_> = entries.map(|(&page, e)| (e.order, page)).collect();
        pages.sort_unstable();
        pages.into_iter().map(|(_, page)| page).collect()
    }

    /// Whether the page is to be brought back at a switch.
    pub fn is_expected(&self, page: u64) -> bool {
        let entry = self.entries.get(&page);
        entry.is_some_and(|entry| entry.table == Table::Target)
    }

    /// Takes tables that were learned earlier, both in their order, in place of its own. A page that is in
    /// both is a target.
    pub fn restore(&mut self, targets: &[u64], candidates: &[u64]) {
        self.clear();
        let tables = [(Table::Target, targets), (Table::Candidate, candidates)];
        for (table, pages) in tables {
            for (order, &page) in pages.iter().enumerate() {
                let order = u32::try_from(order).unwrap_or(u32::MAX);
                let entry = TableEntry::new(order, self.timeout, table);
                self.entries.entry(page).or_insert(entry);
            }
        }
    }

    /// Forgets everything: the process ended, and its addresses mean nothing any more.
    pub fn clear(&mut self) {
        *self = Self::new(self.timeout);
    }

    /// Bytes of memory that the tables and the fault buffer hold.
    pub fn state_bytes(&self) -> usize {
        // hashbrown keeps a load of at most 7/8, and one byte of control for each place.
        let places = self.entries.capacity() * 8 / 7;
        places * (size_of::<(u64, TableEntry)>() + 1)
            + self.faults.capacity() * size_of::<(u64, u32)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window that faults on some pages and finds others in place.
    fn window(estimator: &mut AnonEstimator, faults: &[u64], hits: &[u64]) -> AnonUpdate {
        estimator.window_begin();
        faults
            .iter()
            .for_each(|&page| estimator.accessed(page, true));
        hits.iter()
            .for_each(|&page| estimator.accessed(page, false));
        estimator.window_end()
    }

    #[test]
    fn an_entry_takes_16_bytes_with_its_number() {
        assert_eq!(size_of::<(u64, TableEntry)>(), 16);
    }

    #[test]
    fn a_page_is_a_candidate_at_its_first_fault_and_a_target_at_its_next_access() {
        let mut e = AnonEstimator::default();
        let update = window(&mut e, &[7, 3, 3, 5], &[9]);
        assert_eq!((update.inserted, update.promoted), (3, 0));
        assert_eq!(e.targets(), [0_u64; 0]);
        assert_eq!(e.candidates(), [7, 3, 5], "in the order of their faults");
        let update = window(&mut e, &[5], &[7, 9]);
        assert_eq!((update.inserted, update.promoted), (0, 2));
        assert_eq!(e.targets(), [5, 7], "in the order of this window");
        assert!(e.is_expected(5) && !e.is_expected(3) && !e.is_expected(9));
    }

    #[test]
    fn a_page_leaves_its_table_after_five_windows_without_an_access() {
        let mut e = AnonEstimator::default();
        window(&mut e, &[1, 2], &[]);
        window(&mut e, &[], &[1]);
        for _ in 0..3 {
            assert_eq!(window(&mut e, &[], &[]).evicted, 0);
        }
        assert_eq!(window(&mut e, &[], &[]).evicted, 1, "the candidate");
        assert_eq!(e.targets(), [1]);
        window(&mut e, &[], &[1]);
        for _ in 0..4 {
            assert_eq!(
                window(&mut e, &[], &[]).evicted,
                0,
                "the access counted anew"
            );
        }
        assert_eq!(window(&mut e, &[], &[]).evicted, 1);
        assert_eq!((e.targets(), e.candidates()), (vec![], vec![]));
    }

    #[test]
    fn what_happens_between_windows_does_not_count() {
        let mut e = AnonEstimator::default();
        window(&mut e, &[1], &[]);
        e.accessed(1, true);
        e.accessed(2, true);
        assert_eq!(window(&mut e, &[], &[]), AnonUpdate::default());
        assert_eq!(e.targets(), [0_u64; 0]);
    }

    #[test]
    fn tables_that_were_learned_earlier_are_taken_in_their_order() {
        let mut e = AnonEstimator::default();
        e.restore(&[9, 4], &[4, 6]);
        assert_eq!((e.targets(), e.candidates()), (vec![9, 4], vec![6]));
    }
}
