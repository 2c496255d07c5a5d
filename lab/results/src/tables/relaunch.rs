//! How fast applications come back, arm beside arm.

mod machine;
mod switches;

use warmswap_bench::RelaunchReport;
use warmswap_bench::relaunch::{Arm, HostPart};

use super::cells::{fraction, names, text};
use warmswap_result::table::{Column, Origin, Table, TableError};
use warmswap_result::units::{Kind, Quantity};

/// Latencies, times of use and faults, the same by application, CPU time by part, memory, swap traffic, arenas, samples of
/// the switches, and what was left of a whole machine.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn relaunch(report: &RelaunchReport) -> Result<Vec<Table>, TableError> {
    let mut tables = vec![
        latencies(report)?,
        use_times(report)?,
        latency_by_app(report)?,
        faults_by_app(report)?,
        cpu(report)?,
        memory(report)?,
        swap_traffic(report)?,
    ];
    if report.arms.iter().any(|result| !result.arenas.is_empty()) {
        tables.push(arenas(report)?);
    }
    if report.arms.iter().any(|result| result.switches.is_some()) {
        tables.extend(switches::switches(report)?);
    }
    if machine::is_measured(report) {
        tables.push(machine::conditions(report)?);
    }
    Ok(tables)
}

pub(super) fn measured(key: &str, title: &str, kind: Kind) -> Column {
    Column::new(key, title, kind).from(Origin::Measured)
}

pub(super) fn time(key: &str, title: &str) -> Column {
    measured(key, title, Kind::Duration)
}

pub(super) fn arm(arm: Arm) -> Quantity {
    text(arm.name())
}

fn latencies(report: &RelaunchReport) -> Result<Table, TableError> {
    let mut columns = names(["arm"]);
    columns.extend([
        time("p50_ns", "p50"),
        time("p90_ns", "p90"),
        time("p99_ns", "p99"),
        time("mean_ns", "mean"),
        measured("kills", "kills", Kind::Count),
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
            Quantity::Count(result.kills),
            Quantity::Count(result.major_faults.mean.round() as u64),
            Quantity::Count(result.minor_faults.mean.round() as u64),
        ])?;
    }
    let bytes = |bytes: Option<u64>| bytes.map_or("–".to_owned(), |b| Quantity::Bytes(b).human());
    let preload = report.preload_scheme.as_ref().map(|scheme| {
        format!(
            " preload is the preloaded library with scheme {scheme}, in the programs that allow it; there a fault \
             that brought a page from the library's pool is a major one, too."
        )
    });
    if let Some(line) = readahead(report) {
        table.footnote(line);
    }
    let is_machine = machine::is_measured(report);
    let host = format!("kernel is the kernel host.{}", preload.unwrap_or_default());
    table.footnote(format!(
        "Limited arms have {} for programs and compressed pool together; without a limit the programs take {}. \
         zram with {}; {} {} blocks, arms rotated, {} warm-up rounds each. \
         Faults are means of a relaunch. A killed application's next relaunch is its start. The measuring thread got {} of \
         a processor before.",
        bytes(report.total_bytes),
        bytes(report.footprint_bytes),
        report.algorithm,
        if is_machine { machine::DAEMONS } else { &host },
        report.blocks,
        report.warm_up,
        Quantity::Fraction(report.cpu_share).human(),
    ));
    Ok(table)
}

/// A line about the readahead of each arm, which changes results more than most schemes do; none where it is unknown.
fn readahead(report: &RelaunchReport) -> Option<String> {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for result in &report.arms {
        let disks = result.conditions.readahead_kib.iter();
        let disks: Vec<_> = disks
            .map(|disk| format!("{} {}", disk.name, disk.value))
            .collect();
        let (disks, arm) = (disks.join(", "), result.arm.name());
        match groups.iter_mut().find(|group| group.0 == disks) {
            Some(group) => group.1.push(arm),
            None => groups.push((disks, vec![arm])),
        }
    }
    groups.retain(|group| !group.0.is_empty());
    let groups: Vec<_> = groups
        .iter()
        .map(|(disks, arms)| format!("{disks} ({})", arms.join(", ")))
        .collect();
    (!groups.is_empty()).then(|| format!("Readahead of files, KiB: {}.", groups.join("; ")))
}

fn use_times(report: &RelaunchReport) -> Result<Table, TableError> {
    let mut columns = names(["arm"]);
    columns.extend([
        time("use_p50_ns", "p50"),
        time("use_p90_ns", "p90"),
        time("use_mean_ns", "mean"),
        measured("use_major_faults", "major faults", Kind::Count),
    ]);
    let mut table = Table::new("The use after each answer, to its end", columns);
    for result in &report.arms {
        let time = &result.use_time;
        table.row([
            arm(result.arm),
            Quantity::Nanoseconds(time.p50),
            Quantity::Nanoseconds(time.p90),
            Quantity::Nanoseconds(time.mean),
            Quantity::Count(result.use_major_faults.mean.round() as u64),
        ])?;
    }
    Ok(table)
}

fn latency_by_app(report: &RelaunchReport) -> Result<Table, TableError> {
    let mut columns = names(["application"]);
    for result in &report.arms {
        let name = result.arm.name();
        columns.push(time(&format!("{name}_p50_ns"), &format!("{name} p50")));
        columns.push(time(&format!("{name}_p90_ns"), &format!("{name} p90")));
    }
    let mut table = Table::new("Relaunch latency by application", columns);
    for (at, app) in report.apps.iter().enumerate() {
        let mut row = vec![text(app)];
        for result in &report.arms {
            let latency = &result.apps[at].latency;
            row.push(Quantity::Nanoseconds(latency.p50));
            row.push(Quantity::Nanoseconds(latency.p90));
        }
        table.row(row)?;
    }
    Ok(table)
}

fn faults_by_app(report: &RelaunchReport) -> Result<Table, TableError> {
    let mut columns = names(["application"]);
    columns.extend(report.arms.iter().map(|result| {
        let name = result.arm.name();
        measured(&format!("{name}_major_faults"), name, Kind::Count)
    }));
    let mut table = Table::new("Major faults of a relaunch by application", columns);
    for (at, app) in report.apps.iter().enumerate() {
        let faults = report.arms.iter().map(|result| {
            let mean = result.apps[at].major_faults.mean;
            Quantity::Count(mean.round() as u64)
        });
        table.row(std::iter::once(text(app)).chain(faults))?;
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
        time("machine_ns", "machine"),
    ]);
    let known = |ns: Option<u64>| ns.map_or(Quantity::Missing, Quantity::nanoseconds);
    let mut table = Table::new("CPU time of all relaunches and use", columns);
    for result in &report.arms {
        let cpu = &result.cpu;
        table.row([
            arm(result.arm),
            known(cpu.programs_ns),
            Quantity::nanoseconds(cpu.kernel_threads_ns),
            Quantity::nanoseconds(cpu.limit_ns),
            Quantity::nanoseconds(cpu.host_ns),
            Quantity::nanoseconds(cpu.prepage_ns),
            known(cpu.total_ns()),
            Quantity::nanoseconds(cpu.machine_ns),
        ])?;
    }
    table.footnote(
        "Programs include what the kernel does in them: faults and direct reclaim. The thread that keeps limit + \
         pool = total reclaims when the limit falls. In the arm preload, the host is the library's threads, prepaging \
         included, and the thread that tells them of switches; programs are without them. The machine is all that \
         its processors did but idle, with others' programs.",
    );
    Ok(table)
}

fn memory(report: &RelaunchReport) -> Result<Table, TableError> {
    let mut columns = names(["arm"]);
    columns.extend([
        measured("mean_bytes", "memory", Kind::Bytes),
        measured("peak_bytes", "at most", Kind::Bytes),
        measured("file_bytes", "of it files", Kind::Bytes),
    ]);
    let mut table = Table::new("Memory with the pool", columns);
    for result in &report.arms {
        table.row([
            arm(result.arm),
            Quantity::Bytes(result.mean_bytes),
            Quantity::Bytes(result.peak_bytes),
            Quantity::Bytes(result.file_bytes),
        ])?;
    }
    Ok(table)
}

fn swap_traffic(report: &RelaunchReport) -> Result<Table, TableError> {
    let mut columns = names(["arm"]);
    columns.extend([
        measured("out_pages", "out", Kind::Pages),
        measured("in_pages", "in", Kind::Pages),
        measured("paged_out", "by arenas", Kind::Pages),
        measured("left_by_kernel", "by the kernel", Kind::Pages),
        measured("prefetched", "prefetched", Kind::Pages),
        measured("prefetch_used", "of it used", Kind::Percent),
    ]);
    let mut table = Table::new("Swap traffic", columns);
    for result in &report.arms {
        let host = result.host.as_ref();
        let arenas = |value: fn(&HostPart) -> u64| {
            let host = host.filter(|_| result.arm.is_preloaded());
            host.map_or(Quantity::Missing, |host| Quantity::Pages(value(host)))
        };
        let used = result.host.filter(|host| host.prefetched > 0);
        let used = used.and_then(|host| Some(host.prefetch_used? as f64 / host.prefetched as f64));
        table.row([
            arm(result.arm),
            Quantity::Pages(result.out_pages),
            Quantity::Pages(result.in_pages),
            arenas(|host| host.paged_out),
            arenas(|host| host.left_by_kernel),
            host.map_or(Quantity::Missing, |host| Quantity::Pages(host.prefetched)),
            fraction(used),
        ])?;
    }
    if report.arms.iter().any(|result| result.arm.is_preloaded()) {
        table.footnote(
            "In arms of the preloaded library, out and in are the library's pages and the kernel's together; by arenas is by the \
             library, which does not see a touch of a page that it prefetched.",
        );
    }
    Ok(table)
}

fn arenas(report: &RelaunchReport) -> Result<Table, TableError> {
    let mut columns = names(["application"]);
    columns.extend([
        measured("budget_bytes", "budget", Kind::Bytes),
        measured("used_bytes", "used", Kind::Bytes),
        measured("pool_bytes", "of it pool", Kind::Bytes),
        measured("paged_programs", "paged", Kind::Count),
        measured("out_pages", "pages out", Kind::Count),
        measured("in_pages", "pages in", Kind::Count),
        measured("pool_faults", "by faults", Kind::Count),
        measured("prefetched", "prefetched", Kind::Count),
    ]);
    let mut table = Table::new("Applications under the preloaded library", columns);
    for part in report.arms.iter().flat_map(|result| &result.arenas) {
        table.row([
            text(&part.app),
            Quantity::Bytes(part.budget_bytes),
            Quantity::Bytes(part.used_bytes),
            Quantity::Bytes(part.pool_bytes),
            Quantity::Count(part.paged_programs),
            Quantity::Count(part.out_pages),
            Quantity::Count(part.in_pages),
            Quantity::Count(part.pool_faults),
            Quantity::Count(part.prefetched),
        ])?;
    }
    table.footnote(
        "The budget of each program, for frames, pool and state: that part of the total which the program's anonymous \
         memory has of what all take. Paged: programs beyond their budgets. Used and pool at the end of the last block.",
    );
    Ok(table)
}

#[cfg(test)]
mod tests;
