//! What a newcomer understands in ten seconds: a few sentences with their numbers.

use warmswap_bench::relaunch::{Arm, ArmResult};
use warmswap_columns::Quantity;

use crate::claims::{Verdict, tally};
use crate::difference::in_words;
use crate::series::Latencies;
use crate::stored::Results;

/// One thing to know.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// The number that is seen first.
    pub number: String,
    /// What it is.
    pub what: String,
    /// What must be known of it.
    pub how: String,
}

/// Up to four of them, the most important first.
#[must_use]
pub fn facts(results: &Results) -> Vec<Fact> {
    let mut facts = Vec::new();
    if let Some(of) = results.relaunch.first() {
        let latencies = Latencies::live(of);
        for ours in ["kernel", "preload"] {
            facts.extend(against_zram(&latencies, ours, "live, whole relaunches"));
        }
        facts.extend(cpu(results));
    }
    if let Some(of) = results.full_pressure() {
        let how = "a replay in which an application that leaves gives everything up; the part of a relaunch that memory costs";
        facts.extend(against_zram(&Latencies::replayed(of), "warmswap", how));
    }
    if let Some(of) = results.under_budget().filter(|_| facts.len() < 3) {
        let percent = of.traces.first().map(|row| {
            (row.budget_bytes as f64 / row.footprint_bytes.max(1) as f64 * 100.0).round()
        });
        let how = format!(
            "a replay with {} % of the memory that all takes; the part of a relaunch that memory costs",
            percent.unwrap_or_default()
        );
        facts.extend(against_zram(&Latencies::replayed(of), "warmswap", &how));
    }
    facts.extend(evidence(results));
    facts
}

/// The facts as lines of a terminal.
#[must_use]
pub fn lines(results: &Results) -> Vec<String> {
    let line = |fact: Fact| format!("{}: {}", fact.number, fact.what);
    facts(results).into_iter().take(3).map(line).collect()
}

fn against_zram(latencies: &Latencies, ours: &str, how: &str) -> Option<Fact> {
    let change = latencies.change("zram", ours)?;
    let median = |arm: &str| {
        let values = latencies.named(arm)?;
        let sorted = warmswap_page::quantile::Sorted::by(values, f64::total_cmp);
        Some(Quantity::Nanoseconds(sorted.median()?).human())
    };
    let who = match ours {
        "kernel" => "zram steered by warmswap",
        "preload" => "programs with warmswap preloaded",
        _ => "warmswap",
    };
    let (zram, own) = (median("zram")?, median(ours)?);
    Some(Fact {
        number: Quantity::Ratio(change.ratio).human(),
        what: format!(
            "of zram's relaunch time with {who}, as a mean over the applications; of all relaunches the median is {own}, zram's {zram}"
        ),
        how: format!("{how}; {}", in_words(&change)),
    })
}

fn cpu(results: &Results) -> Option<Fact> {
    let total = |arm: &ArmResult| Some(arm.cpu.total_ns()? as f64);
    let ratio = results.live_ratio(total, Arm::Kernel, Arm::Zram)?;
    Some(Fact {
        number: Quantity::Ratio(ratio).human(),
        what: "of zram's CPU time, with zram steered by warmswap".to_owned(),
        how: "live; programs, kernel and warmswap together".to_owned(),
    })
}

fn evidence(results: &Results) -> Option<Fact> {
    let tally = tally(results);
    let all: usize = tally.iter().sum();
    let measured = tally[0] + tally[1] + tally[2];
    let said = Verdict::ALL
        .iter()
        .zip(tally)
        .skip(1)
        .filter(|(_, count)| *count > 0);
    let said: Vec<String> = said
        .map(|(verdict, n)| format!("{n} {}", plural(*verdict, n)))
        .collect();
    (measured > 0).then(|| Fact {
        number: format!("{} of {measured}", tally[0]),
        what: format!(
            "measured claims of the four papers hold here; {}",
            said.join(", ")
        ),
        how: format!("{all} numbers of four papers, each with its command, below"),
    })
}

fn plural(verdict: Verdict, count: usize) -> &'static str {
    match (verdict, count) {
        (Verdict::Holds, 1) => "holds",
        (Verdict::Holds, _) => "hold",
        (Verdict::InPart, 1) => "holds in part",
        (Verdict::InPart, _) => "hold in part",
        (Verdict::DoesNot, 1) => "does not",
        (Verdict::DoesNot, _) => "do not",
        (Verdict::NotEvaluated, 1) => "was not evaluated",
        (Verdict::NotEvaluated, _) => "were not evaluated",
        (Verdict::NotRun, 1) => "was not run",
        (Verdict::NotRun, _) => "were not run",
        (Verdict::Cannot, _) => "cannot be measured here",
    }
}
