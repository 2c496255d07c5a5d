//! Mixes of programs, drawn at random.

use super::narrate;
use crate::exit::BadInput;
use crate::output::Output;
use anyhow::{Result, anyhow};
use clap::{Args, ValueEnum};
use std::ops::Range;
use warmswap_apps::{AppSpec, Set, Size};
use warmswap_bench::relaunch::{Mix, MixResult, MixesReport};
use warmswap_bench::{RelaunchOptions, relaunch};
use warmswap_report::tables;
use warmswap_sys::undo::Undo;

/// Which programs are measured together.
#[derive(Debug, Args)]
pub struct MixArgs {
    /// Draw four to six programs, the size of each and a share of memory (0.35 to 0.8) from this seed, among the
    /// installed ones
    #[arg(long, value_name = "SEED", conflicts_with_all = ["size", "share", "total_mib", "seed"])]
    mix: Option<u64>,
    /// The same with so many seeds, from that of --mix on, and a summary [default: 1; without --mix, from seed 1]
    #[arg(long, value_name = "N", conflicts_with_all = ["size", "share", "total_mib", "seed"])]
    mixes: Option<u32>,
    /// Only installed programs of this set
    #[arg(long, value_enum)]
    set: Option<SetArg>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SetArg {
    /// Programs by which policies and defaults may be chosen
    Tuning,
    /// Programs for final figures alone
    Judging,
}

/// Mixes to be measured.
#[derive(Debug)]
pub struct Mixes {
    seeds: Range<u64>,
    is_quick: bool,
}

impl MixArgs {
    /// Whether programs are chosen by any of these.
    pub fn is_given(&self) -> bool {
        self.mix.is_some() || self.mixes.is_some() || self.set.is_some()
    }

    /// Whether this program is in the set that is wanted.
    pub fn wants(&self, spec: &AppSpec) -> bool {
        self.set.is_none_or(|set| {
            spec.set
                == match set {
                    SetArg::Tuning => Set::Tuning,
                    SetArg::Judging => Set::Judging,
                }
        })
    }

    /// The mixes that are wanted, if any; quick ones have small programs only.
    pub fn drawn(&self, is_quick: bool) -> Result<Option<Mixes>> {
        if self.mixes == Some(0) {
            return Err(BadInput("--mixes takes at least 1".to_owned()).into());
        }
        if self.mix.is_none() && self.mixes.is_none() {
            return Ok(None);
        }
        let first = self.mix.unwrap_or(1);
        let seeds = first..first.saturating_add(self.mixes.unwrap_or(1).into());
        Ok(Some(Mixes { seeds, is_quick }))
    }
}

impl Mixes {
    /// Draws from the programs of `options`, measures one mix after the other, and shows them. One that cannot be
    /// measured does not stop the others, but makes the command fail in the end.
    pub fn run(self, options: &RelaunchOptions, undo: &Undo, output: &Output) -> Result<()> {
        let mut results: Vec<MixResult> = Vec::new();
        for seed in self.seeds {
            let mut mix = Mix::draw(seed, &options.apps).ok_or_else(|| {
                let names: Vec<_> = options.apps.iter().map(|app| app.name.as_str()).collect();
                BadInput(format!(
                    "a mix needs four installed programs; there are {}: {}; apps/install --set tuning brings more",
                    names.len(),
                    names.join(", ")
                ))
            })?;
            if self.is_quick {
                mix.programs
                    .iter_mut()
                    .for_each(|program| program.size = Size::Small);
            }
            eprintln!("mix {seed}: {}, share {}", mix.names(), mix.share);
            let done = relaunch(&mix.options(options, &options.apps), undo, &mut narrate);
            let (report, failure) = match done {
                Ok(report) => (Some(report), None),
                Err(error) => {
                    eprintln!("mix {seed} could not be measured: {error}");
                    (None, Some(error.to_string()))
                }
            };
            results.push(MixResult {
                mix,
                report,
                failure,
            });
        }
        let failed = results
            .iter()
            .filter(|result| result.failure.is_some())
            .count();
        let mut shown = Vec::new();
        if let [
            MixResult {
                report: Some(report),
                ..
            },
        ] = results.as_slice()
        {
            shown = tables::relaunch(report)?;
        }
        let report = MixesReport::new(&options.apps, results);
        shown.extend(tables::mixes(&report)?);
        let count = report.mixes.len();
        output.emit("warmswap.bench.relaunch.mixes", report, &shown)?;
        if failed > 0 {
            return Err(anyhow!(
                "{failed} of {count} mixes could not be measured, see above"
            ));
        }
        Ok(())
    }
}
