//! What the values come to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmswap_kernel::HostStatus;

use super::arm::Done;
use super::arm_result::{AppResult, ArmResult};
use super::kernel_settings::Setting;
use super::options::{Arm, RelaunchOptions};
use super::quantiles::Quantiles;
use super::switch_use::{Sampling, SwitchUse};
use super::value::RelaunchValue;

/// Everything.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
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
    /// The arenas' scheme, with the arm `preload`.
    pub preload_scheme: Option<String>,
    /// Time between samples of a switch, in milliseconds.
    pub sample_ms: Option<u64>,
    /// Processors of the machine.
    pub processors: usize,
    /// What share of a processor the measuring thread got before, 0 to 1.
    pub cpu_share: f64,
    /// What the applications took without a limit, at most, in bytes.
    pub footprint_bytes: Option<u64>,
    /// Memory of the limited arms, the pool included, in bytes.
    pub total_bytes: Option<u64>,
    /// The arms.
    pub arms: Vec<ArmResult>,
    /// Parts of the kernel that reclaim by themselves or tell which pages are used, where arms over the whole machine
    /// were measured.
    pub features: Vec<Setting>,
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
            preload_scheme: options.preload.as_ref().map(|p| p.scheme.clone()),
            sample_ms: options.sample_every.map(|every| every.as_millis() as u64),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            cpu_share,
            footprint_bytes: None,
            total_bytes: None,
            arms: Vec::new(),
            features: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Adds what an arm did in one block.
    pub(super) fn add(&mut self, arm: Arm, done: Done) {
        let at = self.arms.iter().position(|a| a.arm == arm);
        let at = at.unwrap_or_else(|| {
            self.arms.push(ArmResult::none(arm));
            self.arms.len() - 1
        });
        let mut values = done.values;
        let result = &mut self.arms[at];
        let both = result.cpu.programs_ns.zip(done.cpu.programs_ns);
        result.cpu.programs_ns = both.map(|(before, now)| before + now);
        result.cpu.kernel_threads_ns += done.cpu.kernel_threads_ns;
        result.cpu.limit_ns += done.usage.cpu_ns;
        result.cpu.machine_ns += done.cpu.machine_ns;
        result.kills += values.iter().filter(|value| value.was_killed).count() as u64;
        result.oom_kills += done.oom_kills;
        result.conditions = done.conditions;
        result.mean_bytes += done.usage.mean_bytes / u64::from(self.blocks.max(1));
        result.peak_bytes = result.peak_bytes.max(done.usage.peak_bytes);
        result.file_bytes += done.file_bytes / u64::from(self.blocks.max(1));
        result.out_pages += done.swap.out_pages;
        result.in_pages += done.swap.in_pages;
        if let (Some(before), Some(after)) = (&done.before.host, &done.after.host) {
            result.add_host(&before.counters, &after.counters);
            note_prefetch(&mut values, after);
        }
        if arm.is_preloaded() {
            result.cpu.host_ns += done.after.told_ns - done.before.told_ns;
            result.host.get_or_insert_default().left_by_kernel += done.swap.out_pages;
        }
        let arenas = done.after.arenas.iter().zip(&done.before.arenas);
        for (app, (after, before)) in arenas.enumerate() {
            if let Some(budget_bytes) = done.budgets[app] {
                result.add_arena(&self.apps[app], budget_bytes, after.since(*before));
            }
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
            let use_time = Quantiles::of(of(None).filter_map(|v| v.use_ns));
            let use_major = Quantiles::of(of(None).filter_map(|v| v.use_major_faults));
            let (all_latency, all_major) = (latency(None), major(None));
            result.apps = apps;
            result.latency = all_latency;
            result.major_faults = all_major;
            result.minor_faults = minor;
            result.use_time = use_time;
            result.use_major_faults = use_major;
        }
        self.arms.sort_by_key(|result| result.arm);
        self.sum_up_switches();
    }

    /// Sums up what was sampled.
    fn sum_up_switches(&mut self) {
        let Some(sample_ms) = self.sample_ms else {
            return;
        };
        let sampling = Sampling {
            every_ns: sample_ms * 1_000_000,
            processors: self.processors,
        };
        let uses: Vec<_> = self
            .arms
            .iter()
            .map(|result| {
                let values = self.values.iter().filter(|value| value.arm == result.arm);
                let baseline = |app: &str| {
                    let zram = self.arm(Arm::Zram)?;
                    let found = zram.apps.iter().find(|result| result.app == app)?;
                    Some(found.latency.p50)
                };
                SwitchUse::of(values, sampling, baseline)
            })
            .collect();
        for (result, switches) in self.arms.iter_mut().zip(uses) {
            result.switches = switches;
        }
    }

    /// One arm, if it was measured.
    #[must_use]
    pub fn arm(&self, arm: Arm) -> Option<&ArmResult> {
        self.arms.iter().find(|result| result.arm == arm)
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
        }
    }
}

impl RelaunchReport {
    /// Latencies of an application in an arm, in nanoseconds.
    #[must_use]
    pub fn latencies(&self, arm: Arm, app: &str) -> Vec<f64> {
        let own = self.values.iter().filter(|v| v.arm == arm && v.app == app);
        own.map(|v| v.latency_ns as f64).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmswap_kernel::{AppStatus, Relaunch};

    #[test]
    fn prefetch_is_noted_at_the_last_relaunches() {
        let value = |round| RelaunchValue::of(Arm::Kernel, round, "a");
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
}
