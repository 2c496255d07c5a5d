//! How well the hot list predicts a relaunch (Ariadne Figure 14 and section 6.2).
//!
//! Each scheme is replayed twice: the engine hears of all touches, as in the paper; and of faults only, as in live memory,
//! where what it presumes is compared with the touches of the trace.
//!
//! Coverage: of the pages of a launch window that existed before it, the share that was on the hot list.
//! Accuracy: of the hot list, the share that the window or the execution after it used.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmswap_policy::SchemeSpec;
use warmswap_replay::{Relaunch, Sight};

use crate::error::StudyError;
use crate::mean::mean;
use crate::options::Options;
use crate::paper::Published;
use crate::run::{OnProgress, Progress, Run, replay_all};
use crate::subject::Subject;
use warmswap_columns::Described;

/// The scheme whose hot list is looked at unless another is asked for.
pub const SCHEME: &str = "ariadne-ehl-1k-2k-16k";

/// Mean coverage.
pub const PAPER_COVERAGE: Published = Published::new(0.70, "Ariadne, Figure 14 and section 6.2");

/// Mean accuracy.
pub const PAPER_ACCURACY: Published = Published::new(0.92, "Ariadne, Figure 14 and section 6.2");

/// One application, the mean of its relaunches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Described)]
pub struct CoverageRow {
    /// The trace.
    pub trace: String,
    /// The application.
    #[column]
    pub app: String,
    /// The scheme.
    #[column]
    pub scheme: String,
    /// The touches that the engine heard of.
    #[column(text, "hears of", with = heard)]
    pub sight: Sight,
    /// Relaunches, without those that were cold starts after a kill.
    pub relaunches: u64,
    /// Mean number of pages of the hot list.
    #[column("hot list")]
    pub hot_pages: f64,
    /// Mean number of pages that the window touched and that existed before.
    #[column]
    pub window_pages: f64,
    /// Mean coverage; `None` when no window touched a page that existed before.
    #[column(percent, paper = PAPER_COVERAGE)]
    pub coverage: Option<f64>,
    /// Mean accuracy; `None` when no hot list had a page.
    #[column(percent, paper = PAPER_ACCURACY)]
    pub accuracy: Option<f64>,
}

fn heard(sight: &Sight) -> &'static str {
    match sight {
        Sight::All => "touches",
        Sight::Faults => "faults",
    }
}

/// Of finished runs. Applications without relaunches are left out.
fn coverage_of(runs: &[Run], sight: Sight) -> Vec<CoverageRow> {
    let rows = runs.iter().flat_map(|run| {
        run.result.apps.iter().filter_map(move |app| {
            let relaunches = || app.relaunches.iter().filter(|r| !r.was_killed);
            Some(CoverageRow {
                trace: run.trace.clone(),
                app: app.name.clone(),
                scheme: run.result.scheme.clone(),
                sight,
                relaunches: relaunches().count() as u64,
                hot_pages: mean(relaunches().map(|r| r.hot_pages as f64))?,
                window_pages: mean(relaunches().map(|r| r.touched_known_pages as f64))?,
                coverage: mean(relaunches().filter_map(Relaunch::coverage)),
                accuracy: mean(relaunches().filter_map(Relaunch::accuracy)),
            })
        })
    });
    rows.collect()
}

/// Replays the traces under `schemes` and looks at their hot lists. Meant for
/// [`Options::full_pressure`] and [`SCHEME`].
///
/// # Errors
/// The first replay that stops.
pub fn coverage(
    subjects: &[Subject],
    schemes: &[SchemeSpec],
    options: &Options,
    on_progress: OnProgress<'_>,
) -> Result<Vec<CoverageRow>, StudyError> {
    let mut rows = Vec::new();
    for (pass, sight) in (0..).zip([Sight::All, Sight::Faults]) {
        let options = Options {
            sight,
            ..options.clone()
        };
        let on_progress = |of_pass: Progress| {
            on_progress(Progress {
                done: pass * of_pass.total + of_pass.done,
                total: 2 * of_pass.total,
            });
        };
        let runs = replay_all(subjects, schemes, &options, &on_progress)?;
        rows.extend(coverage_of(&runs, sight));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Script, schemes};

    #[test]
    fn coverage_and_accuracy_are_worked_out_by_hand() {
        let mut script = Script::new(1);
        script
            .launch(0, &[1, 2, 3, 4])
            .execute(0, &[5, 6])
            .background(0);
        // Two of three known pages were predicted; of the four predicted ones, three are used.
        script
            .launch(0, &[1, 2, 5, 100])
            .execute(0, &[3])
            .background(0);
        let options = Options {
            budget: crate::Amount::Bytes(4 << 20),
            ..Options::full_pressure()
        };
        let rows = coverage(&[script.subject()], &schemes([SCHEME]), &options, &|_| {}).unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].sight, Sight::All);
        assert_eq!((rows[0].hot_pages, rows[0].window_pages), (4.0, 3.0));
        assert_eq!(rows[0].coverage, Some(2.0 / 3.0));
        assert_eq!(rows[0].accuracy, Some(0.75));
    }

    #[test]
    fn where_faults_are_all_that_is_seen_the_list_is_presumed_and_compared_with_the_trace() {
        let mut script = Script::new(1);
        script.launch(0, &[1, 2, 3, 4]).background(0);
        for _ in 0..2 {
            script.launch(0, &[1, 2]).background(0);
        }
        let options = Options {
            budget: crate::Amount::Bytes(4 << 20),
            ..Options::full_pressure()
        };
        let rows = coverage(&[script.subject()], &schemes([SCHEME]), &options, &|_| {}).unwrap();
        let found: Vec<_> = rows
            .iter()
            .map(|row| (row.hot_pages, row.coverage))
            .collect();
        // With all touches the lists are of 4 and 2 pages.
        assert_eq!(found, [(3.0, Some(1.0)), (4.0, Some(1.0))]);
        assert_eq!(rows[1].accuracy, Some(0.5));
    }
}
