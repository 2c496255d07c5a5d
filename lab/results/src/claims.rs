//! Every result figure and table of the papers: what it says, what is measured here, and whether it holds.
//!
//! The table is declarative: one [`Claim`] for each number, in the order of its paper, with the command that makes ours
//! and the function that takes ours out of the stored results. What the hardware here cannot show is in it, too, with
//! the reason. Nothing of it is decided elsewhere.

use schemars::JsonSchema;
use serde::Serialize;
use warmswap_columns::Quantity;
use warmswap_study::launches::LaunchRow;

use crate::stored::Results;

mod ariadne;
mod asap;
mod ezswap;
mod fleet;
#[cfg(test)]
mod tests;

/// Makes live relaunches under the published schemes.
const LIVE_SCHEMES: &str =
    "warmswap-lab bench relaunch --arms dram,zram,zswap,ariadne-ehl,ariadne-al,ezswap";

/// One of the four papers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paper {
    /// Ariadne (HPCA '25).
    Ariadne,
    /// ezswap (IEEE Access '19).
    Ezswap,
    /// ASAP (USENIX ATC '21).
    Asap,
    /// Fleet (ASPLOS '24).
    Fleet,
}

impl Paper {
    /// All of them, the newest first.
    pub const ALL: [Self; 4] = [Self::Ariadne, Self::Fleet, Self::Asap, Self::Ezswap];

    /// Its name, and where it was published.
    #[must_use]
    pub fn name(self) -> (&'static str, &'static str) {
        match self {
            Self::Ariadne => ("Ariadne", "HPCA 2025"),
            Self::Ezswap => ("ezswap", "IEEE Access 2019"),
            Self::Asap => ("ASAP", "USENIX ATC 2021"),
            Self::Fleet => ("Fleet", "ASPLOS 2024"),
        }
    }

    /// Figures and tables that show the design or the set-up, and no result.
    #[must_use]
    pub fn without_results(self) -> &'static str {
        match self {
            Self::Ariadne => "Figures 1, 7, 8 and 9 and Tables 4 and 5",
            Self::Ezswap => "Figures 1, 2, 3 and 7 and Tables 1 and 2",
            Self::Asap => "Figures 4, 8 and 9 and Tables 1 to 3",
            Self::Fleet => "Figures 1, 8, 9 and 10 and Tables 1 to 3",
        }
    }

    /// Its claims, in the order of the paper.
    #[must_use]
    pub fn claims(self) -> Vec<Claim> {
        match self {
            Self::Ariadne => ariadne::claims(),
            Self::Ezswap => ezswap::claims(),
            Self::Asap => asap::claims(),
            Self::Fleet => fleet::claims(),
        }
    }
}

/// What kind of number it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// One amount over another.
    Ratio,
    /// A part of a whole.
    Share,
    /// A coefficient.
    Number,
    /// Bytes.
    Bytes,
}

impl Unit {
    /// The number with its unit.
    #[must_use]
    pub fn quantity(self, value: f64) -> Quantity {
        match self {
            Self::Ratio => Quantity::Ratio(value),
            Self::Share => Quantity::Fraction(value),
            Self::Number => Quantity::Number(value),
            Self::Bytes => Quantity::Bytes(value.round() as u64),
        }
    }
}

/// When a claim holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// Within this part of the paper's number; in part, within twice of it.
    Near(f64),
    /// At most the first; in part, at most the second.
    AtMost(f64, f64),
    /// At least the first; in part, at least the second.
    AtLeast(f64, f64),
    /// It cannot be measured here.
    Cannot,
}

/// What was measured here: a number, and its range over applications or traces where there are several.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ours {
    /// The mean.
    pub value: f64,
    /// The least and the most.
    pub range: Option<(f64, f64)>,
}

impl Ours {
    /// One number; `None` for what is not finite.
    pub(crate) fn one(value: f64) -> Option<Self> {
        value.is_finite().then_some(Self { value, range: None })
    }

    /// The mean of several, with their range; `None` of none.
    pub(crate) fn over(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values
            .into_iter()
            .filter(|value| value.is_finite())
            .collect();
        let least = values.iter().copied().reduce(f64::min)?;
        let most = values.iter().copied().reduce(f64::max)?;
        Some(Self {
            value: values.iter().sum::<f64>() / values.len() as f64,
            range: (values.len() > 1).then_some((least, most)),
        })
    }

    /// The least of several, which is to be looked at in place of the mean.
    pub(crate) fn least(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let over = Self::over(values)?;
        let value = over.range.map_or(over.value, |range| range.0);
        Some(Self { value, ..over })
    }

    /// The most of several.
    pub(crate) fn most(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let over = Self::over(values)?;
        let value = over.range.map_or(over.value, |range| range.1);
        Some(Self { value, ..over })
    }
}

/// One number of a paper.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// Figure or table.
    pub figure: &'static str,
    /// Where the text tells of it.
    pub section: &'static str,
    /// What the paper says.
    pub says: &'static str,
    /// Its number, if it gives one.
    pub paper: Option<f64>,
    /// What kind of number that is.
    pub unit: Unit,
    /// The command that makes ours.
    pub command: &'static str,
    /// Takes ours out of the results; `None` when they do not have it.
    pub ours: fn(&Results) -> Option<Ours>,
    /// When it holds.
    pub rule: Rule,
    /// Why it does not hold, if it does not; or why it cannot be measured.
    pub reason: &'static str,
    /// Why the results say nothing about it, though they have a number; `None` where they do.
    pub vacuous: fn(&Results) -> Option<&'static str>,
    /// Why only a number that bears it out says something: the recording lacks what the claim is about. `None` where the
    /// recording has it.
    pub lacks: fn(&Results) -> Option<&'static str>,
}

/// The claim of a figure or table in a section, for which `command` makes ours. It cannot be measured until `ours` and
/// `rule` say otherwise.
fn claim((figure, section): (&'static str, &'static str), command: &'static str) -> Claim {
    Claim {
        figure,
        section,
        says: "",
        paper: None,
        unit: Unit::Ratio,
        command,
        ours: |_| None,
        rule: Rule::Cannot,
        reason: "",
        vacuous: |_| None,
        lacks: |_| None,
    }
}

/// A claim that this hardware cannot show, for a reason.
fn cannot(place: (&'static str, &'static str)) -> Claim {
    claim(place, "")
}

/// Each sets the field of its name.
impl Claim {
    fn says(self, says: &'static str) -> Self {
        Self { says, ..self }
    }

    fn paper(self, paper: Option<f64>, unit: Unit) -> Self {
        Self {
            paper,
            unit,
            ..self
        }
    }

    fn ours(self, ours: fn(&Results) -> Option<Ours>) -> Self {
        Self { ours, ..self }
    }

    fn rule(self, rule: Rule) -> Self {
        Self { rule, ..self }
    }

    fn reason(self, reason: &'static str) -> Self {
        Self { reason, ..self }
    }

    fn vacuous(self, vacuous: fn(&Results) -> Option<&'static str>) -> Self {
        Self { vacuous, ..self }
    }

    fn lacks(self, lacks: fn(&Results) -> Option<&'static str>) -> Self {
        Self { lacks, ..self }
    }
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It holds here.
    Holds,
    /// Its direction does, its size does not.
    InPart,
    /// It does not.
    DoesNot,
    /// Its command was run; what it gave says nothing about the claim.
    NotEvaluated,
    /// Its command was not run.
    NotRun,
    /// It cannot be measured here.
    Cannot,
}

impl Verdict {
    /// All of them, the best first.
    pub const ALL: [Self; 6] = [
        Self::Holds,
        Self::InPart,
        Self::DoesNot,
        Self::NotEvaluated,
        Self::NotRun,
        Self::Cannot,
    ];

    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::InPart => "holds in part",
            Self::DoesNot => "does not hold",
            Self::NotEvaluated => "not evaluated",
            Self::NotRun => "not run",
            Self::Cannot => "cannot be measured here",
        }
    }
}

/// A claim beside the results.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The claim.
    pub claim: Claim,
    /// Ours.
    pub ours: Option<Ours>,
    /// What became of it.
    pub verdict: Verdict,
    /// Why the verdict is what it is, where it is not the best.
    reason: &'static str,
}

impl Finding {
    /// Looks for ours among the results.
    #[must_use]
    pub fn of(claim: Claim, results: &Results) -> Self {
        let ours = (claim.ours)(results);
        let verdict = match (claim.rule, ours) {
            (Rule::Cannot, _) => Verdict::Cannot,
            (_, None) if results.has_run(claim.command) => Verdict::NotEvaluated,
            (_, None) => Verdict::NotRun,
            (rule, Some(ours)) => judge(rule, claim.paper, ours.value),
        };
        let vacuous = ours.and_then(|_| (claim.vacuous)(results));
        let is_borne_out = ours.is_none() || verdict == Verdict::Holds;
        let lacks = (claim.lacks)(results).filter(|_| !is_borne_out);
        let says_nothing = vacuous.or(lacks);
        Self {
            verdict: says_nothing.map_or(verdict, |_| Verdict::NotEvaluated),
            reason: says_nothing.unwrap_or(claim.reason),
            claim,
            ours,
        }
    }

    /// Why it does not hold or is not known; nothing where it holds.
    #[must_use]
    pub fn why(&self) -> String {
        match (self.verdict, self.ours) {
            (Verdict::Holds, _) => String::new(),
            (Verdict::NotRun, _) => format!("Not run: {}", self.claim.command),
            (Verdict::NotEvaluated, None) => {
                format!("The run has no number of it: {}", self.claim.command)
            }
            _ => self.reason.to_owned(),
        }
    }
}

fn judge(rule: Rule, paper: Option<f64>, ours: f64) -> Verdict {
    let by = |holds: bool, in_part: bool| match (holds, in_part) {
        (true, _) => Verdict::Holds,
        (_, true) => Verdict::InPart,
        _ => Verdict::DoesNot,
    };
    match rule {
        Rule::Near(part) => {
            let paper = paper.unwrap_or(1.0);
            let off = (ours - paper).abs() / paper.abs();
            by(off <= part, off <= 2.0 * part)
        }
        Rule::AtMost(most, in_part) => by(ours <= most, ours <= in_part),
        Rule::AtLeast(least, in_part) => by(ours >= least, ours >= in_part),
        Rule::Cannot => Verdict::Cannot,
    }
}

/// All claims of a paper beside the results.
#[must_use]
pub fn findings(paper: Paper, results: &Results) -> Vec<Finding> {
    let of = |claim| Finding::of(claim, results);
    paper.claims().into_iter().map(of).collect()
}

/// The mean over all applications whose launches were studied.
fn over_launches(results: &Results, of: fn(&LaunchRow) -> Option<f64>) -> Option<Ours> {
    Ours::over(results.launches.iter().flatten().filter_map(of))
}
