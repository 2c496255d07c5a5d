//! The figures of the Ariadne paper, with the paper's numbers beside ours.

use warmswap_study::Published;
use warmswap_study::chunk_size::{ChunkSizes, PAPER_SPEEDUP_LZ4, PAPER_SPEEDUP_LZO};
use warmswap_study::compression::{
    CompressionRow, CompressionStudy, PAPER_COMPRESS, PAPER_CPU, PAPER_DECOMPRESS,
};
use warmswap_study::coverage::{CoverageRow, PAPER_COVERAGE};
use warmswap_study::hotness_order::{HotnessOrder, PARTS, Part};
use warmswap_study::launches::LaunchRow;
use warmswap_study::locality::{Locality, PAPER};
use warmswap_study::misses::MissRow;
use warmswap_study::similarity::{PAPER_REUSED, Similarity};

use super::cells::{codec_origin, names, paper_note, text};
use warmswap_columns::units::{Kind, Quantity};
use warmswap_columns::{Column, Described, Table, Value as _};

/// Figure 4: hot, warm and cold shares of the ten parts, a line for each class; one table for each trace
/// and scheme.
#[must_use]
pub fn hotness_order(rows: &[HotnessOrder]) -> Vec<Table> {
    let of_scheme = rows.chunk_by(|a, b| (&a.trace, &a.scheme) == (&b.trace, &b.scheme));
    of_scheme.map(hotness_order_of_scheme).collect()
}

fn hotness_order_of_scheme(rows: &[HotnessOrder]) -> Table {
    let mut columns = names(["app", "pages"]);
    let part = |part: usize| {
        let key = format!("part_{part}");
        Column::new(&key, &part.to_string(), Kind::Percent)
    };
    columns.extend((0..PARTS).map(part));
    let title = format!(
        "Pages in the order of swap-out, in ten parts (Figure 4), {} under {}",
        rows[0].trace, rows[0].scheme
    );
    let mut table = Table::new(title, columns);
    for row in rows {
        let shares = row.parts.map(Part::shares);
        for (index, class) in ["hot", "warm", "cold"].into_iter().enumerate() {
            let cells =
                shares.map(|shares| shares.map(|shares| shares[index]).quantity(Kind::Percent));
            let names = [&row.app, class].map(text);
            table.row(names.into_iter().chain(cells));
        }
    }
    table
        .note("Part 0 left first. Hot: used in the next launch window; warm: after it; cold: not.")
        .note("Paper: under zram, part 0 has much hot data of all applications (Ariadne, section 2.3).")
}

/// ASAP's Figure 1, Fleet's Figure 2 and Ariadne's Table 1: cold launches, and memory that grows.
#[must_use]
pub fn launches(rows: &[LaunchRow]) -> Table {
    let keys = [
        "trace",
        "app",
        "cold_ns",
        "relaunch_p50_ns",
        "cold_by_relaunch",
        "launched_bytes",
        "most_bytes",
        "growth",
    ];
    let table = Table::select("Launches and anonymous memory, as recorded", rows, &keys);
    table.note("Paper: 8.75 times for Twitter (Fleet, Figure 2); memory grows 1.3 to 2.5 times in 5 minutes (Ariadne, Table 1).")
}

/// Misses of reclaim policies where exactly so many pages fit.
#[must_use]
pub fn misses(rows: &[MissRow]) -> Table {
    let keys = [
        "trace",
        "resident_pages",
        "policy",
        "accesses",
        "misses",
        "miss_ratio",
    ];
    let table = Table::select(
        "Misses where so many pages fit, first touches among them",
        rows,
        &keys,
    );
    table.note(
        "As cache simulators count: no reserve, no pool, and nothing leaves before it has to.",
    )
}

/// Figure 5: hot data similarity and reused data.
#[must_use]
pub fn similarity(rows: &[Similarity]) -> Table {
    let table = Table::of("Consecutive relaunches (Figure 5)", rows);
    table.note(paper_means(&PAPER_REUSED))
}

fn paper_means(published: &Published) -> String {
    format!("Paper: means of its applications ({}).", published.source)
}

/// Figure 6: codecs by chunk size.
#[must_use]
pub fn chunk_sizes(sizes: &ChunkSizes) -> Table {
    let keys = [
        "codec",
        "chunk_bytes",
        "data_ratio",
        "data_ratio_paper",
        "compress_ns",
        "decompress_ns",
        "compress_bytes_per_s",
        "decompress_bytes_per_s",
    ];
    let original_bytes = sizes.rows.first().map_or(0, |row| row.original_bytes);
    let mut table = Table::select("Codecs by chunk size (Figure 6)", &sizes.rows, &keys);
    table = table.note(format!(
        "Medians of {} passes on {} of neighbouring pages, one thread.",
        sizes.passes,
        Quantity::Bytes(original_bytes).human()
    ));
    for (name, paper) in [("lz4", &PAPER_SPEEDUP_LZ4), ("lzo", &PAPER_SPEEDUP_LZO)] {
        let mut codecs = sizes.rows.iter().map(|row| row.codec);
        let codec = codecs.find(|codec| codec.name() == name);
        if let Some(speedup) = codec.and_then(|codec| sizes.speedup_of_small(codec)) {
            table = table.note(format!(
                "{name}: compression at 128 B is {} as fast as at 128 KiB here; paper {} ({}).",
                Quantity::Ratio(speedup).human(),
                Quantity::Ratio(paper.value).human(),
                paper.source
            ));
        }
    }
    table
}

/// Table 3: neighbours in the pool that come back together.
#[must_use]
pub fn locality(rows: &[Locality]) -> Table {
    let title = "Consecutive pages in the pool that a relaunch uses (Table 3)";
    let range = |pick: fn(&warmswap_study::locality::PaperLocality) -> f64| {
        let values = || PAPER.iter().map(pick);
        let least = values().fold(f64::INFINITY, f64::min);
        let most = values().fold(0.0, f64::max);
        format!("{least:.2} to {most:.2}")
    };
    Table::of(title, rows).note(format!(
        "Paper: {} for two pages, {} for four ({}).",
        range(|row| row.two.value),
        range(|row| row.four.value),
        PAPER[0].two.source
    ))
}

/// Figures 11 to 13 and 15: times and ratio of each application, beside the first scheme.
#[must_use]
pub fn compression(study: &CompressionStudy) -> Vec<Table> {
    vec![compression_means(study), compression_rows(study)]
}

/// The means of one scheme over the applications, beside the paper's.
#[derive(Described)]
#[column(scheme = self.scheme, text)]
#[column(compress = self.mean(|row| row.compress_vs_first), ratio, paper = self.paper("ehl-1k-2k-16k", &PAPER_COMPRESS))]
#[column(decompress = self.mean(|row| row.decompress_vs_first), ratio, paper = self.paper("1k-2k-16k", &PAPER_DECOMPRESS))]
#[column(cpu = self.mean(|row| row.cpu_vs_first), ratio, "CPU", paper = self.paper("", &PAPER_CPU))]
#[column(data_ratio = self.mean(|row| row.volume.data_ratio()), ratio)]
struct MeansRow<'a> {
    study: &'a CompressionStudy,
    scheme: &'a str,
}

impl MeansRow<'_> {
    fn mean(&self, value: fn(&CompressionRow) -> Option<f64>) -> Option<f64> {
        self.study.mean_of(self.scheme, value)
    }

    /// The published value, if it is of this scheme's sizes.
    fn paper(&self, sizes: &str, published: &Published) -> Option<f64> {
        let is_of_paper = self.scheme.starts_with("ariadne") && self.scheme.contains(sizes);
        is_of_paper.then_some(published.value)
    }
}

/// The means over the applications of each scheme, beside the paper's.
#[must_use]
pub fn compression_means(study: &CompressionStudy) -> Table {
    let first = study.schemes.first().map_or("", String::as_str);
    let title = format!("CPU time by that of {first}, mean of applications (Figures 11 to 13, 15)");
    let schemes = study.schemes.iter();
    let rows = schemes.map(|scheme| MeansRow { study, scheme });
    let measured = ["compress", "decompress", "cpu", "data_ratio"];
    let table = Table::of(title, rows).origin(codec_origin(study.with_contents), &measured);
    let papers = [
        ("compression", &PAPER_COMPRESS),
        ("decompression", &PAPER_DECOMPRESS),
        ("CPU, mean of its configurations,", &PAPER_CPU),
    ];
    papers.into_iter().fold(table, |table, (what, paper)| {
        table.note(paper_note(what, Quantity::Ratio(paper.value), paper))
    })
}

/// Each application under each scheme.
#[must_use]
pub fn compression_rows(study: &CompressionStudy) -> Table {
    let keys = [
        "app",
        "scheme",
        "compress_ns",
        "decompress_ns",
        "cpu_vs_first",
        "original_bytes",
        "data_ratio",
    ];
    let measured = [&keys[2..5], &keys[6..]].concat();
    let table = Table::select("Compression of each application", &study.rows, &keys);
    table.origin(codec_origin(study.with_contents), &measured)
}

/// Figure 14: coverage and accuracy of the hot list.
#[must_use]
pub fn coverage(rows: &[CoverageRow]) -> Table {
    let title = "Prediction of relaunches by the hot list (Figure 14)";
    Table::of(title, rows)
        .note(paper_means(&PAPER_COVERAGE))
        .note("An engine that hears of faults only is one of live memory: the rest is presumed.")
}
