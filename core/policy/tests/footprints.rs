//! The footprint estimators against slow models of themselves, made of plain sets and vectors.

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use warmswap_policy::prefetch::footprint::file::MERGE_GAP_PAGES;
use warmswap_policy::prefetch::footprint::{
    AnonEstimator, Extent, FileEstimator, FileTable, Profiler,
};

/// One launch window: pages that fault, then pages that are found in place.
type Window = (Vec<u64>, Vec<u64>);

fn windows() -> impl Strategy<Value = Vec<Window>> {
    let pages = || prop::collection::vec(0..24_u64, 0..16);
    prop::collection::vec((pages(), pages()), 1..14)
}

/// The tables of section 4.3, each page with the windows that it may still miss and its place in the last
/// window that accessed it.
#[derive(Debug, Default)]
struct AnonModel {
    candidates: Vec<(u64, u8, usize)>,
    targets: Vec<(u64, u8, usize)>,
}

impl AnonModel {
    fn window(&mut self, timeout: u8, (faults, hits): &Window) {
        // What is new is seen at faults only; both tables see every access.
        let known: BTreeSet<u64> = self.pages().collect();
        let mut seen = Vec::new();
        let accesses = faults.iter().map(|page| (page, true));
        for (page, faulted) in accesses.chain(hits.iter().map(|page| (page, false))) {
            let counts =
                known.contains(page) && !seen.contains(page) || !known.contains(page) && faulted;
            if counts {
                seen.push(*page);
            }
        }
        let place = |page: u64| seen.iter().position(|&other| other == page);
        let mut promoted = Vec::new();
        for table in [&mut self.candidates, &mut self.targets] {
            table.retain_mut(|(page, left, order)| {
                match place(*page) {
                    Some(at) => (*left, *order) = (timeout, at),
                    None => *left -= 1,
                }
                *left > 0
            });
        }
        self.candidates.retain(|&entry| {
            let is_accessed = place(entry.0).is_some();
            if is_accessed {
                promoted.push(entry);
            }
            !is_accessed
        });
        self.targets.extend(promoted);
        for &page in faults {
            if !known.contains(&page) && !self.candidates.iter().any(|&(other, ..)| other == page) {
                let at = place(page).expect("a fault was seen");
                self.candidates.push((page, timeout, at));
            }
        }
    }

    fn pages(&self) -> impl Iterator<Item = u64> + '_ {
        let entries = self.candidates.iter().chain(&self.targets);
        entries.map(|&(page, ..)| page)
    }

    fn ordered(table: &[(u64, u8, usize)]) -> Vec<u64> {
        let mut pages: Vec<_> = table
            .iter()
            .map(|&(page, _, order)| (order, page))
            .collect();
        pages.sort_unstable();
        pages.into_iter().map(|(_, page)| page).collect()
    }
}

/// The tables of section 4.2 as sets of pages of one file.
#[derive(Debug, Default)]
struct FileModel {
    profile: BTreeSet<u64>,
    targets: BTreeSet<u64>,
}

impl FileModel {
    /// `fetched` were read ahead; `faults` were not in memory, `hits` were.
    fn window(&mut self, fetched: &BTreeSet<u64>, faults: &[u64], hits: &[u64]) {
        let touched: BTreeSet<_> = faults.iter().chain(hits).collect();
        self.targets
            .retain(|page| !fetched.contains(page) || touched.contains(page));
        for page in faults {
            if self.profile.contains(page) && !self.targets.contains(page) {
                self.targets.insert(*page);
            }
            if self.profile.contains(page) {
                self.join(*page);
            }
        }
    }

    /// The extent of `page` grows over gaps of less than 16 pages.
    fn join(&mut self, page: u64) {
        let (mut low, mut high) = (page, page);
        loop {
            let below = self.targets.range(..low).next_back().copied();
            let above = self.targets.range(high + 1..).next().copied();
            if let Some(below) = below.filter(|below| low - below - 1 < MERGE_GAP_PAGES) {
                low = below;
            } else if let Some(above) = above.filter(|above| above - high - 1 < MERGE_GAP_PAGES) {
                high = above;
            } else {
                return self.targets.extend(low..=high);
            }
        }
    }
}

fn pages_of(table: &FileTable<u8>) -> Vec<u64> {
    let extents = table.values().flat_map(|extents| extents.iter());
    extents
        .flat_map(|extent| extent.first..extent.end())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn anonymous_pages_go_from_faults_to_candidates_to_targets(timeout in 1..7_u8, windows in windows()) {
        let (mut estimator, mut model) = (AnonEstimator::new(timeout), AnonModel::default());
        for window in &windows {
            let before = (model.candidates.len(), model.targets.len());
            estimator.window_begin();
            window.0.iter().for_each(|&page| estimator.accessed(page, true));
            window.1.iter().for_each(|&page| estimator.accessed(page, false));
            let update = estimator.window_end();
            model.window(timeout, window);
            prop_assert_eq!(estimator.candidates().into_iter().collect::<BTreeSet<_>>(),
                model.candidates.iter().map(|entry| entry.0).collect::<BTreeSet<_>>());
            prop_assert_eq!(estimator.targets(), AnonModel::ordered(&model.targets));
            let after = model.candidates.len() + model.targets.len();
            prop_assert_eq!((before.0 + before.1 + update.inserted as usize) - update.evicted as usize, after);
        }
    }

    #[test]
    fn files_take_profiled_faults_in_and_unused_fetches_out(
        profile in prop::collection::btree_set(0..120_u64, 0..60),
        windows in prop::collection::vec((
            prop::collection::vec(0..120_u64, 0..12),
            prop::collection::vec(0..120_u64, 0..30),
        ), 1..10),
        fetches in 0..100_usize,
    ) {
        let extents = profile.iter().map(|&page| Extent::page(page)).collect();
        let mut estimator = FileEstimator::new(FileTable::from([(0_u8, extents)]));
        let mut model = FileModel { profile, targets: BTreeSet::new() };
        for (faults, hits) in &windows {
            estimator.window_begin();
            // The host had room for some of them.
            let fetched: BTreeSet<u64> = model.targets.iter().copied().take(fetches).collect();
            fetched.iter().for_each(|&page| estimator.fetched(0, Extent::page(page)));
            let faults: Vec<_> = faults.iter().copied().filter(|page| !fetched.contains(page)).collect();
            for &page in &faults {
                estimator.accessed(0, page);
                estimator.faulted(0, Extent::page(page));
            }
            hits.iter().for_each(|&page| estimator.accessed(0, page));
            let update = estimator.window_end();
            model.window(&fetched, &faults, hits);
            prop_assert_eq!(pages_of(estimator.targets()), model.targets.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(update.profiled + update.unknown, faults.len() as u64);
        }
    }

    #[test]
    fn a_profile_keeps_what_more_than_eight_of_ten_windows_touched(
        windows in prop::collection::vec(prop::collection::vec((0..2_u8, 0..130_u64), 0..40), 1..21)
    ) {
        let mut profiler = Profiler::default();
        let mut counts = BTreeMap::<(u8, u64), usize>::new();
        for window in &windows {
            window.iter().for_each(|&(file, page)| profiler.accessed(file, page));
            profiler.window_end();
            let touched: BTreeSet<_> = window.iter().copied().collect();
            touched.into_iter().for_each(|page| *counts.entry(page).or_default() += 1);
        }
        let kept = counts.iter().filter(|&(_, &count)| count * 10 > windows.len() * 8);
        prop_assert_eq!(pages_of(&profiler.table()), kept.map(|(&(_, page), _)| page).collect::<Vec<_>>());
        let histogram = profiler.histogram();
        for (count, &pages) in histogram.iter().enumerate().skip(1) {
            prop_assert_eq!(pages, counts.values().filter(|&&c| c == count).count() as u64);
        }
    }
}
