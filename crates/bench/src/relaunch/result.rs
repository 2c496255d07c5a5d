//! Values, and what they come to.

use serde::Serialize;
use warmswap_kernel::{Counters, HostStatus};

use super::arm::Done;
use super::{Arm, RelaunchOptions};

/// One relaunch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RelaunchValue {
    /// In which arm.
    pub arm: Arm,
    /// In which block, from 0.
    pub block: u32,
    /// In which round of it, from 0, warm-up not counted.
    pub round: u32,
    /// Of which application.
    pub app: String,
    /// To the program's own answer, in nanoseconds.
    pub latency_ns: u64,
    /// Major faults of its processes.
    pub major_faults: u64,
    /// Minor faults of its processes.
    pub minor_faults: u64,
    /// Pages that came back ahead of use; none in arms that prefetch nothing.
    pub prefetched: Option<u64>,
    /// Of these, pages that were touched.
    pub prefetch_used: Option<u64>,
}

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

/// CPU time of an arm, all blocks, without warm-up, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CpuParts {
    /// The applications, with what the kernel does in them: faults and direct reclaim.
    pub programs_ns: u64,
    /// Threads of the kernel.
    pub kernel_threads_ns: u64,
    /// The thread that keeps the limit, in which the kernel reclaims when it falls.
    pub limit_ns: u64,
    /// The kernel host's thread.
    pub host_ns: u64,
    /// The kernel host's prefetch threads.
    pub prepage_ns: u64,
}

impl CpuParts {
    /// All of it.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.programs_ns + self.kernel_threads_ns + self.limit_ns + self.host_ns + self.prepage_ns
    }
}

/// What the kernel host did, all blocks, without warm-up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct HostPart {
    /// Pages brought back ahead of use.
    pub prefetched: u64,
    /// Of these, touched in their launch window.
    pub prefetch_used: u64,
    /// Pages paged out.
    pub paged_out: u64,
    /// Pages that the kernel paged out by itself.
    pub left_by_kernel: u64,
    /// Pages that a page-out left in memory.
    pub kept: u64,
}

/// One application in one arm.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AppResult {
    /// Its name.
    pub app: String,
    /// Nanoseconds.
    pub latency: Quantiles,
    /// Of a relaunch.
    pub major_faults: Quantiles,
}

/// One arm.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArmResult {
    /// Which.
    pub arm: Arm,
    /// Of all applications together, in nanoseconds.
    pub latency: Quantiles,
    /// Of a relaunch.
    pub major_faults: Quantiles,
    /// Of a relaunch.
    pub minor_faults: Quantiles,
    /// By application.
    pub apps: Vec<AppResult>,
    /// CPU time.
    pub cpu: CpuParts,
    /// Memory used, the pool included: mean over time and blocks, in bytes.
    pub mean_bytes: u64,
    /// The most.
    pub peak_bytes: u64,
    /// Of it page cache, at the end of a block: mean over blocks, in bytes.
    pub file_bytes: u64,
    /// Pages written to swap.
    pub out_pages: u64,
    /// Pages read from swap.
    pub in_pages: u64,
    /// Where there is a host.
    pub host: Option<HostPart>,
}

/// A target, and whether it is reached.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Target {
    /// What, of the arm `kernel` against the arm `zram`.
    pub what: &'static str,
    /// The ratio.
    pub ratio: f64,
    /// It is to be at most this.
    pub at_most: f64,
}

impl Target {
    /// Whether it is reached.
    #[must_use]
    pub fn is_reached(&self) -> bool {
        self.ratio <= self.at_most
    }
}

/// Everything.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RelaunchReport {
    /// Names of the applications.
    pub apps: Vec<String>,
    /// Blocks.
    pub blocks: u32,
    /// Relaunches of each application in each arm of a block.
    pub relaunches: u32,
    /// Before them, not counted.
    pub warm_up: u32,
    /// Rest after each switch, in milliseconds.
    pub rest_ms: u64,
    /// Decides orders and requests.
    pub seed: u64,
    /// The zram devices' algorithm.
    pub algorithm: String,
    /// The kernel host's scheme.
    pub scheme: String,
    /// What share of a processor the measuring thread got before, 0 to 1.
    pub cpu_share: f64,
    /// What the applications took without a limit, at most, in bytes.
    pub footprint_bytes: Option<u64>,
    /// Memory of the limited arms, the pool included, in bytes.
    pub total_bytes: Option<u64>,
    /// The arms.
    pub arms: Vec<ArmResult>,
    /// Kernel against zram, where both were measured.
    pub targets: Vec<Target>,
    /// Every single relaunch.
    pub values: Vec<RelaunchValue>,
}

impl RelaunchReport {
    pub(super) fn new(options: &RelaunchOptions, cpu_share: f64) -> Self {
        Self {
            apps: options.apps.iter().map(|app| app.name.clone()).collect(),
            blocks: options.blocks,
            relaunches: options.relaunches,
            warm_up: options.warm_up,
            rest_ms: options.rest_ms,
            seed: options.seed,
            algorithm: options.algorithm.clone(),
            scheme: options.host.scheme.clone(),
            cpu_share,
            footprint_bytes: None,
            total_bytes: None,
            arms: Vec::new(),
            targets: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Adds what an arm did in one block.
    pub(super) fn add(&mut self, arm: Arm, done: Done) {
        let at = self.arms.iter().position(|a| a.arm == arm);
        let at = at.unwrap_or_else(|| {
            self.arms.push(empty(arm));
            self.arms.len() - 1
        });
        let mut values = done.values;
        let result = &mut self.arms[at];
        result.cpu.programs_ns += done.cpu.programs_ns;
        result.cpu.kernel_threads_ns += done.cpu.kernel_threads_ns;
        result.cpu.limit_ns += done.usage.cpu_ns;
        result.mean_bytes += done.usage.mean_bytes / u64::from(self.blocks.max(1));
        result.peak_bytes = result.peak_bytes.max(done.usage.peak_bytes);
        result.file_bytes += done.file_bytes / u64::from(self.blocks.max(1));
        result.out_pages += done.swap.out_pages;
        result.in_pages += done.swap.in_pages;
        if let Some((before, after)) = done.host {
            result.add_host(&before.counters, &after.counters);
            note_prefetch(&mut values, &after);
        }
        self.values.append(&mut values);
    }

    /// Sums up what was added.
    pub(super) fn conclude(&mut self) {
        for result in &mut self.arms {
            let of = |app: Option<&str>| {
                let arm = result.arm;
                let app = app.map(str::to_owned);
                self.values
                    .iter()
                    .filter(move |v| v.arm == arm && app.as_ref().is_none_or(|app| v.app == *app))
            };
            let latency = |app| Quantiles::of(of(app).map(|v| v.latency_ns));
            let major = |app| Quantiles::of(of(app).map(|v| v.major_faults));
            let apps = self.apps.iter().map(|app| AppResult {
                app: app.clone(),
                latency: latency(Some(app.as_str())),
                major_faults: major(Some(app.as_str())),
            });
            let apps = apps.collect();
            let minor = Quantiles::of(of(None).map(|v| v.minor_faults));
            let (all_latency, all_major) = (latency(None), major(None));
            result.apps = apps;
            result.latency = all_latency;
            result.major_faults = all_major;
            result.minor_faults = minor;
        }
        self.arms.sort_by_key(|result| result.arm);
        self.targets = self.targets();
    }

    /// One arm, if it was measured.
    #[must_use]
    pub fn arm(&self, arm: Arm) -> Option<&ArmResult> {
        self.arms.iter().find(|result| result.arm == arm)
    }

    fn targets(&self) -> Vec<Target> {
        let (Some(kernel), Some(zram)) = (self.arm(Arm::Kernel), self.arm(Arm::Zram)) else {
            return Vec::new();
        };
        let target = |what, ours: f64, theirs: f64, at_most| Target {
            what,
            ratio: ours / theirs,
            at_most,
        };
        let cpu = |arm: &ArmResult| arm.cpu.total_ns() as f64;
        let (ours, theirs) = (&kernel.latency, &zram.latency);
        vec![
            target("median relaunch latency", ours.p50, theirs.p50, 0.5),
            target("p90 relaunch latency", ours.p90, theirs.p90, 0.5),
            target(
                "major faults per relaunch",
                kernel.major_faults.mean,
                zram.major_faults.mean,
                0.3,
            ),
            target("CPU time", cpu(kernel), cpu(zram), 1.0),
        ]
    }
}

fn empty(arm: Arm) -> ArmResult {
    ArmResult {
        arm,
        latency: Quantiles::default(),
        major_faults: Quantiles::default(),
        minor_faults: Quantiles::default(),
        apps: Vec::new(),
        cpu: CpuParts::default(),
        mean_bytes: 0,
        peak_bytes: 0,
        file_bytes: 0,
        out_pages: 0,
        in_pages: 0,
        host: None,
    }
}

impl ArmResult {
    fn add_host(&mut self, before: &Counters, after: &Counters) {
        self.cpu.host_ns += after.host_cpu_ns - before.host_cpu_ns;
        self.cpu.prepage_ns += after.prepage_cpu_ns - before.prepage_cpu_ns;
        let host = self.host.get_or_insert_default();
        host.prefetched += after.prepage_asked - before.prepage_asked;
        host.prefetch_used += after.prepage_used - before.prepage_used;
        host.paged_out += after.page_out_done - before.page_out_done;
        host.left_by_kernel += after.left_by_kernel - before.left_by_kernel;
        host.kept += after.page_out_kept - before.page_out_kept;
    }
}

/// Notes at each of an application's relaunches what the host brought back for it. It remembers the last 16.
fn note_prefetch(values: &mut [RelaunchValue], status: &HostStatus) {
    for app in &status.apps {
        let of = values
            .iter_mut()
            .rev()
            .filter(|value| value.app == app.name);
        for (value, relaunch) in of.zip(app.relaunches.iter().rev()) {
            value.prefetched = Some(relaunch.prefetched);
            value.prefetch_used = Some(relaunch.prefetch_used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmswap_kernel::{AppStatus, Relaunch};

    #[test]
    fn quantiles_are_nearest_ranks() {
        let q = Quantiles::of(1..=200);

        assert_eq!((q.count, q.min, q.p25, q.p50), (200, 1.0, 50.0, 100.0));
        assert_eq!((q.p90, q.p99, q.max, q.mean), (180.0, 198.0, 200.0, 100.5));
        assert_eq!(Quantiles::of([]), Quantiles::default());
        assert_eq!(Quantiles::of([7]).p90, 7.0);
    }

    #[test]
    fn prefetch_is_noted_at_the_last_relaunches() {
        let value = |round| RelaunchValue {
            arm: Arm::Kernel,
            block: 0,
            round,
            app: "a".to_owned(),
            latency_ns: 1,
            major_faults: 0,
            minor_faults: 0,
            prefetched: None,
            prefetch_used: None,
        };
        let mut values = vec![value(0), value(1), value(2)];
        let relaunch = |prefetched| Relaunch {
            prefetched,
            ..Relaunch::default()
        };
        let status = HostStatus {
            apps: vec![AppStatus {
                name: "a".to_owned(),
                relaunches: vec![relaunch(10), relaunch(20)],
                ..AppStatus::default()
            }],
            ..HostStatus::default()
        };

        note_prefetch(&mut values, &status);

        let found: Vec<_> = values.iter().map(|v| v.prefetched).collect();
        assert_eq!(found, [None, Some(10), Some(20)]);
    }

    #[test]
    fn a_target_is_reached_at_its_bound() {
        let target = |ratio| Target {
            what: "x",
            ratio,
            at_most: 0.5,
        };
        assert!(target(0.5).is_reached() && !target(0.51).is_reached());
    }
}
