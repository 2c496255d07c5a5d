//! Clocks, all in nanoseconds.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use warmswap_page::quantile::Sorted;

use crate::BenchError;

/// CPU time of the calling thread so far.
pub fn thread_cpu_ns() -> u64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// What share of a processor this thread gets when it asks for all of one for a while, 0 to 1.
fn cpu_share(duration: Duration) -> f64 {
    let (begin, cpu) = (Instant::now(), thread_cpu_ns());
    while begin.elapsed() < duration {
        std::hint::spin_loop();
    }
    (thread_cpu_ns() - cpu) as f64 / begin.elapsed().as_nanos() as f64
}

/// What share of a processor the measuring thread must get.
const LEAST_SHARE: f64 = 0.75;

/// The same, when it is enough to measure anything, or when any will do.
///
/// # Errors
/// [`BenchError::Busy`].
pub fn busy_share(duration: Duration, allow_busy: bool) -> Result<f64, BenchError> {
    let share = cpu_share(duration);
    if share < LEAST_SHARE && !allow_busy {
        return Err(BenchError::Busy {
            share_percent: (share * 100.0) as u32,
        });
    }
    Ok(share)
}

/// The median of samples; 0 of none.
pub fn median(samples: impl IntoIterator<Item = f64>) -> f64 {
    let sorted = Sorted::by(samples, f64::total_cmp);
    sorted.median().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_found() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([]), 0.0);
    }
}
