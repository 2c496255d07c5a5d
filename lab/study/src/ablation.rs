//! Each slot of a scheme exchanged, one at a time: what every choice is worth.
//!
//! The list follows from the registries: every policy of every slot but those that stand in it already, and
//! each switch of the scheme turned over. The pool is small and there is a backing file, so that admission
//! and eviction have something to decide.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmswap_page::Layout;
use warmswap_policy::SchemeSpec;
use warmswap_policy::scheme::policies;

use crate::compare::{BASELINE, Comparison, Figures, SchemeRow};
use crate::error::StudyError;
use crate::options::Options;
use crate::run::{OnProgress, Run, replay_all};
use crate::subject::Subject;
use warmswap_columns::Described;

/// A scheme with one slot exchanged, over all traces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Described)]
#[column(slot = self.slot(), text)]
#[column(relaunch_mean_ns = self.latency.map(|it| it.mean), "relaunch mean")]
pub struct AblationRow {
    /// What was exchanged; `None` for the scheme itself.
    pub change: Option<String>,
    /// Time that memory cost in a relaunch's window.
    pub latency: Option<Figures>,
    /// Geometric mean, over the applications, of the median latency, divided by the scheme's own.
    #[column(ratio, "vs own")]
    pub vs_base: Option<f64>,
    /// CPU time of compression and decompression, divided by the scheme's own.
    #[column(ratio, "CPU vs own")]
    pub cpu_vs_base: Option<f64>,
    /// Touches that waited for the pool, at any time.
    #[column("from pool")]
    pub pool_faults: u64,
    /// Touches that waited for the backing file, at any time.
    #[column("from flash")]
    pub backing_faults: u64,
    /// Chunks that were not admitted.
    #[column]
    pub not_admitted: u64,
    /// Chunks that were evicted to the backing file.
    #[column(count, "evicted")]
    pub written_back_chunks: u64,
    /// Bytes read from flash.
    pub flash_read_bytes: u64,
    /// Bytes written to flash.
    #[column]
    pub flash_written_bytes: u64,
    /// Applications that were killed.
    pub kills: u64,
}

impl AblationRow {
    /// What was exchanged, with room for a line to break.
    fn slot(&self) -> String {
        let change = self.change.as_ref();
        change.map_or_else(|| "(as it is)".to_owned(), |it| it.replace(',', ", "))
    }
}

/// A scheme, and what each of its slots is worth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ablation {
    /// The scheme.
    pub scheme: String,
    /// The traces.
    pub traces: Vec<String>,
    /// Memory for frames and pool, in percent of the footprint.
    pub budget_percent: f64,
    /// The pool's limit, in percent of that.
    pub pool_percent: f64,
    /// The scheme itself, then the changes, slot by slot.
    pub rows: Vec<AblationRow>,
}

/// Every exchange of one slot, as [`SchemeSpec::set`] takes it: another policy, or the same without its last argument.
/// A scheme whose pages never leave is none.
pub fn changes(scheme: &SchemeSpec) -> Vec<String> {
    let of = |slot: &str| match slot {
        "reclaim" => &scheme.reclaim,
        "sizing" => &scheme.sizing,
        "admission" => &scheme.admission,
        "eviction" => &scheme.eviction,
        _ => &scheme.prefetch,
    };
    let differs = |slot, name| of(slot).split(':').next() != Some(name);
    let others = policies()
        .into_iter()
        .filter(|row| row.name != "never" && differs(row.slot, row.name))
        .map(|row| format!("{}={}", row.slot, row.name));
    let without = ["reclaim", "sizing", "admission", "eviction", "prefetch"];
    let without = without.into_iter().filter_map(|slot| {
        let policy = of(slot);
        let less = policy.rfind([':', ',']).map(|end| &policy[..end])?;
        Some(format!("{slot}={less}"))
    });
    let order = scheme.reclaim.starts_with("hotness:") && !scheme.reclaim.contains("foreground=");
    let order = order.then(|| format!("reclaim={},foreground=last", scheme.reclaim));
    let rules = ["lru", "lru-2", "sieve", "history", "windows"];
    let rules = rules.map(|rule| format!("reclaim=adaptive:rule={rule}"));
    let rules = rules.into_iter().filter(|_| scheme.reclaim == "adaptive");
    let turned = |name: &str, is_on| format!("{name}={}", if is_on { "off" } else { "on" });
    let switches = [
        turned("keep-copies", scheme.keep_copies),
        turned("file-pages", scheme.file_pages),
    ];
    let layouts = Layout::ALL.into_iter().filter(|&it| it != scheme.layout);
    let layouts = layouts.map(|layout| format!("layout={}", layout.name()));
    let all = others
        .chain(without)
        .chain(order)
        .chain(rules)
        .chain(switches)
        .chain(layouts);
    // What takes arguments that have no default is left out.
    all.filter(|change| scheme.clone().set(change).is_ok())
        .collect()
}

/// Replays the traces, pages of files included, under the scheme and with each slot exchanged.
///
/// # Errors
/// The first replay that stops.
pub fn ablation(
    subjects: &[Subject],
    scheme: &SchemeSpec,
    (budget_percent, pool_percent): (f64, f64),
    on_progress: OnProgress<'_>,
) -> Result<Ablation, StudyError> {
    let options = Options::small_pool(budget_percent, pool_percent);
    // By the name of the baseline, a comparison gives what each is by it.
    let named = |name: &str, change: Option<&String>| {
        let mut spec = scheme.clone();
        if let Some(change) = change {
            spec.set(change)?;
        }
        spec.name = name.to_owned();
        Ok::<_, StudyError>(spec)
    };
    let changes = changes(scheme);
    let mut specs = vec![named(BASELINE, None)?];
    for change in &changes {
        specs.push(named(change, Some(change))?);
    }
    let runs = replay_all(subjects, &specs, &options, on_progress)?;
    let comparison = Comparison::of(&runs);
    let rows = comparison
        .schemes
        .iter()
        .map(|row| ablation_row(row, &runs));
    Ok(Ablation {
        scheme: scheme.name.clone(),
        traces: subjects.iter().map(|it| it.name.clone()).collect(),
        budget_percent,
        pool_percent,
        rows: rows.collect(),
    })
}

fn ablation_row(row: &SchemeRow, runs: &[Run]) -> AblationRow {
    let own = || runs.iter().filter(|run| run.result.scheme == row.scheme);
    let counters = || own().map(|run| &run.result.counters);
    AblationRow {
        change: (row.scheme != BASELINE).then(|| row.scheme.clone()),
        latency: row.latency,
        vs_base: row.latency_vs_zram,
        cpu_vs_base: row.cpu_vs_zram,
        pool_faults: counters().map(|it| it.pool_faults).sum(),
        backing_faults: counters().map(|it| it.backing_faults).sum(),
        not_admitted: counters().map(|it| it.not_admitted).sum(),
        written_back_chunks: counters().map(|it| it.written_back_chunks).sum(),
        flash_read_bytes: row.flash_read_bytes,
        flash_written_bytes: row.flash_written_bytes,
        kills: row.kills,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::synthetic;

    #[test]
    fn every_slot_is_exchanged_and_each_exchange_is_another_scheme() {
        let scheme = SchemeSpec::named("warmswap").unwrap();
        let changes = changes(&scheme);
        for slot in [
            "reclaim=lru",
            "reclaim=hotness",
            "reclaim=adaptive:rule=lru-2",
            "sizing=",
            "admission=selective",
            "eviction=lottery",
            "prefetch=",
            "keep-copies=off",
            "file-pages=on",
            "layout=z3fold",
        ] {
            assert!(
                changes.iter().any(|it| it.starts_with(slot)),
                "{slot}: {changes:?}"
            );
        }
        assert!(
            changes.iter().any(|it| it == "prefetch=next"),
            "{changes:?}"
        );
        let ariadne = SchemeSpec::named("ariadne").unwrap();
        let order = "reclaim=hotness:hot=keep,foreground=last";
        assert!(super::changes(&ariadne).iter().any(|it| it == order));
        for change in &changes {
            let mut other = scheme.clone();
            other.set(change).unwrap();
            other.name = scheme.name.clone();
            assert_ne!(other, scheme, "{change}");
        }
    }

    #[test]
    fn the_pool_is_full_enough_for_admission_and_eviction_to_matter() {
        let scheme = SchemeSpec::named("warmswap").unwrap();
        let study = ablation(&[synthetic(2000)], &scheme, (50.0, 10.0), &|_| {}).unwrap();
        let base = &study.rows[0];
        assert_eq!((base.change.as_deref(), base.vs_base), (None, Some(1.0)));
        assert!(base.written_back_chunks > 0, "{base:?}");
        let row = |change| {
            study
                .rows
                .iter()
                .find(|row| row.change.as_deref() == Some(change))
        };
        assert_eq!(row("admission=nothing").unwrap().written_back_chunks, 0);
        assert_eq!(row("eviction=none").unwrap().written_back_chunks, 0);
        assert_eq!(study.rows.len(), 1 + changes(&scheme).len());
    }
}
