use super::*;
use crate::page::PageState;
use warmswap_page::PageAddr;

/// Frames for some pages, and misses of pages that were there before.
struct FrameModel {
    policy: Adaptive,
    table: PageTable,
    frames: usize,
    resident: usize,
    misses: u64,
}

impl FrameModel {
    fn new(rule: &str, frames: usize) -> Self {
        let rule = Rule::ALL.into_iter().find(|it| it.name() == rule);
        let policy = rule.map_or_else(Adaptive::default, Adaptive::of);
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
fn launches_and_scans(rule: &str) -> FrameModel {
    let mut memory = FrameModel::new(rule, 1000);
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
    let mut ranking = Ranking::new(Rule::History);
    let mut table = PageTable::default();
    for number in 0..100_000 {
        let page = table.find_or_insert(AppId(0), PageAddr::Anon { number });
        ranking.insert(&mut table, page, true);
    }
    let bytes = ranking.state_bytes() + table.state_bytes();
    assert!(bytes <= 100_000 * 32, "{bytes}");
}

#[test]
fn lru_is_exact() {
    let mut memory = FrameModel::new("lru", 64);
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

/// Pages 0 to 99 are touched twice, `between` touches of another one follow, and then 300 others are touched once. The first
/// hundred that leave, where all other pages are in memory, or where half of them are not.
fn leave_after_touches_between(rule: &str, between: u64, is_short: bool) -> Vec<u64> {
    let mut memory = FrameModel::new(rule, 2000);
    if is_short {
        (1000..2000).for_each(|number| memory.touch(0, number));
        for page in memory.policy.dump(&memory.table) {
            memory.policy.remove(&mut memory.table, page);
            memory.table[page].state = PageState::Stored;
        }
    }
    let other = 9999;
    (0..2000).for_each(|_| memory.touch(0, other));
    memory
        .policy
        .launch_begin(&mut memory.table, AppId(0), LaunchKind::Relaunch);
    for _ in 0..2 {
        (0..100).for_each(|number| memory.touch(0, number));
    }
    (0..=between).for_each(|_| memory.touch(0, other));
    (100..400).for_each(|number| memory.touch(0, number));
    let mut out = Vec::new();
    memory
        .policy
        .victims(&mut memory.table, 100, Urgency::Direct, &mut out);
    numbers(&memory, &out)
}

#[test]
fn a_page_that_was_touched_once_leaves_before_one_that_was_touched_twice_a_while_ago() {
    let twice: Vec<u64> = (0..100).collect();
    let once: Vec<u64> = (100..200).collect();
    for is_short in [false, true] {
        assert_eq!(leave_after_touches_between("lru", 0, is_short), twice);
        assert_eq!(leave_after_touches_between("lru-2", 0, is_short), once);
        assert_eq!(leave_after_touches_between("sieve", 1000, is_short), once);
    }
    assert_eq!(leave_after_touches_between("lru-2", 1000, false), once);
    assert_eq!(leave_after_touches_between("lru-2", 1000, true), twice);
}

#[test]
fn sieve_begins_with_the_order_of_the_rule_before() {
    let leave = |then: Rule| {
        let mut memory = FrameModel::new("lru-2", 1000);
        for number in (0..100).chain(0..50).chain(200..300) {
            memory.touch(0, number);
        }
        memory.policy.ranking.set_rule(&mut memory.table, then);
        let mut out = Vec::new();
        memory
            .policy
            .victims(&mut memory.table, 150, Urgency::Direct, &mut out);
        numbers(&memory, &out)
    };
    // Those that were touched once; by the last touch alone the first hundred would be among them.
    let once: Vec<_> = (50..100).chain(200..300).collect();
    assert_eq!(leave(Rule::Lru2), once);
    assert_eq!(leave(Rule::Sieve), once);
    assert_ne!(leave(Rule::Lru), once);
}

#[test]
fn the_clock_of_touches_may_come_to_its_end() {
    for rule in Rule::ALL {
        let (mut ranking, mut table) = (Ranking::new(rule), PageTable::default());
        let mut pages = Vec::new();
        for number in 0..100 {
            let page = table.find_or_insert(AppId(0), PageAddr::Anon { number });
            ranking.insert(&mut table, page, true);
            pages.push(page);
        }
        ranking.set_clock(u32::MAX - 50);
        pages[..60]
            .iter()
            .for_each(|&page| ranking.touch(&mut table, page));
        assert_eq!(ranking.len(), 100, "{rule:?}");
        let mut out = Vec::new();
        ranking.victims(&mut table, 200, &mut out);
        assert_eq!(out[..40], pages[60..], "{rule:?}");
        out.sort_unstable();
        assert_eq!(out, pages, "{rule:?}");
        assert_eq!(ranking.len(), 0, "{rule:?}");
    }
}

#[test]
fn pages_that_launches_need_outlive_those_that_were_touched_once() {
    let misses = |rule| launches_and_scans(rule).misses;
    let lru = misses("lru");
    assert!(lru > 15_000, "a scan of the others displaces them: {lru}");
    for rule in ["history", "windows"] {
        let misses = misses(rule);
        assert!(misses < lru / 4, "{rule}: {misses} of {lru}");
    }
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
    let best = ruling.rules.iter().map(|row| row.window_misses).min();
    assert!(best < Some(ruling.rules[0].window_misses));
    assert_eq!(lru.policy.ruling(), None);
}

#[test]
fn where_lru_is_best_it_rules_soon() {
    // Each session has new pages in place of some old ones: what was used before is of no use.
    let run = |rule: &str| {
        let mut memory = FrameModel::new(rule, 400);
        for round in 0..60_u64 {
            let from = round * 150;
            memory.session(0, from..from + 350, 0..0);
        }
        memory
    };
    let (chosen, lru, lru2) = (run("choose"), run("lru"), run("lru-2"));
    assert_eq!(lru.misses, 0);
    // It begins with LRU-2, until that is seen to be worse.
    let (misses, of_lru2) = (chosen.misses, lru2.misses);
    assert!(misses < of_lru2 / 4, "{misses} of {of_lru2}");
    assert_eq!(chosen.policy.ruling().expect("it chooses").rule, "lru");
}

#[test]
fn a_change_of_the_rule_loses_no_page() {
    let mut memory = launches_and_scans("lru");
    let count = memory.policy.dump(&memory.table).len();
    for rule in [
        Rule::History,
        Rule::Lru2,
        Rule::Sieve,
        Rule::Lru,
        Rule::Lru2,
        Rule::Sieve,
        Rule::History,
    ] {
        memory.policy.ranking.set_rule(&mut memory.table, rule);
        let mut pages = memory.policy.dump(&memory.table);
        pages.sort();
        pages.dedup();
        assert_eq!(
            (pages.len(), memory.policy.ranking.len()),
            (count, count),
            "{rule:?}"
        );
    }
}

fn numbers(memory: &FrameModel, pages: &[PageId]) -> Vec<u64> {
    let number = |&page: &PageId| match memory.table.addr(page) {
        PageAddr::Anon { number } => number,
        PageAddr::File { .. } => unreachable!("there are no files"),
    };
    let mut numbers: Vec<_> = pages.iter().map(number).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn an_application_that_gives_up_its_pages_keeps_those_of_its_last_launch() {
    let mut memory = FrameModel::new("choose", 1000);
    memory.session(0, 0..10, 10..30);
    memory.session(1, 0..5, 5..10);
    memory.session(0, 5..20, 40..50);
    memory.session(1, 0..5, 5..10);
    let hot = memory.policy.hot_list(&memory.table, AppId(0));
    assert_eq!(numbers(&memory, &hot), (5..20).collect::<Vec<_>>());
    assert_eq!(memory.policy.hot_pages(AppId(0)), 15);
    let mut out = Vec::new();
    memory
        .policy
        .victims_of(&mut memory.table, AppId(0), &mut out);
    let expected = (0..5).chain(20..30).chain(40..50);
    assert_eq!(numbers(&memory, &out), expected.collect::<Vec<_>>());
}

#[test]
fn what_was_hot_in_an_earlier_run_is_hot_until_a_relaunch_says_otherwise() {
    let mut memory = FrameModel::new("choose", 1000);
    let app = AppId(0);
    memory.policy.teach(&mut memory.table, app, &[3, 4, 5, 6]);
    memory
        .policy
        .launch_begin(&mut memory.table, app, LaunchKind::Cold);
    (0..6).for_each(|number| memory.touch(0, number));
    memory.policy.launch_end(app);
    let hot = memory.policy.hot_list(&memory.table, app);
    assert_eq!(numbers(&memory, &hot), [3, 4, 5]);
    assert_eq!(memory.policy.hot_pages(app), 3);
    memory.session(1, 0..1, 1..2);
    memory.session(0, 0..2, 2..6);
    let hot = memory.policy.hot_list(&memory.table, app);
    assert_eq!(numbers(&memory, &hot), [0, 1]);
}

#[test]
fn a_page_that_was_taught_and_never_touched_leaves_nothing_to_the_next_owner_of_its_number() {
    let mut memory = FrameModel::new("choose", 1000);
    memory
        .policy
        .teach(&mut memory.table, AppId(0), &[3, 4, 5, 6]);
    memory.table.forget_blocks(AppId(0), |_| true);
    memory.policy.retire(AppId(0));
    memory.session(1, 0..8, 8..10);
    assert_eq!(memory.policy.hot_pages(AppId(1)), 8);
    for number in 0..10 {
        let page = memory
            .table
            .find_or_insert(AppId(1), PageAddr::Anon { number });
        memory.policy.remove(&mut memory.table, page);
        memory.policy.forget(&memory.table, page);
    }
    assert_eq!(memory.policy.hot_pages(AppId(1)), 0);
}
