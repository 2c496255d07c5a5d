//! What changed between two results of one kind, and whether it is more than noise.

use schemars::JsonSchema;
use serde::Serialize;
use warmswap_columns::{Described, Quantity, Table};
use warmswap_page::quantile::Sorted;
use warmswap_study::statistics::{Change, Silent, Stratum, change};

use crate::conditions;
use crate::error::ResultError;
use crate::latencies::{Latencies, arm_name};
use crate::stored::Results;

/// What changed between two results.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Comparison {
    /// What they did not have alike, a sentence each: what changed may come of that alone.
    pub conditions: Vec<String>,
    /// Every arm over all applications, then by application.
    pub rows: Vec<Difference>,
}

/// One arm, before and after.
#[derive(Clone, Debug, Serialize, JsonSchema, Described)]
#[column(verdict = self.verdict, text, "more than noise")]
pub struct Difference {
    /// The arm or scheme.
    #[column(text, with = arm)]
    pub arm: String,
    /// The application; `None` for all together.
    #[column(text, "application", with = app)]
    pub app: Option<String>,
    /// The median before; of all applications those that the ratio is of.
    #[column("before")]
    pub before_ns: Option<f64>,
    /// The median after.
    #[column("after")]
    pub after_ns: Option<f64>,
    /// Geometric mean after by that before; of all applications their mean. `None` with too few relaunches to tell, or with
    /// one that took no time.
    #[column(ratio)]
    pub ratio: Option<f64>,
    /// The lower end of its bootstrapped 95 % interval.
    #[column(ratio, "from")]
    pub low: Option<f64>,
    /// The upper end.
    #[column(ratio, "to")]
    pub high: Option<f64>,
    /// How often chance alone differs as much, from 0 to 1, by a permutation test.
    #[column(percent, "by chance")]
    pub chance: Option<f64>,
    /// Whether that is more than noise: `yes`, `no`, `too few` relaunches, or `0 ns` where some took no time.
    pub verdict: &'static str,
}

fn arm(name: &str) -> String {
    arm_name(name)
}

fn app(name: &Option<String>) -> &str {
    name.as_deref().unwrap_or("all")
}

impl Difference {
    fn of(arm: &str, app: Option<&str>, strata: &[Stratum]) -> Self {
        let change = change(strata);
        let is_told = |of: &&Stratum| change.is_none() || of.silent().is_none();
        let median = |side: fn(&Stratum) -> &Vec<f64>| {
            let values = strata.iter().filter(is_told).flat_map(side).copied();
            Sorted::by(values, f64::total_cmp).median()
        };
        Self {
            arm: arm.to_owned(),
            app: app.map(str::to_owned),
            before_ns: median(|of| &of.before),
            after_ns: median(|of| &of.after),
            ratio: change.map(|of| of.ratio),
            low: change.map(|of| of.low),
            high: change.map(|of| of.high),
            chance: change.map(|of| of.chance),
            verdict: match change {
                None if strata.iter().any(|of| of.silent() == Some(Silent::NoTime)) => "0 ns",
                None => "too few",
                Some(of) if of.is_more_than_noise() => "yes",
                Some(_) => "no",
            },
        }
    }
}

impl Comparison {
    /// Compares two results: every arm that both have.
    ///
    /// # Errors
    /// [`ResultError::Unlike`], when they have no arm and application in common, or no single relaunches.
    pub fn of(before: &Results, after: &Results) -> Result<Self, ResultError> {
        Ok(Self {
            conditions: conditions::unlike(before, after),
            rows: differences(before, after)?,
        })
    }

    /// As a table.
    #[must_use]
    pub fn table(&self) -> Table {
        let table = Table::of("Relaunches before and after", &self.rows);
        let note = "Before, after: medians of all relaunches. Ratio: of geometric means; all applications weigh the same. \
                    Its 95 % interval is bootstrapped; a permutation test says how often chance alone differs as much.";
        let is_silent = |of: &Difference| of.app.is_some() && of.ratio.is_none();
        let left_out = self.rows.iter().any(is_silent).then_some(
            "Applications without a ratio are left out of all: too few relaunches, or some that took no time (0 ns).",
        );
        let lines = left_out
            .into_iter()
            .chain(self.conditions.iter().map(String::as_str));
        lines.fold(table.note(note), |table, line| table.note(line))
    }
}

/// A change in words: how large, within which bounds, and whether chance explains it.
pub(crate) fn in_words(change: &Change) -> String {
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

fn differences(before: &Results, after: &Results) -> Result<Vec<Difference>, ResultError> {
    let (before, after) = both(before, after)?;
    let mut found = Vec::new();
    for arm in before.arms.iter().filter(|arm| after.arms.contains(arm)) {
        let stratum = |app: &String| {
            Some(Stratum {
                before: before.of_app(app, arm)?,
                after: after.of_app(app, arm)?,
            })
        };
        let apps = before.apps.iter();
        let strata = apps.filter_map(|app| Some((app, stratum(app)?)));
        let (apps, strata): (Vec<_>, Vec<_>) = strata.unzip();
        found.push(Difference::of(arm, None, &strata));
        let each = apps.into_iter().zip(strata.chunks(1));
        found.extend(each.map(|(app, stratum)| Difference::of(arm, Some(app), stratum)));
    }
    if found.iter().all(|of| of.ratio.is_none()) {
        return Err(unlike(
            "they have no arm and application in common with enough relaunches",
        ));
    }
    Ok(found)
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
