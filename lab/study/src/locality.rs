//! Whether neighbours in the pool come back together (Ariadne Table 3).
//!
//! When a relaunch begins, all pages that are swapped out have a position: their place in the order in
//! which they were stored. Of the positions whose page the launch window swaps in, Table 3's "2" is the
//! share for which the page at the next position is swapped in within the same window too, and "4" the
//! share for which those at the next three are. All relaunches of an application count together.

use std::borrow::Cow;

use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmswap_policy::SchemeSpec;

use crate::error::StudyError;
use crate::mean::share;
use crate::options::Options;
use crate::paper::Published;
use crate::run::{OnProgress, replay_all_watched};
use crate::subject::Subject;
use crate::swap_order::{Digest, RelaunchOrder, SwapOrder, Use};
use warmswap_columns::Described;

/// One application of Table 3.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PaperLocality {
    /// The application.
    pub app: Cow<'static, str>,
    /// Two consecutive pages.
    pub two: Published,
    /// Four consecutive pages.
    pub four: Published,
}

const fn row(app: &'static str, two: f64, four: f64) -> PaperLocality {
    PaperLocality {
        app: Cow::Borrowed(app),
        two: Published::new(two, "Ariadne, Table 3"),
        four: Published::new(four, "Ariadne, Table 3"),
    }
}

/// The paper's applications.
pub static PAPER: [PaperLocality; 5] = [
    row("Youtube", 0.86, 0.72),
    row("Twitter", 0.81, 0.61),
    row("Firefox", 0.69, 0.43),
    row("GoogleEarth", 0.77, 0.54),
    row("BangDream", 0.61, 0.33),
];

/// One application under one scheme, all its relaunches together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Described)]
#[column(two = self.two(), percent, "2 pages", paper = self.paper().map(|paper| &paper.two))]
#[column(four = self.four(), percent, "4 pages", paper = self.paper().map(|paper| &paper.four))]
pub struct Locality {
    /// The trace.
    pub trace: String,
    /// The application.
    #[column]
    pub app: String,
    /// The scheme.
    #[column]
    pub scheme: String,
    /// Pages that launch windows swapped in.
    #[column]
    pub swapped_in_pages: u64,
    /// Of them, those whose next neighbour was swapped in too.
    pub with_next: u64,
    /// Of them, those whose next three neighbours were swapped in too.
    pub with_next_three: u64,
}

impl Locality {
    /// What the paper has of the application; the synthetic one has the short form of its name.
    fn paper(&self) -> Option<&'static PaperLocality> {
        let name = if self.app == "GEarth" {
            "GoogleEarth"
        } else {
            &self.app
        };
        PAPER.iter().find(|paper| paper.app == name)
    }

    /// Probability of two consecutive pages.
    pub fn two(&self) -> Option<f64> {
        share(self.with_next, self.swapped_in_pages)
    }

    /// Probability of four consecutive pages.
    pub fn four(&self) -> Option<f64> {
        share(self.with_next_three, self.swapped_in_pages)
    }
}

#[derive(Debug, Default)]
struct Neighbours(FxHashMap<usize, [u64; 3]>);

impl Digest for Neighbours {
    fn add(&mut self, relaunch: RelaunchOrder) {
        let [pages, two, four] = self.0.entry(relaunch.app).or_default();
        let is_in = |place: usize| {
            let page = relaunch.pages.get(place);
            page.is_some_and(|page| page.used == Use::Hot)
        };
        for place in (0..relaunch.pages.len()).filter(|&place| is_in(place)) {
            *pages += 1;
            *two += u64::from(is_in(place + 1));
            *four += u64::from((1..=3).all(|next| is_in(place + next)));
        }
    }
}

/// Replays the traces and counts neighbours for each application under each scheme. Meant for zram under
/// [`Options::full_pressure`]. Applications that swapped nothing in are left out.
///
/// # Errors
/// The first replay that stops.
pub fn locality(
    subjects: &[Subject],
    schemes: &[SchemeSpec],
    options: &Options,
    on_progress: OnProgress<'_>,
) -> Result<Vec<Locality>, StudyError> {
    let runs = replay_all_watched(subjects, schemes, options, on_progress, |_| {
        SwapOrder::<Neighbours>::default()
    })?;
    let mut rows = Vec::new();
    for (run, observer) in runs {
        let by_app = observer.finish().0;
        for (index, app) in run.result.apps.iter().enumerate() {
            if let Some(&[swapped_in_pages, with_next, with_next_three]) = by_app.get(&index) {
                rows.push(Locality {
                    trace: run.trace.clone(),
                    app: app.name.clone(),
                    scheme: run.result.scheme.clone(),
                    swapped_in_pages,
                    with_next,
                    with_next_three,
                });
            }
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Script, schemes};

    #[test]
    fn neighbours_are_worked_out_by_hand() {
        let mut script = Script::new(2);
        let all: Vec<u64> = (0..10).collect();
        script.launch(0, &all).background(0);
        script.launch(1, &[0, 1]).background(1);
        // Positions 0 to 3 and 6 are swapped in; 9 is too, and the page behind it is the other
        // application's.
        script.launch(0, &[9, 0, 1, 2, 3, 6]).execute(0, &[7]);
        let subject = script.subject();
        let options = Options {
            budget: crate::Amount::Bytes(4 << 20),
            ..Options::full_pressure()
        };
        let rows = locality(&[subject], &schemes(["zram"]), &options, &|_| {}).unwrap();
        assert_eq!(rows.len(), 1);
        let row = &rows[0];
        assert_eq!(
            (row.swapped_in_pages, row.with_next, row.with_next_three),
            (6, 3, 1)
        );
        assert_eq!(row.two(), Some(0.5));
        assert_eq!(row.four(), Some(1.0 / 6.0));
    }
}
