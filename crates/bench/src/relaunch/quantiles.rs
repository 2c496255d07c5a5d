//! Middle, tail and spread of values.

use serde::Serialize;

/// Middle, tail and spread, by nearest rank.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Quantiles {
    /// Values.
    pub count: usize,
    /// The least.
    pub min: f64,
    /// A quarter is no more.
    pub p25: f64,
    /// Half are no more.
    pub p50: f64,
    /// Three quarters are no more.
    pub p75: f64,
    /// Nine of ten are no more.
    pub p90: f64,
    /// 99 of 100 are no more.
    pub p99: f64,
    /// The greatest.
    pub max: f64,
    /// Arithmetic mean.
    pub mean: f64,
}

impl Quantiles {
    /// Of these values; all 0 of none.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = u64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().map(|v| v as f64).collect();
        values.sort_unstable_by(f64::total_cmp);
        let at = |percent: usize| {
            let rank = (values.len() * percent).div_ceil(100).max(1);
            values.get(rank - 1).copied().unwrap_or(0.0)
        };
        Self {
            count: values.len(),
            min: at(0),
            p25: at(25),
            p50: at(50),
            p75: at(75),
            p90: at(90),
            p99: at(99),
            max: at(100),
            mean: values.iter().sum::<f64>() / values.len().max(1) as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_nearest_ranks() {
        let q = Quantiles::of(1..=200);

        assert_eq!((q.count, q.min, q.p25, q.p50), (200, 1.0, 50.0, 100.0));
        assert_eq!((q.p90, q.p99, q.max, q.mean), (180.0, 198.0, 200.0, 100.5));
        assert_eq!(Quantiles::of([]), Quantiles::default());
        assert_eq!(Quantiles::of([7]).p90, 7.0);
    }
}
