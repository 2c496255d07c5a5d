//! What launches and sessions of a program touch, and what they leave alone.
//!
//! A *launch* is the time from a switch to a program until it has answered or rests; its *session* lasts until it goes to the
//! background. Pages that were away at the switch and are in memory later were touched. Pages that the host brought back are in
//! memory anyway: their accessed bits, cleared when they came, tell whether they were.
//!
//! | module | subject |
//! |---|---|
//! | `rest` | the end of a launch that nothing tells |
//! | [`store`] | what was learned, kept over a restart of the host |

pub(crate) mod rest;
pub mod store;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;

use rustc_hash::{FxHashMap, FxHashSet};
use warmswap_sys::advise::PageRange;

use crate::decide::order::{append, without};

/// Pages of a region that one word of bits tells of.
pub const REGION_PAGES: u64 = 64;

/// A region that so many sessions in a row did not use is cold.
const COLD_AFTER: u8 = 2;

/// A region that came back was not used where less than this part of it was, as a divisor.
const USED_PART: u32 = 8;

/// What is known of 64 neighbouring pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Region {
    /// Touched in a launch, when it was last seen whether they were.
    hot: u64,
    /// Brought back, and not judged yet.
    brought: u64,
    /// Of these, touched since.
    used: u64,
    /// The session in which they were brought, by its last bits.
    session: u16,
    /// Sessions in a row that did not use it: it came back in vain, or stayed away.
    unused: u8,
}

/// How much the pages of a region are wanted back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Heat {
    /// A bit for each page that launches touch.
    pub hot: u64,
    /// The others were not used for sessions.
    pub is_cold: bool,
}

/// What was found out about pages that had been brought back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Judged {
    /// Pages that were touched.
    pub used: u64,
    /// Pages that were not, until the session ended.
    pub wasted: u64,
}

/// What is known of the memory of one process: at most a byte for each page that was ever away.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessMemory {
    /// By page number / 64.
    regions: FxHashMap<u64, Region>,
    /// Away when the session began, and at each look since.
    away: Vec<PageRange>,
    /// Brought back since the accessed bits were cleared last: their bits tell of the host's own reads.
    fresh: Vec<PageRange>,
    /// Asked for at the begin of this session: without a touch they stay away by the page table.
    asked: Vec<PageRange>,
    /// Pages of files and of shared memory that were mapped when a session ended last, without those asked for since.
    mapped: Vec<PageRange>,
    /// Went from compressed memory to a disk, and stayed away since.
    written: Vec<PageRange>,
    /// Counts sessions.
    session: u16,
    /// It was not looked at what was away when the session began.
    is_unseen: bool,
}

impl ProcessMemory {
    /// A session begins, with these pages away.
    pub fn begin(&mut self, away: Vec<PageRange>) {
        self.session = self.session.wrapping_add(1);
        self.away = away;
        self.asked.clear();
        self.is_unseen = false;
    }

    /// A session begins in which nothing is learned of what was away: a look costs the program more than it gains.
    pub fn begin_unseen(&mut self) {
        self.begin(Vec::new());
        self.is_unseen = true;
    }

    /// What is known of a region, by its number: page number / 64.
    #[must_use]
    pub fn heat(&self, region: u64) -> Heat {
        let known = self.regions.get(&region);
        known.map_or(Heat::default(), |region| Heat {
            hot: region.hot,
            is_cold: region.unused >= COLD_AFTER,
        })
    }

    /// A launch touched the page.
    pub fn note_touched(&mut self, page: u64) {
        let region = self.regions.entry(page / REGION_PAGES).or_default();
        region.hot |= bit(page);
        region.unused = 0;
    }

    /// Pages were brought back.
    pub fn note_brought(&mut self, pages: &[PageRange]) {
        self.note(pages, self.session);
        self.fresh.extend(pages);
    }

    /// Pages were asked for at the begin of this session, at whose end they are judged.
    pub fn note_asked(&mut self, pages: &[PageRange]) {
        self.note(pages, self.session.wrapping_sub(1));
        self.asked.extend(pages);
    }

    /// Accessed bits are about to be cleared: what they tell of pages that were brought back before they were cleared last. The
    /// others' tell of the host's own reads.
    pub fn note_used(&mut self, accessed: impl Fn(u64) -> u64) {
        let fresh = bits_of(&std::mem::take(&mut self.fresh));
        for (number, region) in &mut self.regions {
            let fresh = fresh.get(number).copied().unwrap_or(0);
            region.used |= region.brought & !fresh & accessed(*number);
            // A session began meanwhile: which of their bits are its own cannot be told.
            if region.session != self.session {
                region.brought &= !fresh;
            }
        }
    }

    fn note(&mut self, pages: &[PageRange], session: u16) {
        for (number, word) in words(pages) {
            let region = self.regions.entry(number).or_default();
            region.brought |= word;
            region.session = session;
        }
    }

    /// Regions in which pages were brought back that were not judged yet: page numbers / 64, ascending.
    #[must_use]
    pub fn unjudged(&self) -> Vec<u64> {
        let brought = self
            .regions
            .iter()
            .filter(|(_, region)| region.brought != 0);
        let mut regions: Vec<u64> = brought.map(|(&number, _)| number).collect();
        regions.sort_unstable();
        regions
    }

    /// Whether the end of a launch tells anything: something was away at its begin, or came back before it.
    #[must_use]
    pub fn learns_of_launch(&self) -> bool {
        !self.away.is_empty() || self.regions.values().any(|region| region.brought != 0)
    }

    /// Whether the end of a session tells anything: its begin was looked at, something came back before it, or nothing is known yet.
    #[must_use]
    pub fn learns_of_session(&self) -> bool {
        !self.is_unseen || self.mapped.is_empty() || self.learns_of_launch()
    }

    /// A launch ended: these pages are away, and `accessed` tells of the others in a region by their accessed bits.
    pub fn judge_launch(&mut self, away: &[PageRange], accessed: impl Fn(u64) -> u64) {
        for page in self.came_back(away) {
            self.note_touched(page);
        }
        let unknown = bits_of(&[away, &self.fresh].concat());
        for (number, region) in &mut self.regions {
            if region.brought != 0 {
                let unknown = unknown.get(number).copied().unwrap_or(0);
                let touched = region.brought & !unknown & accessed(*number);
                region.used |= touched;
                region.hot |= touched;
            }
        }
    }

    /// A session ended, likewise. What was brought back while it went on is judged at the end of the next one. Pages that were
    /// mapped and are away again are not judged: their accessed bits left with them.
    pub fn judge_session(&mut self, away: &[PageRange], accessed: impl Fn(u64) -> u64) -> Judged {
        self.judge_away(away);
        let (still, asked) = (bits_of(away), bits_of(&std::mem::take(&mut self.asked)));
        let fresh = bits_of(&self.fresh);
        let (session, mut judged) = (self.session, Judged::default());
        for (number, region) in &mut self.regions {
            if region.brought == 0 || (region.session == session && session != 0) {
                continue;
            }
            let of = |bits: &FxHashMap<u64, u64>| bits.get(number).copied().unwrap_or(0);
            let (gone, fresh) = (of(&still), of(&fresh) & !region.used);
            let used = region.used | (region.brought & !gone & !fresh & accessed(*number));
            let left = gone & !of(&asked);
            let wasted = region.brought & !used & !left & !fresh;
            let (used_count, wasted_count) = (used.count_ones(), wasted.count_ones());
            judged.used += u64::from(used_count);
            judged.wasted += u64::from(wasted_count);
            let known = used_count + wasted_count;
            // A few survivors of a region that left tell nothing of the others.
            let is_known = known * USED_PART >= region.brought.count_ones();
            if is_known && used_count * USED_PART < known {
                region.unused = region.unused.saturating_add(1);
            } else if used_count > 0 {
                region.unused = 0;
            }
            region.hot &= !wasted;
            (region.brought, region.used) = (region.brought & fresh, 0);
        }
        judged
    }

    /// A session ended: regions of which pages came back by themselves were used, and those of which all that was away at its begin
    /// stayed away were not.
    fn judge_away(&mut self, away: &[PageRange]) {
        let used: FxHashSet<u64> = self
            .came_back(away)
            .iter()
            .map(|p| p / REGION_PAGES)
            .collect();
        for number in bits_of(&self.away).into_keys() {
            let region = self.regions.entry(number).or_default();
            // What was asked for, or came back, is judged by its accessed bits.
            if region.brought == 0 && !used.contains(&number) {
                region.unused = region.unused.saturating_add(1);
            }
        }
        for number in used {
            if let Some(region) = self.regions.get_mut(&number) {
                region.unused = 0;
            }
        }
    }

    /// Pages that were away at the last look, are not any more, and were not brought back by the host.
    fn came_back(&mut self, away: &[PageRange]) -> Vec<u64> {
        let before = std::mem::take(&mut self.away);
        let back = without(&before, away);
        self.away = without(&before, &back);
        let brought = |page: &u64| {
            let region = self.regions.get(&(page / REGION_PAGES));
            region.map_or(0, |region| region.brought)
        };
        let by_itself = |page: &u64| brought(page) & bit(*page) == 0;
        back.iter().flat_map(numbers).filter(by_itself).collect()
    }

    /// Pages of files and of shared memory that the program had mapped when a session ended last.
    #[must_use]
    pub fn mapped(&self) -> &[PageRange] {
        &self.mapped
    }

    /// Notes them; they ascend.
    pub fn set_mapped(&mut self, mapped: Vec<PageRange>) {
        self.mapped = mapped;
    }

    /// Pages of files and of shared memory were asked for: they are in memory, and the end of the session tells whether the
    /// program maps them. Until then they are not asked for again.
    pub fn note_asked_of_files(&mut self, pages: &[PageRange]) {
        self.mapped = without(&self.mapped, pages);
    }

    /// Forgets what is outside the areas that the process still has, which ascend.
    pub fn keep_only(&mut self, areas: &[PageRange]) {
        self.regions.retain(|number, _| {
            let (first, end) = (number * REGION_PAGES, (number + 1) * REGION_PAGES);
            let at = areas.partition_point(|area| area.first + area.count <= first);
            areas.get(at).is_some_and(|area| area.first < end)
        });
    }

    /// Pages that launches touch.
    #[must_use]
    pub fn hot_pages(&self) -> u64 {
        let regions = self.regions.values();
        regions.map(|r| u64::from(r.hot.count_ones())).sum()
    }

    /// Pages of regions that were not used for sessions, without those that were away at the last look.
    #[must_use]
    pub fn cold_pages(&self) -> u64 {
        let away = bits_of(&self.away);
        let away = |number: &u64| away.get(number).map_or(0, |bits| bits.count_ones());
        let cold = self
            .regions
            .iter()
            .filter(|(_, region)| region.unused >= COLD_AFTER);
        cold.map(|(number, _)| REGION_PAGES - u64::from(away(number)))
            .sum()
    }

    /// Of the pages that are away, cold ones that were not written back yet, coldest first.
    pub fn to_write_back(&mut self, away: &[PageRange]) -> Vec<PageRange> {
        // What came back has a place in memory again.
        let back = without(&self.written, away);
        self.written = without(&self.written, &back);
        let mut cold = Vec::new();
        for (number, word) in bits_of(&without(away, &self.written)) {
            let region = self.regions.get(&number).copied().unwrap_or_default();
            let word = word & !region.hot;
            if region.unused >= COLD_AFTER && word != 0 {
                cold.push((Reverse(region.unused), number, word));
            }
        }
        cold.sort_unstable();
        let mut pages = Vec::new();
        for (_, number, word) in cold {
            let set = (0..REGION_PAGES).filter(|at| word >> at & 1 == 1);
            set.for_each(|at| append(&mut pages, number * REGION_PAGES + at, 1));
        }
        pages
    }

    /// Pages were written back.
    pub fn note_written(&mut self, pages: &[PageRange]) {
        let mut all = [&self.written[..], pages].concat();
        all.sort_unstable_by_key(|range| range.first);
        self.written.clear();
        all.iter()
            .for_each(|range| append(&mut self.written, range.first, range.count));
    }

    /// Bytes that this takes.
    #[must_use]
    pub fn state_bytes(&self) -> usize {
        let ranges = [
            &self.away,
            &self.fresh,
            &self.asked,
            &self.mapped,
            &self.written,
        ];
        self.regions.capacity() * (size_of::<(u64, Region)>() + 1)
            + ranges.map(Vec::capacity).iter().sum::<usize>() * size_of::<PageRange>()
    }
}

fn bit(page: u64) -> u64 {
    1 << (page % REGION_PAGES)
}

fn numbers(range: &PageRange) -> std::ops::Range<u64> {
    range.first..range.first + range.count
}

/// Words of bits by region.
fn bits_of(ranges: &[PageRange]) -> FxHashMap<u64, u64> {
    let mut bits: FxHashMap<u64, u64> = FxHashMap::default();
    for (number, word) in words(ranges) {
        *bits.entry(number).or_default() |= word;
    }
    bits
}

/// The regions that ranges touch, each with a bit for every page.
fn words(ranges: &[PageRange]) -> impl Iterator<Item = (u64, u64)> {
    let some = ranges.iter().filter(|range| range.count > 0);
    some.flat_map(|range| {
        let (first, end) = (range.first, range.first + range.count);
        (first / REGION_PAGES..end.div_ceil(REGION_PAGES)).map(move |number| {
            let start = number * REGION_PAGES;
            let from = first.saturating_sub(start);
            let pages = (end - start).min(REGION_PAGES) - from;
            (number, u64::MAX >> (REGION_PAGES - pages) << from)
        })
    })
}
