//! Clocks, all in nanoseconds.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use warmswap_page::quantile::Sorted;

use crate::BenchError;

/// Whose time counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cpu {
    /// The calling thread's.
    Thread,
    /// All threads' of the process.
    Process,
}

/// CPU time so far.
pub fn cpu_ns(cpu: Cpu) -> u64 {
    let t = clock_gettime(match cpu {
        Cpu::Thread => ClockId::ThreadCPUTime,
        Cpu::Process => ClockId::ProcessCPUTime,
    });
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// CPU time that `work` takes, and its result.
pub fn cpu_of<R>(cpu: Cpu, work: impl FnOnce() -> R) -> (u64, R) {
    let begin = cpu_ns(cpu);
    let result = work();
    (cpu_ns(cpu) - begin, result)
}

/// What share of a processor this thread gets when it asks for all of one for a while, 0 to 1.
fn cpu_share(duration: Duration) -> f64 {
    let (begin, cpu) = (Instant::now(), cpu_ns(Cpu::Thread));
    while begin.elapsed() < duration {
        std::hint::spin_loop();
    }
    (cpu_ns(Cpu::Thread) - cpu) as f64 / begin.elapsed().as_nanos() as f64
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
    fn the_middle_is_found_and_work_takes_time() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([]), 0.0);
        let (ns, sum) = cpu_of(Cpu::Thread, || {
            (0..1_000_000u64).map(std::hint::black_box).sum::<u64>()
        });
        assert!(ns > 0 && sum > 0);
        assert!(cpu_ns(Cpu::Process) >= ns);
    }
}
