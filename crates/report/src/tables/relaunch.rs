//! How fast applications come back, arm beside arm.

use warmswap_bench::RelaunchReport;
use warmswap_bench::relaunch::{Arm, ArmResult};

use super::cells::{names, text};
use crate::table::{Column, Origin, Table, TableError};
use crate::units::{Kind, Quantity};

/// Latencies and faults, latencies by application, CPU time by part, memory, and targets.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn relaunch(report: &RelaunchReport) -> Result<Vec<Table>, TableError> {
    let mut tables = vec![
        latencies(report)?,
        by_app(report)?,
        cpu(report)?,
        memory(report)?,
    ];
    if !report.targets.is_empty() {
        tables.push(targets(report)?);
    }
    Ok(tables)
}

fn measured(key: &str, title: &str, kind: Kind) -> Column {
    Column::new(key, title, kind).from(Origin::Measured)
}

fn time(key: &str, title: &str) -> Column {
    measured(key, title, Kind::Duration)
}

fn arm(arm: Arm) -> Quantity {
    text(arm.name())
}

fn latencies(report: &RelaunchReport) -> Result<Table, TableError> {
    let mut columns = names(["arm"]);
    columns.extend([
        time("p50_ns", "p50"),
        time("p90_ns", "p90"),
        time("p99_ns", "p99"),
        time("mean_ns", "mean"),
        time("p25_ns", "p25"),
        time("p75_ns", "p75"),
        measured("major_faults", "major faults", Kind::Count),
        measured("minor_faults", "minor faults", Kind::Count),
    ]);
    let count = report.blocks * report.relaunches;
    let title = format!(
        "Relaunch latency to the program's own answer, {count} relaunches of {} applications in each arm",
        report.apps.len()
    );
    let mut table = Table::new(title, columns);
    for result in &report.arms {
        let latency = &result.latency;
        table.row([
            arm(result.arm),
            Quantity::Nanoseconds(latency.p50),
            Quantity::Nanoseconds(latency.p90),
            Quantity::Nanoseconds(latency.p99),
            Quantity::Nanoseconds(latency.mean),
            Quantity::Nanoseconds(latency.p25),
            Quantity::Nanoseconds(latency.p75),
            Quantity::Count(result.major_faults.mean.round() as u64),
            Quantity::Count(result.minor_faults.mean.round() as u64),
        ])?;
    }
    let bytes = |bytes: Option<u64>| bytes.map_or("–".to_owned(), |b| Quantity::Bytes(b).human());
    table.footnote(format!(
        "Limited arms have {} for programs and compressed pool together; without a limit the programs take {}. \
         zram with {}; kernel is the kernel host with scheme {}. {} blocks, arms rotated, {} warm-up rounds each. \
         Faults are means of a relaunch. The measuring thread got {} of a processor before.",
        bytes(report.total_bytes),
        bytes(report.footprint_bytes),
        report.algorithm,
        report.scheme,
        report.blocks,
        report.warm_up,
        Quantity::Fraction(report.cpu_share).human(),
    ));
    Ok(table)
}

fn by_app(report: &RelaunchReport) -> Result<Table, TableError> {
    let mut columns = names(["application"]);
    for result in &report.arms {
        let name = result.arm.name();
        columns.push(time(&format!("{name}_p50_ns"), &format!("{name} p50")));
        columns.push(time(&format!("{name}_p90_ns"), &format!("{name} p90")));
        columns.push(measured(
            &format!("{name}_major_faults"),
            &format!("{name} faults"),
            Kind::Count,
        ));
    }
    let mut table = Table::new("By application", columns);
    for (at, app) in report.apps.iter().enumerate() {
        let mut row = vec![text(app)];
        for result in &report.arms {
            let of = &result.apps[at];
            row.push(Quantity::Nanoseconds(of.latency.p50));
            row.push(Quantity::Nanoseconds(of.latency.p90));
            row.push(Quantity::Count(of.major_faults.mean.round() as u64));
        }
        table.row(row)?;
    }
    Ok(table)
}

fn cpu(report: &RelaunchReport) -> Result<Table, TableError> {
    let mut columns = names(["arm"]);
    columns.extend([
        time("programs_ns", "programs"),
        time("kernel_threads_ns", "kernel threads"),
        time("limit_ns", "limit"),
        time("host_ns", "host"),
        time("prepage_ns", "prepaging"),
        time("total_ns", "together"),
    ]);
    let mut table = Table::new("CPU time of all relaunches and use", columns);
    for ArmResult { arm: of, cpu, .. } in &report.arms {
        table.row([
            arm(*of),
            Quantity::nanoseconds(cpu.programs_ns),
            Quantity::nanoseconds(cpu.kernel_threads_ns),
            Quantity::nanoseconds(cpu.limit_ns),
            Quantity::nanoseconds(cpu.host_ns),
            Quantity::nanoseconds(cpu.prepage_ns),
            Quantity::nanoseconds(cpu.total_ns()),
        ])?;
    }
    table.footnote(
        "Programs include what the kernel does in them: faults and direct reclaim. The thread that keeps limit + \
         pool = total reclaims when the limit falls.",
    );
    Ok(table)
}

fn memory(report: &RelaunchReport) -> Result<Table, TableError> {
    let mut columns = names(["arm"]);
    columns.extend([
        measured("mean_bytes", "memory", Kind::Bytes),
        measured("peak_bytes", "at most", Kind::Bytes),
        measured("file_bytes", "of it files", Kind::Bytes),
        measured("out_pages", "pages out", Kind::Pages),
        measured("in_pages", "pages in", Kind::Pages),
        measured("paged_out", "by the host", Kind::Pages),
        measured("left_by_kernel", "by the kernel", Kind::Pages),
        measured("prefetched", "prefetched", Kind::Pages),
        measured("prefetch_used", "of it used", Kind::Percent),
    ]);
    let mut table = Table::new("Memory with the pool, and swap traffic", columns);
    for result in &report.arms {
        let host = |value: fn(&warmswap_bench::relaunch::HostPart) -> u64| {
            let host = result.host.as_ref();
            host.map_or(Quantity::Missing, |host| Quantity::Pages(value(host)))
        };
        let used = result.host.filter(|host| host.prefetched > 0);
        table.row([
            arm(result.arm),
            Quantity::Bytes(result.mean_bytes),
            Quantity::Bytes(result.peak_bytes),
            Quantity::Bytes(result.file_bytes),
            Quantity::Pages(result.out_pages),
            Quantity::Pages(result.in_pages),
            host(|host| host.paged_out),
            host(|host| host.left_by_kernel),
            host(|host| host.prefetched),
            used.map_or(Quantity::Missing, |host| {
                Quantity::Fraction(host.prefetch_used as f64 / host.prefetched as f64)
            }),
        ])?;
    }
    Ok(table)
}

fn targets(report: &RelaunchReport) -> Result<Table, TableError> {
    let mut columns = names(["kernel against zram"]);
    columns.push(measured("ratio", "ratio", Kind::Ratio));
    columns.extend(names(["target"]));
    let mut table = Table::new("Targets", columns);
    for target in &report.targets {
        let verdict = if target.is_reached() { "" } else { ", missed" };
        table.row([
            text(target.what),
            Quantity::Ratio(target.ratio),
            text(&format!("≤ {}{verdict}", target.at_most)),
        ])?;
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmswap_bench::relaunch::{AppResult, CpuParts, HostPart, Quantiles, Target};

    fn result(arm: Arm, host: Option<HostPart>) -> ArmResult {
        let latency = Quantiles::of([1_000_000, 2_000_000, 3_000_000]);
        ArmResult {
            arm,
            latency,
            major_faults: Quantiles::of([100]),
            minor_faults: Quantiles::of([200]),
            apps: vec![AppResult {
                app: "redis".to_owned(),
                latency,
                major_faults: Quantiles::of([100]),
            }],
            cpu: CpuParts {
                programs_ns: 5,
                host_ns: 7,
                ..CpuParts::default()
            },
            mean_bytes: 1 << 20,
            peak_bytes: 2 << 20,
            file_bytes: 4096,
            out_pages: 1,
            in_pages: 2,
            host,
        }
    }

    #[test]
    fn arms_stand_beside_each_other_and_a_missed_target_is_called_that() {
        let host = HostPart {
            prefetched: 10,
            prefetch_used: 9,
            ..HostPart::default()
        };
        let target = |ratio| Target {
            what: "p90 relaunch latency",
            ratio,
            at_most: 0.5,
        };
        let report = RelaunchReport {
            apps: vec!["redis".to_owned()],
            blocks: 1,
            relaunches: 3,
            warm_up: 1,
            rest_ms: 100,
            seed: 1,
            algorithm: "lz4".to_owned(),
            scheme: "asap".to_owned(),
            cpu_share: 0.99,
            footprint_bytes: Some(4 << 20),
            total_bytes: Some(2 << 20),
            arms: vec![result(Arm::Zram, None), result(Arm::Kernel, Some(host))],
            targets: vec![target(0.4), target(0.6)],
            values: Vec::new(),
        };

        let tables = relaunch(&report).expect("rows fit");

        assert_eq!(tables.len(), 5);
        let rows = |table: usize| tables[table].json()["rows"].clone();
        assert_eq!(rows(0)[1]["p50_ns"], 2e6);
        assert_eq!(rows(1)[0]["kernel_p90_ns"], 3e6);
        assert_eq!(rows(2)[0]["total_ns"], 12.0);
        assert!(rows(3)[0]["prefetched"].is_null());
        assert_eq!(rows(3)[1]["prefetch_used"], 0.9);
        assert_eq!(rows(4)[0]["target"], "≤ 0.5");
        assert_eq!(rows(4)[1]["target"], "≤ 0.5, missed");
    }
}
