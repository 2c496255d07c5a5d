//! All checks at once, and what they mean for each part.

use serde::Serialize;

use crate::{CHECKS, Check, Finding, Machine, Need, Part, State};

/// What one check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Row {
    /// Name of the check.
    pub key: &'static str,
    /// What was looked at.
    pub title: &'static str,
    /// What it is needed for.
    pub purpose: &'static str,
    /// Whether it is what is needed.
    pub state: State,
    /// What is there.
    pub found: String,
    /// What would fix it.
    pub fix: Option<String>,
    /// Parts that do not work without.
    pub must: Vec<Part>,
    /// Parts that work better with it.
    pub better: Vec<Part>,
}

impl Row {
    fn of(check: &Check, machine: &Machine) -> Self {
        let Finding { state, found, fix } = (check.look)(machine);
        let parts = |wanted| {
            let of = |part: &Part| check.need(*part) == Some(wanted);
            Part::ALL.into_iter().filter(of).collect()
        };
        Self {
            key: check.key,
            title: check.title,
            purpose: check.purpose,
            state,
            found,
            fix,
            must: parts(Need::Must),
            better: parts(Need::Better),
        }
    }

    /// What is wrong, and what to do: the words of `doctor` and of every command that cannot work.
    #[must_use]
    pub fn explain(&self) -> String {
        match &self.fix {
            Some(fix) => format!("{}: {}; to fix it: {fix}", self.title, self.found),
            None => format!("{}: {}", self.title, self.found),
        }
    }
}

/// What the findings mean for one part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PartDiagnosis {
    /// The part.
    pub part: Part,
    /// Whether all that it must have is there, as far as can be known.
    pub works: bool,
    /// Names of the checks that it must pass and does not.
    pub lacks: Vec<&'static str>,
    /// Names of the checks with which it would work better.
    pub better_with: Vec<&'static str>,
}

/// All that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Diagnosis {
    /// Part by part.
    pub parts: Vec<PartDiagnosis>,
    /// Check by check.
    pub checks: Vec<Row>,
}

impl Diagnosis {
    /// What of it is about these parts: the others, and checks that only others need, are left out.
    #[must_use]
    pub fn only(&self, parts: &[Part]) -> Self {
        let of_parts = |found: &[Part]| -> Vec<Part> {
            let named = found.iter().copied();
            named.filter(|part| parts.contains(part)).collect()
        };
        let about = |row: &Row| Row {
            must: of_parts(&row.must),
            better: of_parts(&row.better),
            ..row.clone()
        };
        Self {
            parts: self
                .parts
                .iter()
                .filter(|found| parts.contains(&found.part))
                .cloned()
                .collect(),
            checks: self
                .checks
                .iter()
                .map(about)
                .filter(|row| !row.must.is_empty() || !row.better.is_empty())
                .collect(),
        }
    }

    /// What it says of `part`.
    #[must_use]
    pub fn of(&self, part: Part) -> Option<&PartDiagnosis> {
        self.parts.iter().find(|found| found.part == part)
    }
}

/// Runs every check. Takes some milliseconds and changes nothing.
#[must_use]
pub fn diagnose(machine: &Machine) -> Diagnosis {
    let all = CHECKS.iter().copied().flatten();
    let checks: Vec<_> = all.map(|check| Row::of(check, machine)).collect();
    let parts = Part::ALL.map(|part| {
        let lacking = |parts: fn(&Row) -> &Vec<Part>| -> Vec<&'static str> {
            let of_part = |row: &&Row| row.state == State::Lacking && parts(row).contains(&part);
            checks.iter().filter(of_part).map(|row| row.key).collect()
        };
        let lacks = lacking(|row| &row.must);
        PartDiagnosis {
            part,
            works: lacks.is_empty(),
            lacks,
            better_with: lacking(|row| &row.better),
        }
    });
    Diagnosis {
        parts: parts.into(),
        checks,
    }
}

/// A part cannot work here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", join(rows))]
pub struct Trouble {
    /// What is in the way.
    pub rows: Vec<Row>,
}

fn join(rows: &[Row]) -> String {
    let lines: Vec<_> = rows.iter().map(Row::explain).collect();
    lines.join("; ")
}

/// Runs the checks that `part` must pass.
///
/// # Errors
/// [`Trouble`] with those that it does not.
pub fn require(machine: &Machine, part: Part) -> Result<(), Trouble> {
    let all = CHECKS.iter().copied().flatten();
    let must = all.filter(|check| check.need(part) == Some(Need::Must));
    let rows: Vec<_> = must
        .map(|check| Row::of(check, machine))
        .filter(|row| row.state == State::Lacking)
        .collect();
    if rows.is_empty() {
        Ok(())
    } else {
        Err(Trouble { rows })
    }
}
