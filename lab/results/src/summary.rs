//! What a newcomer is to know: a few sentences with their numbers.

use warmswap_bench::relaunch::{Arm, ArmResult};
use warmswap_columns::Quantity;
use warmswap_page::quantile::Sorted;
use warmswap_replay::Pressure;

use crate::claims::Verdict;
use crate::difference::in_words;
use crate::evidence::EvidenceRow;
use crate::latencies::Latencies;
use crate::stored::Results;

/// Up to five lines, the most important first; `evidence` is of the same results.
#[must_use]
pub fn lines(results: &Results, evidence: &[EvidenceRow]) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(of) = results.relaunch.first() {
        let latencies = Latencies::live(of);
        for ours in ["kernel", "preload"] {
            lines.extend(against_zram(&latencies, ours, "live, whole relaunches"));
        }
        lines.extend(cpu(results));
    }
    if let Some(of) = results.full_pressure() {
        let how = "a replay in which an application that leaves gives everything up; the part of a relaunch that memory costs";
        lines.extend(against_zram(&Latencies::replayed(of), "warmswap", how));
    }
    if let Some(of) = results.under_budget().filter(|_| lines.len() < 3) {
        let percent = of.traces.first().map(|row| {
            (row.budget_bytes as f64 / row.footprint_bytes.max(1) as f64 * 100.0).round()
        });
        let besides = match of.pressure {
            Some(Pressure::Full) => ", in which an application that leaves gives everything up",
            Some(Pressure::Budget) | None => "",
        };
        let how = format!(
            "a replay with {} % of the memory that all takes{besides}; the part of a relaunch that memory costs",
            percent.unwrap_or_default()
        );
        lines.extend(against_zram(&Latencies::replayed(of), "warmswap", &how));
    }
    lines.extend(tally(evidence));
    lines
}

fn against_zram(latencies: &Latencies, ours: &str, how: &str) -> Option<String> {
    let change = latencies.change("zram", ours)?;
    let median = |arm: &str| {
        let sorted = Sorted::by(latencies.of_arm(arm), f64::total_cmp);
        Some(Quantity::Nanoseconds(sorted.median()?).human())
    };
    let who = match ours {
        "kernel" => "zram steered by warmswap",
        "preload" => "programs with warmswap preloaded",
        _ => "warmswap",
    };
    let (zram, own) = (median("zram")?, median(ours)?);
    let (ratio, change) = (Quantity::Ratio(change.ratio).human(), in_words(&change));
    Some(format!(
        "{ratio} of zram's relaunch time with {who}, as a mean over the applications; of all relaunches the median is \
         {own}, zram's {zram} ({how}; {change})"
    ))
}

fn cpu(results: &Results) -> Option<String> {
    let total = |arm: &ArmResult| Some(arm.cpu.total_ns()? as f64);
    let ratio = results.live_ratio(total, Arm::Kernel, Arm::Zram)?;
    let ratio = Quantity::Ratio(ratio).human();
    Some(format!(
        "{ratio} of zram's CPU time, with zram steered by warmswap (live; programs, kernel and warmswap together)"
    ))
}

/// How many claims came out how, where any was measured.
fn tally(evidence: &[EvidenceRow]) -> Option<String> {
    let count = |verdict| evidence.iter().filter(|row| row.verdict == verdict).count();
    let counts = Verdict::ALL.map(|verdict| (count(verdict), verdict.words()));
    let measured: usize = counts[..3].iter().map(|(count, _)| count).sum();
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts
        .map(|(count, words)| format!("{words}: {count}"))
        .collect();
    let all = evidence.len();
    (measured > 0).then(|| format!("{all} claims of the four papers: {}", counts.join(", ")))
}
