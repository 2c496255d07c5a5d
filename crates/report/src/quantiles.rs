//! Median, p90, p99 and spread of samples.
//!
//! Quantiles are nearest-rank: the q-quantile of n sorted samples is the one at rank ⌈q·n⌉, counted
//! from 1. So every quantile is a sample that was really taken, the median of an even number of
//! samples is the lower of the middle two, and the p99 of fewer than 100 samples is the largest.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

/// A number that can be a sample.
pub trait Sample: Copy + std::ops::Sub<Output = Self> {
    /// Whether the value has a place in an order; false for NaN.
    fn is_number(self) -> bool;
    /// The order of two numbers.
    fn order(&self, other: &Self) -> Ordering;
}

impl Sample for u64 {
    fn is_number(self) -> bool {
        true
    }

    fn order(&self, other: &Self) -> Ordering {
        self.cmp(other)
    }
}

impl Sample for f64 {
    fn is_number(self) -> bool {
        !self.is_nan()
    }

    fn order(&self, other: &Self) -> Ordering {
        self.total_cmp(other)
    }
}

/// Why samples have no quantiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SampleError {
    /// There are none.
    #[error("there are no samples")]
    Empty,
    /// One of them is NaN.
    #[error("sample {index} is not a number")]
    NotANumber {
        /// Its place in the input, from 0.
        index: usize,
    },
}

/// The usual figures of a set of samples, all in the samples' unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Summary<T> {
    /// Number of samples, at least 1.
    pub count: usize,
    /// Smallest sample.
    pub min: T,
    /// 50th percentile.
    pub median: T,
    /// 90th percentile.
    pub p90: T,
    /// 99th percentile.
    pub p99: T,
    /// Largest sample.
    pub max: T,
    /// How far the middle half of the samples reaches: 75th less 25th percentile.
    pub spread: T,
}

impl<T: Sample> Summary<T> {
    /// Sorts a copy of `samples` (O(n log n)) and picks the figures.
    ///
    /// # Errors
    /// When there are no samples, or one is NaN.
    pub fn of(samples: &[T]) -> Result<Self, SampleError> {
        let sorted = Sorted::new(samples)?;
        Ok(Self {
            count: samples.len(),
            min: sorted.per_mille(0),
            median: sorted.per_mille(500),
            p90: sorted.per_mille(900),
            p99: sorted.per_mille(990),
            max: sorted.per_mille(1000),
            spread: sorted.per_mille(750) - sorted.per_mille(250),
        })
    }
}

/// Samples in order, for any number of quantiles.
#[derive(Debug, Clone)]
pub struct Sorted<T>(Vec<T>);

impl<T: Sample> Sorted<T> {
    /// Sorts a copy of `samples`.
    ///
    /// # Errors
    /// When there are no samples, or one is NaN.
    pub fn new(samples: &[T]) -> Result<Self, SampleError> {
        if samples.is_empty() {
            return Err(SampleError::Empty);
        }
        if let Some(index) = samples.iter().position(|sample| !sample.is_number()) {
            return Err(SampleError::NotANumber { index });
        }
        let mut sorted = samples.to_vec();
        sorted.sort_unstable_by(T::order);
        Ok(Self(sorted))
    }

    /// The quantile of `per_mille` / 1000, nearest-rank; 0 is the smallest sample, and 1000 or
    /// more the largest.
    #[must_use]
    pub fn per_mille(&self, per_mille: u32) -> T {
        let count = self.0.len();
        // In u128, no number of samples that fits in memory overflows.
        let rank = (u128::from(per_mille) * count as u128).div_ceil(1000);
        let rank = usize::try_from(rank).unwrap_or(count).clamp(1, count);
        self.0[rank - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn textbook_values() {
        let sorted = Sorted::new(&[15_u64, 20, 35, 40, 50]).unwrap();
        assert_eq!(sorted.per_mille(50), 15);
        assert_eq!(sorted.per_mille(300), 20);
        assert_eq!(sorted.per_mille(400), 20);
        assert_eq!(sorted.per_mille(500), 35);
        assert_eq!(sorted.per_mille(1000), 50);
        assert_eq!(sorted.per_mille(5000), 50);
    }

    #[test]
    fn a_hundred_samples() {
        let samples: Vec<u64> = (1..=100).rev().collect();
        let summary = Summary::of(&samples).unwrap();
        assert_eq!(
            summary,
            Summary {
                count: 100,
                min: 1,
                median: 50,
                p90: 90,
                p99: 99,
                max: 100,
                spread: 50
            }
        );
    }

    #[test]
    fn one_sample_is_every_quantile() {
        let summary = Summary::of(&[2.5]).unwrap();
        assert_eq!(
            summary,
            Summary {
                count: 1,
                min: 2.5,
                median: 2.5,
                p90: 2.5,
                p99: 2.5,
                max: 2.5,
                spread: 0.0
            }
        );
    }

    #[test]
    fn an_even_number_has_the_lower_median() {
        assert_eq!(Summary::of(&[4_u64, 1, 3, 2]).unwrap().median, 2);
    }

    #[test]
    fn bad_samples_are_errors() {
        assert_eq!(Summary::<u64>::of(&[]), Err(SampleError::Empty));
        let error = Summary::of(&[1.0, f64::NAN]).unwrap_err();
        assert_eq!(error, SampleError::NotANumber { index: 1 });
    }

    proptest::proptest! {
        /// The definition: at least q of the samples are at most the quantile, and fewer than q
        /// are below it.
        #[test]
        fn nearest_rank(samples in proptest::collection::vec(0_u64..50, 1..200), per_mille in 1_u32..=1000) {
            let quantile = Sorted::new(&samples).unwrap().per_mille(per_mille);
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
