//! Mixes: programs, their sizes and a share of memory, drawn at random from a seed.
//!
//! Figures of a few programs that somebody chose say little about others. A mix is four to six of the programs that
//! are installed, each small or normal, with 0.35 to 0.8 of the memory that they take; so memory of files and
//! anonymous memory come in all proportions. The seed alone decides, given the same installed programs.

use std::fmt;
use std::ops::RangeInclusive;

use serde::Serialize;
use warmswap_apps::{AppSpec, Size};

use super::options::{Arm, RelaunchOptions, Total};
use super::order::request_seed;
use super::result::RelaunchReport;

/// Programs of a mix.
const PROGRAMS: RangeInclusive<usize> = 4..=6;
/// Share of memory, in per cent.
const SHARE_PERCENT: RangeInclusive<usize> = 35..=80;

/// What a seed draws.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Mix {
    /// The seed, which also decides orders and requests.
    pub seed: u64,
    /// The programs, in the order in which they are started.
    pub programs: Vec<MixProgram>,
    /// Memory of the limited arms as a share of what the programs take.
    pub share: f64,
}

/// A program of a mix.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MixProgram {
    /// Its name.
    pub name: String,
    /// Whether it is of the small size; else of the normal one.
    pub is_small: bool,
}

impl MixProgram {
    /// Its footprint.
    #[must_use]
    pub fn size(&self) -> Size {
        if self.is_small {
            Size::Small
        } else {
            Size::Normal
        }
    }
}

impl fmt::Display for MixProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = if self.is_small { " (small)" } else { "" };
        write!(f, "{}{size}", self.name)
    }
}

/// One mix and what was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MixResult {
    /// What was drawn.
    pub mix: Mix,
    /// What was measured, if it could be.
    pub report: Option<RelaunchReport>,
    /// Why it could not.
    pub failure: Option<String>,
}

/// An arm over all mixes in which it, plain zram and memory without a limit were measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MixSum {
    /// Which.
    pub arm: Arm,
    /// Mixes.
    pub mixes: usize,
    /// What it adds to the mean latency without a limit, summed over the mixes, beside what plain zram adds; none where
    /// that adds nothing.
    pub added: Option<f64>,
    /// Mean latency beside plain zram: geometric mean of the mixes.
    pub latency: f64,
    /// The same in the worst mix.
    pub worst_latency: f64,
    /// CPU time beside plain zram: geometric mean of the mixes.
    pub cpu: f64,
    /// The same in the worst mix.
    pub worst_cpu: f64,
}

/// All mixes of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MixesReport {
    /// Names of the programs from which they were drawn.
    pub drawn_from: Vec<String>,
    /// The mixes, in the order in which they were measured.
    pub mixes: Vec<MixResult>,
    /// Over all of them, by arm; without those that cannot be compared.
    pub sums: Vec<MixSum>,
}

impl Mix {
    /// Draws from programs, which have an order of their own (by name); `None` when there are fewer than four.
    #[must_use]
    pub fn draw(seed: u64, from: &[AppSpec]) -> Option<Self> {
        if from.len() < *PROGRAMS.start() {
            return None;
        }
        let mut drawn = 0;
        let mut below = |limit: usize| {
            drawn += 1;
            request_seed(seed, 0, drawn, 0) as usize % limit
        };
        let between = |range: RangeInclusive<usize>, draw: &mut dyn FnMut(usize) -> usize| {
            range.start() + draw(range.end() - range.start() + 1)
        };
        let count = between(PROGRAMS, &mut below).min(from.len());
        let share = between(SHARE_PERCENT, &mut below) as f64 / 100.0;
        let mut rest: Vec<&AppSpec> = from.iter().collect();
        let mut programs = Vec::new();
        while programs.len() < count {
            let spec = rest.remove(below(rest.len()));
            programs.push(MixProgram {
                name: spec.name.clone(),
                is_small: below(2) == 0,
            });
        }
        Some(Self {
            seed,
            programs,
            share,
        })
    }

    /// The programs, with a comma between them.
    #[must_use]
    pub fn names(&self) -> String {
        let names: Vec<_> = self.programs.iter().map(ToString::to_string).collect();
        names.join(", ")
    }

    /// `options` with this mix in place of its programs, sizes, memory and seed. `from` is what it was drawn from.
    #[must_use]
    pub fn options(&self, options: &RelaunchOptions, from: &[AppSpec]) -> RelaunchOptions {
        let apps = self.programs.iter().filter_map(|program| {
            let spec = from.iter().find(|spec| spec.name == program.name)?;
            Some(spec.with_only(program.size()))
        });
        RelaunchOptions {
            apps: apps.collect(),
            total: Total::Share(self.share),
            seed: self.seed,
            ..options.clone()
        }
    }
}

impl MixesReport {
    /// Of these results.
    #[must_use]
    pub fn new(drawn_from: &[AppSpec], mixes: Vec<MixResult>) -> Self {
        let sums = [
            Arm::Zram,
            Arm::Kernel,
            Arm::Preload,
            Arm::Swap,
            Arm::Zswap,
            Arm::Asap,
            Arm::AriadneEhl,
            Arm::AriadneAl,
            Arm::Ezswap,
        ];
        Self {
            drawn_from: drawn_from.iter().map(|spec| spec.name.clone()).collect(),
            sums: sums.iter().filter_map(|&arm| sum(arm, &mixes)).collect(),
            mixes,
        }
    }
}

/// What an arm comes to beside plain zram and memory without a limit.
fn sum(arm: Arm, mixes: &[MixResult]) -> Option<MixSum> {
    let reports = mixes.iter().filter_map(|mix| mix.report.as_ref());
    let compared = reports.filter_map(|report| {
        let (dram, zram) = (report.arm(Arm::Dram)?, report.arm(Arm::Zram)?);
        Some((dram, zram, report.arm(arm)?))
    });
    let compared: Vec<_> = compared.collect();
    if compared.is_empty() {
        return None;
    }
    let (mut added, mut zram_added) = (0.0, 0.0);
    let (mut latencies, mut cpus) = (Vec::new(), Vec::new());
    for (dram, zram, result) in &compared {
        added += result.latency.mean - dram.latency.mean;
        zram_added += zram.latency.mean - dram.latency.mean;
        latencies.push(result.latency.mean / zram.latency.mean);
        cpus.push(result.cpu.total_ns() as f64 / zram.cpu.total_ns() as f64);
    }
    let worst = |ratios: &[f64]| ratios.iter().copied().fold(f64::MIN, f64::max);
    Some(MixSum {
        arm,
        mixes: compared.len(),
        added: (zram_added > 0.0).then(|| added / zram_added),
        latency: geometric_mean(&latencies),
        worst_latency: worst(&latencies),
        cpu: geometric_mean(&cpus),
        worst_cpu: worst(&cpus),
    })
}

fn geometric_mean(ratios: &[f64]) -> f64 {
    let sum: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    (sum / ratios.len() as f64).exp()
}

#[cfg(test)]
mod tests;
