//! One program with a part of the memory that it needs.

use warmswap_bench::program::{ProgramReport, ProgramRow};
use warmswap_columns::{Described, Quantity, Table};

#[derive(Described)]
#[column(memory_of = self.0.arm.name(), text)]
#[column(elapsed_ns = self.0.elapsed_ns, "time", measured)]
#[column(ratio = self.0.ratio, ratio, "to zram", measured)]
#[column(program_cpu_ns = self.0.program_cpu_ns, "program CPU", measured)]
#[column(steering_cpu_ns = self.0.steering_cpu_ns, "steering CPU", measured)]
#[column(out_pages = self.0.out_pages, "pages out", measured)]
#[column(in_pages = self.0.in_pages, "pages in", measured)]
#[column(used_peak_bytes = self.0.used_peak_bytes, "used at most", measured)]
struct Row<'a>(&'a ProgramRow);

/// Time, CPU time and pages of each arm, beside zram.
#[must_use]
pub fn program_bench(report: &ProgramReport) -> Table {
    Table::of("One program in less memory", report.rows.iter().map(Row)).note(format!(
        "Budget {} of {}, pool included. Medians of {} runs; the measuring thread got {} of a processor before them.",
        Quantity::Bytes(report.budget_bytes).human(),
        Quantity::Bytes(report.needed_bytes).human(),
        report.runs.len() / report.rows.len().max(1),
        Quantity::Fraction(report.cpu_share).human()
    ))
}
