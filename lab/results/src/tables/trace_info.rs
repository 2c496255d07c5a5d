//! What is in a trace.

use warmswap_trace::stats::TraceStats;

use super::cells::{names, text};
use warmswap_result::table::{Column, Table, TableError};
use warmswap_result::units::{Kind, Quantity};

/// The whole trace, and each application.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn trace_info(stats: &TraceStats) -> Result<Vec<Table>, TableError> {
    Ok(vec![whole(stats)?, applications(stats)?])
}

fn whole(stats: &TraceStats) -> Result<Table, TableError> {
    let columns = vec![
        Column::new("apps", "apps", Kind::Count),
        Column::new("files", "files", Kind::Count),
        Column::new("events", "events", Kind::Count),
        Column::new("duration_ns", "duration", Kind::Duration),
        Column::new("contents", "distinct contents", Kind::Pages),
        Column::new("file_bytes", "size", Kind::Bytes),
    ];
    let summary = &stats.summary;
    let mut table = Table::new("Trace", columns);
    table.row([
        Quantity::Count(summary.apps.into()),
        Quantity::Count(summary.files.into()),
        Quantity::Count(summary.events),
        Quantity::nanoseconds(summary.duration_ns()),
        Quantity::Pages(summary.contents),
        Quantity::Bytes(summary.file_bytes),
    ])?;
    Ok(table)
}

fn applications(stats: &TraceStats) -> Result<Table, TableError> {
    let mut columns = names(["app"]);
    columns.extend([
        Column::new("events", "events", Kind::Count),
        Column::new("accesses", "accesses", Kind::Count),
        Column::new("writes", "writes", Kind::Count),
        Column::new("anon_pages", "anonymous pages", Kind::Count),
        Column::new("file_pages", "file pages", Kind::Count),
        Column::new("content_bytes", "contents", Kind::Bytes),
        Column::new("launches", "launches", Kind::Count),
        Column::new("relaunches", "relaunches", Kind::Count),
        Column::new(
            "relaunch_window_p50_ns",
            "relaunch window p50",
            Kind::Duration,
        ),
    ]);
    let mut table = Table::new("Applications", columns);
    for app in &stats.apps {
        let window = app.relaunch_window_median_ns;
        table.row([
            text(&app.name),
            Quantity::Count(app.events),
            Quantity::Count(app.accesses),
            Quantity::Count(app.writes),
            Quantity::Count(app.anon_pages),
            Quantity::Count(app.file_pages),
            Quantity::Bytes(app.content_bytes),
            Quantity::Count(app.launches),
            Quantity::Count(app.relaunches),
            window.map_or(Quantity::Missing, Quantity::nanoseconds),
        ])?;
    }
    table.footnote("The window as it was recorded, the recorder's own cost included.");
    Ok(table)
}
