//! How hot what a scheme swaps out first is (Ariadne Figure 4).
//!
//! Before each relaunch, the application's pages that are swapped out are put in the order in which they
//! left and cut in ten equal parts. A good scheme has cold pages in the first parts and hot ones in the
//! last.

use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmswap_policy::SchemeSpec;

use crate::error::StudyError;
use crate::mean::share;
use crate::options::Options;
use crate::run::{OnProgress, replay_all_watched};
use crate::subject::Subject;
use crate::swap_order::{Digest, RelaunchOrder, SwapOrder, Use};

/// Parts that the order is cut in.
pub const PARTS: usize = 10;

/// Pages of one part, by how the relaunch used them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// Used in the launch window.
    pub hot_pages: u64,
    /// Used in the execution after it.
    pub warm_pages: u64,
    /// Not used up to the next launch.
    pub cold_pages: u64,
}

impl Part {
    /// Shares of hot, warm and cold pages; `None` without pages.
    pub fn shares(self) -> Option<[f64; 3]> {
        let pages = [self.hot_pages, self.warm_pages, self.cold_pages];
        let whole = pages.iter().sum();
        (whole > 0).then(|| pages.map(|part| share(part, whole).unwrap_or_default()))
    }
}

/// One application under one scheme, all its relaunches together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HotnessOrder {
    /// The trace.
    pub trace: String,
    /// The application.
    pub app: String,
    /// The scheme.
    pub scheme: String,
    /// Relaunches before which something of it was swapped out.
    pub relaunches: u64,
    /// The parts; what left first is part 0.
    pub parts: [Part; PARTS],
}

#[derive(Debug, Default)]
struct Parts(FxHashMap<usize, (u64, [Part; PARTS])>);

impl Digest for Parts {
    fn add(&mut self, relaunch: RelaunchOrder) {
        let own: Vec<Use> = relaunch
            .pages
            .iter()
            .filter(|page| page.is_own)
            .map(|page| page.used)
            .collect();
        let (relaunches, parts) = self.0.entry(relaunch.app).or_default();
        *relaunches += 1;
        for (place, used) in own.iter().enumerate() {
            let part = &mut parts[place * PARTS / own.len()];
            match used {
                Use::Hot => part.hot_pages += 1,
                Use::Warm => part.warm_pages += 1,
                Use::Cold => part.cold_pages += 1,
            }
        }
    }
}

/// Replays the traces and tells, for each application under each scheme, how hot the parts are.
/// Applications without anything swapped out before a relaunch are left out.
///
/// # Errors
/// The first replay that stops.
pub fn hotness_order(
    subjects: &[Subject],
    schemes: &[SchemeSpec],
    options: &Options,
    on_progress: OnProgress<'_>,
) -> Result<Vec<HotnessOrder>, StudyError> {
    let runs = replay_all_watched(subjects, schemes, options, on_progress, |_| {
        SwapOrder::<Parts>::default()
    })?;
    let mut rows = Vec::new();
    for (run, observer) in runs {
        let by_app = observer.finish().0;
        for (index, app) in run.result.apps.iter().enumerate() {
            if let Some(&(relaunches, parts)) = by_app.get(&index) {
                rows.push(HotnessOrder {
                    trace: run.trace.clone(),
                    app: app.name.clone(),
                    scheme: run.result.scheme.clone(),
                    relaunches,
                    parts,
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
    fn parts_are_worked_out_by_hand() {
        let mut script = Script::new(2);
        let all: Vec<u64> = (0..20).collect();
        script.launch(0, &all).background(0).launch(1, &[0]);
        // Pages left in the order 0, 1, …: two make a part.
        script.launch(0, &[0, 1, 2, 19]).execute(0, &[3, 0, 18]);
        script.background(0);
        let options = Options {
            budget: crate::Amount::Bytes(4 << 20),
            ..Options::full_pressure()
        };
        let subject = script.subject();
        let rows = hotness_order(&[subject], &schemes(["zram"]), &options, &|_| {}).unwrap();
        assert_eq!(
            rows.len(),
            1,
            "nothing of the other application is relaunched"
        );
        assert_eq!((rows[0].relaunches, rows[0].app.as_str()), (1, "app0"));
        let part = |hot_pages, warm_pages, cold_pages| Part {
            hot_pages,
            warm_pages,
            cold_pages,
        };
        let parts = &rows[0].parts;
        assert_eq!(parts[0], part(2, 0, 0));
        assert_eq!(parts[1], part(1, 1, 0));
        assert!(parts[2..9].iter().all(|&p| p == part(0, 0, 2)));
        assert_eq!(parts[9], part(1, 1, 0));
        assert_eq!(parts[9].shares(), Some([0.5, 0.5, 0.0]));
        assert_eq!(Part::default().shares(), None);
    }
}
