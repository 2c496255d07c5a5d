//! The papers' claims beside what was measured here, as a result.

use schemars::JsonSchema;
use serde::Serialize;
use warmswap_columns::table::Origin;
use warmswap_columns::{Described, Kind, Quantity, Table, Value};

use crate::claims::{Paper, Unit, Verdict, findings};
use crate::stored::Results;

/// A claim beside what was measured here.
#[derive(Clone, Debug, Serialize, JsonSchema, Described)]
#[column(claimed = self.amount(self.claimed), number, "paper")]
#[column(here = self.amount(self.here), number, "here")]
#[column(verdict = self.verdict.words(), text, "verdict")]
pub struct EvidenceRow {
    /// The paper.
    pub paper: &'static str,
    /// Its figure or table.
    #[column]
    pub figure: &'static str,
    /// Where the text tells of it.
    pub section: &'static str,
    /// What the paper says.
    #[column("claim")]
    pub says: &'static str,
    /// What kind of number it is.
    pub unit: Unit,
    /// The paper's number; `None` where it gives none.
    pub claimed: Option<f64>,
    /// Ours: the mean over applications or traces.
    pub here: Option<f64>,
    /// The least of them, where there are several.
    pub least: Option<f64>,
    /// The most of them.
    pub most: Option<f64>,
    /// What became of the claim.
    pub verdict: Verdict,
    /// Why, where it does not hold.
    pub why: String,
    /// The command that makes ours.
    pub command: &'static str,
}

/// A number in a column of several units.
struct Amount(Unit, f64);

impl Value for Amount {
    fn quantity(&self, _: Kind) -> Quantity {
        self.0.quantity(self.1)
    }
}

impl EvidenceRow {
    fn amount(&self, value: Option<f64>) -> Option<Amount> {
        value.map(|value| Amount(self.unit, value))
    }
}

/// Every claim of the four papers.
#[must_use]
pub fn evidence(results: &Results) -> Vec<EvidenceRow> {
    let of_paper = |paper: Paper| {
        let found = findings(paper, results).into_iter();
        found.map(move |finding| {
            let range = finding.ours.and_then(|ours| ours.range);
            EvidenceRow {
                paper: paper.name().0,
                figure: finding.claim.figure,
                section: finding.claim.section,
                says: finding.claim.says,
                unit: finding.claim.unit,
                claimed: finding.claim.paper,
                here: finding.ours.map(|ours| ours.value),
                least: range.map(|range| range.0),
                most: range.map(|range| range.1),
                verdict: finding.verdict,
                why: finding.why(),
                command: finding.claim.command,
            }
        })
    };
    Paper::ALL.into_iter().flat_map(of_paper).collect()
}

/// A table for each paper.
#[must_use]
pub fn evidence_tables(rows: &[EvidenceRow]) -> Vec<Table> {
    let table = |paper: Paper| {
        let (name, venue) = paper.name();
        let own: Vec<&EvidenceRow> = rows.iter().filter(|row| row.paper == name).collect();
        let title = format!("{name} ({venue}): its results beside ours");
        let keys = ["figure", "says", "claimed", "here", "verdict"];
        let mut table = Table::select(title, own.iter().copied(), &keys)
            .origin(Origin::Paper, &["claimed"])
            .origin(Origin::Measured, &["here"]);
        let mut reasons: Vec<&str> = own.iter().map(|row| row.why.as_str()).collect();
        reasons.sort_unstable();
        reasons.dedup();
        for why in reasons.into_iter().filter(|why| !why.is_empty()) {
            let of_it = own.iter().enumerate().filter(|(_, row)| row.why == why);
            table = table.note_at(format!("{why}."), "verdict", of_it.map(|(at, _)| at));
        }
        table.note(format!(
            "Here: the mean over applications. A claim holds in part where its direction is right and \
             its size is not. {} show design or set-up, and no results.",
            paper.without_results()
        ))
    };
    Paper::ALL.map(table).into()
}
