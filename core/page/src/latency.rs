//! Latencies on a logarithmic scale.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};

/// Each power of two is cut into `1 << STEP_BITS` buckets of one width.
const STEP_BITS: u32 = 4;
const STEPS: usize = 1 << STEP_BITS;

/// Latencies from 2 to the power of this on count in the last bucket: 18 minutes.
const TOP_BITS: u32 = 40;

/// Latencies below `STEPS` have a bucket each; from there on each power of two has `STEPS`.
const BUCKETS: usize = (TOP_BITS - STEP_BITS + 1) as usize * STEPS;

/// The bucket of a latency.
fn bucket(ns: u64) -> usize {
    let ns = ns.min((1 << TOP_BITS) - 1);
    if ns < STEPS as u64 {
        return ns as usize;
    }
    let power = ns.ilog2();
    let step = (ns >> (power - STEP_BITS)) as usize - STEPS;
    (power - STEP_BITS + 1) as usize * STEPS + step
}

/// The largest latency of a bucket.
fn bucket_top_ns(bucket: usize) -> u64 {
    let (octave, step) = (bucket / STEPS, bucket % STEPS);
    if octave == 0 {
        return step as u64;
    }
    let width = 1u64 << (octave - 1);
    (STEPS + step + 1) as u64 * width - 1
}

/// Counts latencies by size, from many threads at once.
///
/// Buckets are 1/16 of a power of two wide, so that a quantile is at most 6.25 % above the true one. Takes 4.8
/// KB in its place and allocates nothing; it can be a `static`. Recording is two relaxed atomic operations on
/// shared memory, about 10 ns when threads contend: threads that record often have one each, and merge what
/// they saw ([`Latencies::merge`]).
#[derive(Debug)]
pub struct LatencyHistogram {
    counts: [AtomicU64; BUCKETS],
    max_ns: AtomicU64,
}

impl LatencyHistogram {
    /// With nothing counted.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            counts: [const { AtomicU64::new(0) }; BUCKETS],
            max_ns: AtomicU64::new(0),
        }
    }

    /// Counts one latency. Neither allocates nor waits: for threads that must not.
    pub fn record(&self, ns: u64) {
        self.counts[bucket(ns)].fetch_add(1, Relaxed);
        if self.max_ns.load(Relaxed) < ns {
            self.max_ns.fetch_max(ns, Relaxed);
        }
    }

    /// How many were counted so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Relaxed)).sum()
    }

    /// What was counted so far. Of what is recorded meanwhile, some is in it. Allocates.
    #[must_use]
    pub fn snapshot(&self) -> Latencies {
        let seen = |(index, count): (usize, &AtomicU64)| {
            let count = count.load(Relaxed);
            (count > 0).then(|| (bucket_top_ns(index), count))
        };
        Latencies {
            counts: self.counts.iter().enumerate().filter_map(seen).collect(),
            max_ns: self.max_ns.load(Relaxed),
        }
    }

    /// The usual figures of [`LatencyHistogram::snapshot`].
    #[must_use]
    pub fn summary(&self) -> LatencySummary {
        self.snapshot().summary()
    }
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::new()
    }
}

/// Latencies that were counted: how many up to which size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latencies {
    /// The number of latencies by the largest one, in ns, of their bucket; buckets without any are left out.
    counts: BTreeMap<u64, u64>,
    max_ns: u64,
}

impl Latencies {
    /// Adds those of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (&top_ns, &count) in &other.counts {
            let sum = self.counts.entry(top_ns).or_default();
            *sum = sum.saturating_add(count);
        }
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts
            .values()
            .fold(0, |sum, &n| sum.saturating_add(n))
    }

    /// The nearest-rank quantile `q`, 0 to 1, in ns: up to 6.25 % above the true one, and never above the
    /// largest. `None` when there are no latencies.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let rank = ((self.count() as f64 * q).ceil() as u64).max(1);
        let mut below = 0u64;
        for (&top_ns, &count) in &self.counts {
            below = below.saturating_add(count);
            if below >= rank {
                return Some(top_ns.min(self.max_ns));
            }
        }
        self.counts.last_key_value().map(|_| self.max_ns)
    }

    /// The usual figures; zeros when there are no latencies.
    #[must_use]
    pub fn summary(&self) -> LatencySummary {
        let at = |q| self.quantile(q).unwrap_or(0);
        LatencySummary {
            count: self.count(),
            p50_ns: at(0.5),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: self.max_ns,
        }
    }
}

/// The usual figures of latencies. All are 0 when there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LatencySummary {
    /// How many there are.
    pub count: u64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// The largest, exact.
    pub max_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn histogram(latencies: &[u64]) -> Latencies {
        let histogram = LatencyHistogram::new();
        latencies.iter().for_each(|&ns| histogram.record(ns));
        histogram.snapshot()
    }

    #[test]
    fn buckets_follow_each_other_without_gaps() {
        for index in 0..BUCKETS {
            assert_eq!(bucket(bucket_top_ns(index)), index);
            assert_eq!(
                bucket(bucket_top_ns(index) + 1),
                (index + 1).min(BUCKETS - 1)
            );
        }
        assert_eq!(bucket(0), 0);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn nothing_has_no_quantiles() {
        assert_eq!(histogram(&[]).quantile(0.5), None);
        assert_eq!(histogram(&[]).summary(), LatencySummary::default());
    }

    #[test]
    fn a_rare_long_one_shows_in_the_tail_only() {
        let mut latencies = vec![1000; 998];
        latencies.extend([5_000_000, 7_000_000]);

        let summary = histogram(&latencies).summary();

        assert_eq!((summary.count, summary.max_ns), (1000, 7_000_000));
        assert!((1000..=1062).contains(&summary.p50_ns), "{summary:?}");
        assert!((1000..=1062).contains(&summary.p99_ns), "{summary:?}");
        assert!(
            (5_000_000..=5_312_500).contains(&summary.p999_ns),
            "{summary:?}"
        );
    }

    #[test]
    fn threads_lose_nothing() {
        static SHARED: LatencyHistogram = LatencyHistogram::new();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || (0..10_000).for_each(|ns| SHARED.record(ns * (thread + 1))));
            }
        });
        let summary = SHARED.summary();
        assert_eq!((summary.count, summary.max_ns), (40_000, 4 * 9_999));
    }

    #[test]
    fn read_back_from_json() {
        let seen = histogram(&[1, 17, 1_000_000, u64::MAX]);
        let json = serde_json::to_string(&seen).unwrap();
        assert_eq!(serde_json::from_str::<Latencies>(&json).unwrap(), seen);
    }

    proptest! {
        #[test]
        fn quantiles_are_close_from_above(
            mut latencies in proptest::collection::vec(0u64..1 << 39, 1..200),
            q in 0.0..=1.0_f64,
        ) {
            let found = histogram(&latencies).quantile(q).unwrap();
            latencies.sort_unstable();
            let rank = ((latencies.len() as f64 * q).ceil() as usize).max(1);
            let exact = latencies[rank - 1];
            prop_assert!(exact <= found && found <= exact + exact / 16, "{exact} {found}");
        }

        #[test]
        fn merged_is_as_if_counted_together(a: Vec<u64>, b: Vec<u64>) {
            let mut merged = histogram(&a);
            merged.merge(&histogram(&b));
            prop_assert_eq!(merged, histogram(&[a, b].concat()));
        }
    }
}
