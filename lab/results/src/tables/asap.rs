//! The figures of the ASAP paper, with the paper's numbers beside ours.

use warmswap_study::Published;
use warmswap_study::prepaging::{
    PAPER_ANON_PRECISION, PAPER_ANON_RECALL, PAPER_FILE_PRECISION, PAPER_FILE_RECALL,
    PAPER_TABLE_BYTES, Prediction, PrepagingRow,
};
use warmswap_study::switches::SwitchFootprint;

use super::cells::paper_note;
use warmswap_columns::{Described, Quantity, Table};

/// Figures 5 to 7: how many of ten switches touch a page.
#[must_use]
pub fn switches(rows: &[SwitchFootprint]) -> Table {
    let title = "Pages by the switches that touch them (Figures 5 to 7)";
    Table::of(title, rows)
        .note("With fewer than ten switches: more than eight tenths of them, under half of them.")
}

/// One kind of memory of an application, with the published precision and recall.
#[derive(Described)]
#[column(app = self.row.app, text)]
#[column(scheme = self.row.scheme, text)]
#[column(memory = self.memory, text)]
#[column(launches = self.of.launches, count)]
#[column(pages = self.of.pages, pages, "prepaged")]
#[column(precision = self.of.precision(), percent, paper = self.precision)]
#[column(recall = self.of.recall(), percent, paper = self.recall)]
#[column(table_peak_bytes = self.row.table_peak_bytes, "tables")]
struct PredictionRow<'a> {
    row: &'a PrepagingRow,
    memory: &'static str,
    of: Prediction,
    precision: Published,
    recall: Published,
}

/// Figure 12 and section 6.6: precision, recall and table sizes.
#[must_use]
pub fn prepaging(rows: &[PrepagingRow]) -> Table {
    let both = rows.iter().flat_map(|row| {
        let kind = |memory, of, precision, recall| PredictionRow {
            row,
            memory,
            of,
            precision,
            recall,
        };
        [
            kind(
                "anonymous",
                row.anon,
                PAPER_ANON_PRECISION,
                PAPER_ANON_RECALL,
            ),
            kind("file", row.file, PAPER_FILE_PRECISION, PAPER_FILE_RECALL),
        ]
    });
    let bytes = Quantity::Bytes(PAPER_TABLE_BYTES.value as u64);
    Table::of("Footprints of launches (Figure 12)", both)
        .note("Over the launches for which something was brought back. Tables: both kinds together, at most.")
        .note(paper_note("tables of an application", bytes, &PAPER_TABLE_BYTES))
}
