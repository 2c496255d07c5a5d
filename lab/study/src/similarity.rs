//! How alike consecutive relaunches are (Ariadne Figure 5 and section 3).
//!
//! Hot data similarity: of the pages of a relaunch's window, the share that the window of the relaunch
//! before touched. Reused data: of the pages of a relaunch's window, the share that the next relaunch
//! touches, in its window or in the execution after it. Anonymous pages only; nothing is replayed.

use rustc_hash::FxHashSet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmswap_page::LaunchKind;

use crate::error::StudyError;
use crate::mean::{mean, share};
use crate::paper::Published;
use crate::phases::{LaunchPages, launch_pages};
use crate::subject::Subject;
use warmswap_columns::Described;

/// Mean hot data similarity.
pub const PAPER_SIMILARITY: Published = Published::new(0.70, "Ariadne, Figure 5 and section 3");

/// Mean reused data.
pub const PAPER_REUSED: Published = Published::new(0.98, "Ariadne, Figure 5 and section 3");

/// One application, the mean of its pairs of consecutive relaunches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Described)]
pub struct Similarity {
    /// The trace.
    #[column]
    pub trace: String,
    /// The application.
    #[column]
    pub app: String,
    /// Pairs of consecutive relaunches, both with hot pages.
    #[column]
    pub pairs: u64,
    /// Mean number of hot pages of the later relaunch.
    #[column("hot pages")]
    pub hot_pages: f64,
    /// Hot data similarity.
    #[column(percent, paper = PAPER_SIMILARITY)]
    pub similarity: f64,
    /// Reused data.
    #[column(percent, paper = PAPER_REUSED)]
    pub reused: f64,
}

/// Compares consecutive relaunches of every application. Applications with fewer than two relaunches are
/// left out. One pass over each trace.
///
/// # Errors
/// A trace cannot be read.
pub fn similarity(subjects: &[Subject]) -> Result<Vec<Similarity>, StudyError> {
    let mut rows = Vec::new();
    for subject in subjects {
        let launches = launch_pages(&subject.reader)?;
        for (app, launches) in subject.app_names().into_iter().zip(launches) {
            rows.extend(of_app(&subject.name, app, &launches));
        }
    }
    Ok(rows)
}

fn of_app(trace: &str, app: String, launches: &[LaunchPages]) -> Option<Similarity> {
    let relaunches: Vec<_> = launches
        .iter()
        .filter(|launch| launch.kind == LaunchKind::Relaunch && !launch.hot.is_empty())
        .collect();
    let pairs = relaunches.windows(2).map(|pair| (pair[0], pair[1]));
    let pairs: Vec<(u64, f64, f64)> = pairs
        .filter_map(|(earlier, later)| {
            let was_hot: FxHashSet<u64> = earlier.hot.iter().copied().collect();
            let common = later
                .hot
                .iter()
                .filter(|page| was_hot.contains(page))
                .count();
            let again = later
                .warm
                .iter()
                .filter(|page| was_hot.contains(page))
                .count();
            let (common, hot) = (common as u64, later.hot.len() as u64);
            let reused = share(common + again as u64, was_hot.len() as u64)?;
            Some((hot, share(common, hot)?, reused))
        })
        .collect();
    Some(Similarity {
        trace: trace.to_owned(),
        app,
        pairs: pairs.len() as u64,
        hot_pages: mean(pairs.iter().map(|pair| pair.0 as f64))?,
        similarity: mean(pairs.iter().map(|pair| pair.1))?,
        reused: mean(pairs.iter().map(|pair| pair.2))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Script, synthetic};

    #[test]
    fn three_of_four_is_75_percent() {
        let mut script = Script::new(2);
        script.launch(0, &[1, 2, 3, 4, 9]).launch(0, &[1, 2, 3, 4]);
        script.launch(1, &[1]).launch(1, &[1]);
        script.launch(0, &[2, 3, 4, 5, 2]).execute(0, &[1, 2, 7]);
        let rows = similarity(&[script.subject()]).unwrap();
        assert_eq!(rows.len(), 1, "one relaunch is no pair");
        assert_eq!(
            rows[0],
            Similarity {
                trace: "script".into(),
                app: "app0".into(),
                pairs: 1,
                hot_pages: 4.0,
                similarity: 0.75,
                reused: 1.0,
            }
        );
    }

    #[test]
    fn synthetic_traces_have_the_paper_s_figures() {
        for row in similarity(&[synthetic(100_000)]).unwrap() {
            assert!((row.similarity - 0.70).abs() < 0.05, "{row:?}");
            assert!((row.reused - 0.98).abs() < 0.03, "{row:?}");
        }
    }
}
