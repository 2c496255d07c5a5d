//! How well footprints predict a switch, and how large their tables are (ASAP Figure 12, sections 6.3, 6.6).
//!
//! Precision: of the pages that were brought back for a launch, the share that its window touched. Recall: of
//! the pages that would have faulted without it, the share that was brought back. Both are taken over the
//! launches for which something was brought back, so that the time of learning does not count.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmswap_engine::{Engine, Touch};
use warmswap_policy::SchemeSpec;
use warmswap_replay::{Observer, Relaunch};
use warmswap_trace::{Event, EventKind};

use crate::error::StudyError;
use crate::mean::share;
use crate::options::Options;
use crate::paper::Published;
use crate::run::{OnProgress, replay_all_watched};
use crate::subject::Subject;

/// The scheme that is looked at unless another is asked for.
pub const SCHEME: &str = "asap";

/// Mean precision for anonymous pages.
pub const PAPER_ANON_PRECISION: Published =
    Published::new(0.684, "ASAP, Figure 12 and section 6.3");
/// Mean recall for anonymous pages.
pub const PAPER_ANON_RECALL: Published = Published::new(0.604, "ASAP, Figure 12 and section 6.3");
/// Mean precision for pages of files.
pub const PAPER_FILE_PRECISION: Published =
    Published::new(0.793, "ASAP, Figure 12 and section 6.3");
/// Mean recall for pages of files.
pub const PAPER_FILE_RECALL: Published = Published::new(0.522, "ASAP, Figure 12 and section 6.3");
/// Mean size of the tables of an application, in bytes.
pub const PAPER_TABLE_BYTES: Published = Published::new(800e3, "ASAP, section 6.6");

/// Prediction of one kind of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prediction {
    /// Launches for which pages were brought back.
    pub launches: u64,
    /// Pages that were brought back.
    pub pages: u64,
    /// Of them, those that were touched.
    pub used: u64,
    /// Pages that faulted all the same.
    pub missed: u64,
}

impl Prediction {
    /// Share of the pages that were of use; `None` without pages.
    pub fn precision(self) -> Option<f64> {
        share(self.used, self.pages)
    }

    /// Share of the faults that were avoided; `None` without any.
    pub fn recall(self) -> Option<f64> {
        share(self.used, self.used + self.missed)
    }

    fn add(&mut self, pages: u64, used: u64, missed: u64) {
        if pages > 0 {
            self.launches += 1;
            self.pages += pages;
            self.used += used;
            self.missed += missed;
        }
    }
}

/// One application under one scheme.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PrepagingRow {
    /// The trace.
    pub trace: String,
    /// The application.
    pub app: String,
    /// The scheme.
    pub scheme: String,
    /// Relaunches, without those that were cold starts after a kill.
    pub relaunches: u64,
    /// Anonymous pages.
    pub anon: Prediction,
    /// Pages of files.
    pub file: Prediction,
    /// The most bytes that its tables held at the end of a launch.
    pub table_peak_bytes: u64,
    /// Whether pages of files left memory before each relaunch of the recording, so that the accesses to them are in it.
    #[serde(default)]
    pub cold_files: bool,
}

/// Sizes of the tables, at the end of each launch.
#[derive(Debug, Default)]
struct Tables {
    peak_bytes: Vec<u64>,
}

impl Observer for Tables {
    fn event(&mut self, engine: &Engine, event: &Event, _: Option<Touch>) {
        if event.kind != EventKind::LaunchEnd {
            return;
        }
        let app = usize::from(event.app.0);
        if self.peak_bytes.len() <= app {
            self.peak_bytes.resize(app + 1, 0);
        }
        let bytes = engine.learned_bytes(event.app) as u64;
        self.peak_bytes[app] = self.peak_bytes[app].max(bytes);
    }
}

/// Replays the traces under `schemes` and looks at what each launch brought back. Meant for
/// [`Options::full_pressure`] with pages of files, as the paper measures with most pages not in memory.
///
/// # Errors
/// The first replay that stops.
pub fn prepaging(
    subjects: &[Subject],
    schemes: &[SchemeSpec],
    options: &Options,
    on_progress: OnProgress<'_>,
) -> Result<Vec<PrepagingRow>, StudyError> {
    let tables = |_: &Subject| Tables::default();
    let runs = replay_all_watched(subjects, schemes, options, on_progress, tables)?;
    let rows = runs.iter().flat_map(|(run, tables)| {
        run.result.apps.iter().enumerate().map(move |(index, app)| {
            let relaunches = || app.relaunches.iter().filter(|r| !r.was_killed);
            let (anon, file) = predictions(relaunches());
            PrepagingRow {
                trace: run.trace.clone(),
                app: app.name.clone(),
                scheme: run.result.scheme.clone(),
                relaunches: relaunches().count() as u64,
                anon,
                file,
                table_peak_bytes: tables.peak_bytes.get(index).copied().unwrap_or_default(),
                cold_files: run.cold_files,
            }
        })
    });
    Ok(rows.filter(|row| row.relaunches > 0).collect())
}

fn predictions<'a>(relaunches: impl Iterator<Item = &'a Relaunch>) -> (Prediction, Prediction) {
    let (mut anon, mut file) = (Prediction::default(), Prediction::default());
    for r in relaunches {
        let faults = r.pool_faults + r.backing_faults + r.buffer_hits;
        anon.add(r.prepaged_pages, r.prepaged_used, faults);
        file.add(r.prepaged_file_pages, r.prepaged_file_used, r.file_reads);
    }
    (anon, file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Script, schemes};

    #[test]
    fn precision_and_recall_are_worked_out_by_hand() {
        let mut script = Script::new(1);
        // Candidates, then targets; the third relaunch gets 1 to 4 back and uses three of them.
        for _ in 0..3 {
            script.launch(0, &[1, 2, 3, 4, 5]).background(0);
        }
        script
            .launch(0, &[1, 2, 3, 8])
            .execute(0, &[4, 5])
            .background(0);
        let options = Options {
            budget: crate::Amount::Bytes(4 << 20),
            ..Options::full_pressure()
        };
        let rows = prepaging(&[script.subject()], &schemes([SCHEME]), &options, &|_| {}).unwrap();
        assert_eq!(rows.len(), 1);
        let anon = rows[0].anon;
        assert_eq!((anon.launches, anon.pages, anon.used), (1, 5, 3));
        assert_eq!(anon.missed, 0, "page 8 did not exist before");
        assert_eq!((anon.precision(), anon.recall()), (Some(0.6), Some(1.0)));
        assert_eq!(rows[0].file, Prediction::default());
        assert!((1..10_000).contains(&rows[0].table_peak_bytes));
    }
}
