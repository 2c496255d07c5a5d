//! How many programs stay alive in a given memory.

use warmswap_bench::relaunch::capacity::{CapacityReport, CapacityRow, TOO_SLOW};

use super::cells::{names, text};
use super::relaunch::{arm, measured, time};
use warmswap_result::table::{Table, TableError};
use warmswap_result::units::{Kind, Quantity};

/// The arms by number of programs, and the most that each keeps.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn capacity(report: &CapacityReport) -> Result<Vec<Table>, TableError> {
    Ok(vec![by_number(report)?, most(report)?])
}

fn by_number(report: &CapacityReport) -> Result<Table, TableError> {
    let mut columns = vec![measured("programs", "programs", Kind::Count)];
    columns.extend(names(["arm"]));
    columns.extend([
        measured("alive", "alive", Kind::Count),
        time("p50_ns", "p50"),
        time("p90_ns", "p90"),
        time("mean_ns", "mean"),
        time("cpu_ns", "CPU time"),
        measured("out_pages", "page-outs", Kind::Pages),
    ]);
    let mut table = Table::new("Programs alive in the same memory", columns);
    for row in &report.rows {
        let unless_failed = |quantity: fn(&CapacityRow) -> Quantity| match row.failure {
            Some(_) => Quantity::Missing,
            None => quantity(row),
        };
        table.row([
            Quantity::Count(row.programs as u64),
            arm(row.arm),
            unless_failed(|row| Quantity::Count(row.alive as u64)),
            unless_failed(|row| Quantity::Nanoseconds(row.latency.p50)),
            unless_failed(|row| Quantity::Nanoseconds(row.latency.p90)),
            unless_failed(|row| Quantity::Nanoseconds(row.latency.mean)),
            unless_failed(|row| row.cpu_ns.map_or(Quantity::Missing, Quantity::nanoseconds)),
            unless_failed(|row| Quantity::Pages(row.out_pages)),
        ])?;
        if let Some(failure) = &row.failure {
            table.footnote(format!(
                "{} with {} programs: {failure}.",
                row.arm.name(),
                row.programs
            ));
        }
    }
    table.footnote(format!(
        "{} of memory for each arm, the compressed pool included, and swap for {} before compression. Programs in turn: {}. The kernel \
         host has a readahead of files of 128 KiB at most, the others that of the machine.",
        Quantity::Bytes(report.total_bytes).human(),
        Quantity::Bytes(report.swap_bytes).human(),
        report.apps.join(", ")
    ));
    Ok(table)
}

fn most(report: &CapacityReport) -> Result<Table, TableError> {
    let mut columns = names(["arm"]);
    columns.extend([measured("programs", "programs", Kind::Count)]);
    columns.extend(names(["more"]));
    let mut table = Table::new("The most programs that all stay alive", columns);
    for most in &report.most {
        table.row([
            arm(most.arm),
            Quantity::Count(most.programs as u64),
            text(if most.is_open { "not tried" } else { "no" }),
        ])?;
    }
    table.footnote(format!(
        "Alive: not killed, and relaunched in less than {TOO_SLOW} times what the fewest programs take, at the median."
    ));
    Ok(table)
}
