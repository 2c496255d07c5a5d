//! How long the program waits for a page, on the wall.

use std::borrow::Cow;
use std::time::Instant;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmswap_page::quantile::Sorted;

use crate::memory::Touch;

/// Waiting times of single touches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// What brought the pages.
    pub who: Cow<'static, str>,
    /// Touches.
    pub touches: usize,
    /// Median, in nanoseconds.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
}

impl Latency {
    /// Of these samples, in nanoseconds; all 0 of none.
    pub(crate) fn of(who: &'static str, samples: impl IntoIterator<Item = u64>) -> Self {
        let sorted = Sorted::by(samples, u64::cmp);
        let at = |per_mille| sorted.per_mille(per_mille).unwrap_or_default();
        Self {
            who: Cow::Borrowed(who),
            touches: sorted.samples().len(),
            p50_ns: at(500),
            p99_ns: at(990),
            p999_ns: at(999),
        }
    }
}

/// Touches pages in this order; how long each took, in nanoseconds.
pub fn touch_each(memory: &impl Touch, order: &[usize], samples: &mut Vec<u64>) {
    for &page in order {
        let begin = Instant::now();
        memory.touch(page);
        samples.push(begin.elapsed().as_nanos() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_nearest_ranks() {
        let latency = Latency::of("test", (1..=1000).rev());
        assert_eq!(
            (
                latency.p50_ns,
                latency.p99_ns,
                latency.p999_ns,
                latency.touches
            ),
            (500, 990, 999, 1000)
        );
    }
}
