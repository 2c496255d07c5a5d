//! What changed between two results of one kind, and whether it is more than noise.

use warmswap_columns::Quantity;
use warmswap_study::statistics::{Change, Stratum, change};

use crate::arms;
use crate::chart::{Ink, StripGroup, StripRow, Strips};
use crate::error::ResultError;
use crate::series::Latencies;
use crate::stored::Results;

/// One arm, before and after.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The arm or scheme.
    pub arm: String,
    /// The application; `None` for all together.
    pub app: Option<String>,
    /// What changed; `None` with too few relaunches to tell.
    pub change: Option<Change>,
}

impl Difference {
    /// In words.
    #[must_use]
    pub fn sentence(&self) -> String {
        let who = match &self.app {
            Some(app) => format!("{}, {app}", arms::name(&self.arm)),
            None => arms::name(&self.arm),
        };
        let Some(change) = self.change else {
            return format!("{who}: too few relaunches to tell.");
        };
        format!("{who}: {}.", in_words(&change))
    }
}

/// A change in words: how large, within which bounds, and whether chance explains it.
#[must_use]
pub fn in_words(change: &Change) -> String {
    let size = if change.ratio < 1.0 {
        format!("{} shorter", Quantity::Fraction(1.0 - change.ratio).human())
    } else {
        format!("{} longer", Quantity::Fraction(change.ratio - 1.0).human())
    };
    let between = format!(
        "95 % interval {} to {}",
        Quantity::Ratio(change.low).human(),
        Quantity::Ratio(change.high).human()
    );
    let chance = if change.chance < 0.001 {
        "less than 0.1 %".to_owned()
    } else {
        Quantity::Fraction(change.chance).human()
    };
    if change.is_more_than_noise() {
        format!(
            "{size} ({between}); chance alone differs as much in {chance} of cases: more than noise"
        )
    } else {
        format!(
            "{size} ({between}); chance alone differs as much in {chance} of cases: no more than noise"
        )
    }
}

/// Compares two results: every arm that both have, over all applications and by application.
///
/// # Errors
/// [`ResultError::Unlike`], when they have no arm and application in common, or no single relaunches.
pub fn differences(before: &Results, after: &Results) -> Result<Vec<Difference>, ResultError> {
    let (before, after) = both(before, after)?;
    let mut found = Vec::new();
    for arm in before.arms.iter().filter(|arm| after.arms.contains(arm)) {
        let strata = strata(&before, &after, arm);
        let each: Vec<Stratum> = strata.iter().map(|(_, stratum)| stratum.clone()).collect();
        found.push(Difference {
            arm: arm.clone(),
            app: None,
            change: change(&each),
        });
        for (app, stratum) in strata {
            found.push(Difference {
                arm: arm.clone(),
                app: Some(app),
                change: change(&[stratum]),
            });
        }
    }
    if found.iter().all(|of| of.change.is_none()) {
        return Err(unlike(
            "they have no arm and application in common with enough relaunches",
        ));
    }
    Ok(found)
}

/// What the two results did not have alike, a line each: what changed may come of that alone.
#[must_use]
pub fn conditions(before: &Results, after: &Results) -> Vec<String> {
    let (before, after) = (had(before), had(after));
    let differs = |(what, value): &(String, String)| {
        let other = after.iter().find(|other| other.0 == *what);
        let other = other.map_or("none", |other| other.1.as_str());
        (other != value).then(|| format!("Not alike: {what}: {value} before, {other} after."))
    };
    before.iter().filter_map(differs).collect()
}

/// Under which conditions the relaunches of a result were measured or replayed, with what they were.
fn had(results: &Results) -> Vec<(String, String)> {
    let bytes = |value: u64| Quantity::Bytes(value).human();
    let one = |what: &str, value: String| (what.to_owned(), value);
    let mut had = Vec::new();
    if let Some(of) = results.relaunch.first() {
        had.extend([
            one(
                "memory",
                of.total_bytes.map_or("no limit".to_owned(), bytes),
            ),
            one("programs", of.apps.join(", ")),
            one("relaunches", format!("{}", of.blocks * of.relaunches)),
            one("zram's algorithm", of.algorithm.clone()),
        ]);
    } else if let Some(of) = results.compare.first() {
        for trace in &of.traces {
            let share = trace.sample_share;
            let share = share.map_or("all of it".to_owned(), |s| Quantity::Fraction(s).human());
            had.extend([
                (
                    format!("budget of {}", trace.trace),
                    bytes(trace.budget_bytes),
                ),
                (format!("part of the recording {}", trace.trace), share),
            ]);
        }
        had.push(one("flash", of.device.clone()));
    }
    if let Some(source) = results.sources.first() {
        let of = &source.machine;
        had.push(one(
            "machine",
            format!(
                "{}, {} processors, {}",
                of.cpu,
                of.cores,
                bytes(of.memory_bytes)
            ),
        ));
    }
    had
}

/// Both distributions of every arm that both have.
pub(crate) fn strips(before: &Results, after: &Results) -> Result<Strips, ResultError> {
    let (before, after) = both(before, after)?;
    let arms = before.arms.iter().filter(|arm| after.arms.contains(arm));
    let groups = arms.map(|arm| {
        let row = |label: &str, of: &Latencies, ink| StripRow {
            label: label.to_owned(),
            ink,
            values: of.named(arm).unwrap_or_default(),
        };
        StripGroup {
            name: arms::name(arm),
            rows: vec![
                row("before", &before, Ink::Series(6)),
                row("after", &after, arms::ink(arm)),
            ],
        }
    });
    Ok(Strips {
        names: ["arm", "result"],
        groups: groups.collect(),
    })
}

fn strata(before: &Latencies, after: &Latencies, arm: &str) -> Vec<(String, Stratum)> {
    let of = |latencies: &Latencies, app: &str| {
        let app = latencies.apps.iter().position(|found| found == app)?;
        let arm = latencies.arms.iter().position(|found| found == arm)?;
        Some(latencies.values[app][arm].clone())
    };
    let stratum = |app: &String| {
        let (before, after) = (of(before, app)?, of(after, app)?);
        Some((app.clone(), Stratum { before, after }))
    };
    before.apps.iter().filter_map(stratum).collect()
}

fn both(before: &Results, after: &Results) -> Result<(Latencies, Latencies), ResultError> {
    let of = |results: &Results| {
        let live = results
            .relaunch
            .first()
            .map(|of| (true, Latencies::live(of)));
        let replayed = || {
            results
                .compare
                .first()
                .map(|of| (false, Latencies::replayed(of)))
        };
        live.or_else(replayed)
            .filter(|(_, latencies)| !latencies.is_empty())
    };
    let needed = "each must be a result of `warmswap-lab bench relaunch --json` or of `warmswap-lab compare \
                  --json` with its single relaunches";
    let (Some((is_live, before)), Some((other, after))) = (of(before), of(after)) else {
        return Err(unlike(needed));
    };
    if is_live != other {
        return Err(unlike("one is live and the other is a replay"));
    }
    Ok((before, after))
}

fn unlike(reason: &str) -> ResultError {
    ResultError::Unlike {
        reason: reason.to_owned(),
    }
}
