//! The figures of the ezswap paper, with the paper's numbers beside ours.

use warmswap_policy::eviction::Chosen;
use warmswap_study::entropy::{
    ARIADNE_TIME, BINS, CODECS, EntropyStudy, PAPER_256, PAPER_512, PAPER_SIZE, PAPER_TIME,
};
use warmswap_study::ezswap::{EzswapRow, EzswapStudy, PAPER, PRESSURE_SCHEMES, SCHEMES};

use super::cells::{LATENCY_NOTE, fraction, names, paper_note, ratio, text};
use warmswap_result::table::{Column, Origin, Table, TableError};
use warmswap_result::units::{Kind, Quantity};

/// Figures 5 and 6: correlations, times, and the sizes behind each eighth of the estimate.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn entropy(study: &EntropyStudy) -> Result<Vec<Table>, TableError> {
    Ok(vec![correlations(study)?, sizes(study)?])
}

fn number(value: Option<f64>) -> Quantity {
    value.map_or(Quantity::Missing, Quantity::Number)
}

fn correlations(study: &EntropyStudy) -> Result<Table, TableError> {
    let mut columns = names(["first", "second"]);
    columns.extend([
        Column::new("correlation", "correlation", Kind::Number),
        Column::new("correlation_paper", "correlation", Kind::Number).from(Origin::Paper),
        Column::new("time", "time of a page", Kind::Duration).from(Origin::Measured),
        Column::new("estimate_share", "estimate's share", Kind::Percent).from(Origin::Measured),
        Column::new("estimate_share_paper", "estimate's share", Kind::Percent).from(Origin::Paper),
    ]);
    let title = format!(
        "Entropy of the head of a page (Figures 5 and 6), {}",
        study.trace
    );
    let mut table = Table::new(title, columns);
    for (head, found, paper) in [
        ("entropy, 256 B", study.head_256, &PAPER_256),
        ("entropy, 512 B", study.head_512, &PAPER_512),
    ] {
        table.row([
            text(head),
            text("entropy, 4 KiB"),
            number(found),
            Quantity::Number(paper.value),
            Quantity::Missing,
            Quantity::Missing,
            Quantity::Missing,
        ])?;
    }
    for row in &study.codecs {
        let is_of_paper = row.codec.name() == "lzo";
        table.row([
            text("estimate, 512 B"),
            text(&format!("{} bytes", row.codec.name())),
            number(row.correlation),
            number(is_of_paper.then_some(PAPER_SIZE.value)),
            Quantity::Nanoseconds(row.compress_ns),
            Quantity::Fraction(study.estimate_ns / row.compress_ns),
            fraction(is_of_paper.then_some(PAPER_TIME.value)),
        ])?;
    }
    table.footnote(format!(
        "{} distinct pages; an estimate takes {}.",
        Quantity::Count(study.pages).human(),
        Quantity::Nanoseconds(study.estimate_ns).human()
    ));
    table.footnote(paper_note(
        "the estimate, of compression,",
        Quantity::Fraction(ARIADNE_TIME.value),
        &ARIADNE_TIME,
    ));
    Ok(table)
}

fn sizes(study: &EntropyStudy) -> Result<Table, TableError> {
    let mut columns = names(["estimate"]);
    columns.extend([
        Column::new("pages", "pages", Kind::Count),
        Column::new("entropy_bits", "bits a byte, 4 KiB", Kind::Number),
    ]);
    columns.extend(CODECS.map(|codec| {
        let title = format!("{} size", codec.name());
        Column::new(&format!("{}_bytes", codec.name()), &title, Kind::Bytes)
    }));
    let mut table = Table::new("Real size by estimated size (Figure 6)", columns);
    for (bin, row) in study.bins.iter().enumerate() {
        let bytes = |eighth: usize| Quantity::Bytes((eighth * 4096 / BINS) as u64).human();
        let range = format!("{} to {}", bytes(bin), bytes(bin + 1));
        let sizes = row.bytes.map(|bytes| match bytes {
            Some(bytes) => Quantity::Bytes(bytes.round() as u64),
            None => Quantity::Missing,
        });
        let cells = [
            text(&range),
            Quantity::Count(row.pages),
            number(row.entropy),
        ];
        table.row(cells.into_iter().chain(sizes))?;
    }
    Ok(table)
}

/// Figures 8, 10 and 11, Table 3, and Figure 9.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn ezswap(study: &EzswapStudy) -> Result<Vec<Table>, TableError> {
    let mut tables = Vec::new();
    for rows in study.rows.chunks(SCHEMES.len()) {
        tables.extend([parts(rows)?, work(rows), evicted(rows)?]);
    }
    for rows in study.pressure.chunk_by(|a, b| a.trace == b.trace) {
        tables.push(pressure(rows)?);
    }
    Ok(tables)
}

/// A part of what the first scheme has.
fn beside(first: Option<f64>, value: Option<f64>) -> Quantity {
    ratio(
        first
            .zip(value)
            .filter(|pair| pair.0 > 0.0)
            .map(|(first, value)| value / first),
    )
}

fn parts(rows: &[EzswapRow]) -> Result<Table, TableError> {
    let mut columns = names(["scheme"]);
    for (key, title) in [("time", "time"), ("read", "read"), ("written", "written")] {
        columns.push(Column::new(key, title, Kind::Ratio));
        columns.push(Column::new(&format!("{key}_paper"), title, Kind::Ratio).from(Origin::Paper));
    }
    columns.extend([
        Column::new("pool_hit_rate", "from pool", Kind::Percent),
        Column::new("density", "pages a MiB", Kind::Count),
        Column::new("density_paper", "pages a MiB", Kind::Count).from(Origin::Paper),
    ]);
    let first = &rows[0];
    let title = format!(
        "Parts of ezswap beside {} (Figure 8, Table 3), {}, budget {} %",
        first.scheme, first.trace, first.budget_percent
    );
    let mut table = Table::new(title, columns);
    let count = |value: Option<f64>| {
        value.map_or(Quantity::Missing, |value| {
            Quantity::Count(value.round() as u64)
        })
    };
    for row in rows {
        let paper = PAPER.iter().find(|paper| paper.scheme == row.scheme);
        table.row([
            text(&row.scheme),
            beside(first.relaunch_ns, row.relaunch_ns),
            ratio(paper.and_then(|paper| paper.time)),
            beside(Some(first.read_bytes as f64), Some(row.read_bytes as f64)),
            ratio(paper.and_then(|paper| paper.read)),
            beside(
                Some(first.written_bytes as f64),
                Some(row.written_bytes as f64),
            ),
            ratio(paper.and_then(|paper| paper.written)),
            fraction(row.pool_hit_rate),
            count(row.density.filter(|_| row.compressed_pages > 0)),
            count(paper.and_then(|paper| paper.density)),
        ])?;
    }
    table.footnote(
        "Time: mean of the relaunches. Read and written: bytes of flash; what is written back is compressed.",
    );
    table.footnote(LATENCY_NOTE);
    Ok(table)
}

fn work(rows: &[EzswapRow]) -> Table {
    let title = format!(
        "Pages compressed, and estimates (Figure 10), {}",
        rows[0].trace
    );
    Table::of(title, rows)
        .note("Paper: with its admission (APA+SA against APA) 76 % fewer pages are compressed.")
}

fn evicted(rows: &[EzswapRow]) -> Result<Table, TableError> {
    let mut columns = names(["scheme"]);
    columns.push(Column::new("evicted", "evicted", Kind::Count));
    columns.extend(Chosen::KINDS.map(|(chunks, files)| {
        let name = format!("{chunks}/{files}");
        Column::new(&format!("share_{chunks}_{files}"), &name, Kind::Percent)
    }));
    let title = format!(
        "Pages of the pool that were evicted (Figure 11), {}",
        rows[0].trace
    );
    let mut table = Table::new(title, columns);
    for row in rows.iter().filter(|row| row.compressed_pages > 0) {
        let total: u64 = row.evicted.0.iter().sum();
        let shares = row
            .evicted
            .0
            .map(|count| fraction((total > 0).then(|| count as f64 / total as f64)));
        let cells = [text(&row.scheme), Quantity::Count(total)];
        table.row(cells.into_iter().chain(shares))?;
    }
    table.footnote("By the objects that they held / those of files among them.");
    Ok(table)
}

fn pressure(rows: &[EzswapRow]) -> Result<Table, TableError> {
    let mut columns = names(["budget"]);
    columns.extend([
        Column::new("anon_out_pages", "anonymous out", Kind::Count),
        Column::new("file_out_pages", "of files out", Kind::Count),
    ]);
    columns.extend(PRESSURE_SCHEMES.map(|scheme| Column::new(scheme, scheme, Kind::Ratio)));
    let title = format!(
        "Relaunches under pressure, by those of {} (Figure 9), {}",
        PRESSURE_SCHEMES[0], rows[0].trace
    );
    let mut table = Table::new(title, columns);
    for rows in rows.chunks(PRESSURE_SCHEMES.len()) {
        let first = &rows[0];
        let cells = [
            text(&format!("{} %", first.budget_percent)),
            Quantity::Count(first.anon_out_pages),
            Quantity::Count(first.file_out_pages),
        ];
        let times = rows
            .iter()
            .map(|row| beside(first.relaunch_ns, row.relaunch_ns));
        table.row(cells.into_iter().chain(times))?;
    }
    table.footnote(format!(
        "Pages that left their frames: under {}.",
        PRESSURE_SCHEMES[0]
    ));
    table.footnote("Paper: 8 to 16 applications on one machine; here a budget of one trace.");
    Ok(table)
}
