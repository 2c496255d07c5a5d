//! One program with a part of the memory that it needs.

use warmswap_bench::program::ProgramReport;

use super::cells::{names, text};
use warmswap_result::table::{Column, Origin, Table, TableError};
use warmswap_result::units::{Kind, Quantity};

/// Time, CPU time and pages of each arm, beside zram.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn program_bench(report: &ProgramReport) -> Result<Table, TableError> {
    let measured = |key, title, kind| Column::new(key, title, kind).from(Origin::Measured);
    let mut columns = names(["memory of"]);
    columns.extend([
        measured("elapsed_ns", "time", Kind::Duration),
        measured("ratio", "to zram", Kind::Ratio),
        measured("program_cpu_ns", "program CPU", Kind::Duration),
        measured("steering_cpu_ns", "steering CPU", Kind::Duration),
        measured("out_pages", "pages out", Kind::Count),
        measured("in_pages", "pages in", Kind::Count),
        measured("used_peak_bytes", "used at most", Kind::Bytes),
    ]);
    let mut table = Table::new("One program in less memory", columns);
    for row in &report.rows {
        table.row([
            text(row.arm.name()),
            Quantity::Nanoseconds(row.elapsed_ns),
            Quantity::Ratio(row.ratio),
            Quantity::Nanoseconds(row.program_cpu_ns),
            Quantity::Nanoseconds(row.steering_cpu_ns),
            Quantity::Count(row.out_pages as u64),
            Quantity::Count(row.in_pages as u64),
            Quantity::Bytes(row.used_peak_bytes),
        ])?;
    }
    table.footnote(format!(
        "Budget {} of {}, pool included. Medians of {} runs; the measuring thread got {} of a processor before them.",
        Quantity::Bytes(report.budget_bytes).human(),
        Quantity::Bytes(report.needed_bytes).human(),
        report.runs.len() / report.rows.len().max(1),
        Quantity::Fraction(report.cpu_share).human()
    ));
    Ok(table)
}
