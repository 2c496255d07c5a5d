//! CPU use and I/O during a switch, with the ASAP paper's numbers beside ours.

use warmswap_bench::RelaunchReport;
use warmswap_bench::relaunch::{Arm, SwitchUse, TimelinePart};
use warmswap_study::Published;

use super::super::cells::{measured, names, paper_note, text};
use warmswap_columns::units::{Kind, Quantity};
use warmswap_columns::{Described, Table, Value as _};

/// CPU use of a switch with prepaging, against the baseline.
const PAPER_CPU_RATIO: Published = Published::new(1.18, "section 6.4, Figure 13; at most 1.35");
/// Disk bandwidth of a switch with prepaging, against the baseline.
const PAPER_IO_RATIO: Published = Published::new(1.252, "section 6.4, Figure 14");
/// CPU use of a switch without prepaging.
const PAPER_CPU: Published = Published::new(0.342, "section 1");
/// Part of the disk's bandwidth that a switch without prepaging uses.
const PAPER_IO: Published = Published::new(0.194, "section 1");

/// Figures 13 and 14: means of the switches, and their course.
pub(super) fn switches(report: &RelaunchReport) -> Vec<Table> {
    let mut tables = vec![cpu(report), io(report)];
    if report.arm(Arm::Zram).is_some() {
        let title = "CPU use in the course of a switch (Figure 13)";
        tables.push(course(report, title, Kind::Percent, |part| part.cpu));
        let title = "Swapped in by the kernel in the course of a switch, in a second (Figure 14)";
        let value = |part: &TimelinePart| part.in_bytes_per_second;
        tables.push(course(report, title, Kind::Bytes, value));
        let title = "Files read in the course of a switch, in a second (Figure 14)";
        let value = |part: &TimelinePart| part.read_bytes_per_second;
        tables.push(course(report, title, Kind::Bytes, value));
    }
    tables
}

/// An arm whose switches were sampled.
struct Sampled<'a> {
    report: &'a RelaunchReport,
    arm: Arm,
    switches: &'a SwitchUse,
}

impl Sampled<'_> {
    /// What `of` is in an arm with prepaging, against plain zram.
    fn against_zram(&self, of: fn(&SwitchUse) -> f64) -> Option<f64> {
        let zram = self.report.arm(Arm::Zram)?.switches.as_ref().map(of);
        let zram = zram.filter(|&zram| zram > 0.0)?;
        self.is_prepaging().then_some(of(self.switches) / zram)
    }

    fn is_prepaging(&self) -> bool {
        self.arm.has_host() || self.arm.is_preloaded()
    }

    /// The paper's number, where there is one of ours.
    fn paper(&self, published: &Published) -> Option<f64> {
        self.is_prepaging().then_some(published.value)
    }
}

fn sampled(report: &RelaunchReport) -> impl Iterator<Item = Sampled<'_>> {
    report.arms.iter().filter_map(move |result| {
        Some(Sampled {
            report,
            arm: result.arm,
            switches: result.switches.as_ref()?,
        })
    })
}

#[derive(Described)]
#[column(arm = self.0.arm.name(), text)]
#[column(cpu = self.0.switches.cpu, percent, "CPU", measured)]
#[column(programs = self.0.switches.programs, percent, measured)]
#[column(kernel_threads = self.0.switches.kernel_threads, percent, measured)]
#[column(limit = self.0.switches.limit, percent, measured)]
#[column(host = self.0.switches.host, percent, measured)]
#[column(against_zram = self.0.against_zram(|s| s.cpu), ratio, "vs zram", measured, paper = self.0.paper(&PAPER_CPU_RATIO))]
struct CpuRow<'a>(Sampled<'a>);

fn cpu(report: &RelaunchReport) -> Table {
    let without = Quantity::Fraction(PAPER_CPU.value);
    let with = Quantity::Ratio(PAPER_CPU_RATIO.value);
    let title = "CPU use during a switch (Figure 13)";
    Table::of(title, sampled(report).map(CpuRow))
        .note(format!(
            "Part of all {} processors from the switch to the answer, mean of the switches; sampled every {} ms. The \
             sampling itself is not counted.",
            report.processors,
            report.sample_ms.unwrap_or_default(),
        ))
        .note(paper_note("CPU use without prepaging", without, &PAPER_CPU))
        .note(paper_note("with prepaging", with, &PAPER_CPU_RATIO))
}

#[derive(Described)]
#[column(arm = self.0.arm.name(), text)]
#[column(in_bytes_per_second = self.0.switches.in_bytes_per_second, bytes, "swapped in", measured)]
#[column(in_peak_bytes_per_second = self.0.switches.in_peak_bytes_per_second, bytes, "peak", measured)]
#[column(in_against_zram = self.0.against_zram(|s| s.in_bytes_per_second), ratio, "vs zram", measured)]
#[column(read_bytes_per_second = self.0.switches.read_bytes_per_second, bytes, "files read", measured)]
#[column(read_peak_bytes_per_second = self.0.switches.read_peak_bytes_per_second, bytes, "peak", measured)]
#[column(
    read_against_zram = self.0.against_zram(|s| s.read_bytes_per_second),
    ratio, "vs zram", measured, paper = self.0.paper(&PAPER_IO_RATIO)
)]
struct IoRow<'a>(Sampled<'a>);

fn io(report: &RelaunchReport) -> Table {
    let without = Quantity::Fraction(PAPER_IO.value);
    let what = "part of the disk's bandwidth used without prepaging";
    let with = Quantity::Ratio(PAPER_IO_RATIO.value);
    let title = "I/O during a switch, in a second (Figure 14)";
    Table::of(title, sampled(report).map(IoRow))
        .note(
            "Means of the switches, and of each switch's busiest slice. Swapped in: uncompressed, out of zram and the \
             preloaded library's pools, whose peak is not known. The paper's swap is in memory, too, and its I/O is that of \
             files.",
        )
        .note(paper_note(what, without, &PAPER_IO))
        .note(paper_note("with prepaging", with, &PAPER_IO_RATIO))
}

/// One value of each part of the timeline, by arm.
fn course(
    report: &RelaunchReport,
    title: &str,
    kind: Kind,
    value: fn(&TimelinePart) -> f64,
) -> Table {
    let mut columns = names(["part of zram's switch"]);
    let arms = sampled(report).map(|it| it.arm.name());
    columns.extend(arms.map(|arm| measured(arm, arm, kind)));
    let mut table = Table::new(title, columns);
    let parts = sampled(report).map(|it| it.switches.timeline.len());
    let parts = parts.max().unwrap_or(0);
    for at in 0..parts {
        let percent = |at: usize| at * 100 / parts;
        let part = text(&format!("{} to {} %", percent(at), percent(at + 1)));
        let values = sampled(report).map(|it| {
            let part = it.switches.timeline.get(at);
            let part = part.filter(|part| part.switches > 0);
            part.map(value).quantity(kind)
        });
        table.row(std::iter::once(part).chain(values));
    }
    table.note("Tenths of the application's median switch under plain zram, whoever pages, as in the paper.")
}
