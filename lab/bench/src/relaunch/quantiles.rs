//! Quantiles of measured values.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmswap_page::quantile::Sorted;

/// Quantiles (see [`warmswap_page::quantile`]), extremes and mean.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quantiles {
    /// Number of values.
    pub count: usize,
    /// Minimum.
    pub min: f64,
    /// 25th percentile.
    pub p25: f64,
    /// Median.
    pub p50: f64,
    /// 75th percentile.
    pub p75: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Maximum.
    pub max: f64,
    /// Arithmetic mean.
    pub mean: f64,
}

impl Quantiles {
    /// Of these values; all 0 of none.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = u64>) -> Self {
        let sorted = Sorted::by(values.into_iter().map(|v| v as f64), f64::total_cmp);
        let values = sorted.samples();
        let at = |per_mille| sorted.per_mille(per_mille).unwrap_or_default();
        Self {
            count: values.len(),
            min: at(0),
            p25: at(250),
            p50: at(500),
            p75: at(750),
            p90: at(900),
            p99: at(990),
            max: at(1000),
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
