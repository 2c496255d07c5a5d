//! `adaptive`: the rule that a miniature simulation finds best, and never one that it finds worse than LRU.
//!
//! | module | subject |
//! |---|---|
//! | `rule` | the rules |
//! | `history` | what is expected of a page, from the sessions that touched it |
//! | `ranking` | the resident pages in the order of one rule, on lists by what is known of them |
//! | `miniature` | a sample of the pages under every rule at once |
//! | `unseen` | the policy of hosts that see faults only |

mod history;
mod miniature;
mod ranking;
mod rule;
mod unseen;

use super::{Arrival, Reclaim, RuleRow, Ruling, Urgency};
use crate::entry::{PolicyEntry, arguments};
use crate::page::{Hotness, PageId, PageState, PageTable};
use miniature::Miniature;
use ranking::{Ranking, TAUGHT};
use rule::Rule;
use unseen::Unseen;
use warmswap_page::{AppId, LaunchKind, PageAddr};

pub(super) const ENTRY: PolicyEntry<dyn Reclaim> = PolicyEntry {
    name: "adaptive",
    summary: "LRU, LRU-2, SIEVE or history of sessions, whichever serves best; \
              rule=RULE (choose, lru, lru-2, sieve, history, windows)",
    source: "ours; miniature simulation after Waldspurger et al., USENIX ATC 2017",
    build: |text| {
        let mut policy = Adaptive::default();
        for (key, value) in arguments(text) {
            let rule = Rule::ALL.into_iter().find(|rule| rule.name() == value);
            policy = match (key, value, rule) {
                ("rule", "choose", _) => Adaptive::default(),
                ("rule", _, Some(rule)) => Adaptive::of(rule),
                _ => {
                    return Err(format!(
                        "'{key}={value}' is not rule=choose|lru|lru-2|sieve|history|windows"
                    ));
                }
            };
        }
        Ok(Box::new(policy))
    },
};

/// Five rules; one rules at a time. A few pages go through small copies of all; at each launch the one with the fewest
/// misses there takes over.
///
/// An application that gives up its pages keeps those that its last launch window touched. Hosts that see faults only get
/// another policy ([`Reclaim::where_touches_are_unseen`]), unless the rule is given.
///
/// Memory: 12 bytes a page besides its entry of the page table, and at most 2,048 sampled pages. Every call is constant
/// time, but for a change of the rule, which is linear in the resident pages, at most once a launch.
#[derive(Debug)]
pub struct Adaptive {
    ranking: Ranking,
    /// None: the rule is given.
    miniature: Option<Miniature>,
    changes: u64,
    /// What is known of touches is what faults show.
    only_faults: bool,
    /// Launches during which each rule ruled.
    launches: [u64; Rule::ALL.len()],
}

/// Where touches of resident pages are not seen, pages leave in the order in which they came as long as this part of all
/// pages is resident. By trial on recordings: presuming touches gains at 70 % and below, and doubles faults at 80 % and above.
const ORDER_OF_ARRIVAL: (usize, usize) = (3, 4);

impl Default for Adaptive {
    fn default() -> Self {
        Self {
            // As good as LRU or better wherever memory is not very short; and where it is, misses tell soon.
            ranking: Ranking::new(Rule::Lru2),
            miniature: Some(Miniature::default()),
            changes: 0,
            only_faults: false,
            launches: [0; Rule::ALL.len()],
        }
    }
}

impl Adaptive {
    /// With one rule for good.
    fn of(rule: Rule) -> Self {
        Self {
            ranking: Ranking::new(rule),
            miniature: None,
            ..Self::default()
        }
    }

    /// For hosts that see faults only.
    fn of_faults() -> Self {
        Self {
            only_faults: true,
            ..Self::default()
        }
    }

    /// Whether pages should leave in the order in which they came: of touches only faults are known, and nearly all pages
    /// fit. Whatever is presumed of the others then displaces what is in use.
    fn is_in_order_of_arrival(&self) -> bool {
        self.only_faults
            && self.ranking.len() * ORDER_OF_ARRIVAL.1 >= self.ranking.known() * ORDER_OF_ARRIVAL.0
    }

    fn simulate(&mut self, table: &PageTable, page: PageId) {
        if let Some(miniature) = &mut self.miniature {
            miniature.touch(table.owner(page), page, self.ranking.len());
        }
    }
}

impl Reclaim for Adaptive {
    fn insert(&mut self, table: &mut PageTable, page: PageId, arrival: Arrival) {
        let touched = arrival == Arrival::Touched;
        self.ranking.insert(table, page, touched);
        if touched {
            self.simulate(table, page);
        }
    }

    fn touch(&mut self, table: &mut PageTable, page: PageId) {
        self.ranking.touch(table, page);
        self.simulate(table, page);
    }

    fn remove(&mut self, table: &mut PageTable, page: PageId) {
        self.ranking.remove(table, page);
    }

    fn victims(&mut self, table: &mut PageTable, want: usize, _: Urgency, out: &mut Vec<PageId>) {
        self.ranking.victims(table, want, out);
    }

    fn victims_of(&mut self, table: &mut PageTable, app: AppId, out: &mut Vec<PageId>) {
        let mut theirs = self.ranking.dump(table);
        theirs.retain(|&page| {
            table.owner(page) == app && self.ranking.hotness(table, page) != Hotness::Hot
        });
        for page in theirs {
            self.ranking.remove(table, page);
            out.push(page);
        }
    }

    fn hotness(&self, table: &PageTable, page: PageId) -> Hotness {
        self.ranking.hotness(table, page)
    }

    fn hot_pages(&self, app: AppId) -> u64 {
        self.ranking.hot_pages(app)
    }

    fn hot_list(&self, table: &PageTable, app: AppId) -> Vec<PageId> {
        let mut pages = self.ranking.dump(table);
        pages.retain(|&page| {
            table.owner(page) == app && self.ranking.hotness(table, page) == Hotness::Hot
        });
        pages
    }

    fn teach(&mut self, table: &mut PageTable, app: AppId, hot: &[u64]) {
        for &number in hot {
            let page = table.find_or_insert(app, PageAddr::Anon { number });
            // What is known of a page that exists is better.
            if table[page].state == PageState::Absent {
                table[page].label = TAUGHT;
            }
        }
        self.ranking.is_taught(app);
    }

    fn presumes_touches(&self) -> bool {
        !self.is_in_order_of_arrival()
    }

    fn where_touches_are_unseen(&self) -> Option<Box<dyn Reclaim>> {
        self.miniature.as_ref()?;
        Some(Box::new(Unseen::default()))
    }

    fn launch_begin(&mut self, table: &mut PageTable, app: AppId, kind: LaunchKind) {
        self.ranking.launch_begin(table, app, kind);
        let in_order = self.is_in_order_of_arrival();
        if let Some(miniature) = &mut self.miniature {
            miniature.launch_begin(app, kind);
            let current = self.ranking.rule();
            let mut choice = miniature.choice(current);
            if in_order {
                choice = Rule::Lru;
            }
            if choice != current {
                self.changes += 1;
                self.ranking.set_rule(table, choice);
            }
        }
        let rules = Rule::ALL.iter().zip(&mut self.launches);
        for (_, launches) in rules.filter(|(rule, _)| **rule == self.ranking.rule()) {
            *launches += 1;
        }
    }

    fn launch_end(&mut self, app: AppId) {
        self.ranking.launch_end(app);
        if let Some(miniature) = &mut self.miniature {
            miniature.launch_end(app);
        }
    }

    fn retire(&mut self, app: AppId) {
        self.ranking.retire(app);
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
            rule: self.ranking.rule().name().to_owned(),
            changes: self.changes,
            rules: rows.collect(),
        })
    }

    fn state_bytes(&self) -> usize {
        let sampled = self.miniature.as_ref().map_or(0, Miniature::state_bytes);
        self.ranking.state_bytes() + sampled
    }

    fn forget(&mut self, table: &PageTable, page: PageId) {
        self.ranking.forget(table, page);
        if let Some(miniature) = &mut self.miniature {
            miniature.forget(page);
        }
    }

    fn dump(&self, table: &PageTable) -> Vec<PageId> {
        self.ranking.dump(table)
    }
}

#[cfg(test)]
mod tests;
