//! What a page costs in an arena and under the kernel's zram.

use warmswap_bench::{FaultsReport, Latency, Measure};
use warmswap_columns::{Described, Quantity, Table};

/// CPU time beside the kernel's, and waiting times.
#[must_use]
pub fn faults(report: &FaultsReport) -> Vec<Table> {
    vec![costs(report), waits(report)]
}

#[derive(Described)]
#[column(measure = self.0.what, text)]
#[column(arena_ns = self.0.ours_ns, measured)]
#[column(beside = self.0.other, text)]
#[column(beside_ns = self.0.other_ns, "takes", measured)]
#[column(ratio = self.0.ratio, ratio, measured)]
struct CostRow<'a>(&'a Measure);

fn costs(report: &FaultsReport) -> Table {
    let title = format!("CPU time of a page, median of {} rounds", report.rounds);
    Table::of(title, report.measures.iter().map(CostRow)).note(format!(
        "{} recorded pages, lz4, the kernel's zram on a device of its own; a ratio is the median of the rounds' \
         ratios. The measuring thread got {} of a processor before the first round.",
        report.pages,
        Quantity::Fraction(report.cpu_share).human()
    ))
}

#[derive(Described)]
#[column(served_by = self.0.who, text)]
#[column(touches = self.0.touches, count)]
#[column(p50_ns = self.0.p50_ns, measured)]
#[column(p99_ns = self.0.p99_ns, measured)]
#[column(p999_ns = self.0.p999_ns, "p99.9", measured)]
struct WaitRow<'a>(&'a Latency);

fn waits(report: &FaultsReport) -> Table {
    let title = "Waiting time of a touch of a swapped-out page";
    Table::of(title, report.latencies.iter().map(WaitRow))
        .note("Time on the wall: other programs are in it.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_and_waits_have_a_table_each() {
        let measure = |key: &'static str, ratio| Measure {
            key: key.into(),
            what: "touch".into(),
            ours_ns: 4500.0,
            other_ns: 5000.0,
            other: "MADV_PAGEOUT".into(),
            ratio,
        };
        let report = FaultsReport {
            pages: 4096,
            rounds: 9,
            cpu_share: 0.99,
            measures: vec![measure("a", 0.9), measure("b", 0.95)],
            latencies: vec![Latency {
                who: "kernel zram".into(),
                touches: 10,
                p50_ns: 7000,
                p99_ns: 9000,
                p999_ns: 20_000,
            }],
        };
        let tables = faults(&report);
        let json = tables[0].json();
        assert_eq!(json["rows"][1]["ratio"], 0.95);
        assert_eq!(tables[1].row_count(), 1);
    }
}
