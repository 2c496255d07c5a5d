//! What a trace says of launches by itself: how long a cold one takes beside a relaunch (ASAP Figure 1, Fleet
//! Figure 2), and how an application's anonymous memory grows while it is used (Ariadne Table 1).
//!
//! Times are those of the recording, where every launch window was timed to the program's own answer. Recording
//! itself makes page faults, in cold launches and relaunches alike. Of a sampled trace, times are those of the whole
//! recording, and volumes those of the sample: the growth is what can be compared.

use rustc_hash::FxHashSet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmswap_page::quantile::Sorted;
use warmswap_page::{LaunchKind, PAGE_BYTES, PageAddr};
use warmswap_trace::{Event, EventKind};

use crate::error::StudyError;
use crate::subject::Subject;
use warmswap_columns::Described;

/// One application of a trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Described)]
#[column(relaunch_p50_ns = self.median_relaunch_ns(), "relaunch p50")]
#[column(cold_by_relaunch = self.cold_by_relaunch(), ratio, "cold / relaunch")]
#[column(growth = self.growth(), ratio)]
pub struct LaunchRow {
    /// The trace.
    #[column]
    pub trace: String,
    /// The application.
    #[column]
    pub app: String,
    /// The first cold launch, in nanoseconds; `None` where the trace has none.
    #[column("cold launch")]
    pub cold_ns: Option<u64>,
    /// Each relaunch, in nanoseconds.
    pub relaunch_ns: Vec<u64>,
    /// Anonymous memory when the first launch ended, in bytes.
    #[column("after launch")]
    pub launched_bytes: u64,
    /// The most that there was later.
    #[column("later, at most")]
    pub most_bytes: u64,
}

impl LaunchRow {
    /// The median relaunch, in nanoseconds; `None` without relaunches.
    #[must_use]
    pub fn median_relaunch_ns(&self) -> Option<u64> {
        Sorted::by(self.relaunch_ns.iter().copied(), u64::cmp).median()
    }

    /// How many times as long as the median relaunch the cold launch takes.
    #[must_use]
    pub fn cold_by_relaunch(&self) -> Option<f64> {
        let relaunch = self.median_relaunch_ns().filter(|&ns| ns > 0)?;
        Some(self.cold_ns? as f64 / relaunch as f64)
    }

    /// How many times the anonymous memory of the first launch there is later.
    #[must_use]
    pub fn growth(&self) -> Option<f64> {
        (self.launched_bytes > 0).then(|| self.most_bytes as f64 / self.launched_bytes as f64)
    }
}

#[derive(Default)]
struct LaunchCounter {
    row: LaunchRow,
    begun: Option<(LaunchKind, u64)>,
    is_launched: bool,
    pages: FxHashSet<u64>,
}

/// Looks at every application of the traces; those that are never launched are left out. One pass over each trace;
/// memory: some 10 bytes a page.
///
/// # Errors
/// A trace cannot be read.
pub fn launches(subjects: &[Subject]) -> Result<Vec<LaunchRow>, StudyError> {
    let mut rows = Vec::new();
    for subject in subjects {
        let names = subject.app_names();
        let mut apps: Vec<LaunchCounter> = names.iter().map(|_| LaunchCounter::default()).collect();
        let mut events = subject.reader.events();
        let mut block: Vec<Event> = Vec::new();
        while events.next_block(&mut block)? {
            for event in &block {
                // The reader has checked that every application is in the table.
                apps[usize::from(event.app.0)].event(event);
            }
        }
        for (name, app) in names.into_iter().zip(apps) {
            if app.is_launched {
                rows.push(LaunchRow {
                    trace: subject.name.clone(),
                    app: name,
                    ..app.row
                });
            }
        }
    }
    Ok(rows)
}

impl LaunchCounter {
    fn event(&mut self, event: &Event) {
        match event.kind {
            EventKind::LaunchBegin(kind) => self.begun = Some((kind, event.time_ns)),
            EventKind::LaunchEnd => self.launched(event.time_ns),
            EventKind::Access {
                page: PageAddr::Anon { number },
                ..
            } => {
                self.pages.insert(number);
                self.note_volume();
            }
            EventKind::Free {
                page: PageAddr::Anon { number },
                pages,
            } => {
                let freed = number..number.saturating_add(pages.into());
                if u64::from(pages) > self.pages.len() as u64 {
                    self.pages.retain(|number| !freed.contains(number));
                } else {
                    freed.for_each(|number| {
                        self.pages.remove(&number);
                    });
                }
            }
            EventKind::Exit => self.pages.clear(),
            _ => {}
        }
    }

    fn launched(&mut self, time_ns: u64) {
        let Some((kind, begun_ns)) = self.begun.take() else {
            return;
        };
        let length_ns = time_ns - begun_ns;
        match kind {
            LaunchKind::Relaunch => self.row.relaunch_ns.push(length_ns),
            LaunchKind::Cold => self.row.cold_ns = self.row.cold_ns.or(Some(length_ns)),
        }
        if !std::mem::replace(&mut self.is_launched, true) {
            self.row.launched_bytes = self.bytes();
            self.row.most_bytes = self.row.launched_bytes;
        }
    }

    fn note_volume(&mut self) {
        if self.is_launched {
            self.row.most_bytes = self.row.most_bytes.max(self.bytes());
        }
    }

    fn bytes(&self) -> u64 {
        (self.pages.len() * PAGE_BYTES) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Script;

    #[test]
    fn times_and_volumes_are_worked_out_by_hand() {
        let mut script = Script::new(2);
        // Events are 1 ms apart: begin, touches with their contents, end.
        script
            .launch(0, &[1, 2])
            .execute(0, &[3, 4, 5])
            .background(0);
        script.launch(0, &[1]).background(0).launch(0, &[1, 2, 3]);

        let rows = launches(&[script.subject()]).unwrap();

        assert_eq!(rows.len(), 1, "the other application is never launched");
        let row = &rows[0];
        assert_eq!((row.launched_bytes, row.most_bytes), (2 * 4096, 5 * 4096));
        assert_eq!(row.growth(), Some(2.5));
        assert_eq!(row.relaunch_ns.len(), 2);
        assert!(row.relaunch_ns[0] < row.relaunch_ns[1], "it touches less");
        assert_eq!(row.median_relaunch_ns(), Some(row.relaunch_ns[0]));
        let ratio = row.cold_ns.unwrap() as f64 / row.relaunch_ns[0] as f64;
        assert_eq!(row.cold_by_relaunch(), Some(ratio));
    }

    #[test]
    fn nothing_is_divided_by_nothing() {
        let row = LaunchRow::default();
        assert_eq!(row.growth(), None);
        assert_eq!(row.cold_by_relaunch(), None);
    }
}
