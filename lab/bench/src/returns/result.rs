//! What the values come to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::options::{HogKind, ReturnArm, ReturnOptions};
use crate::relaunch::{Quantiles, SwapKind};

/// Everything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReturnReport {
    /// Names of the programs.
    pub apps: Vec<String>,
    /// What took the memory away.
    pub hog: HogKind,
    /// How much it wanted, in bytes.
    pub hog_bytes: u64,
    /// How long it worked about once it had that, in milliseconds.
    pub hog_ms: u64,
    /// Whether it stayed while programs were returned to.
    pub hog_stays: bool,
    /// Between two returns, in milliseconds.
    pub pause_ms: u64,
    /// How often all was measured.
    pub blocks: u32,
    /// Decides the order of returns, and how requests vary.
    pub seed: u64,
    /// The zram devices' algorithm.
    pub algorithm: String,
    /// Whether memory was taken away from the whole machine, in place of limiting a control group.
    pub is_machine: bool,
    /// Processors of the machine.
    pub processors: usize,
    /// What share of a processor the measuring thread got before, 0 to 1.
    pub cpu_share: f64,
    /// What the programs took without a limit, in bytes.
    pub footprint_bytes: u64,
    /// Memory of the limited arms, the compressed pool included, in bytes.
    pub total_bytes: u64,
    /// By swap, wait and arm.
    pub rows: Vec<ReturnRow>,
    /// What could not be measured.
    pub failures: Vec<ReturnFailure>,
    /// Every hog.
    pub hogs: Vec<HogValue>,
    /// Every single return.
    pub values: Vec<ReturnValue>,
}

/// An arm after one wait; all blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReturnRow {
    /// Which arm.
    pub arm: ReturnArm,
    /// Over which swap; none without a limit.
    pub swap: Option<SwapKind>,
    /// Between the hog's end and the first return, in milliseconds.
    pub wait_ms: u64,
    /// First returns after a hog, to the program's own answer, in nanoseconds.
    pub answer: Quantiles,
    /// The use after them, in nanoseconds.
    pub use_time: Quantiles,
    /// Second returns with the use after them, in nanoseconds: mean; none where no program was returned to twice.
    pub again_ns: Option<f64>,
    /// What memory adds to a first return and the use after it, in nanoseconds: the mean beyond that without a limit.
    pub added_ns: f64,
    /// The 90th percentile of the same, each return beside the mean of its program.
    pub added_p90_ns: f64,
    /// What it adds as a part of what it adds with the kernel alone over the same swap; none where that adds nothing.
    pub added_ratio: Option<f64>,
    /// Major faults of a first return and the use after it: mean.
    pub major_faults: f64,
    /// Mean over the hogs: until it had all that it wanted, in nanoseconds.
    pub hog_ns: f64,
    /// The same for anonymous memory of programs that was in swap when it ended, in bytes.
    pub swapped_bytes: f64,
    /// The same until all of that was back, in nanoseconds; none where it was not after one of the hogs.
    pub back_ns: Option<f64>,
    /// The same for what was in swap after the last return, in bytes.
    pub left_bytes: f64,
    /// The same for CPU time of everything, from before the hog to after the last return, in nanoseconds; none where it
    /// was not measured.
    pub cpu_ns: Option<f64>,
    /// Of it what is beyond the arm without a limit, whose hog does the same work.
    pub added_cpu_ns: Option<f64>,
    /// Of it the daemon's; none in the other arms.
    pub daemon_cpu_ns: Option<f64>,
    /// Pages read from swap in that time.
    pub in_pages: f64,
    /// Pages written there.
    pub out_pages: f64,
    /// Bytes of files read.
    pub read_bytes: f64,
    /// Bytes of files written.
    pub written_bytes: f64,
}

/// What one hog did, and what it took until all programs were returned to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HogValue {
    /// In which arm.
    pub arm: ReturnArm,
    /// Over which swap; none without a limit.
    pub swap: Option<SwapKind>,
    /// In which block, from 0.
    pub block: u32,
    /// Between its end and the first return, in milliseconds.
    pub wait_ms: u64,
    /// Until it had all that it wanted, in nanoseconds.
    pub hog_ns: u64,
    /// Anonymous memory of programs that was in swap when it ended, in bytes.
    pub swapped_bytes: u64,
    /// Until all of that was back, in nanoseconds; none where it was not when the last program had been returned to, or a
    /// process had ended.
    pub back_ns: Option<u64>,
    /// What was in swap then, in bytes.
    pub left_bytes: u64,
    /// Processes that the kernel killed for want of memory.
    pub oom_kills: u64,
    /// CPU time of everything, in nanoseconds; none where it was not measured.
    pub cpu_ns: Option<u64>,
    /// The daemon's part of it; none in the other arms.
    pub daemon_cpu_ns: Option<u64>,
    /// Pages read from swap.
    pub in_pages: u64,
    /// Pages written there.
    pub out_pages: u64,
    /// Bytes of files read.
    pub read_bytes: u64,
    /// Bytes of files written.
    pub written_bytes: u64,
}

/// An arm of a block that was not measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReturnFailure {
    /// Which arm.
    pub arm: ReturnArm,
    /// Over which swap; none without a limit.
    pub swap: Option<SwapKind>,
    /// In which block, from 0.
    pub block: u32,
    /// Why.
    pub why: String,
}

/// One return.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReturnValue {
    /// In which arm.
    pub arm: ReturnArm,
    /// Over which swap; none without a limit.
    pub swap: Option<SwapKind>,
    /// In which block, from 0.
    pub block: u32,
    /// Between the hog's end and the first return, in milliseconds.
    pub wait_ms: u64,
    /// To which program.
    pub app: String,
    /// Whether it had been returned to before, after the same hog.
    pub is_second: bool,
    /// To the program's own answer, in nanoseconds.
    pub answer_ns: u64,
    /// The use after it, in nanoseconds.
    pub use_ns: u64,
    /// Major faults of both.
    pub major_faults: u64,
}

impl ReturnValue {
    fn both_ns(&self) -> f64 {
        (self.answer_ns + self.use_ns) as f64
    }
}

impl ReturnReport {
    pub(super) fn new(options: &ReturnOptions, cpu_share: f64) -> Self {
        Self {
            apps: options.apps.iter().map(|app| app.name.clone()).collect(),
            hog: options.hog,
            hog_bytes: 0,
            hog_ms: options.hog_ms,
            hog_stays: options.hog_stays,
            pause_ms: options.pause_ms,
            blocks: options.blocks,
            seed: options.seed,
            algorithm: options.algorithm.clone(),
            is_machine: options.is_machine,
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            cpu_share,
            footprint_bytes: 0,
            total_bytes: 0,
            rows: Vec::new(),
            failures: Vec::new(),
            hogs: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Sums up the hogs and returns, in the order in which arms, swaps and waits were measured first.
    pub(super) fn conclude(&mut self) {
        let mut keys: Vec<_> = Vec::new();
        for hog in &self.hogs {
            let key = (hog.swap, hog.wait_ms, hog.arm);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        let mut rows: Vec<_> = keys.into_iter().map(|key| self.row(key)).collect();
        let kernel: Vec<_> = rows
            .iter()
            .filter(|row| row.arm == ReturnArm::Kernel)
            .map(|row| (row.swap, row.wait_ms, row.added_ns))
            .collect();
        let unlimited: Vec<_> = rows
            .iter()
            .filter(|row| row.arm == ReturnArm::NoLimit)
            .map(|row| (row.wait_ms, row.cpu_ns))
            .collect();
        for row in &mut rows {
            let cpu_ns = unlimited.iter().find(|of| of.0 == row.wait_ms);
            row.added_cpu_ns = row
                .cpu_ns
                .zip(cpu_ns.and_then(|of| of.1))
                .map(|(a, b)| a - b);
            let same = kernel
                .iter()
                .find(|of| (of.0, of.1) == (row.swap, row.wait_ms));
            let adds = same.map(|of| of.2).filter(|&adds| adds > 0.0);
            row.added_ratio = adds.map(|adds| row.added_ns / adds);
        }
        self.rows = rows;
    }

    fn row(&self, (swap, wait_ms, arm): (Option<SwapKind>, u64, ReturnArm)) -> ReturnRow {
        let values = self.values.iter();
        let (again, values): (Vec<_>, Vec<_>) = values
            .filter(|v| (v.swap, v.wait_ms, v.arm) == (swap, wait_ms, arm))
            .partition(|value| value.is_second);
        let hogs = self.hogs.iter();
        let hogs: Vec<_> = hogs
            .filter(|h| (h.swap, h.wait_ms, h.arm) == (swap, wait_ms, arm))
            .collect();
        let added = values.iter().filter_map(|value| {
            let without = self.values.iter().filter(|other| {
                other.arm == ReturnArm::NoLimit && other.app == value.app && !other.is_second
            });
            Some(value.both_ns() - mean(without.map(ReturnValue::both_ns))?)
        });
        let mut added: Vec<f64> = added.collect();
        added.sort_unstable_by(f64::total_cmp);
        let p90 = (added.len() * 9).div_ceil(10).checked_sub(1);
        let of = |number: fn(&HogValue) -> u64| mean(hogs.iter().map(|h| number(h) as f64));
        let known = |number: fn(&HogValue) -> Option<u64>| {
            let all: Option<Vec<_>> = hogs.iter().map(|hog| number(hog)).collect();
            mean(all?.into_iter().map(|number| number as f64))
        };
        ReturnRow {
            arm,
            swap,
            wait_ms,
            answer: Quantiles::of(values.iter().map(|value| value.answer_ns)),
            use_time: Quantiles::of(values.iter().map(|value| value.use_ns)),
            again_ns: mean(again.iter().map(|value| value.both_ns())),
            added_ns: mean(added.iter().copied()).unwrap_or(0.0),
            added_p90_ns: p90.map_or(0.0, |at| added[at]),
            added_ratio: None,
            major_faults: mean(values.iter().map(|v| v.major_faults as f64)).unwrap_or(0.0),
            hog_ns: of(|hog| hog.hog_ns).unwrap_or(0.0),
            swapped_bytes: of(|hog| hog.swapped_bytes).unwrap_or(0.0),
            back_ns: known(|hog| hog.back_ns),
            left_bytes: of(|hog| hog.left_bytes).unwrap_or(0.0),
            cpu_ns: known(|hog| hog.cpu_ns),
            added_cpu_ns: None,
            daemon_cpu_ns: known(|hog| hog.daemon_cpu_ns),
            in_pages: of(|hog| hog.in_pages).unwrap_or(0.0),
            out_pages: of(|hog| hog.out_pages).unwrap_or(0.0),
            read_bytes: of(|hog| hog.read_bytes).unwrap_or(0.0),
            written_bytes: of(|hog| hog.written_bytes).unwrap_or(0.0),
        }
    }
}

/// None of nothing.
fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(arm: ReturnArm, app: &str, answer_ns: u64, use_ns: u64) -> ReturnValue {
        ReturnValue {
            arm,
            swap: (arm != ReturnArm::NoLimit).then_some(SwapKind::Zram),
            block: 0,
            wait_ms: 2000,
            app: app.to_owned(),
            is_second: false,
            answer_ns,
            use_ns,
            major_faults: answer_ns,
        }
    }

    fn hog(arm: ReturnArm, back_ns: Option<u64>) -> HogValue {
        HogValue {
            arm,
            swap: (arm != ReturnArm::NoLimit).then_some(SwapKind::Zram),
            block: 0,
            wait_ms: 2000,
            hog_ns: 7,
            swapped_bytes: 1 << 20,
            back_ns,
            left_bytes: 5,
            oom_kills: 0,
            cpu_ns: back_ns.map(|ns| 10 * ns),
            daemon_cpu_ns: None,
            in_pages: 1,
            out_pages: 2,
            read_bytes: 3,
            written_bytes: 4,
        }
    }

    fn report(values: Vec<ReturnValue>, hogs: Vec<HogValue>) -> ReturnReport {
        let mut report = ReturnReport {
            values,
            hogs,
            ..super::super::tests::nothing()
        };
        report.conclude();
        report
    }

    #[test]
    fn what_memory_adds_is_beside_the_same_programs_without_a_limit() {
        use ReturnArm::{Daemon, Kernel, NoLimit};
        let values = vec![
            value(NoLimit, "a", 10, 0),
            value(NoLimit, "a", 30, 0),
            value(NoLimit, "b", 100, 50),
            value(Kernel, "a", 100, 20),
            value(Kernel, "b", 300, 150),
            value(Daemon, "a", 30, 0),
            value(Daemon, "b", 130, 60),
        ];
        let again = ReturnValue {
            is_second: true,
            ..value(Daemon, "a", 900, 90)
        };
        let values = [values, vec![again]].concat();
        let hogs = [(NoLimit, 1), (Kernel, 3), (Daemon, 4)];
        let hogs = hogs.map(|(arm, ns)| hog(arm, Some(ns)));
        let report = report(values, hogs.into());

        let [none, kernel, daemon] = report.rows.as_slice() else {
            panic!("three arms: {:?}", report.rows);
        };
        assert_eq!((none.added_ns, none.added_ratio), (0.0, None));
        assert_eq!((kernel.added_ns, kernel.added_p90_ns), (200.0, 300.0));
        assert_eq!((daemon.added_ns, daemon.added_ratio), (25.0, Some(0.125)));
        assert_eq!((kernel.answer.mean, kernel.use_time.mean), (200.0, 85.0));
        assert_eq!(kernel.major_faults, 200.0);
        assert_eq!((daemon.again_ns, kernel.again_ns), (Some(990.0), None));
        let added = [none, kernel, daemon].map(|row| row.added_cpu_ns);
        assert_eq!(added, [Some(0.0), Some(20.0), Some(30.0)]);
    }

    #[test]
    fn what_was_not_measured_after_one_hog_has_no_mean() {
        let arm = ReturnArm::Kernel;
        let all = |hogs| report(vec![value(arm, "a", 1, 1)], hogs).rows[0].clone();
        let row = all(vec![hog(arm, Some(10)), hog(arm, Some(20))]);
        assert_eq!(
            (row.back_ns, row.cpu_ns, row.hog_ns),
            (Some(15.0), Some(150.0), 7.0)
        );
        let row = all(vec![hog(arm, Some(10)), hog(arm, None)]);
        assert_eq!(
            (row.back_ns, row.cpu_ns, row.added_cpu_ns),
            (None, None, None)
        );
        // Without the other arms nothing can be said of what memory adds.
        assert_eq!((row.added_ns, row.added_ratio), (0.0, None));
    }
}
