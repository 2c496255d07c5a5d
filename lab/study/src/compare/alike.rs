//! The same memory for every scheme of a comparison, and what is not alike where it is not.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmswap_policy::SchemeSpec;

use super::SchemeRow;
use crate::options::{Amount, Options, uses_backing};
use crate::run::Run;

/// Pool of ezswap, in hundredths of the budget: 10 % of what the system leaves to applications (ezswap section V-A).
const EZSWAP_POOL_PERCENT: f64 = 10.0;

/// What memory a scheme had, over all traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SchemeMemory {
    /// Frames and pool together.
    pub budget_bytes: u64,
    /// Of them, at most for the pool.
    pub pool_limit_bytes: u64,
    /// The backing file.
    pub backing_limit_bytes: u64,
    /// Whether pages of files were replayed.
    pub file_pages: bool,
}

impl SchemeMemory {
    pub(super) fn of(runs: &[Run], scheme: &str) -> Self {
        let mut sum = Self::default();
        for run in runs.iter().filter(|run| run.result.scheme == scheme) {
            sum.budget_bytes += run.result.limits.budget_bytes;
            sum.pool_limit_bytes += run.result.limits.pool_limit_bytes;
            sum.backing_limit_bytes += run.result.limits.backing_limit_bytes;
            sum.file_pages |= run.file_pages;
        }
        sum
    }
}

/// A part of the memory that some schemes had otherwise than the first one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// Which part: budget, pool limit, backing file, pages of files.
    pub what: String,
    /// The schemes.
    pub schemes: Vec<String>,
}

/// What a part is called, and how much of it there is.
type Part = (&'static str, fn(&SchemeMemory) -> u64);

/// What is not alike, in the order of [`SchemeMemory`]'s fields.
pub(super) fn differences(rows: &[SchemeRow]) -> Vec<Difference> {
    let Some(first) = rows.first() else {
        return Vec::new();
    };
    let parts: [Part; 4] = [
        ("budget", |memory| memory.budget_bytes),
        ("pool limit", |memory| memory.pool_limit_bytes),
        ("backing file", |memory| memory.backing_limit_bytes),
        ("pages of files", |memory| memory.file_pages.into()),
    ];
    let found = parts.into_iter().filter_map(|(what, part)| {
        let others = rows
            .iter()
            .filter(|row| part(&row.memory) != part(&first.memory));
        let schemes: Vec<_> = others.map(|row| row.scheme.clone()).collect();
        let what = what.to_owned();
        (!schemes.is_empty()).then_some(Difference { what, schemes })
    });
    found.collect()
}

/// The options under which all of the schemes have the same memory: a backing file as large as the footprint if one of
/// them uses one, and none otherwise, unless the options say which.
#[must_use]
pub fn alike(options: &Options, schemes: &[SchemeSpec]) -> Options {
    let backing = if schemes.iter().any(uses_backing) {
        Amount::Percent(100.0)
    } else {
        Amount::Bytes(0)
    };
    Options {
        backing: options.backing.or(Some(backing)),
        ..options.clone()
    }
}

/// The options for a scheme whose paper evaluates it with pages of files and a limited pool: ezswap and its parts.
#[must_use]
pub fn as_in_its_paper(scheme: &SchemeSpec, options: Options) -> Options {
    if !scheme.name.starts_with("ezswap") {
        return options;
    }
    Options {
        file_pages: true,
        pool_limit: Amount::Percent(EZSWAP_POOL_PERCENT),
        ..options
    }
}
