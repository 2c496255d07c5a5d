//! A hash-sampled part of the pages, under every rule at once in as small a part of the memory.

use super::ranking::Ranking;
use super::rule::Rule;
use crate::page::{PageId, PageState, PageTable};
use rustc_hash::FxHashMap;
use warmswap_page::{AppId, LaunchKind, PageAddr};

/// One in so many pages is sampled at most, once there are enough; when there are more, half of them go.
const PAGES_OF_A_SAMPLED_ONE: usize = 16;
/// So many are enough to tell rules apart, and more than the second number tell no more.
const ENOUGH_PAGES: usize = 1024;
const MOST_PAGES: usize = 8192;
/// Of the pages there is room for, so many leave at a time, as in the real memory.
const BATCH_PART: usize = 64;
/// A miss in the launch window of a relaunch is as bad as so many others.
const WINDOW_WEIGHT: f32 = 6.0;
/// What is kept of the counts from launch to launch, over all and lately.
const KEPT: [f32; 2] = [0.97, 0.9];
/// Misses in all, under LRU or what rules, and in windows under LRU that are no evidence yet.
const LEAST_MISSES: f32 = 40.0;
const LEAST_IN_WINDOWS: f32 = 10.0;
/// A rule may rule when it has at most this part of LRU's misses in windows, and no more in all: a sample errs.
const ALLOWED_IN_WINDOWS: f32 = 0.97;
/// A rule takes over from another when it has at most this part of its misses.
const MUCH_BETTER: f32 = 0.95;
/// And when the difference is as many times what chance makes of it.
const CERTAINTY: f32 = 2.0;
/// And at most this part lately: what a rule gained long ago, it need not gain now.
const BETTER_LATELY: f32 = 0.97;

/// Misses under one rule, counted down from launch to launch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Misses {
    pub in_windows: f32,
    pub all: f32,
}

impl Misses {
    fn cost(self) -> f32 {
        self.all + (WINDOW_WEIGHT - 1.0) * self.in_windows
    }

    /// Whether the other has more misses, in windows or in all, by so many times what chance makes of it.
    fn is_exceeded_by(self, other: Self, certainty: f32) -> bool {
        let exceeds = |other: f32, own: f32| other > own + certainty * own.sqrt();
        exceeds(other.all, self.all) || exceeds(other.in_windows, self.in_windows)
    }

    /// How far off the cost is by chance, if misses come independently: a standard deviation.
    fn error(self) -> f32 {
        (self.all + (WINDOW_WEIGHT * WINDOW_WEIGHT - 1.0) * self.in_windows).sqrt()
    }
}

#[derive(Debug)]
struct Candidate {
    ranking: Ranking,
    table: PageTable,
    /// Over all, and lately.
    misses: [Misses; 2],
    /// In windows of relaunches, and anywhere, since the beginning.
    totals: [u64; 2],
}

/// The sampled pages.
#[derive(Debug)]
pub struct Miniature {
    candidates: Vec<Candidate>,
    /// Numbers of the sampled pages in the tables of the candidates.
    pages: FxHashMap<PageId, PageId>,
    /// Numbers that were given out, and by application those that are free again.
    given: u64,
    free: Vec<Vec<PageId>>,
    /// Of 2^32.
    share: u64,
    /// The highest number of a sampled page: about as many pages there are.
    highest: usize,
    in_relaunch: bool,
}

fn hash(page: PageId) -> u64 {
    u64::from(
        page.0
            .wrapping_add(1)
            .wrapping_mul(0x9e37_79b9)
            .rotate_left(15)
            .wrapping_mul(0x85eb_ca6b),
    )
}

impl Default for Miniature {
    fn default() -> Self {
        let candidate = |rule| Candidate {
            ranking: Ranking::new(rule),
            table: PageTable::default(),
            misses: Default::default(),
            totals: [0; 2],
        };
        Self {
            candidates: Rule::ALL.map(candidate).into(),
            pages: FxHashMap::default(),
            given: 0,
            free: Vec::new(),
            share: 1 << 32,
            highest: 0,
            in_relaunch: false,
        }
    }
}

impl Miniature {
    /// A page was touched, and `resident` pages are in memory.
    pub fn touch(&mut self, owner: AppId, page: PageId, resident: usize) {
        if hash(page) >= self.share {
            return;
        }
        let found = self.pages.get(&page).copied();
        let small = found.unwrap_or_else(|| self.add(owner, page));
        let capacity = ((resident as u64 * self.share) >> 32).max(4) as usize;
        let in_relaunch = self.in_relaunch;
        for candidate in &mut self.candidates {
            let Candidate {
                ranking,
                table,
                misses,
                totals,
            } = candidate;
            if table[small].state == PageState::Resident {
                ranking.touch(table, small);
                continue;
            }
            if table[small].state == PageState::Stored {
                totals[0] += u64::from(in_relaunch);
                totals[1] += 1;
                for misses in misses {
                    misses.all += 1.0;
                    misses.in_windows += f32::from(u8::from(in_relaunch));
                }
            }
            let mut out = Vec::new();
            if ranking.len() >= capacity {
                let beyond = ranking.len() + 1 - capacity;
                ranking.victims(table, beyond + capacity / BATCH_PART, &mut out);
            }
            out.iter()
                .for_each(|&page| table[page].state = PageState::Stored);
            table[small].state = PageState::Resident;
            ranking.insert(table, small, true);
        }
    }

    fn add(&mut self, owner: AppId, page: PageId) -> PageId {
        self.highest = self.highest.max(page.index());
        let most = self.highest / PAGES_OF_A_SAMPLED_ONE;
        if self.pages.len() >= most.clamp(ENOUGH_PAGES, MOST_PAGES) {
            self.share /= 2;
            let share = self.share;
            let gone: Vec<_> = self
                .pages
                .keys()
                .copied()
                .filter(|&page| hash(page) >= share)
                .collect();
            gone.into_iter().for_each(|page| self.forget(page));
        }
        let small = self.number(owner);
        self.pages.insert(page, small);
        small
    }

    /// A number for a page of that application, the same in all tables.
    fn number(&mut self, owner: AppId) -> PageId {
        if let Some(free) = self.free.get_mut(usize::from(owner.0)).and_then(Vec::pop) {
            return free;
        }
        self.given += 1;
        let addr = PageAddr::Anon { number: self.given };
        let tables = self.candidates.iter_mut().map(|it| &mut it.table);
        let numbers = tables.map(|table| table.find_or_insert(owner, addr));
        numbers.last().unwrap_or(PageId::NONE)
    }

    /// A page is no more.
    pub fn forget(&mut self, page: PageId) {
        let Some(small) = self.pages.remove(&page) else {
            return;
        };
        let owner = usize::from(self.candidates[0].table.owner(small).0);
        if self.free.len() <= owner {
            self.free.resize_with(owner + 1, Vec::new);
        }
        self.free[owner].push(small);
        for Candidate { ranking, table, .. } in &mut self.candidates {
            if table[small].state == PageState::Resident {
                ranking.remove(table, small);
            }
            ranking.forget(table, small);
            table[small].reset();
        }
    }

    /// A launch begins.
    pub fn launch_begin(&mut self, app: AppId, kind: LaunchKind) {
        self.in_relaunch = kind == LaunchKind::Relaunch;
        for Candidate {
            ranking,
            table,
            misses,
            ..
        } in &mut self.candidates
        {
            ranking.launch_begin(table, app, kind);
            for (misses, kept) in misses.iter_mut().zip(KEPT) {
                misses.in_windows *= kept;
                misses.all *= kept;
            }
        }
    }

    /// A launch window ends.
    pub fn launch_end(&mut self, app: AppId) {
        self.in_relaunch = false;
        self.candidates
            .iter_mut()
            .for_each(|it| it.ranking.launch_end(app));
    }

    /// The misses in all under each rule, since the beginning: in windows of relaunches, and anywhere.
    pub fn totals(&self) -> impl Iterator<Item = (Rule, [u64; 2])> {
        self.candidates
            .iter()
            .map(|it| (it.ranking.rule(), it.totals))
    }

    /// The application's number is another's from now on.
    pub fn retire(&mut self, app: AppId) {
        self.candidates
            .iter_mut()
            .for_each(|it| it.ranking.retire(app));
    }

    /// Bytes of memory that the sampled pages take.
    pub fn state_bytes(&self) -> usize {
        let of_tables = self
            .candidates
            .iter()
            .map(|it| it.table.state_bytes() + it.ranking.state_bytes());
        of_tables.sum::<usize>() + self.pages.capacity() * 9
    }

    /// The rule that should rule, after this one did: the one with the fewest misses, those in windows weighted, among
    /// those that have fewer than LRU in windows and no more in all.
    pub fn choice(&self, current: Rule) -> Rule {
        let of = |rule: Rule| {
            let found = Rule::ALL.iter().position(|&it| it == rule);
            self.candidates[found.unwrap_or(0)].misses
        };
        let [lru, lru_lately] = of(Rule::Lru);
        let [own, own_lately] = of(current);
        if lru.all.max(own.all) < LEAST_MISSES {
            return current;
        }
        let is_worse_lately = |rule: Rule| {
            let [_, lately] = of(rule);
            lru_lately.all.max(lately.all) >= LEAST_MISSES
                && lru_lately.is_exceeded_by(lately, CERTAINTY)
        };
        let is_allowed = |rule: &Rule| {
            let [misses, _] = of(*rule);
            *rule == Rule::Lru
                || misses.in_windows <= ALLOWED_IN_WINDOWS * lru.in_windows
                    && misses.all <= lru.all
                    && !is_worse_lately(*rule)
        };
        let cost = |rule: Rule| of(rule)[0].cost();
        let allowed = Rule::ALL.into_iter().filter(is_allowed);
        let best = allowed.min_by(|&a, &b| cost(a).total_cmp(&cost(b)));
        let best = best.unwrap_or(Rule::Lru);
        let [least, least_lately] = of(best);
        let is_better_lately = least_lately.cost() <= BETTER_LATELY * own_lately.cost();
        let current = if lru.is_exceeded_by(own, 1.0) || is_worse_lately(current) {
            Rule::Lru
        } else {
            current
        };
        let [own, _] = of(current);
        let is_certain = own.cost() - least.cost() >= CERTAINTY * own.error();
        let is_known = lru.in_windows >= LEAST_IN_WINDOWS;
        let is_better = least.cost() <= MUCH_BETTER * own.cost();
        if is_known && is_certain && is_better && is_better_lately {
            best
        } else {
            current
        }
    }
}
