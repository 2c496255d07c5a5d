//! How many programs stay alive in a given memory.

use warmswap_bench::relaunch::capacity::{CapacityMost, CapacityReport, CapacityRow, TOO_SLOW};
use warmswap_columns::{Described, Quantity, Table};

/// The arms by number of programs, and the most that each keeps.
#[must_use]
pub fn capacity(report: &CapacityReport) -> Vec<Table> {
    vec![by_number(report), most(report)]
}

#[derive(Described)]
#[column(programs = self.0.programs, count, measured)]
#[column(arm = self.0.arm.name(), text)]
#[column(alive = self.done().map(|row| row.alive), count, measured)]
#[column(p50_ns = self.done().map(|row| row.latency.p50), measured)]
#[column(p90_ns = self.done().map(|row| row.latency.p90), measured)]
#[column(mean_ns = self.done().map(|row| row.latency.mean), measured)]
#[column(cpu_ns = self.done().and_then(|row| row.cpu_ns), "CPU time", measured)]
#[column(out_pages = self.done().map(|row| row.out_pages), pages, "page-outs", measured)]
struct NumberRow<'a>(&'a CapacityRow);

impl NumberRow<'_> {
    fn done(&self) -> Option<&CapacityRow> {
        self.0.failure.is_none().then_some(self.0)
    }
}

fn by_number(report: &CapacityReport) -> Table {
    let rows = report.rows.iter();
    let mut table = Table::of("Programs alive in the same memory", rows.map(NumberRow));
    for row in &report.rows {
        if let Some(failure) = &row.failure {
            let (arm, programs) = (row.arm.name(), row.programs);
            table = table.note(format!("{arm} with {programs} programs: {failure}."));
        }
    }
    table.note(format!(
        "{} of memory for each arm, the compressed pool included, and swap for {} before compression. Programs in turn: {}. The kernel \
         host has a readahead of files of 128 KiB at most, the others the machine's.",
        Quantity::Bytes(report.total_bytes).human(),
        Quantity::Bytes(report.swap_bytes).human(),
        report.apps.join(", ")
    ))
}

#[derive(Described)]
#[column(arm = self.0.arm.name(), text)]
#[column(programs = self.0.programs, count, measured)]
#[column(more = if self.0.is_open { "not tried" } else { "no" }, text)]
struct MostRow<'a>(&'a CapacityMost);

fn most(report: &CapacityReport) -> Table {
    let title = "The most programs that all stay alive";
    Table::of(title, report.most.iter().map(MostRow)).note(format!(
        "Alive: not killed, and relaunched in less than {TOO_SLOW} times what the fewest programs take, at the median."
    ))
}
