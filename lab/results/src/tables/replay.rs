//! One replay in detail: each relaunch, each application, and the whole.

use warmswap_policy::reclaim::Ruling;
use warmswap_replay::ReplayResult;
use warmswap_study::compare::Figures;

use super::cells::{LATENCY_NOTE, codec_origin, fraction, latency, names, ratio, text};
use warmswap_result::table::{Column, Table, TableError};
use warmswap_result::units::{Kind, Quantity};

/// All tables of a replay: relaunches, applications, memory, page movements, CPU time.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn replay(result: &ReplayResult) -> Result<Vec<Table>, TableError> {
    let mut tables = vec![
        relaunches(result)?,
        applications(result)?,
        memory(result)?,
        pages(result)?,
        cpu(result)?,
    ];
    tables.extend(result.ruling.as_ref().map(rules).transpose()?);
    Ok(tables)
}

/// Which rule of reclaim ruled, and what a sample of the pages said of each.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn rules(ruling: &Ruling) -> Result<Table, TableError> {
    let mut columns = names(["rule"]);
    columns.extend([
        Column::new("launches", "launches", Kind::Count),
        Column::new("window_misses", "window misses", Kind::Count),
        Column::new("misses", "misses", Kind::Count),
    ]);
    let mut table = Table::new("Rules of reclaim", columns);
    for row in &ruling.rules {
        table.row([
            text(&row.rule),
            Quantity::Count(row.launches),
            Quantity::Count(row.window_misses),
            Quantity::Count(row.misses),
        ])?;
    }
    let changes = if ruling.changes == 1 {
        "change"
    } else {
        "changes"
    };
    table.footnote(format!(
        "Launches during which each ruled; at last {}, after {} {changes}. Misses of sampled pages, had each ruled alone.",
        ruling.rule, ruling.changes
    ));
    Ok(table)
}

/// Every relaunch of every application.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn relaunches(result: &ReplayResult) -> Result<Table, TableError> {
    let mut columns = names(["app"]);
    columns.extend([
        Column::new("time_ns", "at", Kind::Duration),
        Column::new("latency_ns", "latency", Kind::Duration),
        Column::new("touched_pages", "touched", Kind::Count),
        Column::new("pool_faults", "pool", Kind::Count),
        Column::new("buffer_hits", "buffer", Kind::Count),
        Column::new("backing_faults", "flash", Kind::Count),
        Column::new("file_reads", "files", Kind::Count),
        Column::new("coverage", "coverage", Kind::Percent),
        Column::new("accuracy", "accuracy", Kind::Percent),
    ]);
    let mut table = Table::new(format!("Relaunches under {}", result.scheme), columns);
    let killed = table.footnote("A cold start, since the scheme had killed the application: as long as its recorded cold launch.");
    table.footnote(LATENCY_NOTE);
    table.footnote(
        "Of the pages touched: found in the pool, in the prefetch buffer, on flash, read from files.",
    );
    for app in &result.apps {
        for relaunch in &app.relaunches {
            let took = warmswap_result::Cell::from(latency(Some(relaunch.latency)));
            let took = match relaunch.was_killed {
                true => took.with(killed),
                false => took,
            };
            table.row([
                text(&app.name).into(),
                Quantity::nanoseconds(relaunch.time_ns).into(),
                took,
                Quantity::Count(relaunch.touched_pages).into(),
                Quantity::Count(relaunch.pool_faults).into(),
                Quantity::Count(relaunch.buffer_hits).into(),
                Quantity::Count(relaunch.backing_faults).into(),
                Quantity::Count(relaunch.file_reads).into(),
                fraction(relaunch.coverage()).into(),
                fraction(relaunch.accuracy()).into(),
            ])?;
        }
    }
    Ok(table)
}

/// Every application.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn applications(result: &ReplayResult) -> Result<Table, TableError> {
    let origin = codec_origin(result.with_contents);
    let mut columns = names(["app"]);
    columns.extend([
        Column::new("relaunches", "relaunches", Kind::Count),
        Column::new("relaunch_p50_ns", "p50", Kind::Duration),
        Column::new("relaunch_p90_ns", "p90", Kind::Duration),
        Column::new("execution_ns", "other waits", Kind::Duration),
        Column::new("compress_ns", "compression", Kind::Duration).from(origin),
        Column::new("decompress_ns", "decompression", Kind::Duration).from(origin),
        Column::new("kills", "kills", Kind::Count),
    ]);
    let mut table = Table::new("Applications", columns);
    for app in &result.apps {
        let relaunches = || app.relaunches.iter();
        let figures = Figures::of(relaunches());
        table.row([
            text(&app.name),
            Quantity::Count(relaunches().count() as u64),
            latency(figures.map(|figures| figures.median)),
            latency(figures.map(|figures| figures.p90)),
            latency(Some(app.execution)),
            Quantity::nanoseconds(app.cpu.compress_ns()),
            Quantity::nanoseconds(app.cpu.decompress_ns()),
            Quantity::Count(app.kills),
        ])?;
    }
    table.footnote("Other waits: time that memory cost outside of launch windows.");
    Ok(table)
}

/// Limits, peaks, ratios and flash of the whole.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn memory(result: &ReplayResult) -> Result<Table, TableError> {
    let origin = codec_origin(result.with_contents);
    let columns = vec![
        Column::new("budget_bytes", "budget", Kind::Bytes),
        Column::new("peak_bytes", "peak", Kind::Bytes),
        Column::new("pool_limit_bytes", "pool limit", Kind::Bytes),
        Column::new("pool_peak_bytes", "pool peak", Kind::Bytes).from(origin),
        Column::new("data_ratio", "data ratio", Kind::Ratio).from(origin),
        Column::new("memory_ratio", "memory ratio", Kind::Ratio).from(origin),
        Column::new("flash_read_bytes", "flash read", Kind::Bytes),
        Column::new("flash_written_bytes", "flash written", Kind::Bytes),
        Column::new("engine_state_bytes", "engine state", Kind::Bytes),
    ];
    let totals = &result.totals;
    let mut table = Table::new("Memory and flash", columns);
    table.row([
        Quantity::Bytes(result.limits.budget_bytes),
        Quantity::Bytes(totals.peak_bytes),
        Quantity::Bytes(result.limits.pool_limit_bytes),
        Quantity::Bytes(totals.pool_peak_bytes),
        ratio(totals.data_ratio()),
        ratio(totals.memory_ratio()),
        Quantity::Bytes(totals.flash_read_bytes),
        Quantity::Bytes(totals.flash_written_bytes),
        Quantity::Bytes(totals.engine_state_bytes),
    ])?;
    Ok(table)
}

/// Where pages went.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn pages(result: &ReplayResult) -> Result<Table, TableError> {
    let columns = vec![
        Column::new("stored", "stored", Kind::Count),
        Column::new("stored_raw", "to flash", Kind::Count),
        Column::new("dropped", "dropped", Kind::Count),
        Column::new("pool_faults", "pool faults", Kind::Count),
        Column::new("backing_faults", "flash faults", Kind::Count),
        Column::new("neighbours_loaded", "neighbours", Kind::Count),
        Column::new("prefetched", "prefetched", Kind::Count),
        Column::new("buffer_hits", "used", Kind::Count),
        Column::new("prefetch_wasted", "wasted", Kind::Count),
        Column::new("direct_reclaims", "direct reclaims", Kind::Count),
    ];
    let counters = &result.counters;
    let mut table = Table::new("Pages that moved", columns);
    table.row([
        Quantity::Count(counters.stored),
        Quantity::Count(counters.stored_raw),
        Quantity::Count(counters.dropped),
        Quantity::Count(counters.pool_faults),
        Quantity::Count(counters.backing_faults),
        Quantity::Count(counters.neighbours_loaded),
        Quantity::Count(counters.prefetched),
        Quantity::Count(counters.buffer_hits),
        Quantity::Count(counters.prefetch_wasted),
        Quantity::Count(counters.direct_reclaims),
    ])?;
    table.footnote(
        "Dropped: left at no cost, since a stored copy was valid. Neighbours: came back in the chunk \
         of another page.",
    );
    Ok(table)
}

/// CPU time by cause.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn cpu(result: &ReplayResult) -> Result<Table, TableError> {
    let title = "CPU time of compression and decompression";
    let cpu = [result.totals.cpu];
    Ok(Table::of(title, &cpu).all_from(codec_origin(result.with_contents)))
}
