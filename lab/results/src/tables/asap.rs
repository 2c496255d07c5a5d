//! The figures of the ASAP paper, with the paper's numbers beside ours.

use warmswap_study::prepaging::{
    PAPER_ANON_PRECISION, PAPER_ANON_RECALL, PAPER_FILE_PRECISION, PAPER_FILE_RECALL,
    PAPER_TABLE_BYTES, Prediction, PrepagingRow,
};
use warmswap_study::switches::SwitchFootprint;

use super::cells::{fraction, names, paper_note, text};
use warmswap_result::table::{Column, Origin, Table, TableError};
use warmswap_result::units::{Kind, Quantity};

/// Figures 5 to 7: how many of ten switches touch a page.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn switches(rows: &[SwitchFootprint]) -> Result<Table, TableError> {
    let title = "Pages by the switches that touch them (Figures 5 to 7)";
    Ok(Table::of(title, rows)
        .note("With fewer than ten switches: more than eight tenths of them, under half of them."))
}

/// Figure 12 and section 6.6: precision, recall and table sizes.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn prepaging(rows: &[PrepagingRow]) -> Result<Table, TableError> {
    let mut columns = names(["app", "scheme", "memory"]);
    columns.extend([
        Column::new("launches", "launches", Kind::Count),
        Column::new("pages", "prepaged", Kind::Pages),
        Column::new("precision", "precision", Kind::Percent),
        Column::new("precision_paper", "precision", Kind::Percent).from(Origin::Paper),
        Column::new("recall", "recall", Kind::Percent),
        Column::new("recall_paper", "recall", Kind::Percent).from(Origin::Paper),
        Column::new("table_peak_bytes", "tables", Kind::Bytes),
    ]);
    let mut table = Table::new("Footprints of launches (Figure 12)", columns);
    let kinds = [
        ("anonymous", PAPER_ANON_PRECISION, PAPER_ANON_RECALL),
        ("file", PAPER_FILE_PRECISION, PAPER_FILE_RECALL),
    ];
    for row in rows {
        let predictions: [Prediction; 2] = [row.anon, row.file];
        for (prediction, (kind, precision, recall)) in predictions.into_iter().zip(&kinds) {
            table.row([
                text(&row.app),
                text(&row.scheme),
                text(kind),
                Quantity::Count(prediction.launches),
                Quantity::Pages(prediction.pages),
                fraction(prediction.precision()),
                Quantity::Fraction(precision.value),
                fraction(prediction.recall()),
                Quantity::Fraction(recall.value),
                Quantity::Bytes(row.table_peak_bytes),
            ])?;
        }
    }
    table.footnote("Over the launches for which something was brought back. Tables: both kinds together, at most.");
    let bytes = Quantity::Bytes(PAPER_TABLE_BYTES.value as u64);
    table.footnote(paper_note(
        "tables of an application",
        bytes,
        &PAPER_TABLE_BYTES,
    ));
    Ok(table)
}
