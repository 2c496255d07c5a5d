//! The figures of the ASAP paper, with the paper's numbers beside ours.

use warmswap_study::prepaging::{
    PAPER_ANON_PRECISION, PAPER_ANON_RECALL, PAPER_FILE_PRECISION, PAPER_FILE_RECALL,
    PAPER_TABLE_BYTES, Prediction, PrepagingRow,
};
use warmswap_study::switches::{Memory, SwitchFootprint};

use super::cells::{fraction, names, paper_note, text};
use crate::table::{Column, Origin, Table, TableError};
use crate::units::{Kind, Quantity};

/// Figures 5 to 7: how many of ten switches touch a page.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn switches(rows: &[SwitchFootprint]) -> Result<Table, TableError> {
    let mut columns = names(["trace", "app", "memory"]);
    columns.extend([
        Column::new("switches", "switches", Kind::Count),
        Column::new("pages", "pages each", Kind::Count),
        Column::new("invariant", "9, 10 of 10", Kind::Percent),
        Column::new("invariant_paper", "9, 10 of 10", Kind::Percent).from(Origin::Paper),
        Column::new("rare", "under 5", Kind::Percent),
    ]);
    let mut table = Table::new(
        "Pages by the switches that touch them (Figures 5 to 7)",
        columns,
    );
    for row in rows {
        table.row([
            text(&row.trace),
            text(&row.app),
            text(memory(row.memory)),
            Quantity::Count(row.switches.into()),
            Quantity::Count(row.pages.round() as u64),
            Quantity::Fraction(row.invariant),
            Quantity::Fraction(row.memory.paper().value),
            Quantity::Fraction(row.rare),
        ])?;
    }
    table.footnote(
        "With fewer than ten switches: more than eight tenths of them, under half of them.",
    );
    Ok(table)
}

fn memory(memory: Memory) -> &'static str {
    match memory {
        Memory::Anonymous => "anonymous",
        Memory::File => "file",
    }
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
