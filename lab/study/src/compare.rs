//! Schemes side by side: what a relaunch costs, what CPU time and memory that takes, on the same traces.
//!
//! The claims of the Ariadne paper are about the whole relaunch; a replay knows the part of it that
//! memory costs, so that its ratios are more extreme in both directions.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmswap_columns::Described;
use warmswap_page::quantile::Sorted;
use warmswap_policy::SchemeSpec;
use warmswap_replay::{
    AppResult, CpuTime, Latency, NoObserver, Pressure, Relaunch, ReplayResult, Sight,
};

mod alike;
mod verdict;
mod way;

pub use alike::{Difference, SchemeMemory, alike, as_in_its_paper};
pub use verdict::Verdict;
pub use way::{OPTIMAL, OPTIMAL_WINDOWS, REFERENCE, with_limits};

use crate::error::StudyError;
use crate::mean::{geometric_mean, mean, share};
use crate::options::Options;
use crate::paper::Published;
use crate::run::{OnProgress, Run, replay_each};
use crate::subject::Subject;

/// The scheme that the papers compare with.
pub const BASELINE: &str = "zram";

/// The scheme without pressure, which nothing can beat.
pub const IDEAL: &str = "dram";

/// Relaunch latency of Ariadne, zram's being 1.
pub const PAPER_LATENCY_VS_ZRAM: Published =
    Published::new(0.50, "Ariadne, Figure 10 and section 6.1: 50 % less");

/// CPU time of compression and decompression with Ariadne, zram's being 1.
pub const PAPER_CPU_VS_ZRAM: Published =
    Published::new(0.85, "Ariadne, Figure 11 and section 6.1: 15 % less");

/// Relaunch latency of Ariadne, in units of memory without pressure: at most this.
pub const PAPER_LATENCY_VS_DRAM: Published =
    Published::new(1.10, "Ariadne, Figure 10 and section 6.1: within 10 %");

/// Figures of a number of relaunches, each in its measured and modelled part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// Of all, half are at most this (nearest rank); the parts are those of that relaunch.
    pub median: Latency,
    /// Of all, nine in ten are at most this (nearest rank); the parts are those of that relaunch.
    pub p90: Latency,
    /// The mean of each part.
    pub mean: Latency,
}

impl Figures {
    /// The figures; `None` without relaunches.
    pub fn of<'a>(relaunches: impl IntoIterator<Item = &'a Relaunch>) -> Option<Self> {
        let key = |latency: &Latency| (latency.total_ns(), latency.measured_ns);
        let latencies = relaunches.into_iter().map(|r| r.latency);
        let sorted = Sorted::by(latencies, |a, b| key(a).cmp(&key(b)));
        let count = sorted.samples().len();
        let mut sum = Latency::default();
        sorted.samples().iter().for_each(|&latency| sum += latency);
        Some(Self {
            median: sorted.median()?,
            p90: sorted.per_mille(900)?,
            mean: Latency {
                measured_ns: sum.measured_ns / count as u64,
                modelled_ns: sum.modelled_ns / count as u64,
            },
        })
    }
}

/// One application of one trace under one scheme.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AppRow {
    /// The trace.
    pub trace: String,
    /// The application.
    pub app: String,
    /// The scheme.
    pub scheme: String,
    /// Relaunches, cold starts after a kill included; the figures are of all of them.
    pub relaunches: u64,
    /// Time that memory cost in their launch windows; for a cold start, what the recorded cold launch took.
    pub latency: Option<Figures>,
    /// What each of them took, in their order.
    #[serde(default)]
    pub latencies: Vec<Latency>,
    /// Touches in their windows that waited for the pool.
    pub pool_faults: u64,
    /// Touches in their windows that waited for the backing file.
    pub backing_faults: u64,
    /// Touches in their windows that found their page prefetched.
    pub buffer_hits: u64,
    /// Mean share of the windows' pages that the hot list predicted; `None` without a hot list.
    pub coverage: Option<f64>,
    /// Mean share of the hot list that was used.
    pub accuracy: Option<f64>,
    /// Original bytes for each compressed byte.
    pub data_ratio: Option<f64>,
    /// CPU time of compression and decompression of its pages, over the whole trace.
    pub cpu: CpuTime,
    /// How often it was killed.
    pub kills: u64,
}

/// One scheme over all traces.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Described)]
#[column(relaunch_p50_ns = self.latency.map(|it| it.median), "relaunch p50")]
#[column(relaunch_p90_ns = self.latency.map(|it| it.p90), "p90")]
#[column(relaunch_mean_ns = self.latency.map(|it| it.mean), "mean")]
#[column(cold_start_mean_ns = self.cold_start_latency.map(|it| it.mean), "mean")]
#[column(warm_p50_ns = self.warm_latency.map(|it| it.median), "others p50")]
#[column(warm_mean_ns = self.warm_latency.map(|it| it.mean), "others mean")]
#[column(relaunch_measured_share = self.latency.and_then(|it| it.mean.measured_share()), percent, "measured part")]
#[column(compress_ns = self.cpu.compress_ns(), "compression")]
#[column(decompress_ns = self.cpu.decompress_ns(), "decompression")]
#[column(estimate_ns = self.cpu.estimate_ns, "estimates")]
#[column(cpu_ns = self.cpu.total_ns(), "together")]
pub struct SchemeRow {
    /// The scheme.
    #[column]
    pub scheme: String,
    /// The memory that it had.
    #[serde(default)]
    pub memory: SchemeMemory,
    /// Relaunches, cold starts after a kill included.
    pub relaunches: u64,
    /// Time that memory cost in their launch windows; for a cold start, what the recorded cold launch took.
    pub latency: Option<Figures>,
    /// Of the relaunches, cold starts after a kill.
    #[serde(default)]
    #[column]
    pub cold_starts: u64,
    /// Their latency by itself.
    #[serde(default)]
    pub cold_start_latency: Option<Figures>,
    /// The latency of the others.
    #[serde(default)]
    pub warm_latency: Option<Figures>,
    /// Geometric mean, over the applications, of its median latency by that under zram. `None` where
    /// zram was not among the schemes, here and below.
    #[column(ratio, "vs zram", paper = self.paper(&PAPER_LATENCY_VS_ZRAM))]
    pub latency_vs_zram: Option<f64>,
    /// The same by that under dram.
    #[column(ratio, "vs dram")]
    pub latency_vs_dram: Option<f64>,
    /// CPU time of compression and decompression.
    pub cpu: CpuTime,
    /// All of it, by that under zram.
    #[column(ratio, "vs zram", paper = self.paper(&PAPER_CPU_VS_ZRAM))]
    pub cpu_vs_zram: Option<f64>,
    /// Original bytes for each compressed byte, over everything that was stored.
    #[column(ratio)]
    pub data_ratio: Option<f64>,
    /// Original bytes for each byte of memory that the pools held when they held most; `None` when
    /// nothing was in them.
    #[column(ratio)]
    pub memory_ratio: Option<f64>,
    /// Pages that left their frames: compressed, written as they are, or dropped for a kept copy.
    #[column("pages out")]
    pub swap_out_pages: u64,
    /// Pages that came back: asked for, along with one that was, or prefetched.
    #[column("pages in")]
    pub swap_in_pages: u64,
    /// Bytes read from flash.
    #[column]
    pub flash_read_bytes: u64,
    /// Bytes written to flash.
    #[column]
    pub flash_written_bytes: u64,
    /// Mean share of a window's pages that the hot list predicted; `None` without a hot list.
    #[column(percent)]
    pub coverage: Option<f64>,
    /// Mean share of the hot list that was used.
    #[column(percent)]
    pub accuracy: Option<f64>,
    /// Pages that were prefetched.
    #[column]
    pub prefetched_pages: u64,
    /// Share of them that was asked for.
    #[column(percent, "used")]
    pub prefetch_used: Option<f64>,
    /// Share of them that left again unused.
    #[column(percent, "wasted")]
    pub prefetch_wasted: Option<f64>,
    /// Applications that were killed.
    #[column]
    pub kills: u64,
    /// Touches in launch windows of relaunches that waited for pool, backing file or prefetch buffer, and first touches
    /// of those after a kill.
    #[serde(default)]
    #[column]
    pub window_faults: u64,
    /// The same anywhere.
    #[serde(default)]
    #[column("all faults")]
    pub faults: u64,
    /// Of the way from exact LRU to the optimum about launch windows, how much it goes, in window faults. `None` where
    /// these two were not compared, or hardly differ.
    #[serde(default)]
    #[column(percent, "of the way")]
    pub way_in_windows: Option<f64>,
    /// Of the way from exact LRU to the optimum, in all faults.
    #[serde(default)]
    #[column(percent, "of the way")]
    pub way: Option<f64>,
}

impl SchemeRow {
    /// A published number of Ariadne beside its rows.
    fn paper<'a>(&self, published: &'a Published) -> Option<&'a Published> {
        self.scheme.starts_with("ariadne").then_some(published)
    }
}

/// Schemes side by side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// The traces, in their order, with budget and footprint.
    pub traces: Vec<TraceRow>,
    /// The schemes, in their order.
    pub schemes: Vec<SchemeRow>,
    /// Every application under every scheme: trace by trace, application by application.
    pub apps: Vec<AppRow>,
    /// What memory the schemes did not have alike.
    #[serde(default)]
    pub differences: Vec<Difference>,
    /// The last scheme, or ours, beside zram.
    #[serde(default)]
    pub verdict: Option<Verdict>,
    /// False when sizes and codec times of some trace were assumed.
    pub with_contents: bool,
    /// The device model that gave the modelled parts.
    pub device: String,
    /// What made pages leave; `None` where an earlier build did not say.
    #[serde(default)]
    pub pressure: Option<Pressure>,
    /// Which touches the schemes heard of; `None` as above.
    #[serde(default)]
    pub sight: Option<Sight>,
}

/// One trace of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceRow {
    /// Its name.
    pub trace: String,
    /// Its footprint.
    pub footprint_bytes: u64,
    /// The memory that every scheme had, but for those that [`Comparison::differences`] names.
    pub budget_bytes: u64,
    /// What share of a recording it is; `None` for a whole one.
    #[serde(default)]
    pub sample_share: Option<f64>,
    /// Whether pages of files left memory before each relaunch of the recording, so that the accesses to them are in it.
    #[serde(default)]
    pub cold_files: bool,
}

/// Replays every trace under every scheme on all cores, and compares. The runs come along for a closer
/// look, trace by trace, schemes in their order. All schemes get the same memory ([`alike`]); `options_of` may change
/// that for one of them, and the comparison says so.
///
/// # Errors
/// The first replay that stops.
pub fn compare(
    subjects: &[Subject],
    schemes: &[SchemeSpec],
    options: &Options,
    options_of: impl Fn(&SchemeSpec, Options) -> Options,
    on_progress: OnProgress<'_>,
) -> Result<(Comparison, Vec<Run>), StudyError> {
    let options = alike(options, schemes);
    let each = schemes
        .iter()
        .map(|scheme| (scheme.clone(), options_of(scheme, options.clone())));
    let each: Vec<_> = each.collect();
    let runs = replay_each(subjects, &each, on_progress, |_| NoObserver)?;
    let runs: Vec<Run> = runs.into_iter().map(|(run, _)| run).collect();
    Ok((Comparison::of(&runs), runs))
}

impl Comparison {
    /// Compares finished runs. Schemes and traces stand in the order in which they first appear.
    pub fn of(runs: &[Run]) -> Self {
        let mut comparison = Self {
            with_contents: runs.iter().all(|run| run.result.with_contents),
            ..Self::default()
        };
        if let Some(run) = runs.first() {
            comparison.device.clone_from(&run.result.device);
            comparison.pressure = Some(run.pressure);
            comparison.sight = Some(run.sight);
        }
        let mut schemes: Vec<&str> = Vec::new();
        for run in runs {
            if !schemes.contains(&run.result.scheme.as_str()) {
                schemes.push(&run.result.scheme);
            }
            if comparison.traces.iter().all(|row| row.trace != run.trace) {
                comparison.traces.push(TraceRow {
                    trace: run.trace.clone(),
                    footprint_bytes: run.footprint_bytes,
                    budget_bytes: run.result.limits.budget_bytes,
                    sample_share: run.sample_share,
                    cold_files: run.cold_files,
                });
                comparison.apps.extend(app_rows(runs, &run.trace));
            }
        }
        comparison.schemes = schemes
            .iter()
            .map(|scheme| scheme_row(runs, scheme))
            .collect();
        let baselines = [BASELINE, IDEAL].map(|scheme| medians(runs, scheme));
        let cpu_of = |rows: &[SchemeRow], name| {
            let row = rows.iter().find(|row| row.scheme == name);
            row.map(|row| row.cpu.total_ns()).filter(|&ns| ns > 0)
        };
        let baseline_cpu_ns = cpu_of(&comparison.schemes, BASELINE);
        for row in &mut comparison.schemes {
            let own = medians(runs, &row.scheme);
            let ratios = baselines.each_ref().map(|other| latency_ratio(&own, other));
            [row.latency_vs_zram, row.latency_vs_dram] = ratios;
            row.cpu_vs_zram = baseline_cpu_ns.map(|ns| row.cpu.total_ns() as f64 / ns as f64);
        }
        way::measure(&mut comparison.schemes);
        comparison.differences = alike::differences(&comparison.schemes);
        comparison.verdict = Verdict::of(&comparison);
        comparison
    }
}

/// The median latency of each application, by trace and number, under one scheme.
type Medians<'a> = BTreeMap<(&'a str, usize), u64>;

fn medians<'a>(runs: &'a [Run], scheme: &str) -> Medians<'a> {
    let runs = runs.iter().filter(|run| run.result.scheme == scheme);
    let apps = runs.flat_map(|run| {
        let apps = run.result.apps.iter().enumerate();
        apps.filter_map(|(index, app)| {
            let latency = Figures::of(relaunches(app))?;
            Some(((run.trace.as_str(), index), latency.median.total_ns()))
        })
    });
    apps.collect()
}

fn latency_ratio(own: &Medians<'_>, baseline: &Medians<'_>) -> Option<f64> {
    let ratios = own.iter().filter_map(|(app, &own_ns)| {
        let other_ns = *baseline.get(app)?;
        (own_ns > 0 && other_ns > 0).then(|| own_ns as f64 / other_ns as f64)
    });
    geometric_mean(ratios)
}

fn relaunches(app: &AppResult) -> impl Iterator<Item = &Relaunch> + Clone {
    app.relaunches.iter()
}

/// The mean coverage; `None` for a scheme without a hot list, which predicts nothing.
fn coverage<'a>(relaunches: impl Iterator<Item = &'a Relaunch> + Clone) -> Option<f64> {
    let predicts = relaunches.clone().any(|relaunch| relaunch.hot_pages > 0);
    let coverage = mean(relaunches.filter_map(Relaunch::coverage));
    coverage.filter(|_| predicts)
}

fn app_rows(runs: &[Run], trace: &str) -> Vec<AppRow> {
    let runs: Vec<&Run> = runs.iter().filter(|run| run.trace == trace).collect();
    let apps = runs.iter().map(|run| run.result.apps.len()).max();
    (0..apps.unwrap_or(0))
        .flat_map(|app| {
            runs.iter()
                .filter_map(move |run| Some(app_row(run, run.result.apps.get(app)?, app)))
        })
        .collect()
}

fn app_row(run: &Run, app: &AppResult, index: usize) -> AppRow {
    let sum = |count: fn(&Relaunch) -> u64| relaunches(app).map(count).sum();
    AppRow {
        trace: run.trace.clone(),
        app: app.name.clone(),
        scheme: run.result.scheme.clone(),
        relaunches: relaunches(app).count() as u64,
        latency: Figures::of(relaunches(app)),
        latencies: relaunches(app).map(|r| r.latency).collect(),
        pool_faults: sum(|r| r.pool_faults),
        backing_faults: sum(|r| r.backing_faults),
        buffer_hits: sum(|r| r.buffer_hits),
        coverage: coverage(relaunches(app)),
        accuracy: mean(relaunches(app).filter_map(Relaunch::accuracy)),
        data_ratio: run
            .volumes
            .get(index)
            .and_then(|volume| volume.data_ratio()),
        cpu: app.cpu,
        kills: app.kills,
    }
}

fn scheme_row(runs: &[Run], scheme: &str) -> SchemeRow {
    let results = || {
        let own = runs.iter().filter(|run| run.result.scheme == scheme);
        own.map(|run| &run.result)
    };
    let relaunches = || results().flat_map(|result| result.apps.iter().flat_map(relaunches));
    let sum = |count: fn(&ReplayResult) -> u64| -> u64 { results().map(count).sum() };
    let prefetched = sum(|r| r.counters.prefetched);
    SchemeRow {
        scheme: scheme.to_owned(),
        memory: SchemeMemory::of(runs, scheme),
        relaunches: relaunches().count() as u64,
        latency: Figures::of(relaunches()),
        cold_starts: relaunches().filter(|r| r.was_killed).count() as u64,
        cold_start_latency: Figures::of(relaunches().filter(|r| r.was_killed)),
        warm_latency: Figures::of(relaunches().filter(|r| !r.was_killed)),
        cpu: CpuTime {
            fault_decompress_ns: sum(|r| r.totals.cpu.fault_decompress_ns),
            prefetch_decompress_ns: sum(|r| r.totals.cpu.prefetch_decompress_ns),
            direct_compress_ns: sum(|r| r.totals.cpu.direct_compress_ns),
            background_compress_ns: sum(|r| r.totals.cpu.background_compress_ns),
            prefetch_compress_ns: sum(|r| r.totals.cpu.prefetch_compress_ns),
            estimate_ns: sum(|r| r.totals.cpu.estimate_ns),
        },
        data_ratio: share(
            sum(|r| r.totals.original_bytes),
            sum(|r| r.totals.compressed_bytes),
        ),
        memory_ratio: share(
            sum(|r| r.totals.pool_peak_original_bytes),
            sum(|r| r.totals.pool_peak_bytes),
        )
        .filter(|&ratio| ratio > 0.0),
        swap_out_pages: sum(|r| r.counters.stored + r.counters.stored_raw + r.counters.dropped),
        swap_in_pages: sum(|r| {
            let counters = &r.counters;
            counters.pool_faults
                + counters.backing_faults
                + counters.neighbours_loaded
                + counters.prefetched
        }),
        flash_read_bytes: sum(|r| r.totals.flash_read_bytes),
        flash_written_bytes: sum(|r| r.totals.flash_written_bytes),
        coverage: coverage(relaunches()),
        accuracy: mean(relaunches().filter_map(Relaunch::accuracy)),
        prefetched_pages: prefetched,
        prefetch_used: share(sum(|r| r.counters.buffer_hits), prefetched),
        prefetch_wasted: share(sum(|r| r.counters.prefetch_wasted), prefetched),
        kills: sum(|r| r.totals.kills),
        window_faults: relaunches().map(way::window_faults).sum(),
        faults: results().map(way::faults).sum(),
        ..SchemeRow::default()
    }
}

#[cfg(test)]
mod tests;
