//! Ranges of pages of a file.

use std::collections::BTreeMap;

/// Pages `first .. first + pages` of a file.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Extent {
    /// Offset of the first page, in pages.
    pub first: u64,
    /// How many.
    pub pages: u64,
}

impl Extent {
    /// One page.
    pub const fn page(number: u64) -> Self {
        Self {
            first: number,
            pages: 1,
        }
    }

    /// The page behind the last one; at most `u64::MAX`.
    pub fn end(self) -> u64 {
        self.first.saturating_add(self.pages)
    }
}

/// A set of pages of one file, kept as extents that neither overlap nor touch.
///
/// Every call costs a logarithm of the number of extents, for each extent that it changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extents {
    /// First page and end of each.
    ranges: BTreeMap<u64, u64>,
    pages: u64,
}

impl Extents {
    /// Bytes that one extent takes, with its share of the tree.
    pub const BYTES_PER_EXTENT: usize = 24;

    /// Adds an extent. Those less than `gap_pages` apart from it become one with it, the pages between
    /// included; a gap of 1 joins neighbours only, and 0 is taken as 1.
    pub fn insert(&mut self, extent: Extent, gap_pages: u64) {
        if extent.pages == 0 {
            return;
        }
        let gap = gap_pages.max(1);
        let (mut first, mut end) = (extent.first, extent.end());
        while let Some((&from, &to)) = self.ranges.range(..end.saturating_add(gap)).next_back() {
            if to <= first.saturating_sub(gap) && first >= gap {
                break;
            }
            self.ranges.remove(&from);
            self.pages -= to - from;
            first = first.min(from);
            end = end.max(to);
        }
        self.ranges.insert(first, end);
        self.pages += end - first;
    }

    /// Takes an extent out; what holds it is split.
    pub fn remove(&mut self, extent: Extent) {
        if extent.pages == 0 {
            return;
        }
        let end = extent.end();
        while let Some((&from, &to)) = self.ranges.range(..end).next_back() {
            if to <= extent.first {
                return;
            }
            self.ranges.remove(&from);
            self.pages -= to - from;
            for (first, end) in [(from, extent.first), (end, to)] {
                if first < end {
                    self.ranges.insert(first, end);
                    self.pages += end - first;
                }
            }
        }
    }

    /// Whether the page is in one of them.
    pub fn contains(&self, page: u64) -> bool {
        let before = self.ranges.range(..=page).next_back();
        before.is_some_and(|(_, &end)| page < end)
    }

    /// The parts of `extent` that are in the set, in order.
    pub fn within(&self, extent: Extent) -> impl Iterator<Item = Extent> + '_ {
        let before = self.ranges.range(..=extent.first).next_back();
        let from = before.map_or(extent.first, |(&first, _)| first);
        let end = extent.end().max(from);
        self.ranges
            .range(from..end)
            .filter_map(move |(&from, &to)| {
                let (first, end) = (from.max(extent.first), to.min(extent.end()));
                (first < end).then(|| Extent {
                    first,
                    pages: end - first,
                })
            })
    }

    /// The extents, in order.
    pub fn iter(&self) -> impl Iterator<Item = Extent> + '_ {
        self.ranges.iter().map(|(&first, &end)| Extent {
            first,
            pages: end - first,
        })
    }

    /// How many pages.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// How many extents.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// True without a page.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

impl FromIterator<Extent> for Extents {
    fn from_iter<I: IntoIterator<Item = Extent>>(extents: I) -> Self {
        let mut set = Self::default();
        extents.into_iter().for_each(|extent| set.insert(extent, 1));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn extent(first: u64, pages: u64) -> Extent {
        Extent { first, pages }
    }

    #[test]
    fn extents_less_than_the_gap_apart_become_one() {
        let mut set = Extents::default();
        set.insert(extent(0, 4), 16);
        set.insert(extent(20, 4), 16);
        assert_eq!(set.len(), 2, "16 pages lie between");
        set.insert(extent(39, 1), 16);
        assert_eq!(
            set.iter().collect::<Vec<_>>(),
            [extent(0, 4), extent(20, 20)]
        );
        assert_eq!(set.pages(), 24);
    }

    #[test]
    fn a_page_taken_out_splits_its_extent() {
        let mut set: Extents = [extent(10, 10)].into_iter().collect();
        set.remove(Extent::page(14));
        assert_eq!(
            set.iter().collect::<Vec<_>>(),
            [extent(10, 4), extent(15, 5)]
        );
    }

    #[test]
    fn the_largest_page_numbers_do_not_overflow() {
        let mut set = Extents::default();
        set.insert(extent(u64::MAX - 3, 100), 16);
        set.insert(extent(0, 1), 16);
        assert_eq!(set.pages(), 4);
        assert!(set.contains(u64::MAX - 1));
        set.remove(extent(0, u64::MAX));
        assert!(set.is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_set_of_extents_is_a_set_of_pages(
            ops in prop::collection::vec((any::<bool>(), 0..200_u64, 0..20_u64, 0..20_u64), 0..60)
        ) {
            let (mut set, mut model) = (Extents::default(), BTreeSet::new());
            for (insert, first, pages, gap) in ops {
                let new = extent(first, pages);
                if insert {
                    set.insert(new, gap);
                    model.extend(first..first + pages);
                    if pages > 0 {
                        close_gaps(&mut model, first, gap.max(1));
                    }
                } else {
                    set.remove(new);
                    model.retain(|page| !(first..first + pages).contains(page));
                }
                let of_set: Vec<_> = set.iter().flat_map(|e| e.first..e.end()).collect();
                prop_assert_eq!(&of_set, &model.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!(set.pages(), model.len() as u64);
                let apart: Vec<_> = set.iter().collect();
                prop_assert!(apart.windows(2).all(|pair| pair[0].end() < pair[1].first));
                let within: Vec<_> = set.within(extent(50, 40)).flat_map(|e| e.first..e.end()).collect();
                prop_assert_eq!(within, model.range(50..90).copied().collect::<Vec<_>>());
                prop_assert!((0..250).all(|page| set.contains(page) == model.contains(&page)));
            }
        }
    }

    /// Joins the run that holds `page` with those less than `gap` pages away, again and again.
    fn close_gaps(model: &mut BTreeSet<u64>, page: u64, gap: u64) {
        let (mut low, mut high) = (page, page);
        loop {
            let below = model.range(..low).next_back().copied();
            let above = model.range(high + 1..).next().copied();
            match (below, above) {
                (Some(b), _) if low - b - 1 < gap => (b..low).for_each(|p| {
                    model.insert(p);
                    low = b;
                }),
                (_, Some(a)) if a - high - 1 < gap => (high..a).for_each(|p| {
                    model.insert(p);
                    high = a;
                }),
                _ => return,
            }
        }
    }
}
