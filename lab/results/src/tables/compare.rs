//! Schemes side by side.
//!
//! Rows are schemes, whose names are long; what is compared stands in columns. The tables:
//! relaunch latency, cold starts, CPU time, memory, prediction, and the median relaunch of each application.

use warmswap_study::Comparison;
use warmswap_study::compare::{PAPER_LATENCY_VS_DRAM, SchemeRow};

use super::cells::{codec_origin, latency_note, names, paper_note, text};
use warmswap_columns::units::{Kind, Quantity};
use warmswap_columns::{Column, Table, Value as _};

/// Applications in one table.
const APPS_PER_TABLE: usize = 6;

/// Characters of a heading, so that it stays a line.
const HEADING_WIDTH: usize = 100;

/// All tables of a comparison: relaunches, cold starts, CPU time, memory, prediction, then the applications of each trace.
#[must_use]
pub fn comparison(comparison: &Comparison) -> Vec<Table> {
    let mut tables = vec![
        relaunch(comparison),
        cold_starts(comparison),
        cpu(comparison),
        memory(comparison),
        prediction(comparison),
        way(comparison),
    ];
    tables.extend(applications(comparison));
    tables
}

/// Relaunch latency, beside kills, zram, dram and the paper.
#[must_use]
pub fn relaunch(comparison: &Comparison) -> Table {
    let keys = [
        "scheme",
        "relaunch_p50_ns",
        "relaunch_p90_ns",
        "relaunch_mean_ns",
        "kills",
        "latency_vs_zram",
        "latency_vs_zram_paper",
        "latency_vs_dram",
    ];
    let mut table = Table::select(heading(comparison), &comparison.schemes, &keys);
    table = table.note(setting(comparison));
    if let Some(note) = differences_note(comparison) {
        table = table.note(note);
    }
    table = table
        .note(latency_note(comparison.with_contents))
        .note(
            "The relaunch of an application that was killed takes as long as its recorded cold launch, the \
             application's own work included. It is in every figure.",
        )
        .note("vs zram, vs dram: geometric mean, over the applications whose medians are not 0, of the ratio of medians.")
        .note(paper_note(
            "whole relaunches, the application's own work included; vs dram at most",
            Quantity::Ratio(PAPER_LATENCY_VS_DRAM.value),
            &PAPER_LATENCY_VS_DRAM,
        ));
    if !comparison.with_contents {
        table = table.note("Without page contents: sizes and codec times are assumed.");
    }
    table
}

/// Cold starts after a kill, and what the other relaunches take.
#[must_use]
pub fn cold_starts(comparison: &Comparison) -> Table {
    let title = "Cold starts after a kill, and the other relaunches";
    let keys = [
        "scheme",
        "kills",
        "cold_starts",
        "cold_start_mean_ns",
        "warm_p50_ns",
        "warm_mean_ns",
        "relaunch_measured_share",
    ];
    Table::select(title, &comparison.schemes, &keys)
        .note("Measured part: of the mean of all relaunches, the codec and the pool.")
}

/// CPU time of compression, decompression and estimates, beside zram and the paper.
#[must_use]
pub fn cpu(comparison: &Comparison) -> Table {
    let title = "CPU time of compression and decompression";
    let keys = [
        "scheme",
        "compress_ns",
        "decompress_ns",
        "estimate_ns",
        "cpu_ns",
        "cpu_vs_zram",
        "cpu_vs_zram_paper",
    ];
    Table::select(title, &comparison.schemes, &keys)
        .origin(codec_origin(comparison.with_contents), &keys[1..6])
        .note("Waited for, in the background, and ahead of use.")
}

/// What memory and flash came to.
#[must_use]
pub fn memory(comparison: &Comparison) -> Table {
    let keys = [
        "scheme",
        "data_ratio",
        "memory_ratio",
        "swap_out_pages",
        "swap_in_pages",
        "flash_read_bytes",
        "flash_written_bytes",
    ];
    Table::select("Memory and flash", &comparison.schemes, &keys)
        .origin(codec_origin(comparison.with_contents), &keys[1..3])
}

/// How well relaunches were predicted.
#[must_use]
pub fn prediction(comparison: &Comparison) -> Table {
    let keys = [
        "scheme",
        "coverage",
        "accuracy",
        "prefetched_pages",
        "prefetch_used",
        "prefetch_wasted",
    ];
    Table::select("Prediction", &comparison.schemes, &keys).note(
        "Coverage: of a window's pages, those on the hot list. Accuracy: of the hot list, those used.",
    )
}

/// Faults, and how far each scheme goes from exact LRU to the optimum.
#[must_use]
pub fn way(comparison: &Comparison) -> Table {
    let title = "Faults, and the way from exact LRU to the optimum";
    let keys = ["scheme", "window_faults", "way_in_windows", "faults", "way"];
    Table::select(title, &comparison.schemes, &keys)
        .note(
            "Touches that waited for the pool, the backing file or the prefetch buffer, and first touches of relaunches \
             after a kill; in the launch windows of relaunches, and anywhere.",
        )
        .note(
            "0 % is exact LRU, 100 % the clairvoyant reclaim: of optimal-windows in windows, of optimal in all. Both go by \
             single pages: chunks of several, and prefetch, may go further. No value where the two hardly differ.",
        )
}

/// Median relaunch latency of each application: one table for up to six applications of a trace.
#[must_use]
pub fn applications(comparison: &Comparison) -> Vec<Table> {
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
                    let figures = rows.get(index).and_then(|row| row.latency);
                    figures
                        .map(|figures| figures.median)
                        .quantity(Kind::Duration)
                });
                table.row(std::iter::once(text(&scheme.scheme)).chain(medians));
            }
            tables.push(table.note(latency_note(comparison.with_contents)));
        }
    }
    tables
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

/// Which schemes had something otherwise.
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
