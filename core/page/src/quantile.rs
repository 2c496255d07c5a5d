//! Quantiles of samples: the one definition for all statistics and reports.
//!
//! Quantiles are nearest-rank: the q-quantile of n sorted samples is the one at rank ⌈q·n⌉, counted
//! from 1. So every quantile is a sample that was really taken, the median of an even number of
//! samples is the lower of the middle two, and the p99 of fewer than 100 samples is the largest.

use std::cmp::Ordering;

/// Samples in ascending order, for any number of quantiles.
#[derive(Clone, Debug)]
pub struct Sorted<T>(Vec<T>);

impl<T: Copy> Sorted<T> {
    /// Sorts by `order`, such as `f64::total_cmp`. Costs O(n log n).
    #[must_use]
    pub fn by(samples: impl IntoIterator<Item = T>, order: impl FnMut(&T, &T) -> Ordering) -> Self {
        let mut sorted: Vec<T> = samples.into_iter().collect();
        sorted.sort_unstable_by(order);
        Self(sorted)
    }

    /// The quantile of `per_mille` / 1000; 0 is the smallest sample, and 1000 or more the largest. `None`
    /// without samples.
    #[must_use]
    pub fn per_mille(&self, per_mille: u32) -> Option<T> {
        // In u128, no number of samples that fits in memory overflows.
        let rank = (u128::from(per_mille) * self.0.len() as u128).div_ceil(1000) as usize;
        let place = rank.saturating_sub(1).min(self.0.len().checked_sub(1)?);
        Some(self.0[place])
    }

    /// The median. `None` without samples.
    #[must_use]
    pub fn median(&self) -> Option<T> {
        self.per_mille(500)
    }

    /// The samples.
    #[must_use]
    pub fn samples(&self) -> &[T] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(samples: impl IntoIterator<Item = u64>) -> Sorted<u64> {
        Sorted::by(samples, u64::cmp)
    }

    #[test]
    fn textbook_values() {
        let sorted = sorted([40, 20, 35, 15, 50]);
        for (per_mille, quantile) in [(0, 15), (50, 15), (300, 20), (400, 20), (500, 35)] {
            assert_eq!(sorted.per_mille(per_mille), Some(quantile), "{per_mille}");
        }
        assert_eq!(sorted.per_mille(1000), Some(50));
        assert_eq!(sorted.per_mille(u32::MAX), Some(50));
    }

    #[test]
    fn an_even_number_has_the_lower_median_and_none_has_none() {
        assert_eq!(sorted([4, 1, 3, 2]).median(), Some(2));
        assert_eq!(sorted([7]).median(), Some(7));
        assert_eq!(sorted([]).median(), None);
        assert_eq!(Sorted::by([2.5, 1.5], f64::total_cmp).median(), Some(1.5));
    }

    proptest::proptest! {
        /// The definition: at least q of the samples are at most the quantile, and fewer than q
        /// are below it.
        #[test]
        fn nearest_rank(samples in proptest::collection::vec(0_u64..50, 1..200), per_mille in 1_u32..=1000) {
            let quantile = sorted(samples.iter().copied()).per_mille(per_mille).unwrap();
            let share = |count: usize| count as u64 * 1000;
            let needed = u64::from(per_mille) * samples.len() as u64;
            let at_most = samples.iter().filter(|s| **s <= quantile).count();
            let below = samples.iter().filter(|s| **s < quantile).count();
            proptest::prop_assert!(share(at_most) >= needed);
            proptest::prop_assert!(share(below) < needed);
            proptest::prop_assert!(samples.contains(&quantile));
        }
    }
}
