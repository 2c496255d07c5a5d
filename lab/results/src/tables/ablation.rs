//! What each slot of a scheme is worth.

use warmswap_study::ablation::Ablation;

use super::cells::LATENCY_NOTE;
use warmswap_columns::{Quantity, Table};

/// The scheme, and each slot of it exchanged.
#[must_use]
pub fn ablation(study: &Ablation) -> Table {
    let title = format!(
        "Each slot of {} exchanged, {}",
        study.scheme,
        study.traces.join(", ")
    );
    let keys = [
        "slot",
        "relaunch_mean_ns",
        "vs_base",
        "cpu_vs_base",
        "pool_faults",
        "backing_faults",
        "not_admitted",
        "written_back_chunks",
        "flash_written_bytes",
    ];
    Table::select(title, &study.rows, &keys)
        .note(format!(
            "Budget {} of the footprint, pool at most {} of that, backing file as large as the footprint, pages of \
             files included.",
            Quantity::Fraction(study.budget_percent / 100.0).human(),
            Quantity::Fraction(study.pool_percent / 100.0).human()
        ))
        .note(LATENCY_NOTE)
}
