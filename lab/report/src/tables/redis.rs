//! A Redis server with half of its memory.

use warmswap_bench::redis::RedisReport;

use super::cells::{names, text};
use crate::table::{Column, Origin, Table, TableError};
use crate::units::{Kind, Quantity};

/// Requests a second, waiting times, CPU and memory, beside zram.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn redis(report: &RedisReport) -> Result<Table, TableError> {
    let time = |key, title| Column::new(key, title, Kind::Duration).from(Origin::Measured);
    let mut columns = names(["keys", "memory of"]);
    columns.extend([
        Column::new("requests_per_second", "requests/s", Kind::Count).from(Origin::Measured),
        Column::new("ratio", "to zram", Kind::Ratio).from(Origin::Measured),
        time("p50_ns", "p50"),
        time("p99_ns", "p99"),
        time("cpu_ns", "CPU"),
        Column::new("faults", "faults", Kind::Number).from(Origin::Measured),
        Column::new("memory_bytes", "memory", Kind::Bytes).from(Origin::Measured),
    ]);
    let mut table = Table::new("A Redis server, GETs of 1 KiB", columns);
    for row in &report.rows {
        table.row([
            text(row.choice.name()),
            text(row.arm.name()),
            Quantity::Count(row.requests_per_second as u64),
            Quantity::Ratio(row.ratio),
            Quantity::nanoseconds(row.latency.p50_ns),
            Quantity::nanoseconds(row.latency.p99_ns),
            Quantity::Nanoseconds(row.cpu_ns),
            Quantity::Number(row.faults),
            Quantity::Bytes(row.memory_bytes as u64),
        ])?;
    }
    table.footnote(format!(
        "Budget {} of {}; zram's server has as much as warmswap's takes in all. CPU and faults of a request: the \
         server's, its pager included. Medians of {} turns; the measuring thread got {} of a processor before them.",
        Quantity::Bytes(report.budget_bytes).human(),
        Quantity::Bytes(report.footprint_bytes).human(),
        report.rows.first().map_or(0, |row| row.turns.len()),
        Quantity::Fraction(report.cpu_share).human()
    ));
    Ok(table)
}
