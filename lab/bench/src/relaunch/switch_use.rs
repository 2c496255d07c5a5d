//! What the slices of all switches of an arm come to (ASAP, Figures 13 and 14).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmswap_page::PAGE_BYTES;

use super::sampler::Slice;
use super::value::RelaunchValue;

/// Parts of a switch on the timeline.
const PARTS: usize = 10;

/// CPU time and I/O of an arm's switches, from the request to the answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SwitchUse {
    /// What part of all processors was in use: mean of the switches.
    pub cpu: f64,
    /// Of it by the applications, with what the kernel does in them.
    pub programs: f64,
    /// By threads of the kernel.
    pub kernel_threads: f64,
    /// By the thread that keeps the limit.
    pub limit: f64,
    /// By paging in user space: the kernel host, or the arenas.
    pub host: f64,
    /// Bytes (uncompressed) that came back each second, from swap and the arenas' pools: mean of the switches.
    pub in_bytes_per_second: f64,
    /// The same in the busiest slice of a switch: mean of the switches. `None` where arenas brought some of it, whose
    /// slices are not known.
    pub in_peak_bytes_per_second: Option<f64>,
    /// Bytes of files that were read each second: mean of the switches.
    pub read_bytes_per_second: f64,
    /// The same in the busiest slice of a switch: mean of the switches.
    pub read_peak_bytes_per_second: f64,
    /// The course of a switch. Its parts are tenths of the application's median switch under plain zram, in every
    /// arm, as in the paper; a switch that is done before goes on with what follows it. Empty without the arm
    /// `zram`.
    pub timeline: Vec<TimelinePart>,
}

/// One part of the timeline; means of the switches for which it was sampled as a whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimelinePart {
    /// Switches.
    pub switches: usize,
    /// What part of all processors was in use.
    pub cpu: f64,
    /// Bytes that the kernel read from swap, each second.
    pub in_bytes_per_second: f64,
    /// Bytes of files that were read, each second.
    pub read_bytes_per_second: f64,
}

/// How the switches were sampled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// Time between two samples.
    pub every_ns: u64,
    /// Processors of the machine.
    pub processors: usize,
}

impl SwitchUse {
    /// Of these switches; `baseline_ns` gives the median switch of an application under plain zram. `None` when
    /// none of them was sampled.
    pub fn of<'a>(
        values: impl Iterator<Item = &'a RelaunchValue>,
        sampling: Sampling,
        baseline_ns: impl Fn(&str) -> Option<f64>,
    ) -> Option<Self> {
        let values: Vec<_> = values.filter(|value| !value.slices.is_empty()).collect();
        let switches: Vec<_> = values.iter().map(|value| Switch::new(value)).collect();
        if switches.is_empty() {
            return None;
        }
        let mean = |of: &dyn Fn(&Switch<'_>) -> f64| {
            switches.iter().map(of).sum::<f64>() / switches.len() as f64
        };
        let part = |of: fn(&Slice) -> u64| mean(&|switch| switch.rate(of) / sampling.capacity());
        let peak = |of: fn(&Slice) -> u64| mean(&|switch| switch.peak(of, sampling));
        let is_with_arenas = values.iter().any(|value| value.arena_in_pages.is_some());
        Some(Self {
            cpu: part(Slice::cpu_ns),
            programs: part(|slice| slice.programs_ns),
            kernel_threads: part(|slice| slice.kernel_threads_ns),
            limit: part(|slice| slice.limit_ns),
            host: part(|slice| slice.host_ns),
            in_bytes_per_second: mean(&|switch| switch.rate(in_bytes) + switch.arena_rate()),
            in_peak_bytes_per_second: (!is_with_arenas).then(|| peak(in_bytes)),
            read_bytes_per_second: mean(&|switch| switch.rate(|slice| slice.read_bytes)),
            read_peak_bytes_per_second: peak(|slice| slice.read_bytes),
            timeline: timeline(&values, sampling, baseline_ns),
        })
    }
}

impl Sampling {
    /// CPU nanoseconds that there are in a second.
    fn capacity(self) -> f64 {
        self.processors.max(1) as f64 * 1e9
    }
}

fn in_bytes(slice: &Slice) -> u64 {
    slice.in_pages * PAGE_BYTES as u64
}

/// One switch up to its answer.
struct Switch<'a> {
    slices: Vec<&'a Slice>,
    length_ns: u64,
    arena_in_pages: u64,
}

impl<'a> Switch<'a> {
    fn new(value: &'a RelaunchValue) -> Self {
        let slices = value.slices.iter().filter(|slice| !slice.is_after_answer);
        let slices: Vec<_> = slices.collect();
        Self {
            length_ns: slices.iter().map(|slice| slice.length_ns()).sum(),
            slices,
            arena_in_pages: value.arena_in_pages.unwrap_or(0),
        }
    }

    /// So much a second.
    fn rate(&self, of: fn(&Slice) -> u64) -> f64 {
        let sum = self.slices.iter().map(|slice| of(slice)).sum::<u64>();
        per_second(sum as f64, self.length_ns as f64)
    }

    fn arena_rate(&self) -> f64 {
        let bytes = self.arena_in_pages * PAGE_BYTES as u64;
        per_second(bytes as f64, self.length_ns as f64)
    }

    /// So much a second in the busiest slice. The last one, which the answer cuts short, says little: slices of less
    /// than half the time between samples do not count, unless there is no other.
    fn peak(&self, of: fn(&Slice) -> u64, sampling: Sampling) -> f64 {
        let long = self.slices.iter();
        let long = long.filter(|slice| slice.length_ns() * 2 >= sampling.every_ns);
        let rates = long.map(|slice| per_second(of(slice) as f64, slice.length_ns() as f64));
        rates.reduce(f64::max).unwrap_or_else(|| self.rate(of))
    }
}

fn per_second(amount: f64, ns: f64) -> f64 {
    if ns > 0.0 { amount * 1e9 / ns } else { 0.0 }
}

fn timeline(
    values: &[&RelaunchValue],
    sampling: Sampling,
    baseline_ns: impl Fn(&str) -> Option<f64>,
) -> Vec<TimelinePart> {
    let mut parts = [TimelinePart::default(); PARTS];
    for value in values {
        let Some(baseline_ns) = baseline_ns(&value.app).filter(|&ns| ns > 0.0) else {
            return Vec::new();
        };
        let part_ns = baseline_ns / PARTS as f64;
        let sampled_ns = value.slices.last().map_or(0, |slice| slice.end_ns) as f64;
        for (at, part) in parts.iter_mut().enumerate() {
            let (begin, end) = (at as f64 * part_ns, (at + 1) as f64 * part_ns);
            if end > sampled_ns {
                break;
            }
            let rate = |of: fn(&Slice) -> u64| {
                let shares = value
                    .slices
                    .iter()
                    .map(|s| of(s) as f64 * overlap(s, begin, end));
                per_second(shares.sum(), part_ns)
            };
            part.switches += 1;
            part.cpu += rate(Slice::cpu_ns) / sampling.capacity();
            part.in_bytes_per_second += rate(in_bytes);
            part.read_bytes_per_second += rate(|slice| slice.read_bytes);
        }
    }
    for part in &mut parts {
        let switches = part.switches.max(1) as f64;
        part.cpu /= switches;
        part.in_bytes_per_second /= switches;
        part.read_bytes_per_second /= switches;
    }
    parts.to_vec()
}

/// What part of a slice lies between these times.
fn overlap(slice: &Slice, begin: f64, end: f64) -> f64 {
    let common = (slice.end_ns as f64).min(end) - (slice.begin_ns as f64).max(begin);
    common.max(0.0) / (slice.length_ns() as f64).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relaunch::options::Arm;

    const MS: u64 = 1_000_000;
    const SAMPLING: Sampling = Sampling {
        every_ns: 10 * MS,
        processors: 2,
    };

    /// 10 ms of one processor, then 5 ms of nothing until the answer, then 25 ms of half a processor.
    fn value() -> RelaunchValue {
        let slice = |begin: u64, end: u64, cpu: u64, in_pages| Slice {
            begin_ns: begin * MS,
            end_ns: end * MS,
            is_after_answer: begin >= 15,
            programs_ns: cpu * MS,
            in_pages,
            read_bytes: in_pages,
            ..Slice::default()
        };
        RelaunchValue {
            slices: vec![
                slice(0, 10, 10, 30),
                slice(10, 14, 0, 0),
                slice(14, 15, 0, 10),
                slice(15, 40, 12, 0),
            ],
            ..RelaunchValue::of(Arm::Zram, 0, "a")
        }
    }

    #[test]
    fn shares_are_of_all_processors_until_the_answer() {
        let values = [value()];
        let found = SwitchUse::of(values.iter(), SAMPLING, |_| None).unwrap();

        let third = 10.0 / 15.0 / 2.0;
        assert!((found.cpu - third).abs() < 1e-9 && found.cpu == found.programs);
        let page = 4096.0;
        assert!((found.in_bytes_per_second - 40.0 * page / 0.015).abs() < 1.0);
        // The short slices have higher rates, which are chance.
        assert_eq!(found.in_peak_bytes_per_second, Some(30.0 * page / 0.01));
        assert_eq!(found.timeline, []);
        assert_eq!(SwitchUse::of([].iter(), SAMPLING, |_| None), None);
    }

    #[test]
    fn what_arenas_bring_counts_without_a_peak() {
        let values = [RelaunchValue {
            arena_in_pages: Some(60),
            ..value()
        }];
        let found = SwitchUse::of(values.iter(), SAMPLING, |_| None).unwrap();

        assert!((found.in_bytes_per_second - 100.0 * 4096.0 / 0.015).abs() < 1.0);
        assert_eq!(found.in_peak_bytes_per_second, None);
    }

    #[test]
    fn the_timeline_is_in_tenths_of_the_baseline_and_ends_with_the_samples() {
        let values = [value()];
        let found = SwitchUse::of(values.iter(), SAMPLING, |_| Some(50e6)).unwrap();

        let cpu: Vec<_> = found.timeline.iter().map(|part| part.cpu).collect();
        let expected = [0.5, 0.5, 0.0, 0.24, 0.24, 0.24, 0.24, 0.24, 0.0, 0.0];
        for (found, expected) in cpu.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-9, "{cpu:?}");
        }
        let switches: Vec<_> = found.timeline.iter().map(|part| part.switches).collect();
        assert_eq!(switches, [1, 1, 1, 1, 1, 1, 1, 1, 0, 0]);
        assert!((found.timeline[0].in_bytes_per_second - 15.0 * 4096.0 / 0.005).abs() < 1.0);
    }
}
