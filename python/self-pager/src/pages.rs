//! Sets of page numbers (address / 4096), kept as ascending disjoint runs.

use std::ops::Range;

use warmswap_page::PAGE_BYTES;
use warmswap_sys::advise::PageRange;

/// A set of page numbers. Memory: 16 bytes a run of neighbours.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageSet(Vec<Range<u64>>);

impl PageSet {
    /// The pages of `numbers`, in any order.
    #[must_use]
    pub fn of_numbers(mut numbers: Vec<u64>) -> Self {
        numbers.sort_unstable();
        let mut set = Self::default();
        for number in numbers {
            set.push(number..number + 1);
        }
        set
    }

    /// Adds a run that starts at or after the start of the last one.
    ///
    /// # Panics
    /// In debug builds, when it starts before that.
    pub fn push(&mut self, run: Range<u64>) {
        if run.is_empty() {
            return;
        }
        match self.0.last_mut() {
            Some(last) if run.start <= last.end => {
                debug_assert!(run.start >= last.start, "runs come in ascending order");
                last.end = last.end.max(run.end);
            }
            _ => self.0.push(run),
        }
    }

    /// Runs, ascending and not adjacent.
    #[must_use]
    pub fn runs(&self) -> &[Range<u64>] {
        &self.0
    }

    /// The same as ranges for the kernel.
    #[must_use]
    pub fn ranges(&self) -> Vec<PageRange> {
        let range = |run: &Range<u64>| PageRange {
            first: run.start,
            count: run.end - run.start,
        };
        self.0.iter().map(range).collect()
    }

    /// Pages in the set.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.iter().map(|run| run.end - run.start).sum()
    }

    /// The same in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.len() * PAGE_BYTES as u64
    }

    /// True if there is no page in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Numbers, ascending.
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        self.0.iter().cloned().flatten()
    }

    /// Whether the page is in the set.
    #[must_use]
    pub fn contains(&self, number: u64) -> bool {
        let after = self.0.partition_point(|run| run.start <= number);
        after > 0 && number < self.0[after - 1].end
    }

    /// Pages that are in both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let mut both = Self::default();
        let (mut left, mut right) = (self.0.iter().peekable(), other.0.iter().peekable());
        while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
            both.push(a.start.max(b.start)..a.end.min(b.end));
            if a.end < b.end {
                left.next();
            } else {
                right.next();
            }
        }
        both
    }

    /// Pages that are in this set and not in `other`.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let mut rest = Self::default();
        let mut cuts = other.0.iter().peekable();
        for run in &self.0 {
            let mut start = run.start;
            while let Some(cut) = cuts.peek() {
                if cut.end <= start {
                    cuts.next();
                } else if cut.start >= run.end {
                    break;
                } else {
                    rest.push(start..cut.start.max(start));
                    start = cut.end;
                    if cut.end >= run.end {
                        break;
                    }
                }
            }
            rest.push(start..run.end.max(start));
        }
        rest
    }

    /// Pages that are in one of them.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        let mut all = Self::default();
        let (mut left, mut right) = (self.0.iter().peekable(), other.0.iter().peekable());
        loop {
            let run = match (left.peek(), right.peek()) {
                (Some(a), Some(b)) if a.start <= b.start => left.next(),
                (_, Some(_)) => right.next(),
                (Some(_), None) => left.next(),
                (None, None) => return all,
            };
            if let Some(run) = run {
                all.push(run.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::btree_set;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn set(numbers: &BTreeSet<u64>) -> PageSet {
        PageSet::of_numbers(numbers.iter().copied().collect())
    }

    fn numbers(set: &PageSet) -> Vec<u64> {
        set.numbers().collect()
    }

    proptest! {
        #[test]
        fn the_operations_are_those_of_sets(
            a in btree_set(0u64..60, 0..40), b in btree_set(0u64..60, 0..40),
        ) {
            let (left, right) = (set(&a), set(&b));
            prop_assert_eq!(numbers(&left.and(&right)), a.intersection(&b).copied().collect::<Vec<_>>());
            prop_assert_eq!(numbers(&left.or(&right)), a.union(&b).copied().collect::<Vec<_>>());
            prop_assert_eq!(numbers(&left.without(&right)), a.difference(&b).copied().collect::<Vec<_>>());
            prop_assert_eq!(left.len(), a.len() as u64);
            prop_assert!((0..60).all(|n| left.contains(n) == a.contains(&n)));
            for made in [left.and(&right), left.or(&right), left.without(&right)] {
                prop_assert!(made.runs().iter().all(|run| !run.is_empty()));
                prop_assert!(made.runs().windows(2).all(|w| w[0].end < w[1].start));
            }
        }
    }

    #[test]
    fn numbers_may_come_twice_and_in_any_order() {
        let set = PageSet::of_numbers(vec![7, 3, 4, 3, 8]);
        assert_eq!(set.runs(), [3..5, 7..9]);
        assert_eq!(set.bytes(), 4 * 4096);
        assert_eq!(set.ranges()[1].count, 2);
    }
}
