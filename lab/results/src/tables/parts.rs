//! What the parts of the papers are worth, together and alone.

use warmswap_study::parts::{ALL, PLAIN, PairRow, PartsStudy};

use super::cells::{LATENCY_NOTE, small_pool_note};
use warmswap_columns::Table;

/// The parts, pairs of them, and the schemes beside them.
#[must_use]
pub fn parts(study: &PartsStudy) -> Vec<Table> {
    vec![each(study), pairs(study), schemes(study)]
}

fn each(study: &PartsStudy) -> Table {
    let title = format!("Parts of the papers, {}", study.traces.join(", "));
    Table::of(title, &study.parts)
        .note(format!(
            "Gains: mean relaunch without the part by that with it, beside all other parts ({ALL}) and as the only one \
             ({PLAIN} with it); geometric mean over the traces, and the traces on which it is above 1. Interaction: the \
             first by the second, above 1 where the others make it worth more. CPU: of codec and estimates, with it by \
             without."
        ))
        .note(small_pool_note(study.budget_percent, study.pool_percent))
        .note(LATENCY_NOTE)
}

/// Those first that gain most by each other.
fn pairs(study: &PartsStudy) -> Table {
    let mut rows: Vec<&PairRow> = study.pairs.iter().collect();
    let interaction = |row: &PairRow| row.gain_interaction.unwrap_or(0.0);
    rows.sort_by(|a, b| interaction(b).total_cmp(&interaction(a)));
    Table::of("Each two parts without the others", rows).note(
        "Interaction: what both gain by the product of what each gains, above 1 where they pay together, below where \
         one takes from the other.",
    )
}

fn schemes(study: &PartsStudy) -> Table {
    let keys = [
        "scheme",
        "relaunch_ns",
        "gain",
        "gained_traces",
        "cpu_vs_base",
        "backing_faults",
        "not_admitted",
        "written_back_chunks",
        "prepaged_used",
        "kills",
    ];
    let title = format!("Schemes by {PLAIN}, with the same memory");
    Table::select(title, &study.schemes, &keys).note(format!(
        "Gain and CPU: by those of {PLAIN}, over the traces."
    ))
}
