//! What a page costs in an arena and under the kernel's zram.

use warmswap_bench::FaultsReport;

use super::cells::{names, text};
use warmswap_result::table::{Column, Origin, Table, TableError};
use warmswap_result::units::{Kind, Quantity};

/// CPU time beside the kernel's, and waiting times.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn faults(report: &FaultsReport) -> Result<Vec<Table>, TableError> {
    Ok(vec![costs(report)?, waits(report)?])
}

fn costs(report: &FaultsReport) -> Result<Table, TableError> {
    let time = |key, title| Column::new(key, title, Kind::Duration).from(Origin::Measured);
    let mut columns = names(["measure"]);
    columns.push(time("arena_ns", "arena"));
    columns.extend(names(["beside"]));
    columns.extend([
        time("beside_ns", "takes"),
        Column::new("ratio", "ratio", Kind::Ratio).from(Origin::Measured),
    ]);
    let title = format!("CPU time of a page, median of {} rounds", report.rounds);
    let mut table = Table::new(title, columns);
    for measure in &report.measures {
        table.row([
            text(&measure.what),
            Quantity::Nanoseconds(measure.ours_ns),
            text(&measure.other),
            Quantity::Nanoseconds(measure.other_ns),
            Quantity::Ratio(measure.ratio),
        ])?;
    }
    table.footnote(format!(
        "{} recorded pages, lz4, the kernel's zram on a device of its own; a ratio is the median of the rounds' \
         ratios. The measuring thread got {} of a processor before the first round.",
        report.pages,
        Quantity::Fraction(report.cpu_share).human()
    ));
    Ok(table)
}

fn waits(report: &FaultsReport) -> Result<Table, TableError> {
    let time = |key, title| Column::new(key, title, Kind::Duration).from(Origin::Measured);
    let mut columns = names(["served by"]);
    columns.extend([
        Column::new("touches", "touches", Kind::Count),
        time("p50_ns", "p50"),
        time("p99_ns", "p99"),
        time("p999_ns", "p99.9"),
    ]);
    let mut table = Table::new("Waiting time of a touch of a swapped-out page", columns);
    for latency in &report.latencies {
        table.row([
            text(&latency.who),
            Quantity::Count(latency.touches as u64),
            Quantity::nanoseconds(latency.p50_ns),
            Quantity::nanoseconds(latency.p99_ns),
            Quantity::nanoseconds(latency.p999_ns),
        ])?;
    }
    table.footnote("Time on the wall: other programs are in it.");
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmswap_bench::{Latency, Measure};

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
        let tables = faults(&report).expect("rows fit");
        let json = tables[0].json();
        assert_eq!(json["rows"][1]["ratio"], 0.95);
        assert_eq!(tables[1].row_count(), 1);
    }
}
