//! What the charts show, taken out of the results.

use warmswap_bench::RelaunchReport;
use warmswap_columns::Quantity;
use warmswap_study::Published;
use warmswap_study::compare::{Comparison, SchemeRow};
use warmswap_study::statistics::{Change, Stratum, change};

use crate::arms;
use crate::chart::{
    Axis, BarRow, Bars, Curve, Curves, DotRow, Dots, Ink, StripGroup, StripRow, Strips,
};

/// Latencies by application and arm, from wherever they come.
pub(crate) struct Latencies {
    pub apps: Vec<String>,
    pub arms: Vec<String>,
    /// By application, then by arm, in nanoseconds.
    pub values: Vec<Vec<Vec<f64>>>,
}

impl Latencies {
    /// Of live relaunches: whole ones, the application's own work included.
    pub(crate) fn live(of: &RelaunchReport) -> Self {
        let arms = of.arms.iter();
        let values = of.apps.iter().map(|app| {
            let arms = arms.clone();
            arms.map(|arm| of.latencies(arm.arm, app)).collect()
        });
        Self {
            values: values.collect(),
            apps: of.apps.clone(),
            arms: arms.map(|arm| arm.arm.name().to_owned()).collect(),
        }
    }

    /// Of replays: the part that memory costs.
    pub(crate) fn replayed(of: &Comparison) -> Self {
        let schemes = of.schemes.iter().map(|row| row.scheme.clone());
        let arms: Vec<String> = schemes
            .filter(|scheme| !arms::is_reference(scheme))
            .collect();
        let mut apps: Vec<String> = Vec::new();
        for row in &of.apps {
            if !apps.contains(&row.app) {
                apps.push(row.app.clone());
            }
        }
        let values = apps.iter().map(|app| {
            let of_arm = |arm: &String| {
                let own = of
                    .apps
                    .iter()
                    .filter(|row| row.app == *app && row.scheme == *arm);
                let all = own.flat_map(|row| &row.latencies);
                all.map(|latency| latency.total_ns() as f64).collect()
            };
            arms.iter().map(of_arm).collect()
        });
        Self {
            values: values.collect(),
            apps,
            arms,
        }
    }

    /// Whether there is anything to draw.
    pub(crate) fn is_empty(&self) -> bool {
        self.values.iter().flatten().all(Vec::is_empty)
    }

    fn arm(&self, name: &str) -> Option<usize> {
        self.arms.iter().position(|arm| arm == name)
    }

    /// All latencies of an arm.
    pub(crate) fn of_arm(&self, arm: usize) -> Vec<f64> {
        let each = self.values.iter().filter_map(|by_arm| by_arm.get(arm));
        each.flatten().copied().collect()
    }

    /// All latencies of an arm by its name.
    pub(crate) fn named(&self, arm: &str) -> Option<Vec<f64>> {
        Some(self.of_arm(self.arm(arm)?)).filter(|values| !values.is_empty())
    }

    /// How an arm differs from another, and whether by more than noise; applications weigh the same.
    pub(crate) fn change(&self, before: &str, after: &str) -> Option<Change> {
        let (before, after) = (self.arm(before)?, self.arm(after)?);
        let strata = self.values.iter().map(|by_arm| Stratum {
            before: by_arm[before].clone(),
            after: by_arm[after].clone(),
        });
        change(&strata.collect::<Vec<_>>())
    }

    /// Every relaunch of every application in every arm.
    pub(crate) fn strips(&self) -> Strips {
        let groups = self
            .apps
            .iter()
            .zip(&self.values)
            .map(|(app, by_arm)| StripGroup {
                name: app.clone(),
                rows: self.rows(|arm| by_arm[arm].clone()),
            });
        let mut groups: Vec<StripGroup> = groups.collect();
        if groups.len() > 1 {
            let all = StripGroup {
                name: "all applications".to_owned(),
                rows: self.rows(|arm| self.of_arm(arm)),
            };
            groups.insert(0, all);
        }
        Strips {
            names: ["application", "arm"],
            groups,
        }
    }

    /// The first group of [`Latencies::strips`] alone.
    pub(crate) fn headline(&self) -> Strips {
        let mut strips = self.strips();
        strips.groups.truncate(1);
        strips
    }

    fn rows(&self, values: impl Fn(usize) -> Vec<f64>) -> Vec<StripRow> {
        let rows = self.arms.iter().enumerate().map(|(at, arm)| StripRow {
            label: arms::name(arm),
            ink: arms::ink(arm),
            values: values(at),
        });
        rows.filter(|row| !row.values.is_empty()).collect()
    }

    /// The part of all relaunches that is done by a time.
    pub(crate) fn cumulative(&self) -> Curves {
        let curves = self.arms.iter().enumerate().map(|(at, arm)| {
            let mut values: Vec<f64> = self.of_arm(at).into_iter().filter(|&v| v > 0.0).collect();
            values.sort_by(f64::total_cmp);
            let count = values.len() as f64;
            let mut points = Vec::new();
            for (rank, value) in values.into_iter().enumerate() {
                points.push((value, rank as f64 / count));
                points.push((value, (rank + 1) as f64 / count));
            }
            Curve {
                name: arms::name(arm),
                ink: arms::ink(arm),
                points,
            }
        });
        Curves {
            curves: curves.filter(|curve| !curve.points.is_empty()).collect(),
            x: Axis::log("relaunch takes at most", Quantity::Nanoseconds),
            y: Axis::linear("part of the relaunches", Quantity::Fraction),
            most: Some(1.0),
        }
    }

    /// What each arm adds to the mean relaunch with all memory.
    pub(crate) fn added(&self) -> Option<Bars> {
        let dram = self.arm("dram")?;
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let mut rows = Vec::new();
        for (app, by_arm) in self.apps.iter().zip(&self.values) {
            for (at, arm) in self.arms.iter().enumerate() {
                if at == dram || by_arm[at].is_empty() || by_arm[dram].is_empty() {
                    continue;
                }
                let base = mean(&by_arm[dram]);
                rows.push(BarRow {
                    group: app.clone(),
                    label: arms::name(arm),
                    values: vec![base, (mean(&by_arm[at]) - base).max(0.0)],
                });
            }
        }
        let parts = [
            ("with all memory", Ink::Series(6)),
            ("what too little memory adds", Ink::Series(1)),
        ];
        (!rows.is_empty()).then(|| Bars::of(Quantity::Nanoseconds, parts, rows))
    }
}

/// Of a replay's mean relaunch, what was measured and what modelled.
pub(crate) fn where_time_goes(of: &Comparison) -> Bars {
    let rows = compared(of).filter_map(|row| {
        let mean = row.latency?.mean;
        let values = [mean.measured_ns, mean.modelled_ns].map(|ns| ns as f64);
        Some(BarRow::of(arms::name(&row.scheme), values))
    });
    let parts = [
        ("codec and pool, measured", Ink::Series(0)),
        ("faults, frames and flash, modelled", Ink::Series(5)),
    ];
    Bars::of(Quantity::Nanoseconds, parts, rows)
}

/// The schemes that are no reference.
fn compared(of: &Comparison) -> impl Iterator<Item = &SchemeRow> {
    let rows = of.schemes.iter();
    rows.filter(|row| !arms::is_reference(&row.scheme))
}

/// CPU time of live arms by part.
pub(crate) fn live_cpu(of: &RelaunchReport) -> Bars {
    let rows = of.arms.iter().map(|arm| {
        let values = [
            arm.cpu.programs_ns.unwrap_or(0),
            arm.cpu.kernel_threads_ns,
            arm.cpu.limit_ns,
            arm.cpu.host_ns,
            arm.cpu.prepage_ns,
        ];
        BarRow::of(arms::name(arm.arm.name()), values.map(|ns| ns as f64))
    });
    let parts = [
        ("programs, with their faults", Ink::Series(6)),
        ("threads of the kernel", Ink::Series(1)),
        ("reclaim when the limit falls", Ink::Series(5)),
        ("warmswap", Ink::Series(0)),
        ("prefetch threads", Ink::Series(4)),
    ];
    Bars::of(Quantity::Nanoseconds, parts, rows)
}

/// CPU time of compression and decompression in replays, by what paid for it.
pub(crate) fn codec_cpu(of: &Comparison) -> Bars {
    let rows = compared(of).map(|row| {
        let values = [
            row.cpu.fault_decompress_ns,
            row.cpu.prefetch_decompress_ns,
            row.cpu.direct_compress_ns,
            row.cpu.background_compress_ns + row.cpu.prefetch_compress_ns,
            row.cpu.estimate_ns,
        ];
        BarRow::of(arms::name(&row.scheme), values.map(|ns| ns as f64))
    });
    let parts = [
        ("decompression that is waited for", Ink::Series(1)),
        ("ahead of use", Ink::Series(5)),
        ("compression that is waited for", Ink::Series(3)),
        ("in the background", Ink::Series(0)),
        ("estimates", Ink::Series(2)),
    ];
    Bars::of(Quantity::Nanoseconds, parts, rows)
}

/// Bytes of flash in replays; none where there are none.
pub(crate) fn flash(of: &Comparison) -> Option<Bars> {
    let rows = compared(of).map(|row| {
        let values = [row.flash_written_bytes, row.flash_read_bytes];
        BarRow::of(arms::name(&row.scheme), values.map(|bytes| bytes as f64))
    });
    let parts = [("written", Ink::Series(1)), ("read", Ink::Series(4))];
    let bars = Bars::of(bytes, parts, rows);
    let mut values = bars.rows.iter().flat_map(|row| &row.values);
    values.any(|&bytes| bytes > 0.0).then_some(bars)
}

/// Bytes, of a number with a fraction.
pub(crate) fn bytes(value: f64) -> Quantity {
    Quantity::Bytes(value.round() as u64)
}

/// Ours, in words; the paper's, in words; how ours is taken out of a row; the paper's value.
pub(crate) type Beside<'a, T> = (
    &'static str,
    &'static str,
    fn(&T) -> Option<f64>,
    &'a Published,
);

/// A row of marks for each application: two numbers, and the paper's.
pub(crate) fn by_app<'a, T: 'a>(
    rows: impl Iterator<Item = &'a T>,
    app: fn(&T) -> &String,
    kinds: [Beside<'_, T>; 2],
) -> Dots {
    let rows = rows.map(|row| {
        let ours = kinds.iter().map(|kind| kind.2(row));
        let papers = kinds.iter().map(|kind| Some(kind.3.value));
        DotRow {
            label: app(row).clone(),
            values: ours.chain(papers).collect(),
        }
    });
    let inks = || kinds.iter().zip([Ink::Series(0), Ink::Series(1)]);
    let ours = inks().map(|(kind, ink)| (kind.0, ink, false));
    let papers = inks().map(|(kind, ink)| (kind.1, ink, true));
    Dots {
        rows: rows.collect(),
        kinds: ours.chain(papers).collect(),
        unit: Quantity::Fraction,
        is_log: false,
        most: Some(1.0),
    }
}
