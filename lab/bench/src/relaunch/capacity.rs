//! How many programs stay alive in a given memory, and how fast they come back as their number grows (Fleet, Figure 11).
//!
//! For each number of programs every arm runs as in [`relaunch`](fn@super::relaunch), in the same memory, which is limited
//! before the programs start, and with swap of the same size. An arm is not asked for more once one of its programs was
//! killed or did not answer in time, or once relaunches take [`TOO_SLOW`] times as long as with the fewest programs: that is
//! no use any more.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmswap_apps::AppSpec;
use warmswap_sys::undo::Undo;

use super::options::{Arm, RelaunchOptions, Step, Total};
use super::preload::Footprints;
use super::quantiles::Quantiles;
use super::relaunch;
use crate::BenchError;

/// Relaunches that take so many times as long at the median as with the fewest programs end an arm.
pub const TOO_SLOW: f64 = 20.0;

/// What is measured.
#[derive(Debug, Clone)]
pub struct CapacityOptions {
    /// Programs in turn, arms, and all else but their number.
    pub relaunch: RelaunchOptions,
    /// Memory of each arm, the compressed pool included, in bytes.
    pub total_bytes: u64,
    /// How many programs, ascending.
    pub counts: Vec<usize>,
    /// What takes longer to start or to answer is not alive, in seconds. The limits of a definition hold where they are
    /// shorter.
    pub patience_s: u32,
}

/// One arm with so many programs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapacityRow {
    /// Programs that were started.
    pub programs: usize,
    /// The arm.
    pub arm: Arm,
    /// Programs that were not killed in the course of it.
    pub alive: usize,
    /// Latency of relaunches, starts of killed programs among them, in nanoseconds.
    pub latency: Quantiles,
    /// CPU time of everything, in nanoseconds.
    pub cpu_ns: Option<u64>,
    /// Pages that left memory.
    pub out_pages: u64,
    /// Why it could not be measured.
    pub failure: Option<String>,
}

/// How many programs an arm keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CapacityMost {
    /// The arm.
    pub arm: Arm,
    /// The most programs that all stayed alive; 0 for none.
    pub programs: usize,
    /// Whether more were not tried.
    pub is_open: bool,
}

/// All rows of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapacityReport {
    /// The programs, in the order in which they are added; they begin again where there are more.
    pub apps: Vec<String>,
    /// Memory of each arm, in bytes.
    pub total_bytes: u64,
    /// Size of their swap, in bytes before compression.
    pub swap_bytes: u64,
    /// By number of programs, then by arm.
    pub rows: Vec<CapacityRow>,
    /// By arm.
    pub most: Vec<CapacityMost>,
}

/// Measures.
///
/// # Errors
/// [`BenchError`], when nothing can be measured at all; where one arm with so many programs cannot, its row says why.
pub fn capacity(
    options: &CapacityOptions,
    undo: &Undo,
    progress: &mut dyn FnMut(Option<usize>, Step<'_>),
) -> Result<CapacityReport, BenchError> {
    let base = &options.relaunch;
    if base.apps.is_empty() || base.arms.is_empty() || options.counts.is_empty() {
        return Err(BenchError::NothingToMeasure);
    }
    let footprints = if base.arms.iter().any(|arm| arm.is_preloaded()) {
        unlimited(base, undo, progress)?
    } else {
        None
    };
    let mut rows: Vec<CapacityRow> = Vec::new();
    for &programs in &options.counts {
        for &arm in &base.arms {
            if !holds(&rows, arm) {
                continue;
            }
            let run = RelaunchOptions {
                apps: several(&base.apps, programs, options.patience_s),
                arms: vec![arm],
                total: Total::Bytes(options.total_bytes),
                footprints: footprints.as_ref().map(|of| of.repeated(programs)),
                ..base.clone()
            };
            let measured = relaunch(&run, undo, &mut |step| progress(Some(programs), step));
            rows.push(row(programs, arm, measured)?);
        }
    }
    Ok(CapacityReport {
        apps: base.apps.iter().map(|app| app.name.clone()).collect(),
        total_bytes: options.total_bytes,
        swap_bytes: base.swap_bytes.unwrap_or_default(),
        most: base.arms.iter().map(|&arm| most(&rows, arm)).collect(),
        rows,
    })
}

/// What the programs take without a limit, each once: by that the arms with the library divide the memory.
fn unlimited(
    base: &RelaunchOptions,
    undo: &Undo,
    progress: &mut dyn FnMut(Option<usize>, Step<'_>),
) -> Result<Option<Footprints>, BenchError> {
    let run = RelaunchOptions {
        arms: vec![Arm::Dram],
        total: Total::Share(1.0),
        blocks: 1,
        relaunches: 1,
        warm_up: 0,
        is_limited_at_start: false,
        ..base.clone()
    };
    let report = relaunch(&run, undo, &mut |step| progress(None, step))?;
    Ok(report.footprints)
}

/// The first `count` of these, again and again, each with a name of its own, and none waited for longer than `patience_s`.
fn several(apps: &[AppSpec], count: usize, patience_s: u32) -> Vec<AppSpec> {
    let nth = |(at, app): (usize, &AppSpec)| {
        let mut app = app.clone();
        if let turn @ 1.. = at / apps.len() {
            app.name = format!("{}-{}", app.name, turn + 1);
        }
        app.start.ready_limit_s = app.start.ready_limit_s.min(patience_s);
        app.requests.limit_s = app.requests.limit_s.min(patience_s);
        app
    };
    apps.iter()
        .cycle()
        .take(count)
        .enumerate()
        .map(nth)
        .collect()
}

fn row(
    programs: usize,
    arm: Arm,
    measured: Result<super::RelaunchReport, BenchError>,
) -> Result<CapacityRow, BenchError> {
    let mut row = CapacityRow {
        programs,
        arm,
        alive: 0,
        latency: Quantiles::default(),
        cpu_ns: None,
        out_pages: 0,
        failure: None,
    };
    match measured {
        Ok(report) => {
            let was_killed = |app: &&String| {
                let mut of = report.values.iter().filter(|value| value.app == **app);
                of.any(|value| value.was_killed)
            };
            row.alive = programs - report.apps.iter().filter(was_killed).count();
            if let Some(result) = report.arm(arm) {
                row.latency = result.latency;
                row.cpu_ns = result.cpu.total_ns();
                row.out_pages = result.out_pages;
            }
        }
        // They did not even start, or did not answer; that is what is measured.
        Err(error @ (BenchError::KilledAtStart { .. } | BenchError::App(_))) => {
            row.failure = Some(error.to_string());
        }
        Err(error) => return Err(error),
    }
    Ok(row)
}

fn rows_of(rows: &[CapacityRow], arm: Arm) -> impl Iterator<Item = &CapacityRow> {
    rows.iter().filter(move |row| row.arm == arm)
}

/// Whether all programs of an arm lived and answered so far.
fn holds(rows: &[CapacityRow], arm: Arm) -> bool {
    let fewest = rows_of(rows, arm)
        .next()
        .map_or(f64::INFINITY, |row| row.latency.p50);
    rows_of(rows, arm).all(|row| {
        row.failure.is_none() && row.alive == row.programs && row.latency.p50 <= TOO_SLOW * fewest
    })
}

fn most(rows: &[CapacityRow], arm: Arm) -> CapacityMost {
    let is_open = holds(rows, arm);
    let held = rows_of(rows, arm).map(|row| row.programs);
    let programs = if is_open {
        held.last()
    } else {
        let count = rows_of(rows, arm).count();
        held.take(count.saturating_sub(1)).last()
    };
    CapacityMost {
        arm,
        programs: programs.unwrap_or(0),
        is_open,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn of(programs: usize, alive: usize, p50: f64) -> CapacityRow {
        CapacityRow {
            programs,
            arm: Arm::Zram,
            alive,
            latency: Quantiles {
                p50,
                ..Quantiles::default()
            },
            cpu_ns: None,
            out_pages: 0,
            failure: None,
        }
    }

    #[test]
    fn programs_come_again_under_other_names_and_are_waited_for_no_longer_than_asked() {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../apps"));
        let load = |name: &str| AppSpec::load(&folder.join(name)).unwrap();
        let mut apps = [load("sqlite.toml"), load("cpython.toml")];
        apps[0].start.ready_limit_s = 2;

        let all = several(&apps, 5, 7);

        let names: Vec<_> = all.iter().map(|app| app.name.as_str()).collect();
        assert_eq!(
            names,
            ["sqlite", "cpython", "sqlite-2", "cpython-2", "sqlite-3"]
        );
        for app in &all {
            let shorter = if app.name.starts_with("sqlite") { 2 } else { 7 };
            assert_eq!(app.start.ready_limit_s, shorter);
            assert!(app.requests.limit_s <= 7);
        }
        assert!(apps[1].start.ready_limit_s > 7, "of the definition");
    }

    #[test]
    fn an_arm_holds_until_one_is_killed_or_nobody_would_wait() {
        let rows = vec![of(4, 4, 10.0), of(6, 6, 150.0)];
        assert_eq!(
            most(&rows, Arm::Zram),
            CapacityMost {
                arm: Arm::Zram,
                programs: 6,
                is_open: true
            }
        );
        for last in [of(8, 7, 150.0), of(8, 8, 201.0)] {
            let rows = [rows.clone(), vec![last]].concat();
            let most = most(&rows, Arm::Zram);
            assert_eq!((most.programs, most.is_open), (6, false));
        }
        let never = CapacityRow {
            failure: Some("it was killed".to_owned()),
            ..of(4, 0, 0.0)
        };
        assert_eq!(most(&[never], Arm::Zram).programs, 0);
    }
}
