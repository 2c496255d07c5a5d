//! Reports: claims beside results, and what changed between two.

use std::path::Path;

use serde_json::json;
use warmswap_bench::RelaunchReport;
use warmswap_bench::relaunch::{Arm, ArmResult, CpuParts, RelaunchValue};
use warmswap_columns::Style;
use warmswap_replay::{Latency, Pressure, Sight};
use warmswap_results::claims::Verdict;
use warmswap_results::difference::{Comparison, Difference};
use warmswap_results::evidence::{evidence, evidence_tables};
use warmswap_results::{Results, summary};
use warmswap_study::compare::{AppRow, Comparison as Replayed, SchemeMemory, SchemeRow, TraceRow};

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

/// A replay of two applications under zram and ours.
fn replayed(change: impl Fn(&mut Replayed)) -> String {
    let latency = |ns| Latency {
        measured_ns: ns,
        modelled_ns: 0,
    };
    let row = |app: &str, scheme: &str, ns: u64| AppRow {
        trace: "mixed".to_owned(),
        app: app.to_owned(),
        scheme: scheme.to_owned(),
        relaunches: 4,
        latencies: (0..4).map(|more| latency(ns + more)).collect(),
        ..AppRow::default()
    };
    let scheme = |name: &str| SchemeRow {
        scheme: name.to_owned(),
        memory: SchemeMemory {
            budget_bytes: 1000,
            pool_limit_bytes: 1000,
            ..SchemeMemory::default()
        },
        ..SchemeRow::default()
    };
    let mut data = Replayed {
        traces: vec![TraceRow {
            trace: "mixed".to_owned(),
            footprint_bytes: 500,
            budget_bytes: 1000,
            sample_share: None,
            cold_files: false,
        }],
        schemes: vec![scheme("zram"), scheme("warmswap")],
        apps: ["redis", "h2"]
            .iter()
            .flat_map(|app| [row(app, "zram", 1000), row(app, "warmswap", 500)])
            .collect(),
        with_contents: true,
        pressure: Some(Pressure::Full),
        sight: Some(Sight::All),
        ..Replayed::default()
    };
    change(&mut data);
    let machine = json!({"cpu": "c", "cores": 2, "kernel": "6.18.0", "memory_bytes": 1 << 30});
    json!({
        "schema": "warmswap.compare", "schema_version": 2, "warmswap": "0.1.0",
        "machine": machine, "command": ["warmswap-lab", "compare"], "data": data,
    })
    .to_string()
}

#[test]
fn a_replay_is_told_by_its_pressure_and_pages_of_files_and_not_by_its_memory_alone() {
    let full = |of: &Results| of.full_pressure().is_some();
    let files = |of: &Results| of.with_files().is_some();
    let under = |of: &Results| of.under_budget().is_some();
    let seen = |text: String| {
        let of = results(&[text]);
        [full(&of), files(&of), under(&of)]
    };
    assert_eq!(seen(replayed(|_| {})), [true, false, false]);
    let exact = |of: &mut Replayed| of.traces[0].budget_bytes = 500;
    assert_eq!(seen(replayed(exact)), [true, false, false]);
    for pressure in [Some(Pressure::Budget), None] {
        assert_eq!(seen(replayed(|of| of.pressure = pressure)), [false; 3]);
    }
    let small = |of: &mut Replayed| of.traces[0].budget_bytes = 499;
    assert_eq!(seen(replayed(small)), [false, false, true]);
    for at in [0, 1] {
        let one = replayed(|of| of.schemes[at].memory.file_pages = true);
        assert_eq!(seen(one), [true, false, false], "files under one scheme");
    }
    let all = replayed(|of| {
        let schemes = of.schemes.iter_mut();
        schemes.for_each(|row| row.memory.file_pages = true);
    });
    assert_eq!(seen(all), [false, true, false]);
    let small_and_full = results(&[replayed(small)]);
    let lines = summary::lines(&small_and_full, &[]);
    let says = "with 100 % of the memory that all takes, in which an application that leaves";
    assert!(lines[0].contains(says), "{lines:?}");
}

#[test]
fn whatever_two_replays_had_not_alike_is_told_on_either_side() {
    let base = || results(&[replayed(|_| {})]);
    let told = |change: &dyn Fn(&mut Replayed)| {
        let other = || results(&[replayed(change)]);
        let one = Comparison::of(&base(), &other()).unwrap().conditions;
        let back = Comparison::of(&other(), &base()).unwrap().conditions;
        assert_eq!(one.len(), back.len(), "{one:?} {back:?}");
        one.join(" ")
    };
    assert_eq!(told(&|_| {}), "");
    assert_eq!(
        told(&|of| of.with_contents = false),
        "Not alike: contents: as recorded before, assumed after."
    );
    assert!(told(&|of| of.pressure = Some(Pressure::Budget)).contains("what makes pages leave"));
    assert!(told(&|of| of.sight = Some(Sight::Faults)).contains("touches that schemes see"));
    let pool = told(&|of| {
        let schemes = of.schemes.iter_mut();
        schemes.for_each(|row| row.memory.pool_limit_bytes = 200);
    });
    let said = "Not alike: most of the budget for the pool of zram, warmswap: 100.0 % before, 20.0 % after.";
    assert_eq!(pool, said);
    assert!(
        told(&|of| of.schemes[1].memory.backing_limit_bytes = 9)
            .contains("backing file of warmswap")
    );
    assert!(told(&|of| of.schemes[0].memory.file_pages = true).contains("pages of files of zram"));
    let two = told(&|of| {
        of.traces.push(of.traces[0].clone());
        of.traces[1].trace = "other".to_owned();
    });
    assert_eq!(
        two,
        "Not alike: recordings: mixed before, mixed, other after."
    );
    let one = told(&|of| of.apps.retain(|row| row.app == "redis"));
    assert_eq!(
        one,
        "Not alike: applications: redis, h2 before, redis after."
    );
}

#[test]
fn an_application_that_took_no_time_is_no_ratio_and_is_left_out_of_all() {
    let base = results(&[replayed(|_| {})]);
    let idle = results(&[replayed(|of| {
        let of_redis = of.apps.iter_mut().filter(|row| row.app == "redis");
        of_redis.for_each(|row| row.latencies[0].measured_ns = 0);
        let of_h2 = of.apps.iter_mut().filter(|row| row.app == "h2");
        of_h2.for_each(|row| row.latencies.iter_mut().for_each(|it| it.measured_ns *= 8));
    })]);
    let found = Comparison::of(&base, &idle).unwrap();
    let of = |app: Option<&str>| {
        let mut rows = found.rows.iter();
        rows.find(|row| row.arm == "zram" && row.app.as_deref() == app)
            .unwrap()
    };
    assert_eq!(
        (of(Some("redis")).verdict, of(Some("redis")).ratio),
        ("0 ns", None)
    );
    let (all, h2) = (of(None), of(Some("h2")));
    assert_eq!((all.before_ns, all.after_ns), (h2.before_ns, h2.after_ns));
    assert_eq!(all.ratio, h2.ratio);
    let text = found.table().text(Style::PLAIN);
    assert!(
        text.contains("Applications without a ratio are left out of all"),
        "{text}"
    );
    let short = results(&[replayed(|of| {
        of.apps.iter_mut().for_each(|row| row.latencies.truncate(2))
    })]);
    assert!(Comparison::of(&base, &short).is_err());
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
