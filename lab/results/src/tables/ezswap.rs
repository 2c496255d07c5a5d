//! The figures of the ezswap paper, with the paper's numbers beside ours.

use warmswap_policy::eviction::Chosen;
use warmswap_study::entropy::{
    ARIADNE_TIME, BINS, CODECS, EntropyStudy, PAPER_256, PAPER_512, PAPER_SIZE, PAPER_TIME,
};
use warmswap_study::ezswap::{EzswapRow, EzswapStudy, PAPER, PRESSURE_SCHEMES, Paper, SCHEMES};

use super::cells::{LATENCY_NOTE, names, paper_note, share, text};
use warmswap_columns::units::{Kind, Quantity};
use warmswap_columns::{Column, Described, Table, Value as _};

/// Figures 5 and 6: correlations, times, and the sizes behind each eighth of the estimate.
#[must_use]
pub fn entropy(study: &EntropyStudy) -> Vec<Table> {
    vec![correlations(study), sizes(study)]
}

#[derive(Default, Described)]
struct CorrelationRow {
    #[column(text)]
    first: &'static str,
    #[column(text)]
    second: String,
    #[column(number, paper = self.correlation_paper)]
    correlation: Option<f64>,
    correlation_paper: Option<f64>,
    #[column(duration, "time of a page", measured)]
    time: Option<f64>,
    #[column(percent, "estimate's share", measured, paper = self.estimate_share_paper)]
    estimate_share: Option<f64>,
    estimate_share_paper: Option<f64>,
}

fn correlations(study: &EntropyStudy) -> Table {
    let heads = [
        ("entropy, 256 B", study.head_256, &PAPER_256),
        ("entropy, 512 B", study.head_512, &PAPER_512),
    ];
    let heads = heads.map(|(first, correlation, paper)| CorrelationRow {
        first,
        second: "entropy, 4 KiB".to_owned(),
        correlation,
        correlation_paper: Some(paper.value),
        ..CorrelationRow::default()
    });
    let codecs = study.codecs.iter().map(|row| {
        let is_of_paper = row.codec.name() == "lzo";
        CorrelationRow {
            first: "estimate, 512 B",
            second: format!("{} bytes", row.codec.name()),
            correlation: row.correlation,
            correlation_paper: is_of_paper.then_some(PAPER_SIZE.value),
            time: Some(row.compress_ns),
            estimate_share: Some(study.estimate_ns / row.compress_ns),
            estimate_share_paper: is_of_paper.then_some(PAPER_TIME.value),
        }
    });
    let title = format!(
        "Entropy of the head of a page (Figures 5 and 6), {}",
        study.trace
    );
    Table::of(title, heads.into_iter().chain(codecs))
        .note(format!(
            "{} distinct pages; an estimate takes {}.",
            Quantity::Count(study.pages).human(),
            Quantity::Nanoseconds(study.estimate_ns).human()
        ))
        .note(paper_note(
            "the estimate, of compression,",
            Quantity::Fraction(ARIADNE_TIME.value),
            &ARIADNE_TIME,
        ))
}

fn sizes(study: &EntropyStudy) -> Table {
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
        let cells = [
            text(&range),
            Quantity::Count(row.pages),
            row.entropy.quantity(Kind::Number),
        ];
        let sizes = row.bytes.map(|bytes| bytes.quantity(Kind::Bytes));
        table.row(cells.into_iter().chain(sizes));
    }
    table
}

/// Figures 8, 10 and 11, Table 3, and Figure 9.
#[must_use]
pub fn ezswap(study: &EzswapStudy) -> Vec<Table> {
    let mut tables = Vec::new();
    for rows in study.rows.chunks(SCHEMES.len()) {
        tables.extend([parts(rows), work(rows), evicted(rows)]);
    }
    let pressed = study.pressure.chunk_by(|a, b| a.trace == b.trace);
    tables.extend(pressed.map(pressure));
    tables
}

#[derive(Described)]
#[column(scheme = self.row.scheme, text)]
#[column(time = self.beside(|row| row.relaunch_ns), ratio, paper = self.paper(|paper| paper.time))]
#[column(read = self.beside(|row| Some(row.read_bytes as f64)), ratio, paper = self.paper(|paper| paper.read))]
#[column(written = self.beside(|row| Some(row.written_bytes as f64)), ratio, paper = self.paper(|paper| paper.written))]
#[column(pool_hit_rate = self.row.pool_hit_rate, percent, "from pool")]
#[column(
    density = self.row.density.filter(|_| self.row.compressed_pages > 0),
    count, "pages a MiB", paper = self.paper(|paper| paper.density)
)]
struct PartRow<'a> {
    first: &'a EzswapRow,
    row: &'a EzswapRow,
}

impl PartRow<'_> {
    /// A part of what the first scheme has.
    fn beside(&self, value: fn(&EzswapRow) -> Option<f64>) -> Option<f64> {
        let first = value(self.first).filter(|&first| first > 0.0)?;
        Some(value(self.row)? / first)
    }

    fn paper(&self, value: fn(&Paper) -> Option<f64>) -> Option<f64> {
        value(PAPER.iter().find(|paper| paper.scheme == self.row.scheme)?)
    }
}

fn parts(rows: &[EzswapRow]) -> Table {
    let first = &rows[0];
    let title = format!(
        "Parts of ezswap beside {} (Figure 8, Table 3), {}, budget {} %",
        first.scheme, first.trace, first.budget_percent
    );
    Table::of(title, rows.iter().map(|row| PartRow { first, row }))
        .note("Time: mean of the relaunches. Read and written: bytes of flash; what is written back is compressed.")
        .note(LATENCY_NOTE)
}

fn work(rows: &[EzswapRow]) -> Table {
    let title = format!(
        "Pages compressed, and estimates (Figure 10), {}",
        rows[0].trace
    );
    Table::of(title, rows)
        .note("Paper: with its admission (APA+SA against APA) 76 % fewer pages are compressed.")
}

fn evicted(rows: &[EzswapRow]) -> Table {
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
            .map(|count| share(count, total).quantity(Kind::Percent));
        let cells = [text(&row.scheme), Quantity::Count(total)];
        table.row(cells.into_iter().chain(shares));
    }
    table.note("By the objects that they held / those of files among them.")
}

fn pressure(rows: &[EzswapRow]) -> Table {
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
        let rows = rows.iter().map(|row| PartRow { first, row });
        let times = rows.map(|row| row.beside(|row| row.relaunch_ns).quantity(Kind::Ratio));
        table.row(cells.into_iter().chain(times));
    }
    table
        .note(format!(
            "Pages that left their frames: under {}.",
            PRESSURE_SCHEMES[0]
        ))
        .note("Paper: 8 to 16 applications on one machine; here a budget of one trace.")
}
