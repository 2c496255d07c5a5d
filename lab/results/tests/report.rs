//! Reports: claims beside results, and what changed between two.

use std::path::Path;

use serde_json::json;
use warmswap_bench::RelaunchReport;
use warmswap_bench::relaunch::{Arm, ArmResult, CpuParts, RelaunchValue};
use warmswap_columns::Style;
use warmswap_results::claims::Verdict;
use warmswap_results::difference::{Comparison, Difference};
use warmswap_results::evidence::{evidence, evidence_tables};
use warmswap_results::{Results, summary};

/// Live relaunches: `kernel` takes this part of what zram takes, and the limit is `total_bytes`.
fn live_in(part: f64, total_bytes: u64) -> String {
    let apps = ["redis", "emacs"].map(str::to_owned);
    let arms = [
        (Arm::Dram, 10.0),
        (Arm::Zram, 100.0),
        (Arm::Kernel, 100.0 * part),
    ];
    let values = arms.iter().flat_map(|&(arm, ms)| {
        let values = apps.iter().flat_map(move |app| {
            (0..9).map(move |round| RelaunchValue {
                arm,
                app: app.clone(),
                latency_ns: ((ms + f64::from(round)) * 1e6) as u64,
                ..RelaunchValue::default()
            })
        });
        values.collect::<Vec<_>>()
    });
    let values = values.collect();
    let arms = arms.map(|(arm, ms)| ArmResult {
        arm,
        cpu: CpuParts {
            programs_ns: Some(ms as u64),
            ..CpuParts::default()
        },
        mean_bytes: 1 << 20,
        ..ArmResult::default()
    });
    let report = RelaunchReport {
        apps: apps.into(),
        blocks: 1,
        processors: 2,
        footprint_bytes: Some(8 << 20),
        total_bytes: Some(total_bytes),
        arms: arms.into(),
        values,
        ..RelaunchReport::default()
    };
    let mut data = serde_json::to_value(report).unwrap();
    // A newer build may have more to say.
    data["arms"][0]["something_new"] = 1.into();
    let machine = json!({"cpu": "c", "cores": 2, "kernel": "6.18.0", "memory_bytes": 1 << 30});
    json!({
        "schema": "warmswap.bench.relaunch", "schema_version": 1, "warmswap": "0.1.0",
        "machine": machine, "command": ["warmswap-lab", "bench", "relaunch"], "data": data,
    })
    .to_string()
}

fn live(part: f64) -> String {
    live_in(part, 4 << 20)
}

fn results(texts: &[String]) -> Results {
    let mut results = Results::default();
    for text in texts {
        results.add(Path::new("live.json"), text).unwrap();
    }
    results
}

#[test]
fn all_live_runs_count_whichever_is_first() {
    for parts in [[0.5, 2.0], [2.0, 0.5]] {
        let results = results(&parts.map(live));
        let lines = summary::lines(&results, &evidence(&results));
        let is_mean = |line: &String| line.starts_with("1.25× of zram's CPU time");
        assert!(lines.iter().any(is_mean), "{lines:?}");
    }
}

#[test]
fn claims_stand_beside_what_was_run() {
    let results = results(&[live(0.5)]);
    let rows = evidence(&results);
    assert!(rows.iter().any(|row| row.here.is_some()));
    let tables = evidence_tables(&rows);
    let text: String = tables.iter().map(|of| of.text(Style::PLAIN)).collect();
    for says in [
        "Ariadne",
        "ezswap",
        "ASAP",
        "Fleet",
        "Not run: warmswap-lab study similarity TRACE.",
    ] {
        assert!(text.contains(says), "{says}");
    }
    let lines = summary::lines(&results, &rows);
    let first = lines.first().expect("a line");
    assert!(
        first.starts_with("0.5") && first.contains("zram steered by warmswap"),
        "{first}"
    );
    assert!(first.contains(": more than noise"), "{first}");
}

#[test]
fn of_nothing_no_claim_was_run() {
    let rows = evidence(&Results::default());
    assert!(rows.len() > 50);
    let known = rows
        .iter()
        .find(|row| ![Verdict::NotRun, Verdict::Cannot].contains(&row.verdict));
    assert!(known.is_none(), "{known:?}");
    assert!(summary::lines(&Results::default(), &rows).is_empty());
}

/// The line of an arm over all applications.
fn overall(comparison: &Comparison, arm: &str) -> Difference {
    let mut rows = comparison.rows.iter();
    let found = rows.find(|row| row.arm == arm && row.app.is_none());
    found.expect(arm).clone()
}

#[test]
fn a_difference_is_told_from_noise() {
    let (half, same) = (results(&[live(0.5)]), results(&[live(0.5)]));
    let found = Comparison::of(&half, &same).unwrap();
    assert!(
        found.rows.iter().all(|row| row.verdict == "no"),
        "{found:?}"
    );

    let found = Comparison::of(&half, &results(&[live(0.25)])).unwrap();
    let kernel = overall(&found, "kernel");
    assert!(
        kernel.ratio < Some(0.7) && kernel.verdict == "yes",
        "{kernel:?}"
    );
    assert!(kernel.after_ns < kernel.before_ns, "{kernel:?}");
    assert_eq!(overall(&found, "zram").verdict, "no");
    assert_eq!(
        found.rows.len(),
        9,
        "three arms, over all and in two applications"
    );

    assert!(Comparison::of(&half, &Results::default()).is_err());
}

#[test]
fn what_two_results_had_not_alike_is_told() {
    let compared = |total_bytes| {
        let (before, after) = (results(&[live(0.5)]), results(&[live_in(0.5, total_bytes)]));
        Comparison::of(&before, &after).unwrap()
    };
    assert_eq!(compared(4 << 20).conditions.len(), 0);
    let unlike = compared(2 << 20);
    let said = "Not alike: memory: 4.00 MiB before, 2.00 MiB after.";
    assert_eq!(unlike.conditions, [said]);
    assert!(unlike.table().text(Style::PLAIN).contains(said));
}

#[test]
fn a_result_is_the_same_once_it_was_read_and_written() {
    let written: serde_json::Value = serde_json::from_str(&live(0.5)).unwrap();
    let mut data = written["data"].clone();
    let read = Results::again("warmswap.bench.relaunch", &data)
        .unwrap()
        .unwrap();
    data["arms"][0]
        .as_object_mut()
        .unwrap()
        .remove("something_new");
    assert_eq!(read, data);
    assert!(
        Results::again("warmswap.bench.relaunch", &"x".into())
            .unwrap()
            .is_err()
    );
    assert!(Results::again("warmswap.unknown", &data).is_none());
}
