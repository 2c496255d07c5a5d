//! What changed between two results of one kind, and whether it is more than noise.

use schemars::JsonSchema;
use serde::Serialize;
use warmswap_columns::{Described, Quantity, Table};
use warmswap_page::quantile::Sorted;
use warmswap_study::statistics::{Change, Stratum, change};

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
    /// The median before.
    #[column("before")]
    pub before_ns: Option<f64>,
    /// The median after.
    #[column("after")]
    pub after_ns: Option<f64>,
    /// Geometric mean after by that before; of all applications their mean. `None` with too few relaunches to tell.
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
    /// Whether that is more than noise: `yes`, `no` or `too few`.
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
        let median = |side: fn(&Stratum) -> &Vec<f64>| {
            let values = strata.iter().flat_map(side).copied();
            Sorted::by(values, f64::total_cmp).median()
        };
        let change = change(strata);
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
            conditions: conditions(before, after),
            rows: differences(before, after)?,
        })
    }

    /// As a table.
    #[must_use]
    pub fn table(&self) -> Table {
        let table = Table::of("Relaunches before and after", &self.rows);
        let note = "Before, after: medians of all relaunches. Ratio: of geometric means; all applications weigh the same. \
                    Its 95 % interval is bootstrapped; a permutation test says how often chance alone differs as much.";
        let conditions = self.conditions.iter();
        conditions.fold(table.note(note), |table, line| table.note(line))
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

fn conditions(before: &Results, after: &Results) -> Vec<String> {
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
