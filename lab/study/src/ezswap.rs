//! What the parts of ezswap bring, alone and together (ezswap Figures 8 to 11 and Table 3).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmswap_page::PAGE_BYTES;
use warmswap_policy::SchemeSpec;
use warmswap_policy::eviction::Chosen;

use crate::error::StudyError;
use crate::mean::{mean, share};
use crate::options::{Amount, Options};
use crate::run::{OnProgress, Progress, Run, replay_all};
use crate::subject::Subject;
use warmswap_columns::Described;

/// The configurations of Figure 8, in its order.
pub const SCHEMES: [&str; 7] = [
    "swap",
    "ezswap-zswap",
    "ezswap-apa",
    "ezswap-apa-ca",
    "ezswap-apa-sa",
    "ezswap-ca-sa",
    "ezswap",
];

/// The configurations of Figure 9.
pub const PRESSURE_SCHEMES: [&str; 4] = ["swap", "ezswap-zswap", "ezswap-apa", "ezswap"];

/// Budgets in place of Figure 9's numbers of applications, in percent of the footprint.
pub const BUDGETS_PERCENT: [u32; 4] = [80, 65, 50, 35];

/// What the paper has of one configuration; parts of what it has with swap (Figure 8, as far as the text
/// of section IV-B tells it), and pages in a megabyte of the pool (Table 3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paper {
    /// The configuration.
    pub scheme: &'static str,
    /// Launch time.
    pub time: Option<f64>,
    /// Pages read.
    pub read: Option<f64>,
    /// Pages written.
    pub written: Option<f64>,
    /// Pages in a megabyte.
    pub density: Option<f64>,
}

/// Section IV-B and Table 3.
pub const PAPER: [Paper; 6] = [
    Paper {
        scheme: "ezswap-zswap",
        time: Some(1.06),
        read: Some(1.31),
        written: Some(0.34),
        density: Some(684.0),
    },
    Paper {
        scheme: "ezswap-apa",
        time: None,
        read: Some(0.69),
        written: Some(0.40),
        density: Some(397.0),
    },
    Paper {
        scheme: "ezswap-apa-ca",
        time: None,
        read: None,
        written: None,
        density: Some(504.0),
    },
    Paper {
        scheme: "ezswap-apa-sa",
        time: None,
        read: None,
        written: None,
        density: Some(469.0),
    },
    Paper {
        scheme: "ezswap-ca-sa",
        time: None,
        read: None,
        written: None,
        density: Some(698.0),
    },
    Paper {
        scheme: "ezswap",
        time: None,
        read: None,
        written: None,
        density: Some(534.0),
    },
];

/// One configuration on one trace under one budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Described)]
pub struct EzswapRow {
    /// The trace.
    pub trace: String,
    /// The scheme.
    #[column]
    pub scheme: String,
    /// Memory for frames and pool, in percent of the footprint.
    pub budget_percent: u32,
    /// Time that memory cost in a relaunch's window, in the mean, in ns; `None` without relaunches.
    pub relaunch_ns: Option<f64>,
    /// Bytes read from flash.
    pub read_bytes: u64,
    /// Bytes written to flash.
    pub written_bytes: u64,
    /// Pages that were compressed.
    #[column]
    pub compressed_pages: u64,
    /// CPU time of compression, in ns.
    #[column("compression", measured)]
    pub compress_ns: u64,
    /// Estimates that were made; each takes the time that [`entropy_study`](crate::entropy_study) finds.
    #[column]
    pub estimates: u64,
    /// Anonymous pages that left their frames.
    #[column("anonymous out")]
    pub anon_out_pages: u64,
    /// Clean and dirty pages of files that did.
    #[column("of files out")]
    pub file_out_pages: u64,
    /// Pages that found their way back in the pool, of all that came back.
    pub pool_hit_rate: Option<f64>,
    /// Pages in a MiB of the pool, in the mean over the times that an application went to the background.
    pub density: Option<f64>,
    /// Pages of the pool that were evicted, by what they held.
    #[schemars(with = "[u64; 9]")]
    pub evicted: Chosen,
    /// Applications that were killed.
    #[column]
    pub kills: u64,
    /// Whether pages of files left memory before each relaunch of the recording, so that the accesses to them are in it.
    #[serde(default)]
    pub cold_files: bool,
}

impl EzswapRow {
    fn of(run: &Run, budget_percent: u32) -> Self {
        let (result, totals) = (&run.result, &run.result.totals);
        let counters = &result.counters;
        let came_in = counters.pool_faults + counters.backing_faults + counters.file_reads;
        let pages_per_mib = |(pages, bytes): (u64, u64)| share(pages << 20, bytes);
        Self {
            trace: run.trace.clone(),
            scheme: result.scheme.clone(),
            budget_percent,
            relaunch_ns: mean(result.relaunches().map(|r| r.latency.total_ns() as f64)),
            read_bytes: totals.flash_read_bytes,
            written_bytes: totals.flash_written_bytes,
            compressed_pages: totals.original_bytes / PAGE_BYTES as u64,
            compress_ns: totals.cpu.compress_ns(),
            estimates: counters.sampled_chunks,
            anon_out_pages: counters.stored - counters.stored_files
                + counters.stored_raw
                + counters.dropped,
            file_out_pages: counters.stored_files + counters.discarded,
            pool_hit_rate: share(counters.pool_faults, came_in),
            density: pages_per_mib((totals.background_pool_pages, totals.background_pool_bytes)),
            evicted: totals.evicted_pool_pages,
            kills: totals.kills,
            cold_files: run.cold_files,
        }
    }
}

/// The configurations, and some of them under more or less pressure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EzswapStudy {
    /// The pool's limit, in percent of the budget.
    pub pool_percent: f64,
    /// Trace by trace, in the order of [`SCHEMES`] (Figures 8, 10 and 11, Table 3).
    pub rows: Vec<EzswapRow>,
    /// Trace by trace, budget by budget, in the order of [`PRESSURE_SCHEMES`] (Figure 9).
    pub pressure: Vec<EzswapRow>,
}

/// Replays the traces, pages of files included, under the configurations. The paper's pool has 10 % of the
/// memory that is left to applications (section IV-A).
///
/// # Errors
/// The first replay that stops.
pub fn ezswap(
    subjects: &[Subject],
    budget_percent: u32,
    pool_percent: f64,
    on_progress: OnProgress<'_>,
) -> Result<EzswapStudy, StudyError> {
    let parts = 1 + BUDGETS_PERCENT.len() as u64;
    let replay = |part: u64, names: &[&str], percent: u32| -> Result<Vec<EzswapRow>, StudyError> {
        let options = Options {
            budget: Amount::Percent(percent.into()),
            pool_limit: Amount::Percent(pool_percent),
            file_pages: true,
            ..Options::default()
        };
        let schemes: Result<Vec<SchemeSpec>, _> =
            names.iter().map(|name| SchemeSpec::named(name)).collect();
        let on_part = |progress: Progress| {
            on_progress(Progress {
                done: part * progress.total + progress.done,
                total: parts * progress.total,
            });
        };
        let runs = replay_all(subjects, &schemes?, &options, &on_part)?;
        Ok(runs.iter().map(|run| EzswapRow::of(run, percent)).collect())
    };
    let rows = replay(0, &SCHEMES, budget_percent)?;
    let mut pressure = Vec::new();
    for (part, percent) in (1..).zip(BUDGETS_PERCENT) {
        pressure.extend(replay(part, &PRESSURE_SCHEMES, percent)?);
    }
    pressure.sort_by(|a, b| a.trace.cmp(&b.trace));
    Ok(EzswapStudy {
        pool_percent,
        rows,
        pressure,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::synthetic;

    #[test]
    fn every_configuration_has_its_row_and_counts_what_it_does() {
        let study = ezswap(&[synthetic(2000)], 50, 10.0, &|_| {}).unwrap();
        let names: Vec<_> = study.rows.iter().map(|row| row.scheme.as_str()).collect();
        assert_eq!(names, SCHEMES);
        let row = |name| study.rows.iter().find(|row| row.scheme == name).unwrap();
        assert_eq!(
            (row("swap").compressed_pages, row("ezswap-apa").estimates),
            (0, 0)
        );
        assert!(row("ezswap").estimates > 0);
        let evicted: u64 = row("ezswap-zswap").evicted.0.iter().sum();
        assert!(
            evicted > 0,
            "a tenth of the memory does not hold what leaves"
        );
        assert!(row("ezswap-zswap").written_bytes < row("swap").written_bytes);
        assert!(row("ezswap-zswap").density.unwrap() > 256.0);
        assert_eq!(
            study.pressure.len(),
            BUDGETS_PERCENT.len() * PRESSURE_SCHEMES.len()
        );
    }
}
