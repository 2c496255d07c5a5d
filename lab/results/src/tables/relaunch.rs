//! How fast applications come back, arm beside arm.

mod machine;
mod switches;

use warmswap_bench::RelaunchReport;
use warmswap_bench::relaunch::{ArenaPart, ArmResult, HostPart};

use super::cells::{measured, names, text};
use warmswap_columns::units::{Kind, Quantity};
use warmswap_columns::{Described, Table};

/// Latencies, times of use and faults, the same by application, CPU time by part, memory, swap traffic, arenas, samples of
/// the switches, and what was left of a whole machine.
#[must_use]
pub fn relaunch(report: &RelaunchReport) -> Vec<Table> {
    let mut tables = vec![
        latencies(report),
        use_times(report),
        latency_by_app(report),
        faults_by_app(report),
        cpu(report),
        memory(report),
        swap_traffic(report),
    ];
    if report.arms.iter().any(|result| !result.arenas.is_empty()) {
        tables.push(arenas(report));
    }
    if report.arms.iter().any(|result| result.switches.is_some()) {
        tables.extend(switches::switches(report));
    }
    if machine::is_measured(report) {
        tables.push(machine::conditions(report));
    }
    tables
}

#[derive(Described)]
#[column(arm = self.0.arm.name(), text)]
#[column(p50_ns = self.0.latency.p50, measured)]
#[column(p90_ns = self.0.latency.p90, measured)]
#[column(p99_ns = self.0.latency.p99, measured)]
#[column(mean_ns = self.0.latency.mean, measured)]
#[column(kills = self.0.kills, count, measured)]
#[column(major_faults = self.0.major_faults.mean, count, measured)]
#[column(minor_faults = self.0.minor_faults.mean, count, measured)]
struct LatencyRow<'a>(&'a ArmResult);

fn latencies(report: &RelaunchReport) -> Table {
    let count = report.blocks * report.relaunches;
    let title = format!(
        "Relaunch latency to the program's own answer, {count} relaunches of {} applications in each arm",
        report.apps.len()
    );
    let mut table = Table::of(title, report.arms.iter().map(LatencyRow));
    let bytes = |bytes: Option<u64>| bytes.map_or("–".to_owned(), |b| Quantity::Bytes(b).human());
    let preload = report.preload_scheme.as_ref().map(|scheme| {
        format!(
            " preload is the preloaded library with scheme {scheme}, in the programs that allow it; there a fault \
             that brought a page from the library's pool is a major one, too."
        )
    });
    if let Some(line) = readahead(report) {
        table = table.note(line);
    }
    let is_machine = machine::is_measured(report);
    let host = format!("kernel is the kernel host.{}", preload.unwrap_or_default());
    table.note(format!(
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
    ))
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

#[derive(Described)]
#[column(arm = self.0.arm.name(), text)]
#[column(use_p50_ns = self.0.use_time.p50, "p50", measured)]
#[column(use_p90_ns = self.0.use_time.p90, "p90", measured)]
#[column(use_mean_ns = self.0.use_time.mean, "mean", measured)]
#[column(use_major_faults = self.0.use_major_faults.mean, count, "major faults", measured)]
struct UseRow<'a>(&'a ArmResult);

fn use_times(report: &RelaunchReport) -> Table {
    let title = "The use after each answer, to its end";
    Table::of(title, report.arms.iter().map(UseRow))
}

fn latency_by_app(report: &RelaunchReport) -> Table {
    let mut columns = names(["application"]);
    for name in report.arms.iter().map(|result| result.arm.name()) {
        for quantile in ["p50", "p90"] {
            let (key, title) = (
                format!("{name}_{quantile}_ns"),
                format!("{name} {quantile}"),
            );
            columns.push(measured(&key, &title, Kind::Duration));
        }
    }
    let mut table = Table::new("Relaunch latency by application", columns);
    for (at, app) in report.apps.iter().enumerate() {
        let times = report.arms.iter().flat_map(|result| {
            let latency = &result.apps[at].latency;
            [latency.p50, latency.p90].map(Quantity::Nanoseconds)
        });
        table.row(std::iter::once(text(app)).chain(times));
    }
    table
}

fn faults_by_app(report: &RelaunchReport) -> Table {
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
        table.row(std::iter::once(text(app)).chain(faults));
    }
    table
}

#[derive(Described)]
#[column(arm = self.0.arm.name(), text)]
#[column(programs_ns = self.0.cpu.programs_ns, measured)]
#[column(kernel_threads_ns = self.0.cpu.kernel_threads_ns, measured)]
#[column(limit_ns = self.0.cpu.limit_ns, measured)]
#[column(host_ns = self.0.cpu.host_ns, measured)]
#[column(prepage_ns = self.0.cpu.prepage_ns, "prepaging", measured)]
#[column(total_ns = self.0.cpu.total_ns(), "together", measured)]
#[column(machine_ns = self.0.cpu.machine_ns, measured)]
struct CpuRow<'a>(&'a ArmResult);

fn cpu(report: &RelaunchReport) -> Table {
    let title = "CPU time of all relaunches and use";
    Table::of(title, report.arms.iter().map(CpuRow)).note(
        "Programs include what the kernel does in them: faults and direct reclaim. The thread that keeps limit + \
         pool = total reclaims when the limit falls. In the arm preload, the host is the library's threads, prepaging \
         included, and the thread that tells them of switches; programs are without them. The machine is all that \
         its processors did but idle, with others' programs.",
    )
}

#[derive(Described)]
#[column(arm = self.0.arm.name(), text)]
#[column(mean_bytes = self.0.mean_bytes, "memory", measured)]
#[column(peak_bytes = self.0.peak_bytes, "at most", measured)]
#[column(file_bytes = self.0.file_bytes, "of it files", measured)]
struct MemoryRow<'a>(&'a ArmResult);

fn memory(report: &RelaunchReport) -> Table {
    Table::of("Memory with the pool", report.arms.iter().map(MemoryRow))
}

#[derive(Described)]
#[column(arm = self.0.arm.name(), text)]
#[column(out_pages = self.0.out_pages, pages, measured)]
#[column(in_pages = self.0.in_pages, pages, measured)]
#[column(paged_out = self.arenas().map(|host| host.paged_out), pages, "by arenas", measured)]
#[column(left_by_kernel = self.arenas().map(|host| host.left_by_kernel), pages, "by the kernel", measured)]
#[column(prefetched = self.0.host.map(|host| host.prefetched), pages, measured)]
#[column(prefetch_used = self.used(), percent, "of it used", measured)]
struct TrafficRow<'a>(&'a ArmResult);

impl TrafficRow<'_> {
    fn arenas(&self) -> Option<HostPart> {
        self.0.host.filter(|_| self.0.arm.is_preloaded())
    }

    fn used(&self) -> Option<f64> {
        let host = self.0.host.filter(|host| host.prefetched > 0)?;
        Some(host.prefetch_used? as f64 / host.prefetched as f64)
    }
}

fn swap_traffic(report: &RelaunchReport) -> Table {
    let table = Table::of("Swap traffic", report.arms.iter().map(TrafficRow));
    if !report.arms.iter().any(|result| result.arm.is_preloaded()) {
        return table;
    }
    table.note(
        "In arms of the preloaded library, out and in are the library's pages and the kernel's together; by arenas is by the \
         library, which does not see a touch of a page that it prefetched.",
    )
}

#[derive(Described)]
#[column(application = self.0.app, text)]
#[column(budget_bytes = self.0.budget_bytes, measured)]
#[column(used_bytes = self.0.used_bytes, measured)]
#[column(pool_bytes = self.0.pool_bytes, "of it pool", measured)]
#[column(paged_programs = self.0.paged_programs, count, "paged", measured)]
#[column(out_pages = self.0.out_pages, "pages out", measured)]
#[column(in_pages = self.0.in_pages, "pages in", measured)]
#[column(pool_faults = self.0.pool_faults, count, "by faults", measured)]
#[column(prefetched = self.0.prefetched, count, measured)]
struct ArenaRow<'a>(&'a ArenaPart);

fn arenas(report: &RelaunchReport) -> Table {
    let parts = report.arms.iter().flat_map(|result| &result.arenas);
    let title = "Applications under the preloaded library";
    Table::of(title, parts.map(ArenaRow)).note(
        "The budget of each program, for frames, pool and state: that part of the total which the program's anonymous \
         memory has of what all take. Paged: programs beyond their budgets. Used and pool at the end of the last block.",
    )
}

#[cfg(test)]
mod tests;
