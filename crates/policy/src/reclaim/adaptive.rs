//! `adaptive`: the rule that a miniature simulation finds best, and never one that it finds worse than LRU.

mod board;
mod history;
mod miniature;

use super::{Arrival, Reclaim, RuleRow, Ruling, Urgency, take_all_of};
use crate::entry::{Entry, arguments};
use crate::page::{Hotness, PageId, PageTable};
use board::{Board, Rule};
use miniature::Miniature;
use warmswap_page::{AppId, LaunchKind};

pub(super) const ENTRY: Entry<dyn Reclaim> = Entry {
    name: "adaptive",
    summary: "LRU, LRU-2 or history of sessions, whichever serves best; rule=choose|lru|lru-2|history",
    source: "ours; miniature simulation after Waldspurger et al., USENIX ATC 2017",
    build: |text| {
        let mut policy = Adaptive::default();
        for (key, value) in arguments(text) {
            let rule = match (key, value) {
                ("rule", "choose") => continue,
                ("rule", "lru") => Rule::Lru,
                ("rule", "lru-2") => Rule::Lru2,
                ("rule", "history") => Rule::History,
                _ => {
                    return Err(format!(
                        "'{key}={value}' is not rule=choose|lru|lru-2|history"
                    ));
                }
            };
            policy = Adaptive {
                board: Board::new(rule),
                miniature: None,
                ..Adaptive::default()
            };
        }
        Ok(Box::new(policy))
    },
};

/// Three rules, of which one rules. A few pages go through small copies of all three; at each launch the one with the
/// fewest misses there takes over.
///
/// Memory: 16 bytes a page besides its entry of the page table, and the sampled pages. Every call is constant time,
/// but for a change of the rule, which is linear in the resident pages, at most once a launch.
#[derive(Debug)]
pub struct Adaptive {
    board: Board,
    /// None: the rule is given.
    miniature: Option<Miniature>,
    changes: u64,
    /// Launches during which each rule ruled.
    launches: [u64; Rule::ALL.len()],
}

impl Default for Adaptive {
    fn default() -> Self {
        Self {
            board: Board::new(Rule::Lru),
            miniature: Some(Miniature::default()),
            changes: 0,
            launches: [0; Rule::ALL.len()],
        }
    }
}

impl Adaptive {
    fn simulate(&mut self, table: &PageTable, page: PageId) {
        if let Some(miniature) = &mut self.miniature {
            miniature.touch(table.owner(page), page, self.board.len());
        }
    }
}

impl Reclaim for Adaptive {
    fn insert(&mut self, table: &mut PageTable, page: PageId, arrival: Arrival) {
        let touched = arrival == Arrival::Touched;
        self.board.insert(table, page, touched);
        if touched {
            self.simulate(table, page);
        }
    }

    fn touch(&mut self, table: &mut PageTable, page: PageId) {
        self.board.touch(table, page);
        self.simulate(table, page);
    }

    fn remove(&mut self, table: &mut PageTable, page: PageId) {
        self.board.remove(table, page);
    }

    fn victims(&mut self, table: &mut PageTable, want: usize, _: Urgency, out: &mut Vec<PageId>) {
        self.board.victims(table, want, out);
    }

    fn victims_of(&mut self, table: &mut PageTable, app: AppId, out: &mut Vec<PageId>) {
        take_all_of(self, table, app, out);
    }

    fn hotness(&self, table: &PageTable, page: PageId) -> Hotness {
        self.board.hotness(table, page)
    }

    fn launch_begin(&mut self, table: &mut PageTable, app: AppId, kind: LaunchKind) {
        self.board.launch_begin(table, usize::from(app.0));
        if let Some(miniature) = &mut self.miniature {
            miniature.launch_begin(app, kind == LaunchKind::Relaunch);
            let current = self.board.rule();
            let choice = miniature.choice(current);
            if choice != current {
                self.changes += 1;
                self.board.set_rule(table, choice);
            }
        }
        let rules = Rule::ALL.iter().zip(&mut self.launches);
        for (_, launches) in rules.filter(|(rule, _)| **rule == self.board.rule()) {
            *launches += 1;
        }
    }

    fn launch_end(&mut self, app: AppId) {
        self.board.launch_end(usize::from(app.0));
        if let Some(miniature) = &mut self.miniature {
            miniature.launch_end(app);
        }
    }

    fn retire(&mut self, app: AppId) {
        self.board.retire(usize::from(app.0));
        if let Some(miniature) = &mut self.miniature {
            miniature.retire(app);
        }
    }

    fn ruling(&self) -> Option<Ruling> {
        let totals = self.miniature.as_ref()?.totals();
        let rows = totals
            .zip(self.launches)
            .map(|((rule, misses), launches)| RuleRow {
                rule: rule.name().to_owned(),
                launches,
                window_misses: misses[0],
                misses: misses[1],
            });
        Some(Ruling {
            rule: self.board.rule().name().to_owned(),
            changes: self.changes,
            rules: rows.collect(),
        })
    }

    fn state_bytes(&self) -> usize {
        let sampled = self.miniature.as_ref().map_or(0, Miniature::state_bytes);
        self.board.state_bytes() + sampled
    }

    fn forget(&mut self, table: &PageTable, page: PageId) {
        self.board.forget(table, page);
        if let Some(miniature) = &mut self.miniature {
            miniature.forget(page);
        }
    }

    fn dump(&self, table: &PageTable) -> Vec<PageId> {
        self.board.dump(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::PageState;
    use warmswap_page::PageAddr;

    /// Frames for some pages, and misses of pages that were there before.
    struct Memory {
        policy: Adaptive,
        table: PageTable,
        frames: usize,
        resident: usize,
        misses: u64,
    }

    impl Memory {
        fn new(rule: &str, frames: usize) -> Self {
            let rule = match rule {
                "lru" => Some(Rule::Lru),
                "lru-2" => Some(Rule::Lru2),
                "history" => Some(Rule::History),
                _ => None,
            };
            let policy = rule.map_or_else(Adaptive::default, |rule| Adaptive {
                board: Board::new(rule),
                miniature: None,
                ..Adaptive::default()
            });
            Self {
                policy,
                table: PageTable::default(),
                frames,
                resident: 0,
                misses: 0,
            }
        }

        fn touch(&mut self, app: u16, number: u64) {
            let page = self
                .table
                .find_or_insert(AppId(app), PageAddr::Anon { number });
            match self.table[page].state {
                PageState::Resident => return self.policy.touch(&mut self.table, page),
                PageState::Absent => {}
                _ => self.misses += 1,
            }
            if self.resident == self.frames {
                let mut out = Vec::new();
                self.policy
                    .victims(&mut self.table, 8, Urgency::Direct, &mut out);
                assert_eq!(out.len(), 8);
                out.iter()
                    .for_each(|&page| self.table[page].state = PageState::Stored);
                self.resident -= 8;
            }
            self.table[page].state = PageState::Resident;
            self.policy.insert(&mut self.table, page, Arrival::Touched);
            self.resident += 1;
        }

        /// A launch whose window touches the first pages, and a session that touches the rest.
        fn session(&mut self, app: u16, window: std::ops::Range<u64>, rest: std::ops::Range<u64>) {
            self.policy
                .launch_begin(&mut self.table, AppId(app), LaunchKind::Relaunch);
            window.for_each(|number| self.touch(app, number));
            self.policy.launch_end(AppId(app));
            rest.for_each(|number| self.touch(app, number));
        }
    }

    /// Three applications in turn, each with pages that every launch needs, and others that are touched once.
    fn launches_and_scans(rule: &str) -> Memory {
        let mut memory = Memory::new(rule, 1000);
        for round in 0..30_u64 {
            for app in 0..3 {
                let rest = 1000 + round * 400..1400 + round * 400;
                memory.session(app, 0..200, rest);
            }
        }
        memory
    }

    #[test]
    fn what_is_known_of_a_page_fits_beside_its_entry() {
        let mut board = Board::new(Rule::History);
        let mut table = PageTable::default();
        for number in 0..100_000 {
            let page = table.find_or_insert(AppId(0), PageAddr::Anon { number });
            board.insert(&mut table, page, true);
        }
        let bytes = board.state_bytes() + table.state_bytes();
        // A 32nd of idle room in both, and the blocks of the table.
        assert!(bytes < 100_000 * 35, "{bytes}");
    }

    #[test]
    fn lru_is_exact() {
        let mut memory = Memory::new("lru", 64);
        (0..64).for_each(|number| memory.touch(0, number));
        [3, 1, 0]
            .into_iter()
            .for_each(|number| memory.touch(0, number));
        let mut out = Vec::new();
        memory
            .policy
            .victims(&mut memory.table, 64, Urgency::Direct, &mut out);
        let addr = |&page: &PageId| match memory.table.addr(page) {
            PageAddr::Anon { number } => number,
            PageAddr::File { .. } => unreachable!("there are no files"),
        };
        let numbers: Vec<_> = out.iter().map(addr).collect();
        let expected = [2].into_iter().chain(4..64).chain([3, 1, 0]);
        assert_eq!(numbers, expected.collect::<Vec<_>>());
    }

    #[test]
    fn pages_that_launches_need_outlive_those_that_were_touched_once() {
        let misses = |rule| launches_and_scans(rule).misses;
        let (lru, lru2, history) = (misses("lru"), misses("lru-2"), misses("history"));
        assert!(lru > 15_000, "a scan of the others displaces them: {lru}");
        assert!(lru2 < lru / 4, "{lru2} of {lru}");
        assert!(history < lru / 4, "{history} of {lru}");
    }

    #[test]
    fn a_better_rule_is_found_and_what_ruled_is_told() {
        let chosen = launches_and_scans("choose");
        let lru = launches_and_scans("lru");
        assert!(
            chosen.misses < lru.misses / 2,
            "{} of {}",
            chosen.misses,
            lru.misses
        );
        let ruling = chosen.policy.ruling().expect("it chooses");
        assert_ne!(ruling.rule, "lru");
        assert!(ruling.changes > 0);
        let launches: u64 = ruling.rules.iter().map(|row| row.launches).sum();
        assert_eq!(launches, 90);
        assert!(ruling.rules[0].window_misses > ruling.rules[1].window_misses);
        assert_eq!(lru.policy.ruling(), None);
    }

    #[test]
    fn where_lru_is_best_nothing_takes_over() {
        // Each session has pages of its own, touched twice: what was used before is of no use.
        let run = |rule: &str| {
            let mut memory = Memory::new(rule, 400);
            for round in 0..60_u64 {
                let from = round * 100;
                memory.session(0, from..from + 300, from..from + 300);
            }
            memory
        };
        let (chosen, lru) = (run("choose"), run("lru"));
        assert_eq!(chosen.misses, lru.misses);
        assert_eq!(chosen.policy.ruling().expect("it chooses").rule, "lru");
    }

    #[test]
    fn a_change_of_the_rule_loses_no_page() {
        let mut memory = launches_and_scans("lru");
        let count = memory.policy.dump(&memory.table).len();
        for rule in [
            Rule::History,
            Rule::Lru2,
            Rule::Lru,
            Rule::Lru2,
            Rule::History,
        ] {
            memory.policy.board.set_rule(&mut memory.table, rule);
            let mut pages = memory.policy.dump(&memory.table);
            pages.sort();
            pages.dedup();
            assert_eq!(
                (pages.len(), memory.policy.board.len()),
                (count, count),
                "{rule:?}"
            );
        }
    }
}
