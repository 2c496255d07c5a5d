//! What is in a trace.

use warmswap_columns::{Described, Table};
use warmswap_trace::Summary;
use warmswap_trace::stats::{AppStats, TraceStats};

/// The whole trace, and each application.
#[must_use]
pub fn trace_info(stats: &TraceStats) -> Vec<Table> {
    let note = "The window as it was recorded, the recorder's own cost included.";
    vec![
        Table::of("Trace", [WholeRow(&stats.summary)]),
        Table::of("Applications", stats.apps.iter().map(AppRow)).note(note),
    ]
}

#[derive(Described)]
#[column(apps = self.0.apps, count)]
#[column(files = self.0.files, count)]
#[column(events = self.0.events, count)]
#[column(duration_ns = self.0.duration_ns())]
#[column(contents = self.0.contents, pages, "distinct contents")]
#[column(file_bytes = self.0.file_bytes, "size")]
struct WholeRow<'a>(&'a Summary);

#[derive(Described)]
#[column(app = self.0.name, text)]
#[column(events = self.0.events, count)]
#[column(accesses = self.0.accesses, count)]
#[column(writes = self.0.writes, count)]
#[column(anon_pages = self.0.anon_pages, "anonymous pages")]
#[column(file_pages = self.0.file_pages, "file pages")]
#[column(content_bytes = self.0.content_bytes, "contents")]
#[column(launches = self.0.launches, count)]
#[column(relaunches = self.0.relaunches, count)]
#[column(relaunch_window_p50_ns = self.0.relaunch_window_median_ns)]
struct AppRow<'a>(&'a AppStats);
