//! Fleet: garbage collection and swap together.

use warmswap_bench::fleet::FleetReport;
use warmswap_bench::fleet::capacity::{CapacityReport, Killed};
use warmswap_bench::fleet::depth::{Choice, DepthReport};
use warmswap_bench::fleet::launches::LaunchesReport;
use warmswap_bench::fleet::working_set::WorkingSetReport;

use super::cells::{names, ratio, text};
use warmswap_result::table::{Column, Origin, Table, TableError};
use warmswap_result::units::{Kind, Quantity};

/// A table or two for each experiment of the report.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn fleet(report: &FleetReport) -> Result<Vec<Table>, TableError> {
    let mut tables = Vec::new();
    if let Some(working_set) = &report.working_set {
        tables.push(accessed(working_set)?);
        tables.push(lifetimes(working_set)?);
    }
    if let Some(depth) = &report.depth {
        tables.push(depths(depth)?);
    }
    for launches in &report.launches {
        tables.push(latencies(launches)?);
        tables.push(collections(launches)?);
        tables.push(swapping(launches)?);
    }
    for capacity in &report.capacity {
        tables.push(cached(capacity)?);
    }
    Ok(tables)
}

fn measured(key: &str, title: &str, kind: Kind) -> Column {
    Column::new(key, title, kind).from(Origin::Measured)
}

fn accessed(report: &WorkingSetReport) -> Result<Table, TableError> {
    let mut columns = names(["program"]);
    columns.extend([
        Column::new("old_changes", "old changed", Kind::Count),
        measured("live_objects", "live objects", Kind::Count),
        measured("native_objects", "native", Kind::Count),
        measured("bgc_objects", "BGC", Kind::Count),
        measured("objects_ratio", "less", Kind::Ratio),
        measured("native_pages", "native pages", Kind::Count),
        measured("bgc_pages", "BGC pages", Kind::Count),
        measured("pages_ratio", "less", Kind::Ratio),
    ]);
    let mut table = Table::new(
        "Objects and pages that a background collection accesses",
        columns,
    );
    let less = |native: u64, bgc: u64| ratio((bgc > 0).then(|| native as f64 / bgc as f64));
    for row in &report.rows {
        table.row([
            text(&row.program),
            Quantity::Count(row.old_changes as u64),
            Quantity::Count(row.live_objects as u64),
            Quantity::Count(row.native_objects),
            Quantity::Count(row.bgc_objects),
            less(row.native_objects, row.bgc_objects),
            Quantity::Count(row.native_pages),
            Quantity::Count(row.bgc_pages),
            less(row.native_pages, row.bgc_pages),
        ])?;
    }
    table.footnote(format!(
        "{} allocated and so many old objects changed between two collections. Paper: about 7 times fewer objects \
         (section 7.1, Figure 12a).",
        Quantity::Bytes(report.background_bytes as u64).human()
    ));
    Ok(table)
}

fn per_mille(value: u64) -> Quantity {
    Quantity::Fraction(value as f64 / 1000.0)
}

fn lifetimes(report: &WorkingSetReport) -> Result<Table, TableError> {
    const SHOWN: [usize; 5] = [1, 2, 3, 5, 15];
    let mut columns = names(["program", "objects of the"]);
    columns.push(measured("objects", "objects", Kind::Count));
    for after in SHOWN {
        let key = format!("alive_after_{after}");
        columns.push(measured(&key, &format!("after {after}"), Kind::Percent));
    }
    let mut table = Table::new("Objects that are alive after so many collections", columns);
    for row in &report.lifetimes {
        let sides = [
            ("foreground", &row.foreground_per_mille),
            ("background", &row.background_per_mille),
        ];
        for ((side, alive), objects) in sides.into_iter().zip(row.objects) {
            let mut cells = vec![text(&row.program), text(side), Quantity::Count(objects)];
            let at = |after: usize| {
                alive
                    .get(after - 1)
                    .map_or(Quantity::Missing, |&n| per_mille(n))
            };
            cells.extend(SHOWN.map(at));
            table.row(cells)?;
        }
    }
    table.footnote(
        "Background: those allocated between two collections. Paper: more than 40 % of the foreground objects of \
         Twitter survive 15 collections, most background objects not the first ones (Figure 5)."
            .to_owned(),
    );
    Ok(table)
}

fn depths(report: &DepthReport) -> Result<Table, TableError> {
    let mut columns = names(["program", "launch objects"]);
    columns.extend([
        Column::new("depth", "D", Kind::Count),
        measured("accessed_objects", "accessed", Kind::Count),
        measured("covered", "of them covered", Kind::Percent),
        measured("footprint", "part of the heap", Kind::Percent),
    ]);
    let mut table = Table::new(
        "What launches access, and what launch regions hold",
        columns,
    );
    for row in &report.rows {
        let choice = match row.choice {
            Choice::Nro => "near roots",
            Choice::Fyo => "young",
            Choice::Both => "both",
            Choice::Learned => "both and learned",
        };
        table.row([
            text(&row.program),
            text(choice),
            Quantity::Count(row.depth.into()),
            Quantity::Count(row.accessed_objects),
            per_mille(row.covered_per_mille),
            per_mille(row.footprint_per_mille),
        ])?;
    }
    table.footnote(
        "Paper, at D = 2: near-root objects about 50 % of what launches access, young ones 40 %, together 68 %; \
         10.4, 9.3 and 15.5 % of the heap (section 4.2, Figure 6)."
            .to_owned(),
    );
    Ok(table)
}

fn latencies(report: &LaunchesReport) -> Result<Table, TableError> {
    let time = |key, title| measured(key, title, Kind::Duration);
    let mut columns = names(["arm"]);
    columns.extend([
        time("p50_ns", "launch p50"),
        time("p90_ns", "p90"),
        time("mean_ns", "mean"),
        measured("median_speedup", "median faster", Kind::Ratio),
        measured("p90_speedup", "p90 faster", Kind::Ratio),
        measured("faults", "faults a launch", Kind::Number),
        time("pause_p99_ns", "pause p99"),
        measured("slow_actions", "slow actions", Kind::Percent),
    ]);
    let title = format!("Hot launches, swap to {}", report.swap.name());
    let mut table = Table::new(&title, columns);
    for arm in &report.arms {
        let launches: usize = arm.launch_ns.iter().map(Vec::len).sum();
        table.row([
            text(arm.arm.name()),
            Quantity::nanoseconds(arm.p50_ns),
            Quantity::nanoseconds(arm.p90_ns),
            Quantity::nanoseconds(arm.mean_ns),
            ratio(arm.median_speedup),
            ratio(arm.p90_speedup),
            Quantity::Number(arm.launch_faults as f64 / launches.max(1) as f64),
            Quantity::nanoseconds(arm.pauses.p99_ns),
            Quantity::Fraction(arm.actions.slow as f64 / arm.actions.count.max(1) as f64),
        ])?;
    }
    table.footnote(format!(
        "{} programs of {} in all, budget {} (dram: ample), heap limit in the background {} times what is live.",
        report.programs.len(),
        Quantity::Bytes(report.footprint_bytes).human(),
        Quantity::Bytes(report.budget_bytes).human(),
        report.background_factor,
    ));
    table.footnote(
        "Faster: than native, the mean over the programs. Paper, Fleet to native: 1.59 at the median, 2.56 at the 90th \
         percentile; to Marvin: 2.62 and 4.45 (section 7.2)."
            .to_owned(),
    );
    table.footnote("Slow actions: longer than a frame at 60 a second.".to_owned());
    Ok(table)
}

fn collections(report: &LaunchesReport) -> Result<Table, TableError> {
    let mut columns = names(["arm"]);
    columns.extend([
        measured("cpu_ns", "CPU", Kind::Duration),
        measured("collector_cpu_ns", "of collectors", Kind::Duration),
        measured("collections", "collections", Kind::Count),
        measured("collected_objects", "objects", Kind::Count),
        measured("collected_pages", "pages", Kind::Count),
        measured("heap_bytes", "heaps", Kind::Bytes),
        measured("card_bytes", "cards", Kind::Bytes),
    ]);
    let title = format!("What collections cost, swap to {}", report.swap.name());
    let mut table = Table::new(&title, columns);
    for arm in &report.arms {
        let sum = |part: fn(&warmswap_bench::fleet::launches::Collections) -> u64| {
            Quantity::Count(arm.collections.iter().map(part).sum())
        };
        table.row([
            text(arm.arm.name()),
            Quantity::nanoseconds(arm.cpu_ns),
            Quantity::nanoseconds(arm.collector_cpu_ns),
            sum(|kind| kind.count),
            sum(|kind| kind.objects),
            sum(|kind| kind.pages),
            Quantity::Bytes(arm.heap_bytes),
            Quantity::Bytes(arm.card_bytes),
        ])?;
    }
    table.footnote(
        "Collections, the objects and pages that they accessed and the collectors' time from the programs' start on; \
         CPU of everything from the first launch on. Paper: Fleet takes 0.18 % more CPU time than native, and a card \
         table of a 1024th of the heap (section 7.3)."
            .to_owned(),
    );
    Ok(table)
}

fn swapping(report: &LaunchesReport) -> Result<Table, TableError> {
    let mut columns = names(["arm"]);
    columns.extend([
        measured("faults", "faults", Kind::Count),
        measured("pages_out", "pages out", Kind::Count),
        measured("flash_read_bytes", "flash read", Kind::Bytes),
        measured("overcommits", "times over budget", Kind::Count),
    ]);
    let title = format!("What is swapped, swap to {}", report.swap.name());
    let mut table = Table::new(&title, columns);
    for arm in &report.arms {
        table.row([
            text(arm.arm.name()),
            Quantity::Count(arm.faults),
            Quantity::Count(arm.pages_out),
            Quantity::Bytes(arm.flash_read_bytes),
            Quantity::Count(arm.overcommits),
        ])?;
    }
    table.footnote("From the first launch on, flash from the programs' start on.".to_owned());
    Ok(table)
}

fn cached(report: &CapacityReport) -> Result<Table, TableError> {
    let mut columns = names(["arm", "first kill"]);
    columns.extend([
        measured("cached", "cached programs", Kind::Count),
        measured("busy", "flash busy at the end", Kind::Percent),
    ]);
    let title = format!(
        "Cached programs, {}, heap limit {} times what is live",
        report.name, report.background_factor
    );
    let mut table = Table::new(&title, columns);
    for arm in &report.arms {
        let why = match arm.killed {
            Killed::Full => "memory and swap full",
            Killed::Thrashing => "thrashing",
            Killed::Never => "never",
        };
        let busy = arm.busy_per_mille.last().copied().unwrap_or(0);
        table.row([
            text(arm.arm.name()),
            text(why),
            Quantity::Count(arm.cached as u64),
            per_mille(busy),
        ])?;
    }
    table.footnote(format!(
        "Memory {}, swap {}. Thrashing: reading pages back would take more than 70 % of a period of the paper's flash. \
         Paper: Fleet 1.21 times native, 2 times Marvin for small objects (section 7.1, Figure 11).",
        Quantity::Bytes(report.budget_bytes).human(),
        Quantity::Bytes(report.flash_bytes).human(),
    ));
    Ok(table)
}
