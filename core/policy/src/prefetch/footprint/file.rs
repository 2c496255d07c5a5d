//! Which pages of files the next switch will touch (ASAP section 4.2).

use super::extents::Extent;
use super::profile::{FileTable, table_bytes, table_pages};
use std::hash::Hash;

/// Extents less than this many pages apart are read as one (section 4.2).
pub const MERGE_GAP_PAGES: u64 = 16;

/// Without a profile there are about so many targets at most (512 MiB): what is never asked for never leaves.
const MOST_UNPROFILED_PAGES: u64 = 1 << 17;

/// What the end of a window changed; in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileUpdate {
    /// Faulted pages that are in the profile: targets now, if they were none before.
    pub profiled: u64,
    /// Faulted pages that are not.
    pub unknown: u64,
    /// Targets that were fetched and not used.
    pub evicted: u64,
}

/// The estimator for pages of files of one application. `F` names a file: any number or path.
///
/// - Pages that fault in a window are logged, and inserted in the target table if the offline profile has
///   them.
/// - Extents of the target table that are close to each other are merged, so that they are read at once.
/// - A page that was fetched and not touched leaves the target table; its extent is split.
///
/// Memory: 24 bytes for each extent of each table, 16 for each fault of the open window.
#[derive(Clone, Debug)]
pub struct FileEstimator<F> {
    /// Without one, any page can become a target.
    candidates: Option<FileTable<F>>,
    targets: FileTable<F>,
    /// The fault buffer.
    faults: Vec<(F, Extent)>,
    /// Fetched for the open window and not touched yet.
    unused: FileTable<F>,
}

impl<F> Default for FileEstimator<F> {
    fn default() -> Self {
        Self {
            candidates: None,
            targets: FileTable::new(),
            faults: Vec::new(),
            unused: FileTable::new(),
        }
    }
}

impl<F: Copy + Ord + Hash> FileEstimator<F> {
    /// An estimator with this offline profile. [`Self::default`] makes one without, which the paper does not have: each
    /// page that faults in a window is a target.
    pub fn new(profile: FileTable<F>) -> Self {
        Self {
            candidates: Some(profile),
            ..Self::default()
        }
    }

    /// A window opens.
    pub fn window_begin(&mut self) {
        self.faults.clear();
        self.unused.clear();
    }

    /// The host fetched these pages ahead of their use, since the window opened.
    pub fn fetched(&mut self, file: F, extent: Extent) {
        self.unused.entry(file).or_default().insert(extent, 1);
    }

    /// Pages were missing in the window and had to be read.
    pub fn faulted(&mut self, file: F, extent: Extent) {
        match self.faults.last_mut() {
            Some((last, before)) if *last == file && before.end() == extent.first => {
                before.pages += extent.pages;
            }
            _ => self.faults.push((file, extent)),
        }
    }

    /// A page was touched in the window, wherever it was. Its fetch, if there was one, was of use.
    pub fn accessed(&mut self, file: F, page: u64) {
        if let Some(extents) = self.unused.get_mut(&file) {
            extents.remove(Extent::page(page));
        }
    }

    /// Of fetched pages for which `is_unseen`, it is not known whether they were touched: they stay targets.
    pub fn unseen(&mut self, mut is_unseen: impl FnMut(F, u64) -> bool) {
        for (&file, extents) in &mut self.unused {
            let pages = extents.iter().flat_map(|extent| extent.first..extent.end());
            let seen: Vec<_> = pages.filter(|&page| is_unseen(file, page)).collect();
            seen.into_iter()
                .for_each(|page| extents.remove(Extent::page(page)));
        }
    }

    /// The window closes: unused targets go, profiled faults come.
    pub fn window_end(&mut self) -> FileUpdate {
        let mut update = FileUpdate::default();
        for (file, extents) in std::mem::take(&mut self.unused) {
            let Some(targets) = self.targets.get_mut(&file) else {
                continue;
            };
            let before = targets.pages();
            extents.iter().for_each(|extent| targets.remove(extent));
            update.evicted += before - targets.pages();
            if targets.is_empty() {
                self.targets.remove(&file);
            }
        }
        for (file, extent) in std::mem::take(&mut self.faults) {
            let parts = match &self.candidates {
                None => vec![extent],
                Some(candidates) => {
                    let candidates = candidates.get(&file);
                    let parts = candidates.map(|extents| extents.within(extent).collect());
                    parts.unwrap_or_default()
                }
            };
            let known = parts.iter().map(|part: &Extent| part.pages).sum::<u64>();
            update.profiled += known;
            update.unknown += extent.pages - known;
            if self.candidates.is_none() && table_pages(&self.targets) >= MOST_UNPROFILED_PAGES {
                continue;
            }
            for part in parts {
                let targets = self.targets.entry(file).or_default();
                targets.insert(part, MERGE_GAP_PAGES);
            }
        }
        update
    }

    /// The target table: what to read at the next switch. See [`super::plan`] for the order.
    pub fn targets(&self) -> &FileTable<F> {
        &self.targets
    }

    /// The offline candidate table, if it has one.
    pub fn profile(&self) -> Option<&FileTable<F>> {
        self.candidates.as_ref()
    }

    /// Takes a target table that was learned earlier.
    pub fn restore(&mut self, targets: FileTable<F>) {
        self.targets = targets;
    }

    /// Whether the page is to be brought back at a switch.
    pub fn is_target(&self, file: F, page: u64) -> bool {
        let extents = self.targets.get(&file);
        extents.is_some_and(|extents| extents.contains(page))
    }

    /// Bytes of memory that the tables and the fault buffer hold.
    pub fn state_bytes(&self) -> usize {
        self.candidates.as_ref().map_or(0, table_bytes)
            + table_bytes(&self.targets)
            + table_bytes(&self.unused)
            + self.faults.capacity() * size_of::<(F, Extent)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(first: u64, pages: u64) -> Extent {
        Extent { first, pages }
    }

    fn profile(extents: &[(u64, u64)]) -> FileTable<u32> {
        let extents = extents.iter().map(|&(first, pages)| extent(first, pages));
        FileTable::from([(7, extents.collect())])
    }

    fn targets(estimator: &FileEstimator<u32>) -> Vec<Extent> {
        let extents = estimator.targets().get(&7);
        extents.map_or_else(Vec::new, |extents| extents.iter().collect())
    }

    #[test]
    fn only_profiled_pages_become_targets_and_close_ones_become_one_extent() {
        let mut e = FileEstimator::new(profile(&[(0, 10), (20, 4), (100, 1)]));
        e.window_begin();
        e.faulted(7, extent(8, 4));
        e.faulted(7, extent(22, 1));
        e.faulted(7, extent(100, 1));
        e.faulted(8, extent(0, 5));
        let update = e.window_end();
        assert_eq!((update.profiled, update.unknown), (4, 7));
        // Pages 10 to 21 lie between two extents that are 12 pages apart.
        assert_eq!(targets(&e), [extent(8, 15), extent(100, 1)]);
        assert_eq!(table_pages(e.targets()), 16);
    }

    #[test]
    fn a_fetched_page_that_is_not_touched_splits_its_extent() {
        let mut e = FileEstimator::new(profile(&[(0, 10)]));
        e.window_begin();
        e.faulted(7, extent(0, 10));
        e.window_end();
        e.window_begin();
        e.fetched(7, extent(0, 8));
        (0..8).filter(|&n| n != 3).for_each(|n| e.accessed(7, n));
        assert_eq!(e.window_end().evicted, 1);
        // Pages 8 and 9 were not fetched, so that nothing is known against them.
        assert_eq!(targets(&e), [extent(0, 3), extent(4, 6)]);
    }

    #[test]
    fn a_fetched_page_of_which_nothing_is_known_stays() {
        let mut e = FileEstimator::new(profile(&[(0, 10)]));
        e.window_begin();
        e.faulted(7, extent(0, 4));
        e.window_end();
        e.window_begin();
        e.fetched(7, extent(0, 4));
        e.unseen(|file, page| file == 7 && page < 3);
        assert_eq!(e.window_end().evicted, 1);
        assert_eq!(targets(&e), [extent(0, 3)]);
    }

    #[test]
    fn without_a_profile_there_are_not_any_number_of_targets() {
        let mut e = FileEstimator::default();
        for window in 0..4 {
            e.window_begin();
            e.faulted(7, extent(window << 20, 100_000));
            e.window_end();
        }
        assert_eq!(table_pages(e.targets()), 200_000);
    }

    #[test]
    fn faults_of_neighbours_take_one_place_of_the_buffer() {
        let mut e = FileEstimator::new(profile(&[(0, 100)]));
        e.window_begin();
        (0..100).for_each(|n| e.faulted(7, Extent::page(n)));
        assert_eq!(e.faults, [(7, extent(0, 100))]);
    }
}
