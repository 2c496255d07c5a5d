//! What each slot of a scheme is worth.

use warmswap_study::ablation::Ablation;

use super::cells::{LATENCY_NOTE, small_pool_note};
use warmswap_columns::Table;

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
        .note(small_pool_note(study.budget_percent, study.pool_percent))
        .note(LATENCY_NOTE)
}
