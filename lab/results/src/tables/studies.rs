//! The figures of the Ariadne paper, with the paper's numbers beside ours.

use warmswap_study::Published;
use warmswap_study::chunk_size::{ChunkSizes, PAPER_SPEEDUP_LZ4, PAPER_SPEEDUP_LZO};
use warmswap_study::compression::{CompressionStudy, PAPER_COMPRESS, PAPER_CPU, PAPER_DECOMPRESS};
use warmswap_study::coverage::{CoverageRow, PAPER_COVERAGE};
use warmswap_study::hotness_order::{HotnessOrder, PARTS, Part};
use warmswap_study::launches::LaunchRow;
use warmswap_study::locality::{Locality, PAPER};
use warmswap_study::residency::{ResidencySample, ResidencyStudy};
use warmswap_study::similarity::{PAPER_REUSED, Similarity};

use super::cells::{codec_origin, fraction, names, paper_note, ratio, text};
use warmswap_result::table::{Column, Origin, Table, TableError};
use warmswap_result::units::{Kind, Quantity};

/// Figure 4: hot, warm and cold shares of the ten parts, a line for each class; one table for each trace
/// and scheme.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn hotness_order(rows: &[HotnessOrder]) -> Result<Vec<Table>, TableError> {
    let of_scheme = rows.chunk_by(|a, b| (&a.trace, &a.scheme) == (&b.trace, &b.scheme));
    of_scheme.map(hotness_order_of_scheme).collect()
}

fn hotness_order_of_scheme(rows: &[HotnessOrder]) -> Result<Table, TableError> {
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
            let cells = shares.map(|shares| fraction(shares.map(|shares| shares[index])));
            let names = [&row.app, class].map(text);
            table.row(names.into_iter().chain(cells))?;
        }
    }
    table.footnote(
        "Part 0 left first. Hot: used in the next launch window; warm: after it; cold: not.",
    );
    table.footnote(
        "Paper: under zram, part 0 has much hot data of all applications (Ariadne, section 2.3).",
    );
    Ok(table)
}

/// ASAP's Figure 1, Fleet's Figure 2 and Ariadne's Table 1: cold launches, and memory that grows.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn launches(rows: &[LaunchRow]) -> Result<Table, TableError> {
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
    Ok(table.note("Paper: 8.75 times for Twitter (Fleet, Figure 2); memory grows 1.3 to 2.5 times in 5 minutes (Ariadne, Table 1)."))
}

/// How many pages of a sample are in one place.
type CountPages = fn(&ResidencySample) -> u64;

/// Where memory of applications in the background is: means over the samples.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn residency(study: &ResidencyStudy) -> Result<Table, TableError> {
    let mut columns = names(["trace", "app", "scheme"]);
    let kinds: [(&str, CountPages); 5] = [
        ("hot", |s| s.hot_pages),
        ("warm", |s| s.warm_pages),
        ("cold", |s| s.cold_pages),
        ("compressed", |s| s.compressed_pages),
        ("backing", |s| s.backing_pages),
    ];
    columns.extend(kinds.map(|(name, _)| Column::new(name, name, Kind::Percent)));
    let mut table = Table::new("Where memory is while its application is away", columns);
    for app in &study.apps {
        let away = || app.samples.iter().filter(|s| !s.is_foreground);
        let sum = |of: CountPages| away().map(of).sum::<u64>();
        let all: u64 = kinds.iter().map(|&(_, of)| sum(of)).sum();
        let share = |of| fraction((all > 0).then(|| sum(of) as f64 / all as f64));
        let names = [&app.trace, &app.app, &app.scheme].map(|name| text(name));
        table.row(names.into_iter().chain(kinds.map(|(_, of)| share(of))))?;
    }
    table.footnote(
        "Pages, of all that the application has at that time: hot, warm and cold are in frames.",
    );
    Ok(table)
}

/// Figure 5: hot data similarity and reused data.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn similarity(rows: &[Similarity]) -> Result<Table, TableError> {
    let table = Table::of("Consecutive relaunches (Figure 5)", rows);
    Ok(table.note(paper_means(&PAPER_REUSED)))
}

fn paper_means(published: &Published) -> String {
    format!("Paper: means of its applications ({}).", published.source)
}

/// Figure 6: codecs by chunk size.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn chunk_sizes(sizes: &ChunkSizes) -> Result<Table, TableError> {
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
    let mut table = Table::select("Codecs by chunk size (Figure 6)", &sizes.rows, &keys);
    table.footnote(format!(
        "Medians of {} passes on {} of neighbouring pages, one thread.",
        sizes.passes,
        Quantity::Bytes(sizes.rows.first().map_or(0, |row| row.original_bytes)).human()
    ));
    for (name, paper) in [("lz4", &PAPER_SPEEDUP_LZ4), ("lzo", &PAPER_SPEEDUP_LZO)] {
        let codec = sizes
            .rows
            .iter()
            .map(|row| row.codec)
            .find(|c| c.name() == name);
        if let Some(speedup) = codec.and_then(|codec| sizes.speedup_of_small(codec)) {
            table.footnote(format!(
                "{name}: compression at 128 B is {} as fast as at 128 KiB here; paper {} ({}).",
                Quantity::Ratio(speedup).human(),
                Quantity::Ratio(paper.value).human(),
                paper.source
            ));
        }
    }
    Ok(table)
}

/// Table 3: neighbours in the pool that come back together.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn locality(rows: &[Locality]) -> Result<Table, TableError> {
    let title = "Consecutive pages in the pool that a relaunch uses (Table 3)";
    let mut table = Table::of(title, rows);
    let range = |pick: fn(&warmswap_study::locality::PaperLocality) -> f64| {
        let values = || PAPER.iter().map(pick);
        let least = values().fold(f64::INFINITY, f64::min);
        let most = values().fold(0.0, f64::max);
        format!("{least:.2} to {most:.2}")
    };
    table.footnote(format!(
        "Paper: {} for two pages, {} for four ({}).",
        range(|row| row.two.value),
        range(|row| row.four.value),
        PAPER[0].two.source
    ));
    Ok(table)
}

/// Figures 11 to 13 and 15: times and ratio of each application, beside the first scheme.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn compression(study: &CompressionStudy) -> Result<Vec<Table>, TableError> {
    Ok(vec![compression_means(study)?, compression_rows(study)?])
}

/// The means over the applications of each scheme, beside the paper's.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn compression_means(study: &CompressionStudy) -> Result<Table, TableError> {
    let origin = codec_origin(study.with_contents);
    let mut columns = names(["scheme"]);
    columns.extend([
        Column::new("compress", "compress", Kind::Ratio).from(origin),
        Column::new("compress_paper", "compress", Kind::Ratio).from(Origin::Paper),
        Column::new("decompress", "decompress", Kind::Ratio).from(origin),
        Column::new("decompress_paper", "decompress", Kind::Ratio).from(Origin::Paper),
        Column::new("cpu", "CPU", Kind::Ratio).from(origin),
        Column::new("cpu_paper", "CPU", Kind::Ratio).from(Origin::Paper),
        Column::new("data_ratio", "data ratio", Kind::Ratio).from(origin),
    ]);
    let first = study.schemes.first().map_or("", String::as_str);
    let title = format!("CPU time by that of {first}, mean of applications (Figures 11 to 13, 15)");
    let mut table = Table::new(title, columns);
    for scheme in &study.schemes {
        let is_of_paper = |part: &str| scheme.starts_with("ariadne") && scheme.contains(part);
        table.row([
            text(scheme),
            ratio(study.mean_of(scheme, |row| row.compress_vs_first)),
            ratio(is_of_paper("ehl-1k-2k-16k").then_some(PAPER_COMPRESS.value)),
            ratio(study.mean_of(scheme, |row| row.decompress_vs_first)),
            ratio(is_of_paper("1k-2k-16k").then_some(PAPER_DECOMPRESS.value)),
            ratio(study.mean_of(scheme, |row| row.cpu_vs_first)),
            ratio(is_of_paper("").then_some(PAPER_CPU.value)),
            ratio(study.mean_of(scheme, |row| row.volume.data_ratio())),
        ])?;
    }
    for (what, paper) in [
        ("compression", &PAPER_COMPRESS),
        ("decompression", &PAPER_DECOMPRESS),
        ("CPU, mean of its configurations,", &PAPER_CPU),
    ] {
        table.footnote(paper_note(what, Quantity::Ratio(paper.value), paper));
    }
    Ok(table)
}

/// Each application under each scheme.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn compression_rows(study: &CompressionStudy) -> Result<Table, TableError> {
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
    Ok(table.origin(codec_origin(study.with_contents), &measured))
}

/// Figure 14: coverage and accuracy of the hot list.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn coverage(rows: &[CoverageRow]) -> Result<Table, TableError> {
    let title = "Prediction of relaunches by the hot list (Figure 14)";
    Ok(Table::of(title, rows)
        .note(paper_means(&PAPER_COVERAGE))
        .note("An engine that hears of faults only is one of live memory: the rest is presumed."))
}
