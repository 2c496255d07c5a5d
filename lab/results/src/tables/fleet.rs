//! Fleet: garbage collection and swap together.

use warmswap_bench::fleet::FleetReport;
use warmswap_bench::fleet::capacity::{ArmCapacity, CapacityReport, Killed};
use warmswap_bench::fleet::depth::{Choice, DepthReport, DepthRow};
use warmswap_bench::fleet::launches::{ArmLaunches, Collections, LaunchesReport};
use warmswap_bench::fleet::working_set::{WorkingSetReport, WorkingSetRow};

use super::cells::{measured, names, text};
use warmswap_columns::units::{Kind, Quantity};
use warmswap_columns::{Described, Table, Value as _};

/// A table or two for each experiment of the report.
#[must_use]
pub fn fleet(report: &FleetReport) -> Vec<Table> {
    let mut tables = Vec::new();
    if let Some(working_set) = &report.working_set {
        tables.extend([accessed(working_set), lifetimes(working_set)]);
    }
    tables.extend(report.depth.as_ref().map(depths));
    for launches in &report.launches {
        tables.extend([
            latencies(launches),
            collections(launches),
            causes(launches),
            swapping(launches),
        ]);
    }
    tables.extend(report.capacity.iter().map(cached));
    tables
}

#[derive(Described)]
#[column(program = self.0.program, text)]
#[column(old_changes = self.0.old_changes, count, "old changed")]
#[column(live_objects = self.0.live_objects, count, measured)]
#[column(native_objects = self.0.native_objects, count, "native", measured)]
#[column(bgc_objects = self.0.bgc_objects, count, "BGC", measured)]
#[column(objects_ratio = less(self.0.native_objects, self.0.bgc_objects), ratio, "less", measured)]
#[column(native_pages = self.0.native_pages, "native pages", measured)]
#[column(bgc_pages = self.0.bgc_pages, "BGC pages", measured)]
#[column(pages_ratio = less(self.0.native_pages, self.0.bgc_pages), ratio, "less", measured)]
struct AccessedRow<'a>(&'a WorkingSetRow);

fn less(native: u64, bgc: u64) -> Option<f64> {
    (bgc > 0).then(|| native as f64 / bgc as f64)
}

fn accessed(report: &WorkingSetReport) -> Table {
    let title = "Objects and pages that a background collection accesses";
    Table::of(title, report.rows.iter().map(AccessedRow)).note(format!(
        "{} allocated and so many old objects changed between two collections. Paper: about 7 times fewer objects \
         (section 7.1, Figure 12a).",
        Quantity::Bytes(report.background_bytes as u64).human()
    ))
}

fn per_mille(value: u64) -> f64 {
    value as f64 / 1000.0
}

fn lifetimes(report: &WorkingSetReport) -> Table {
    const SHOWN: [usize; 5] = [1, 2, 3, 5, 15];
    let mut columns = names(["program", "objects of the"]);
    columns.push(measured("objects", "objects", Kind::Count));
    columns.extend(SHOWN.map(|after| {
        let (key, title) = (format!("alive_after_{after}"), format!("after {after}"));
        measured(&key, &title, Kind::Percent)
    }));
    let mut table = Table::new("Objects that are alive after so many collections", columns);
    for row in &report.lifetimes {
        let sides = [
            ("foreground", &row.foreground_per_mille),
            ("background", &row.background_per_mille),
        ];
        for ((side, alive), objects) in sides.into_iter().zip(row.objects) {
            let cells = [text(&row.program), text(side), Quantity::Count(objects)];
            let at = |after: usize| alive.get(after - 1).map(|&n| per_mille(n));
            let shares = SHOWN.map(|after| at(after).quantity(Kind::Percent));
            table.row(cells.into_iter().chain(shares));
        }
    }
    table.note(
        "Foreground: all that there was at the switch to the background, garbage included. \
         Background: those allocated between two collections. Paper: more than 40 % of the foreground objects of \
         Twitter survive 15 collections, most background objects not the first ones (Figure 5).",
    )
}

#[derive(Described)]
#[column(program = self.0.program, text)]
#[column(launch_objects = choice(self.0.choice), text)]
#[column(depth = self.0.depth, count, "D")]
#[column(accessed_objects = self.0.accessed_objects, count, "accessed", measured)]
#[column(covered = per_mille(self.0.covered_per_mille), percent, "of them covered", measured)]
#[column(footprint = per_mille(self.0.footprint_per_mille), percent, "part of the heap", measured)]
#[column(covered_by_footprint = self.0.covered_by_footprint(), ratio, "covered / part", measured)]
struct CoverRow<'a>(&'a DepthRow);

fn choice(choice: Choice) -> &'static str {
    match choice {
        Choice::Nro => "near roots",
        Choice::Fyo => "young",
        Choice::Both => "both",
        Choice::Learned => "both and learned",
    }
}

fn depths(report: &DepthReport) -> Table {
    let title = "What launches access, and what launch regions hold";
    Table::of(title, report.rows.iter().map(CoverRow)).note(
        "Paper, at D = 2: near-root objects about 50 % of what launches access, young ones 40 %, together 68 %; \
         10.4, 9.3 and 15.5 % of the heap (section 4.2, Figure 6).",
    )
}

#[derive(Described)]
#[column(arm = self.0.arm.name(), text)]
#[column(p50_ns = self.0.p50_ns, "launch p50", measured)]
#[column(p90_ns = self.0.p90_ns, measured)]
#[column(mean_ns = self.0.mean_ns, measured)]
#[column(median_speedup = self.0.median_speedup, ratio, "median faster", measured)]
#[column(p90_speedup = self.0.p90_speedup, ratio, "p90 faster", measured)]
#[column(faults = self.faults_a_launch(), number, "faults a launch", measured)]
#[column(pause_p99_ns = self.0.pauses.p99_ns, measured)]
#[column(slow_actions = self.0.actions.slow as f64 / self.0.actions.count.max(1) as f64, percent, measured)]
struct LatencyRow<'a>(&'a ArmLaunches);

impl LatencyRow<'_> {
    fn faults_a_launch(&self) -> f64 {
        let launches: usize = self.0.launch_ns.iter().map(Vec::len).sum();
        self.0.launch_faults as f64 / launches.max(1) as f64
    }
}

fn latencies(report: &LaunchesReport) -> Table {
    let title = format!("Hot launches, swap to {}", report.swap.name());
    Table::of(title, report.arms.iter().map(LatencyRow))
        .note(format!(
            "{} programs of {} in all, budget {} (dram: ample), heap limit in the background {} times what is live.",
            report.programs.len(),
            Quantity::Bytes(report.footprint_bytes).human(),
            Quantity::Bytes(report.budget_bytes).human(),
            report.background_factor,
        ))
        .note(
            "Faster: than native, the mean over the programs. Paper, Fleet to native: 1.59 at the median, 2.56 at the 90th \
             percentile; to Marvin: 2.62 and 4.45 (section 7.2).",
        )
        .note("Slow actions: longer than a frame at 60 a second.")
}

#[derive(Described)]
#[column(arm = self.0.arm.name(), text)]
#[column(cpu_ns = self.0.cpu_ns, "CPU", measured)]
#[column(collector_cpu_ns = self.0.collector_cpu_ns, "of collectors", measured)]
#[column(collections = self.sum(|kind| kind.count), count, measured)]
#[column(collected_objects = self.sum(|kind| kind.objects), count, "objects", measured)]
#[column(collected_pages = self.sum(|kind| kind.pages), "pages", measured)]
#[column(heap_bytes = self.0.heap_bytes, "heaps", measured)]
#[column(card_bytes = self.0.card_bytes, "cards", measured)]
struct CollectionRow<'a>(&'a ArmLaunches);

impl CollectionRow<'_> {
    fn sum(&self, part: fn(&Collections) -> u64) -> u64 {
        self.0.collections.iter().map(part).sum()
    }
}

fn collections(report: &LaunchesReport) -> Table {
    let title = format!("What collections cost, swap to {}", report.swap.name());
    Table::of(title, report.arms.iter().map(CollectionRow)).note(
        "Collections, the objects and pages that they accessed and the collectors' time from the programs' start on; \
         CPU of everything from the first launch on. Paper: Fleet takes 0.18 % more CPU time than native, and a card \
         table of a 1024th of the addresses (section 7.3); here a second byte for each card says where objects begin.",
    )
}

#[derive(Described)]
#[column(arm = self.0.arm.name(), text)]
#[column(limit = self.0.causes.limit, count, "limit", measured)]
#[column(switch = self.0.causes.switch, count, "switch", measured)]
#[column(forced = self.0.causes.forced, count, measured)]
#[column(last_resort = self.0.causes.last_resort, count, "last resort", measured)]
#[column(in_launches = self.0.causes.in_launches, count, "in launches", measured)]
struct CauseRow<'a>(&'a ArmLaunches);

fn causes(report: &LaunchesReport) -> Table {
    let title = format!("Why collections began, swap to {}", report.swap.name());
    Table::of(title, report.arms.iter().map(CauseRow)).note(
        "Limit: the heap had grown to it; switch: T_B after a switch to the background; forced: the benchmark or a \
         full heap asked for it. In launches: of all, those that a hot launch began, since the limit of the background \
         is close to what is in use (section 4.2).",
    )
}

#[derive(Described)]
#[column(arm = self.0.arm.name(), text)]
#[column(faults = self.0.faults, count, measured)]
#[column(pages_out = self.0.pages_out, count, measured)]
#[column(flash_read_bytes = self.0.flash_read_bytes, measured)]
#[column(overcommits = self.0.overcommits, count, "times over budget", measured)]
struct SwapRow<'a>(&'a ArmLaunches);

fn swapping(report: &LaunchesReport) -> Table {
    let title = format!("What is swapped, swap to {}", report.swap.name());
    Table::of(title, report.arms.iter().map(SwapRow))
        .note("From the first launch on, flash from the programs' start on.")
}

#[derive(Described)]
#[column(arm = self.0.arm.name(), text)]
#[column(first_kill = killed(self.0.killed), text)]
#[column(cached = self.0.cached, count, "cached programs", measured)]
#[column(
    busy = per_mille(self.0.busy_per_mille.last().copied().unwrap_or(0)),
    percent, "flash busy at the end", measured
)]
struct CachedRow<'a>(&'a ArmCapacity);

fn killed(killed: Killed) -> &'static str {
    match killed {
        Killed::Full => "memory and swap full",
        Killed::Thrashing => "thrashing",
        Killed::Never => "never",
    }
}

fn cached(report: &CapacityReport) -> Table {
    let title = format!(
        "Cached programs, {}, heap limit {} times what is live",
        report.name, report.background_factor
    );
    Table::of(title, report.arms.iter().map(CachedRow)).note(format!(
        "Memory {}, swap {}. Thrashing: reading pages back would take more than 70 % of a period of the paper's flash. \
         Paper: Fleet 1.21 times native, 2 times Marvin for small objects (section 7.1, Figure 11).",
        Quantity::Bytes(report.budget_bytes).human(),
        Quantity::Bytes(report.flash_bytes).human(),
    ))
}
