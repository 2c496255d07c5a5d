//! How long the program waits for a page, on the wall.

use std::time::Instant;

use serde::Serialize;

use crate::memory::Touch;

/// Waiting times of single touches.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Latency {
    /// Who brought the pages.
    pub who: &'static str,
    /// Touches.
    pub touches: usize,
    /// Half of them took no longer, in nanoseconds.
    pub p50_ns: u64,
    /// 99 of 100 took no longer.
    pub p99_ns: u64,
    /// 999 of 1000 took no longer.
    pub p999_ns: u64,
}

impl Latency {
    /// Sums samples (nanoseconds, at least one) up.
    pub(crate) fn of(who: &'static str, mut samples: Vec<u64>) -> Self {
        samples.sort_unstable();
        let at = |per_mille: usize| {
            let rank = (samples.len() * per_mille).div_ceil(1000).max(1);
            samples.get(rank - 1).copied().unwrap_or(0)
        };
        Self {
            who,
            touches: samples.len(),
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
        let latency = Latency::of("test", (1..=1000).rev().collect());
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
