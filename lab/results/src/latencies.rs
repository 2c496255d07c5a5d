//! Relaunch latencies by application and arm, taken out of the results.

use warmswap_bench::RelaunchReport;
use warmswap_study::compare::{Comparison, OPTIMAL, OPTIMAL_WINDOWS, REFERENCE};
use warmswap_study::statistics::{Change, Stratum, change};

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

    /// Of replays: the part that memory costs. Clairvoyant references are left out.
    pub(crate) fn replayed(of: &Comparison) -> Self {
        let is_reference = |arm: &str| [REFERENCE, OPTIMAL, OPTIMAL_WINDOWS].contains(&arm);
        let schemes = of.schemes.iter().map(|row| row.scheme.clone());
        let arms: Vec<String> = schemes.filter(|scheme| !is_reference(scheme)).collect();
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

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.values.iter().flatten().all(Vec::is_empty)
    }

    /// All latencies of an arm.
    pub(crate) fn of_arm(&self, arm: &str) -> Vec<f64> {
        let at = self.arms.iter().position(|of| of == arm);
        let each = self.values.iter().filter_map(|by_arm| by_arm.get(at?));
        each.flatten().copied().collect()
    }

    /// Latencies of an arm in an application.
    pub(crate) fn of_app(&self, app: &str, arm: &str) -> Option<Vec<f64>> {
        let app = self.apps.iter().position(|of| of == app)?;
        let arm = self.arms.iter().position(|of| of == arm)?;
        Some(self.values[app][arm].clone())
    }

    /// How an arm differs from another, and whether by more than noise; applications weigh the same.
    pub(crate) fn change(&self, before: &str, after: &str) -> Option<Change> {
        let stratum = |app: &String| {
            Some(Stratum {
                before: self.of_app(app, before)?,
                after: self.of_app(app, after)?,
            })
        };
        change(&self.apps.iter().filter_map(stratum).collect::<Vec<_>>())
    }
}

/// The name of an arm or a scheme for people.
pub(crate) fn arm_name(arm: &str) -> String {
    match arm {
        "dram" => "all memory (dram)".to_owned(),
        "kernel" => "zram, steered by warmswap".to_owned(),
        "preload" => "warmswap, preloaded".to_owned(),
        other => other.to_owned(),
    }
}
