//! One replay in detail: each relaunch, each application, and the whole.

use warmswap_policy::reclaim::{RuleRow, Ruling};
use warmswap_replay::{AppResult, Latency, Relaunch, ReplayResult};
use warmswap_study::compare::Figures;

use super::cells::{codec_origin, latency_note};
use warmswap_columns::units::counted;
use warmswap_columns::{Described, Table};

/// All tables of a replay: relaunches, applications, memory, page movements, CPU time.
#[must_use]
pub fn replay(result: &ReplayResult) -> Vec<Table> {
    let mut tables = vec![
        relaunches(result),
        applications(result),
        memory(result),
        pages(result),
        cpu(result),
    ];
    tables.extend(result.ruling.as_ref().map(rules));
    tables
}

#[derive(Described)]
#[column(rule = self.0.rule, text)]
#[column(launches = self.0.launches, count)]
#[column(window_misses = self.0.window_misses, count)]
#[column(misses = self.0.misses, count)]
struct Rule<'a>(&'a RuleRow);

/// Which rule of reclaim ruled, and what a sample of the pages said of each.
#[must_use]
pub fn rules(ruling: &Ruling) -> Table {
    Table::of("Rules of reclaim", ruling.rules.iter().map(Rule)).note(format!(
        "Launches during which each ruled; at last {}, after {}. Misses of sampled pages, had each ruled alone.",
        ruling.rule,
        counted(ruling.changes, "change", "changes")
    ))
}

/// A relaunch of an application.
#[derive(Described)]
#[column(app = self.app.name, text)]
#[column(time_ns = self.of.time_ns, "at")]
#[column(latency_ns = self.of.latency)]
#[column(touched_pages = self.of.touched_pages)]
#[column(pool_faults = self.of.pool_faults, count, "pool")]
#[column(buffer_hits = self.of.buffer_hits, count, "buffer")]
#[column(backing_faults = self.of.backing_faults, count, "flash")]
#[column(file_reads = self.of.file_reads, count, "files")]
#[column(coverage = self.of.coverage(), percent)]
#[column(accuracy = self.of.accuracy(), percent)]
struct RelaunchRow<'a> {
    app: &'a AppResult,
    of: &'a Relaunch,
}

/// Every relaunch of every application.
#[must_use]
pub fn relaunches(result: &ReplayResult) -> Table {
    let each = result.apps.iter().flat_map(|app| {
        let relaunches = app.relaunches.iter();
        relaunches.map(move |of| RelaunchRow { app, of })
    });
    let rows: Vec<RelaunchRow> = each.collect();
    let killed = (0..rows.len()).filter(|&row| rows[row].of.was_killed);
    Table::of(format!("Relaunches under {}", result.scheme), &rows)
        .note_at(
            "A cold start, since the scheme had killed the application: as long as its recorded cold launch.",
            "latency_ns",
            killed,
        )
        .note(latency_note(result.with_contents))
        .note("Of the pages touched: found in the pool, in the prefetch buffer, on flash, read from files.")
}

#[derive(Described)]
#[column(app = self.0.name, text)]
#[column(relaunches = self.0.relaunches.len(), count)]
#[column(relaunch_p50_ns = self.latency(|figures| figures.median), "p50")]
#[column(relaunch_p90_ns = self.latency(|figures| figures.p90), "p90")]
#[column(execution_ns = self.0.execution, "other waits")]
#[column(compress_ns = self.0.cpu.compress_ns(), "compression")]
#[column(decompress_ns = self.0.cpu.decompress_ns(), "decompression")]
#[column(kills = self.0.kills, count)]
struct AppRow<'a>(&'a AppResult);

impl AppRow<'_> {
    fn latency(&self, figure: fn(Figures) -> Latency) -> Option<Latency> {
        Figures::of(self.0.relaunches.iter()).map(figure)
    }
}

/// Every application.
#[must_use]
pub fn applications(result: &ReplayResult) -> Table {
    let measured = ["compress_ns", "decompress_ns"];
    Table::of("Applications", result.apps.iter().map(AppRow))
        .origin(codec_origin(result.with_contents), &measured)
        .note("Other waits: time that memory cost outside of launch windows.")
}

#[derive(Described)]
#[column(budget_bytes = self.0.limits.budget_bytes)]
#[column(peak_bytes = self.0.totals.peak_bytes)]
#[column(pool_limit_bytes = self.0.limits.pool_limit_bytes)]
#[column(pool_peak_bytes = self.0.totals.pool_peak_bytes)]
#[column(data_ratio = self.0.totals.data_ratio(), ratio)]
#[column(memory_ratio = self.0.totals.memory_ratio(), ratio)]
#[column(flash_read_bytes = self.0.totals.flash_read_bytes)]
#[column(flash_written_bytes = self.0.totals.flash_written_bytes)]
#[column(engine_state_bytes = self.0.totals.engine_state_bytes)]
struct MemoryRow<'a>(&'a ReplayResult);

/// Limits, peaks, ratios and flash of the whole.
#[must_use]
pub fn memory(result: &ReplayResult) -> Table {
    let measured = ["pool_peak_bytes", "data_ratio", "memory_ratio"];
    Table::of("Memory and flash", [MemoryRow(result)])
        .origin(codec_origin(result.with_contents), &measured)
}

#[derive(Described)]
#[column(stored = self.0.counters.stored, count)]
#[column(stored_raw = self.0.counters.stored_raw, count, "to flash")]
#[column(dropped = self.0.counters.dropped, count)]
#[column(pool_faults = self.0.counters.pool_faults, count)]
#[column(backing_faults = self.0.counters.backing_faults, count, "flash faults")]
#[column(neighbours_loaded = self.0.counters.neighbours_loaded, count, "neighbours")]
#[column(prefetched = self.0.counters.prefetched, count)]
#[column(buffer_hits = self.0.counters.buffer_hits, count, "used")]
#[column(prefetch_wasted = self.0.counters.prefetch_wasted, count, "wasted")]
#[column(direct_reclaims = self.0.counters.direct_reclaims, count)]
struct MovedRow<'a>(&'a ReplayResult);

/// Where pages went.
#[must_use]
pub fn pages(result: &ReplayResult) -> Table {
    Table::of("Pages that moved", [MovedRow(result)]).note(
        "Dropped: left at no cost, since a stored copy was valid. Neighbours: came back in the chunk \
         of another page.",
    )
}

/// CPU time by cause.
#[must_use]
pub fn cpu(result: &ReplayResult) -> Table {
    let title = "CPU time of compression and decompression";
    Table::of(title, [&result.totals.cpu]).all_from(codec_origin(result.with_contents))
}
