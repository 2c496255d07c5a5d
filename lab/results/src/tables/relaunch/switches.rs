//! CPU use and I/O during a switch, with the ASAP paper's numbers beside ours.

use warmswap_bench::RelaunchReport;
use warmswap_bench::relaunch::{Arm, SwitchUse, TimelinePart};
use warmswap_study::Published;

use super::super::cells::{names, paper_note, ratio, text};
use super::{arm, measured};
use warmswap_result::table::{Column, Origin, Table, TableError};
use warmswap_result::units::{Kind, Quantity};

/// CPU use of a switch with prepaging, against the baseline.
const PAPER_CPU_RATIO: Published = Published::new(1.18, "section 6.4, Figure 13; at most 1.35");
/// Disk bandwidth of a switch with prepaging, against the baseline.
const PAPER_IO_RATIO: Published = Published::new(1.252, "section 6.4, Figure 14");
/// CPU use of a switch without prepaging.
const PAPER_CPU: Published = Published::new(0.342, "section 1");
/// Part of the disk's bandwidth that a switch without prepaging uses.
const PAPER_IO: Published = Published::new(0.194, "section 1");

/// Figures 13 and 14: means of the switches, and their course.
pub(super) fn switches(report: &RelaunchReport) -> Result<Vec<Table>, TableError> {
    let mut tables = vec![cpu(report)?, io(report)?];
    let has_course = report.arm(Arm::Zram).is_some();
    if has_course {
        let bytes = |value: f64| Quantity::Bytes(value.round() as u64);
        tables.push(course(
            report,
            (
                "CPU use in the course of a switch (Figure 13)",
                Kind::Percent,
            ),
            |part| Quantity::Fraction(part.cpu),
        )?);
        tables.push(course(
            report,
            (
                "Swapped in by the kernel in the course of a switch, in a second (Figure 14)",
                Kind::Bytes,
            ),
            |part| bytes(part.in_bytes_per_second),
        )?);
        tables.push(course(
            report,
            (
                "Files read in the course of a switch, in a second (Figure 14)",
                Kind::Bytes,
            ),
            |part| bytes(part.read_bytes_per_second),
        )?);
    }
    Ok(tables)
}

/// The arms whose switches were sampled.
fn sampled(report: &RelaunchReport) -> impl Iterator<Item = (Arm, &SwitchUse)> {
    let arms = report.arms.iter();
    arms.filter_map(|result| Some((result.arm, result.switches.as_ref()?)))
}

/// What `of` is in an arm with prepaging, against plain zram.
fn against_zram(report: &RelaunchReport, arm: Arm, of: fn(&SwitchUse) -> f64) -> Option<f64> {
    let value = |arm| report.arm(arm)?.switches.as_ref().map(of);
    let zram = value(Arm::Zram).filter(|&zram| zram > 0.0)?;
    is_prepaging(arm).then_some(value(arm)? / zram)
}

fn is_prepaging(arm: Arm) -> bool {
    arm.has_host() || arm.is_preloaded()
}

/// The paper's number, where there is one of ours.
fn paper(of: Arm, published: &Published) -> Quantity {
    ratio(is_prepaging(of).then_some(published.value))
}

fn cpu(report: &RelaunchReport) -> Result<Table, TableError> {
    let share = |key: &str, title: &str| measured(key, title, Kind::Percent);
    let mut columns = names(["arm"]);
    columns.extend([
        share("cpu", "CPU"),
        share("programs", "programs"),
        share("kernel_threads", "kernel threads"),
        share("limit", "limit"),
        share("host", "host"),
        measured("against_zram", "vs zram", Kind::Ratio),
        Column::new("against_zram_paper", "vs zram", Kind::Ratio).from(Origin::Paper),
    ]);
    let mut table = Table::new("CPU use during a switch (Figure 13)", columns);
    for (of, switches) in sampled(report) {
        table.row([
            arm(of),
            Quantity::Fraction(switches.cpu),
            Quantity::Fraction(switches.programs),
            Quantity::Fraction(switches.kernel_threads),
            Quantity::Fraction(switches.limit),
            Quantity::Fraction(switches.host),
            ratio(against_zram(report, of, |switches| switches.cpu)),
            paper(of, &PAPER_CPU_RATIO),
        ])?;
    }
    table.footnote(format!(
        "Part of all {} processors from the switch to the answer, mean of the switches; sampled every {} ms. The \
         sampling itself is not counted.",
        report.processors,
        report.sample_ms.unwrap_or_default(),
    ));
    let without = Quantity::Fraction(PAPER_CPU.value);
    table.footnote(paper_note("CPU use without prepaging", without, &PAPER_CPU));
    let with = Quantity::Ratio(PAPER_CPU_RATIO.value);
    table.footnote(paper_note("with prepaging", with, &PAPER_CPU_RATIO));
    Ok(table)
}

fn io(report: &RelaunchReport) -> Result<Table, TableError> {
    let bytes = |key: &str, title: &str| measured(key, title, Kind::Bytes);
    let mut columns = names(["arm"]);
    columns.extend([
        bytes("in_bytes_per_second", "swapped in"),
        bytes("in_peak_bytes_per_second", "peak"),
        measured("in_against_zram", "vs zram", Kind::Ratio),
        bytes("read_bytes_per_second", "files read"),
        bytes("read_peak_bytes_per_second", "peak"),
        measured("read_against_zram", "vs zram", Kind::Ratio),
        Column::new("read_against_zram_paper", "vs zram", Kind::Ratio).from(Origin::Paper),
    ]);
    let mut table = Table::new("I/O during a switch, in a second (Figure 14)", columns);
    let rounded = |value: f64| Quantity::Bytes(value.round() as u64);
    for (of, switches) in sampled(report) {
        let peak = switches.in_peak_bytes_per_second;
        table.row([
            arm(of),
            rounded(switches.in_bytes_per_second),
            peak.map_or(Quantity::Missing, rounded),
            ratio(against_zram(report, of, |s| s.in_bytes_per_second)),
            rounded(switches.read_bytes_per_second),
            rounded(switches.read_peak_bytes_per_second),
            ratio(against_zram(report, of, |s| s.read_bytes_per_second)),
            paper(of, &PAPER_IO_RATIO),
        ])?;
    }
    table.footnote(
        "Means of the switches, and of each switch's busiest slice. Swapped in: uncompressed, out of zram and the \
         preloaded library's pools, whose peak is not known. The paper's swap is in memory, too, and its I/O is that of \
         files.",
    );
    let without = Quantity::Fraction(PAPER_IO.value);
    let what = "part of the disk's bandwidth used without prepaging";
    table.footnote(paper_note(what, without, &PAPER_IO));
    let with = Quantity::Ratio(PAPER_IO_RATIO.value);
    table.footnote(paper_note("with prepaging", with, &PAPER_IO_RATIO));
    Ok(table)
}

/// One value of each part of the timeline, by arm.
fn course(
    report: &RelaunchReport,
    (title, kind): (&str, Kind),
    value: impl Fn(&TimelinePart) -> Quantity,
) -> Result<Table, TableError> {
    let mut columns = names(["part of zram's switch"]);
    columns.extend(sampled(report).map(|(arm, _)| measured(arm.name(), arm.name(), kind)));
    let mut table = Table::new(title, columns);
    let parts = sampled(report).map(|(_, switches)| switches.timeline.len());
    let parts = parts.max().unwrap_or(0);
    for at in 0..parts {
        let percent = |at: usize| at * 100 / parts;
        let mut row = vec![text(&format!("{} to {} %", percent(at), percent(at + 1)))];
        row.extend(sampled(report).map(|(_, switches)| {
            let part = switches.timeline.get(at).filter(|part| part.switches > 0);
            part.map_or(Quantity::Missing, &value)
        }));
        table.row(row)?;
    }
    table.footnote("Tenths of the application's median switch under plain zram, whoever pages, as in the paper.");
    Ok(table)
}
