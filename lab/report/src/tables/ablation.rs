//! What each slot of a scheme is worth.

use warmswap_study::ablation::Ablation;

use super::cells::{LATENCY_NOTE, latency, names, ratio, text};
use crate::table::{Column, Table, TableError};
use crate::units::{Kind, Quantity};

/// The scheme, and each slot of it exchanged.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn ablation(study: &Ablation) -> Result<Table, TableError> {
    let mut columns = names(["slot"]);
    columns.extend([
        Column::new("relaunch_mean", "relaunch mean", Kind::Duration),
        Column::new("vs_base", "vs own", Kind::Ratio),
        Column::new("cpu_vs_base", "CPU vs own", Kind::Ratio),
        Column::new("pool_faults", "from pool", Kind::Count),
        Column::new("backing_faults", "from flash", Kind::Count),
        Column::new("not_admitted", "not admitted", Kind::Count),
        Column::new("written_back", "evicted", Kind::Count),
        Column::new("flash_written_bytes", "flash written", Kind::Bytes),
    ]);
    let title = format!(
        "Each slot of {} exchanged, {}",
        study.scheme,
        study.traces.join(", ")
    );
    let mut table = Table::new(title, columns);
    for row in &study.rows {
        // With room for a line to break.
        let change = row.change.as_ref().map(|change| change.replace(',', ", "));
        let name = change.as_deref().unwrap_or("(as it is)");
        table.row([
            text(name),
            latency(row.latency.map(|it| it.mean)),
            ratio(row.vs_base),
            ratio(row.cpu_vs_base),
            Quantity::Count(row.pool_faults),
            Quantity::Count(row.backing_faults),
            Quantity::Count(row.not_admitted),
            Quantity::Count(row.written_back_chunks),
            Quantity::Bytes(row.flash_written_bytes),
        ])?;
    }
    table.footnote(format!(
        "Budget {} of the footprint, pool at most {} of that, backing file as large as the footprint, pages of \
         files included.",
        Quantity::Fraction(study.budget_percent / 100.0).human(),
        Quantity::Fraction(study.pool_percent / 100.0).human()
    ));
    table.footnote(LATENCY_NOTE);
    Ok(table)
}
