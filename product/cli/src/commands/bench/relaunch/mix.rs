//! Mixes of programs, drawn at random.

use super::narrate;
use crate::exit::BadInput;
use crate::output::Output;
use anyhow::{Result, anyhow};
use clap::{Args, ValueEnum};
use warmswap_apps::{AppSpec, Set};
use warmswap_bench::relaunch::{Mix, MixResult, MixesReport};
use warmswap_bench::{RelaunchOptions, relaunch};
use warmswap_report::tables;
use warmswap_sys::undo::Undo;

/// Which programs are measured together.
#[derive(Clone, Debug, Args)]
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

    /// The mixes of these programs that are wanted, if any; quick ones have small programs only.
    pub fn draw(&self, from: &[AppSpec], is_quick: bool) -> Result<Option<Vec<Mix>>> {
        if self.mixes == Some(0) {
            return Err(BadInput("--mixes takes at least 1".to_owned()).into());
        }
        if self.mix.is_none() && self.mixes.is_none() {
            return Ok(None);
        }
        let first = self.mix.unwrap_or(1);
        let seeds = first..first.saturating_add(self.mixes.unwrap_or(1).into());
        let mixes = seeds.map(|seed| {
            let mut mix = Mix::draw(seed, from).ok_or_else(|| {
                let count = from.len();
                BadInput(format!(
                    "a mix needs four installed programs, and {count} are there; apps/install --set tuning brings more"
                ))
            })?;
            if is_quick {
                mix.programs.iter_mut().for_each(|program| program.is_small = true);
            }
            Ok(mix)
        });
        mixes.collect::<Result<_>>().map(Some)
    }
}

/// Measures mixes of the programs of `options`, one after the other, and shows them. One that cannot be measured does not
/// stop the others, but makes the command fail in the end.
pub fn run(mixes: Vec<Mix>, options: &RelaunchOptions, undo: &Undo, output: &Output) -> Result<()> {
    let count = mixes.len();
    let mut results: Vec<MixResult> = Vec::new();
    for mix in mixes {
        eprintln!("mix {}: {}; share {}", mix.seed, mix.names(), mix.share);
        let measured = relaunch(&mix.options(options, &options.apps), undo, &mut narrate);
        let failure = measured.as_ref().err().map(ToString::to_string);
        if let Some(failure) = &failure {
            eprintln!("mix {} could not be measured: {failure}", mix.seed);
        }
        results.push(MixResult {
            mix,
            report: measured.ok(),
            failure,
        });
    }
    let mut shown = match results.as_slice() {
        [
            MixResult {
                report: Some(report),
                ..
            },
        ] => tables::relaunch(report)?,
        _ => Vec::new(),
    };
    let failed = results
        .iter()
        .filter(|result| result.failure.is_some())
        .count();
    let report = MixesReport::new(&options.apps, results);
    shown.extend(tables::mixes(&report)?);
    output.emit("warmswap.bench.relaunch.mixes", report, &shown)?;
    if failed > 0 {
        return Err(anyhow!(
            "{failed} of {count} mixes could not be measured, see above"
        ));
    }
    Ok(())
}
