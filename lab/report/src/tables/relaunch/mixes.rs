//! Mixes of programs that were drawn at random: what was drawn, arm beside arm in each, and over all of them.

use warmswap_bench::relaunch::{Arm, MixResult, MixesReport};

use super::{arm, measured, time};
use crate::table::{Column, Table, TableError};
use crate::tables::cells::{fraction, names, ratio, text};
use crate::units::{Kind, Quantity};

/// What was drawn, the arms in each mix, and the arms over all mixes.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn mixes(report: &MixesReport) -> Result<Vec<Table>, TableError> {
    Ok(vec![drawn(report)?, figures(report)?, sums(report)?])
}

fn seed(mix: &MixResult) -> Quantity {
    text(&mix.mix.seed.to_string())
}

fn drawn(report: &MixesReport) -> Result<Table, TableError> {
    let mut columns = names(["mix", "programs"]);
    columns.extend([
        Column::new("share", "share", Kind::Percent),
        measured("footprint_bytes", "they take", Kind::Bytes),
        measured("files", "of it files", Kind::Percent),
    ]);
    let mut table = Table::new("Mixes drawn", columns);
    for result in &report.mixes {
        let measured = result.report.as_ref();
        let footprint = measured.and_then(|report| report.footprint_bytes);
        let files = measured.and_then(|report| {
            let dram = report.arm(Arm::Dram)?;
            Some(dram.file_bytes as f64 / dram.mean_bytes.max(1) as f64)
        });
        table.row([
            seed(result),
            text(&result.mix.names()),
            Quantity::Fraction(result.mix.share),
            footprint.map_or(Quantity::Missing, Quantity::Bytes),
            fraction(files),
        ])?;
        if let Some(failure) = &result.failure {
            table.footnote(format!(
                "Mix {} could not be measured: {failure}.",
                result.mix.seed
            ));
        }
    }
    table.footnote(format!(
        "Drawn from {}. Limited arms have that share of what the programs take, the pool included.",
        report.drawn_from.join(", ")
    ));
    Ok(table)
}

fn figures(report: &MixesReport) -> Result<Table, TableError> {
    let mut columns = names(["mix", "arm"]);
    columns.extend([
        time("mean_ns", "mean"),
        time("p50_ns", "p50"),
        measured("mean_ratio", "mean/zram", Kind::Ratio),
        measured("p50_ratio", "p50/zram", Kind::Ratio),
        time("cpu_ns", "CPU time"),
        measured("cpu_ratio", "CPU/zram", Kind::Ratio),
        measured("out_pages", "page-outs", Kind::Pages),
        measured("major_faults", "major faults", Kind::Count),
    ]);
    let mut table = Table::new("Relaunches by mix", columns);
    for result in &report.mixes {
        let Some(report) = &result.report else {
            continue;
        };
        for one in &report.arms {
            let cpu_ns = one.cpu.total_ns();
            let zram = report.arm(Arm::Zram);
            let beside = |ours: f64, theirs: Option<f64>| ratio(theirs.map(|theirs| ours / theirs));
            table.row([
                seed(result),
                arm(one.arm),
                Quantity::Nanoseconds(one.latency.mean),
                Quantity::Nanoseconds(one.latency.p50),
                beside(one.latency.mean, zram.map(|zram| zram.latency.mean)),
                beside(one.latency.p50, zram.map(|zram| zram.latency.p50)),
                Quantity::nanoseconds(cpu_ns),
                beside(cpu_ns as f64, zram.map(|zram| zram.cpu.total_ns() as f64)),
                Quantity::Pages(one.out_pages),
                Quantity::Count(one.major_faults.mean.round() as u64),
            ])?;
        }
    }
    table.footnote("Latency and major faults are of a relaunch, CPU time and page-outs of all relaunches and use.");
    let mut measured = report.mixes.iter().filter_map(|mix| mix.report.as_ref());
    if let Some(line) = measured.next().and_then(super::readahead) {
        table.footnote(line);
    }
    Ok(table)
}

fn sums(report: &MixesReport) -> Result<Table, TableError> {
    let mut columns = names(["arm"]);
    columns.extend([
        measured("mixes", "mixes", Kind::Count),
        measured("added", "adds/zram", Kind::Ratio),
        measured("latency", "mean/zram", Kind::Ratio),
        measured("worst_latency", "worst mix", Kind::Ratio),
        measured("cpu", "CPU/zram", Kind::Ratio),
        measured("worst_cpu", "worst mix", Kind::Ratio),
    ]);
    let mut table = Table::new("Over all mixes", columns);
    for sum in &report.sums {
        table.row([
            arm(sum.arm),
            Quantity::Count(sum.mixes as u64),
            ratio(sum.added),
            Quantity::Ratio(sum.latency),
            Quantity::Ratio(sum.worst_latency),
            Quantity::Ratio(sum.cpu),
            Quantity::Ratio(sum.worst_cpu),
        ])?;
    }
    table.footnote(
        "Adds: what the arm adds to the mean latency without a limit, summed over the mixes, beside what plain zram \
         adds. The other ratios are geometric means of the mixes.",
    );
    Ok(table)
}
