//! The parts of the papers, within all of them and each alone: which pay together, and which work against
//! each other?
//!
//! The scheme of all parts is `all-four`; without any it is `zswap`, which has the same backing file. The pool
//! is small, so that admission and eviction have something to decide.
//!
//! A *gain* is the relaunch time without a part, divided by that with it: above 1 the part pays. It is the
//! geometric mean over the traces of what the mean relaunch of each comes to.

mod cost;
mod row;
mod set;

use warmswap_policy::SchemeSpec;

pub use row::{BesideRow, PairRow, PartRow, PartsStudy, Pays};
pub use set::{ALL, PLAIN, Part, Parts};

use self::cost::Costs;
use crate::error::StudyError;
use crate::options::Options;
use crate::run::{OnProgress, replay_all};
use crate::subject::Subject;

/// Schemes beside the sets of parts.
pub const BESIDE: [&str; 6] = ["ariadne", "asap", "ezswap", "warmswap", "zram", "optimal"];

/// Replays the traces, pages of files included, under the sets of parts and the schemes beside them.
///
/// # Errors
/// The first replay that stops.
pub fn parts(
    subjects: &[Subject],
    (budget_percent, pool_percent): (f64, f64),
    on_progress: OnProgress<'_>,
) -> Result<PartsStudy, StudyError> {
    let sets = sets();
    let specs = sets.iter().map(|set| set.scheme());
    let beside = BESIDE.iter().map(|name| SchemeSpec::named(name));
    let specs: Vec<_> = specs.chain(beside).collect::<Result<_, _>>()?;
    let options = Options::small_pool(budget_percent, pool_percent);
    let runs = replay_all(subjects, &specs, &options, on_progress)?;
    let costs = Costs::of(&runs, &specs);
    let named = [PLAIN, ALL].into_iter().chain(BESIDE);
    Ok(PartsStudy {
        traces: subjects.iter().map(|it| it.name.clone()).collect(),
        budget_percent,
        pool_percent,
        schemes: named.map(|name| costs.beside_row(name, &runs)).collect(),
        parts: rows()
            .iter()
            .map(|&(set, name)| costs.part_row(set, name))
            .collect(),
        pairs: pairs().map(|pair| costs.pair_row(pair)).collect(),
    })
}

/// What a row is of, and its name where that is not the names of its parts.
type Row = (Parts, Option<&'static str>);

/// Each part, then those that share a slot, then papers of several parts.
fn rows() -> Vec<Row> {
    let single = Part::ALL.map(|part| Parts::of(&[part]));
    let slots = [
        Parts::of(&[Part::PreDecomp, Part::Footprints]),
        Parts::of(&[Part::Coldest, Part::Lottery]),
    ];
    let unnamed = single.into_iter().chain(slots).map(|set| (set, None));
    let papers = [
        (Parts::of_paper("Ariadne"), Some("all of Ariadne")),
        (Parts::of_paper("ezswap"), Some("all of ezswap")),
    ];
    unnamed.chain(papers).collect()
}

/// Each two parts.
fn pairs() -> impl Iterator<Item = [Part; 2]> {
    let behind = |at: usize| Part::ALL[at + 1..].iter().copied();
    let firsts = Part::ALL.into_iter().enumerate();
    firsts.flat_map(move |(at, first)| behind(at).map(move |second| [first, second]))
}

/// Every set that is replayed, once.
fn sets() -> Vec<Parts> {
    let of_rows = rows().into_iter().flat_map(|(set, _)| [set.others(), set]);
    let of_pairs = pairs().map(|pair| Parts::of(&pair));
    let mut sets = vec![Parts::NONE, Parts::ALL];
    for set in of_rows.chain(of_pairs) {
        if !sets.contains(&set) {
            sets.push(set);
        }
    }
    sets
}

#[cfg(test)]
mod tests;
