//! The memory of one synthetic application: its runs, and which of them are hot and warm.

use oorandom::Rand64;

use crate::synth::config::{AppProfile, SynthConfig};
use crate::synth::runs::RunLengths;

/// Page number of the first page of each application, a usual place for anonymous memory.
const FIRST_PAGE: u64 = 0x7000_0000;

/// Neighbouring pages that are touched together. A hole of at least one page follows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) first_page: u64,
    pub(crate) pages: u32,
    /// Place in the order in which a relaunch touches its runs.
    rank: u32,
}

/// The pages of an application and its hot and warm set, as numbers of runs.
pub(crate) struct AppMemory {
    pub(crate) runs: Vec<Run>,
    /// Runs that are allocated.
    pub(crate) allocated: usize,
    pub(crate) hot: Vec<u32>,
    pub(crate) warm: Vec<u32>,
    hot_pages: u64,
    warm_pages: u64,
    similarity: f64,
    reuse: f64,
    lengths: RunLengths,
    owned_pages: u64,
    /// Marks runs that must not be chosen again while the sets of one relaunch are made.
    taken: Vec<bool>,
}

impl AppMemory {
    /// An application with its initial volume and its first hot set. The caller has checked `config`.
    pub(crate) fn new(
        config: &SynthConfig,
        profile: &AppProfile,
        lengths: RunLengths,
        random: &mut Rand64,
    ) -> Self {
        let initial = config.pages(profile.initial_mb);
        let share = |share: f64| (initial as f64 * share).round() as u64;
        let mut app = Self {
            runs: Vec::new(),
            allocated: 0,
            hot: Vec::new(),
            warm: Vec::new(),
            hot_pages: share(config.hot_share),
            warm_pages: share(config.warm_share),
            similarity: config.hot_similarity,
            reuse: config.reuse,
            lengths,
            owned_pages: 0,
            taken: Vec::new(),
        };
        app.grow_to(initial, random);
        let hot_pages = app.hot_pages;
        app.hot = app.choose(hot_pages, random);
        app.sort_hot();
        app
    }

    /// Adds runs until the application owns `pages` pages; they are not allocated yet.
    pub(crate) fn grow_to(&mut self, pages: u64, random: &mut Rand64) {
        while self.owned_pages < pages {
            let left = pages - self.owned_pages;
            let length = u64::from(self.lengths.draw(random)).min(left) as u32;
            let first_page = self
                .runs
                .last()
                .map_or(FIRST_PAGE, |r| r.first_page + u64::from(r.pages) + 1);
            self.runs.push(Run {
                first_page,
                pages: length,
                rank: random.rand_u64() as u32,
            });
            self.taken.push(false);
            self.owned_pages += u64::from(length);
        }
    }

    /// Makes the hot and warm set of the next relaunch from the hot set of the one before.
    ///
    /// Of the old hot pages the share `similarity` stays hot, `reuse - similarity` becomes warm, and the
    /// rest is forgotten: neither hot nor warm. Runs that were neither fill up both sets.
    pub(crate) fn next_sets(&mut self, random: &mut Rand64) {
        let mut old = std::mem::take(&mut self.hot);
        shuffle(&mut old, random);
        old.iter().for_each(|&run| self.taken[run as usize] = true);
        let hot_pages = self.hot_pages as f64;
        let (stay, _) = self.split(&old, (hot_pages * self.similarity) as u64);
        let (reused, _) = self.split(&old, (hot_pages * self.reuse).round() as u64);
        let reused = reused.max(stay);
        self.hot = old[..stay].to_vec();
        self.warm = old[stay..reused].to_vec();
        let more_hot = self.hot_pages.saturating_sub(self.pages_of(&self.hot));
        let fresh = self.choose(more_hot, random);
        fresh
            .iter()
            .for_each(|&run| self.taken[run as usize] = true);
        self.hot.extend_from_slice(&fresh);
        let more_warm = self.warm_pages.saturating_sub(self.pages_of(&self.warm));
        let fill = self.choose(more_warm, random);
        self.warm.extend_from_slice(&fill);
        self.taken.fill(false);
        shuffle(&mut self.warm, random);
        self.sort_hot();
    }

    fn sort_hot(&mut self) {
        let runs = &self.runs;
        self.hot
            .sort_unstable_by_key(|&run| (runs[run as usize].rank, run));
    }

    /// How many of the first of `runs` have `pages` pages together, as near as it gets, and how many
    /// pages those have.
    fn split(&self, runs: &[u32], pages: u64) -> (usize, u64) {
        let mut sum = 0;
        for (n, &run) in runs.iter().enumerate() {
            let length = u64::from(self.runs[run as usize].pages);
            if sum + length / 2 >= pages {
                return (n, sum);
            }
            sum += length;
        }
        (runs.len(), sum)
    }

    fn pages_of(&self, runs: &[u32]) -> u64 {
        runs.iter()
            .map(|&run| u64::from(self.runs[run as usize].pages))
            .sum()
    }

    /// Runs with about `pages` pages together, at random among all that are not taken.
    fn choose(&self, pages: u64, random: &mut Rand64) -> Vec<u32> {
        let mut free: Vec<u32> = (0..self.runs.len() as u32)
            .filter(|&run| !self.taken[run as usize])
            .collect();
        shuffle(&mut free, random);
        let (count, _) = self.split(&free, pages);
        free.truncate(count);
        free
    }
}

/// Puts `items` in random order (Fisher and Yates).
pub(crate) fn shuffle<T>(items: &mut [T], random: &mut Rand64) {
    for last in (1..items.len()).rev() {
        items.swap(last, random.rand_range(0..last as u64 + 1) as usize);
    }
}
