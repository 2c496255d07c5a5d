//! Schemes side by side.
//!
//! Rows are schemes, whose names are long; what is compared stands in columns. The tables:
//! relaunch latency, cold starts, CPU time, memory, prediction, and the median relaunch of each application.

use warmswap_study::Comparison;
use warmswap_study::compare::{
    PAPER_CPU_VS_ZRAM, PAPER_LATENCY_VS_DRAM, PAPER_LATENCY_VS_ZRAM, SchemeRow,
};

use super::cells::{
    LATENCY_NOTE, codec_origin, fraction, latency, measured_share, names, paper_note, ratio, text,
};
use crate::table::{Column, Origin, Table, TableError};
use crate::units::{Kind, Quantity};

/// Applications in one table.
const APPS_PER_TABLE: usize = 6;

/// Characters of a heading, so that it stays a line.
const HEADING_WIDTH: usize = 100;

/// All tables of a comparison: relaunches, cold starts, CPU time, memory, prediction, then the applications of each trace.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn comparison(comparison: &Comparison) -> Result<Vec<Table>, TableError> {
    let mut tables = vec![
        relaunch(comparison)?,
        cold_starts(comparison)?,
        cpu(comparison)?,
        memory(comparison)?,
        prediction(comparison)?,
        way(comparison)?,
    ];
    tables.extend(applications(comparison)?);
    Ok(tables)
}

/// Relaunch latency, beside kills, zram, dram and the paper.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn relaunch(comparison: &Comparison) -> Result<Table, TableError> {
    let mut columns = names(["scheme"]);
    columns.extend([
        Column::new("relaunch_p50_ns", "relaunch p50", Kind::Duration),
        Column::new("relaunch_p90_ns", "p90", Kind::Duration),
        Column::new("relaunch_mean_ns", "mean", Kind::Duration),
        Column::new("kills", "kills", Kind::Count),
        Column::new("latency_vs_zram", "vs zram", Kind::Ratio),
        Column::new("latency_vs_zram_paper", "vs zram", Kind::Ratio).from(Origin::Paper),
        Column::new("latency_vs_dram", "vs dram", Kind::Ratio),
    ]);
    let mut table = Table::new(heading(comparison), columns);
    for row in &comparison.schemes {
        table.row([
            text(&row.scheme),
            latency(row.latency.map(|figures| figures.median)),
            latency(row.latency.map(|figures| figures.p90)),
            latency(row.latency.map(|figures| figures.mean)),
            Quantity::Count(row.kills),
            ratio(row.latency_vs_zram),
            ratio(is_ariadne(row).then_some(PAPER_LATENCY_VS_ZRAM.value)),
            ratio(row.latency_vs_dram),
        ])?;
    }
    table.footnote(setting(comparison));
    if let Some(note) = differences_note(comparison) {
        table.footnote(note);
    }
    table.footnote(LATENCY_NOTE);
    table.footnote(
        "The relaunch of an application that was killed takes as long as its recorded cold launch, the \
         application's own work included. It is in every figure.",
    );
    table.footnote(
        "vs zram, vs dram: geometric mean over the applications of the ratio of medians.",
    );
    table.footnote(paper_note(
        "whole relaunches, the application's own work included; vs dram at most",
        Quantity::Ratio(PAPER_LATENCY_VS_DRAM.value),
        &PAPER_LATENCY_VS_DRAM,
    ));
    if !comparison.with_contents {
        table.footnote("Without page contents: sizes and codec times are assumed.");
    }
    Ok(table)
}

/// Kills, and what the relaunches after them cost, apart from the others.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn cold_starts(comparison: &Comparison) -> Result<Table, TableError> {
    let mut columns = names(["scheme"]);
    columns.extend([
        Column::new("kills", "kills", Kind::Count),
        Column::new("cold_starts", "cold starts", Kind::Count),
        Column::new("cold_start_mean_ns", "mean", Kind::Duration),
        Column::new("warm_p50_ns", "others p50", Kind::Duration),
        Column::new("warm_mean_ns", "others mean", Kind::Duration),
        Column::new("relaunch_measured_share", "measured part", Kind::Percent),
    ]);
    let mut table = Table::new(
        "Cold starts after a kill, and the other relaunches",
        columns,
    );
    for row in &comparison.schemes {
        table.row([
            text(&row.scheme),
            Quantity::Count(row.kills),
            Quantity::Count(row.cold_starts),
            latency(row.cold_start_latency.map(|figures| figures.mean)),
            latency(row.warm_latency.map(|figures| figures.median)),
            latency(row.warm_latency.map(|figures| figures.mean)),
            measured_share(row.latency.map(|figures| figures.mean)),
        ])?;
    }
    table.footnote("Measured part: of the mean of all relaunches, the codec and the pool.");
    Ok(table)
}

/// CPU time of compression, decompression and estimates, beside zram and the paper.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn cpu(comparison: &Comparison) -> Result<Table, TableError> {
    let origin = codec_origin(comparison.with_contents);
    let mut columns = names(["scheme"]);
    columns.extend([
        Column::new("compress_ns", "compression", Kind::Duration).from(origin),
        Column::new("decompress_ns", "decompression", Kind::Duration).from(origin),
        Column::new("estimate_ns", "estimates", Kind::Duration).from(origin),
        Column::new("cpu_ns", "together", Kind::Duration).from(origin),
        Column::new("cpu_vs_zram", "vs zram", Kind::Ratio).from(origin),
        Column::new("cpu_vs_zram_paper", "vs zram", Kind::Ratio).from(Origin::Paper),
    ]);
    let mut table = Table::new("CPU time of compression and decompression", columns);
    for row in &comparison.schemes {
        table.row([
            text(&row.scheme),
            Quantity::nanoseconds(row.cpu.compress_ns()),
            Quantity::nanoseconds(row.cpu.decompress_ns()),
            Quantity::nanoseconds(row.cpu.estimate_ns),
            Quantity::nanoseconds(row.cpu.total_ns()),
            ratio(row.cpu_vs_zram),
            ratio(is_ariadne(row).then_some(PAPER_CPU_VS_ZRAM.value)),
        ])?;
    }
    table.footnote("Whoever waited for it, in the background and ahead of use too.");
    Ok(table)
}

/// What memory and flash came to.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn memory(comparison: &Comparison) -> Result<Table, TableError> {
    let origin = codec_origin(comparison.with_contents);
    let mut columns = names(["scheme"]);
    columns.extend([
        Column::new("data_ratio", "data ratio", Kind::Ratio).from(origin),
        Column::new("memory_ratio", "memory ratio", Kind::Ratio).from(origin),
        Column::new("swap_out_pages", "pages out", Kind::Count),
        Column::new("swap_in_pages", "pages in", Kind::Count),
        Column::new("flash_read_bytes", "flash read", Kind::Bytes),
        Column::new("flash_written_bytes", "flash written", Kind::Bytes),
    ]);
    let mut table = Table::new("Memory and flash", columns);
    for row in &comparison.schemes {
        table.row([
            text(&row.scheme),
            ratio(row.data_ratio),
            ratio(row.memory_ratio),
            Quantity::Count(row.swap_out_pages),
            Quantity::Count(row.swap_in_pages),
            Quantity::Bytes(row.flash_read_bytes),
            Quantity::Bytes(row.flash_written_bytes),
        ])?;
    }
    Ok(table)
}

/// How well relaunches were predicted.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn prediction(comparison: &Comparison) -> Result<Table, TableError> {
    let mut columns = names(["scheme"]);
    columns.extend([
        Column::new("coverage", "coverage", Kind::Percent),
        Column::new("accuracy", "accuracy", Kind::Percent),
        Column::new("prefetched_pages", "prefetched", Kind::Count),
        Column::new("prefetch_used", "used", Kind::Percent),
        Column::new("prefetch_wasted", "wasted", Kind::Percent),
    ]);
    let mut table = Table::new("Prediction", columns);
    for row in &comparison.schemes {
        table.row([
            text(&row.scheme),
            fraction(row.coverage),
            fraction(row.accuracy),
            Quantity::Count(row.prefetched_pages),
            fraction(row.prefetch_used),
            fraction(row.prefetch_wasted),
        ])?;
    }
    table.footnote(
        "Coverage: of a window's pages, those on the hot list. Accuracy: of the hot list, those used.",
    );
    Ok(table)
}

/// Faults, and how far each scheme goes from exact LRU to the optimum.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn way(comparison: &Comparison) -> Result<Table, TableError> {
    let mut columns = names(["scheme"]);
    columns.extend([
        Column::new("window_faults", "window faults", Kind::Count),
        Column::new("way_in_windows", "of the way", Kind::Percent),
        Column::new("faults", "all faults", Kind::Count),
        Column::new("way", "of the way", Kind::Percent),
    ]);
    let mut table = Table::new("Faults, and the way from exact LRU to the optimum", columns);
    for row in &comparison.schemes {
        table.row([
            text(&row.scheme),
            Quantity::Count(row.window_faults),
            fraction(row.way_in_windows),
            Quantity::Count(row.faults),
            fraction(row.way),
        ])?;
    }
    table.footnote(
        "Touches that waited for the pool, the backing file or the prefetch buffer, and first touches of relaunches \
         after a kill; in the launch windows of relaunches, and anywhere.",
    );
    table.footnote(
        "0 % is exact LRU, 100 % the clairvoyant reclaim: of optimal-windows in windows, of optimal in all. Both go by \
         single pages: chunks of several, and prefetch, may go further.",
    );
    Ok(table)
}

/// Median relaunch latency of each application: one table for up to six applications of a trace.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn applications(comparison: &Comparison) -> Result<Vec<Table>, TableError> {
    let mut tables = Vec::new();
    let schemes = comparison.schemes.len().max(1);
    for trace in &comparison.traces {
        let of_trace = comparison.apps.iter();
        let rows: Vec<_> = of_trace.filter(|row| row.trace == trace.trace).collect();
        // The rows of one application stand together, schemes in their order.
        let apps: Vec<_> = rows.chunks(schemes).collect();
        for apps in apps.chunks(APPS_PER_TABLE) {
            let mut columns = names(["scheme"]);
            columns.extend(
                apps.iter()
                    .map(|rows| Column::new(&rows[0].app, &rows[0].app, Kind::Duration)),
            );
            let title = format!("Median relaunch of each application, {}", trace.trace);
            let mut table = Table::new(title, columns);
            for (index, scheme) in comparison.schemes.iter().enumerate() {
                let medians = apps.iter().map(|rows| {
                    let row = rows.get(index);
                    latency(
                        row.and_then(|row| row.latency)
                            .map(|figures| figures.median),
                    )
                });
                table.row(std::iter::once(text(&scheme.scheme)).chain(medians))?;
            }
            table.footnote(LATENCY_NOTE);
            tables.push(table);
        }
    }
    Ok(tables)
}

fn is_ariadne(row: &SchemeRow) -> bool {
    row.scheme.starts_with("ariadne")
}

/// The memory that all schemes had, or what differs.
fn heading(comparison: &Comparison) -> String {
    let traces = match comparison.traces.as_slice() {
        [one] => format!(
            "{}{}: footprint {}, budget {}",
            one.trace,
            if one.sample_share.is_some() {
                " (a sample)"
            } else {
                ""
            },
            Quantity::Bytes(one.footprint_bytes).human(),
            Quantity::Bytes(one.budget_bytes).human(),
        ),
        several => format!("{} traces", several.len()),
    };
    let parts = comparison.differences.iter().map(|it| it.what.as_str());
    let parts: Vec<_> = parts.collect();
    if parts.is_empty() {
        let relaunches = comparison.schemes.iter().map(|row| row.relaunches).max();
        return format!(
            "{traces}, all else alike; {} relaunches",
            relaunches.unwrap_or_default()
        );
    }
    let mut schemes = comparison.differences.iter().flat_map(|it| &it.schemes);
    let first = schemes.next().map_or("", String::as_str);
    let others = if schemes.any(|scheme| scheme != first) {
        " and others"
    } else {
        ""
    };
    let start = format!("{traces}; NOT ALIKE: ");
    let all = parts.join(", ");
    let more = format!("{} and {} more", parts[0], parts.len() - 1);
    // What does not fit a line is in the footnote that names them all.
    let candidates = [format!("{all} of {first}{others}"), all, more];
    let fits = |what: &&String| start.chars().count() + what.chars().count() <= HEADING_WIDTH;
    let chosen = candidates.iter().find(fits).unwrap_or(&candidates[2]);
    start + chosen
}

/// What all schemes had, and on which device.
fn setting(comparison: &Comparison) -> String {
    let memory = comparison.schemes.first().map(|row| row.memory);
    let memory = memory.unwrap_or_default();
    let files = if memory.file_pages { "with" } else { "without" };
    format!(
        "Pool limit {}, backing file {}, {files} pages of files, flash {}.",
        Quantity::Bytes(memory.pool_limit_bytes).human(),
        Quantity::Bytes(memory.backing_limit_bytes).human(),
        comparison.device,
    )
}

/// Who had what otherwise.
fn differences_note(comparison: &Comparison) -> Option<String> {
    let differ = |row: &&SchemeRow| {
        let mut all = comparison.differences.iter();
        all.any(|it| it.schemes.contains(&row.scheme))
    };
    let others = comparison.schemes.iter().filter(differ).map(|row| {
        format!(
            "{} has a budget of {}, a pool limit of {}, a backing file of {}{}",
            row.scheme,
            Quantity::Bytes(row.memory.budget_bytes).human(),
            Quantity::Bytes(row.memory.pool_limit_bytes).human(),
            Quantity::Bytes(row.memory.backing_limit_bytes).human(),
            if row.memory.file_pages {
                ", and pages of files"
            } else {
                ""
            },
        )
    });
    let others: Vec<_> = others.collect();
    (!others.is_empty()).then(|| format!("Not alike: {}.", others.join("; ")))
}

/// One line about ours beside zram, as far as both were compared.
#[must_use]
pub fn verdict(comparison: &Comparison) -> Option<String> {
    let verdict = comparison.verdict.as_ref()?;
    let median = verdict.median_vs_zram?;
    let sample = if verdict.is_sample {
        "; a sample: sizes of pools mislead"
    } else {
        ""
    };
    Some(format!(
        "{}: {} of zram at the median, {} kills against {}{sample}",
        verdict.scheme,
        Quantity::Ratio(median).human(),
        verdict.kills,
        verdict.kills_of_zram,
    ))
}
