use super::*;
use crate::testing::{schemes, synthetic};
use warmswap_engine::{Counters, Limits};
use warmswap_replay::Totals;

fn latency(measured_ns: u64, modelled_ns: u64) -> Latency {
    Latency {
        measured_ns,
        modelled_ns,
    }
}

fn relaunch(modelled_ns: u64) -> Relaunch {
    Relaunch {
        latency: latency(0, modelled_ns),
        hot_pages: 10,
        hot_used: 9,
        hot_touched: 7,
        touched_known_pages: 10,
        ..Relaunch::default()
    }
}

fn run(scheme: &str, apps: &[&[u64]], cpu_ns: u64) -> Run {
    let apps = apps.iter().enumerate().map(|(index, latencies)| AppResult {
        name: format!("app{index}"),
        relaunches: latencies.iter().map(|&ns| relaunch(ns)).collect(),
        ..AppResult::default()
    });
    let result = ReplayResult {
        scheme: scheme.into(),
        limits: Limits {
            budget_bytes: 100,
            pool_limit_bytes: 50,
            backing_limit_bytes: 0,
        },
        device: "ufs-3.1".into(),
        with_contents: true,
        apps: apps.collect(),
        totals: Totals {
            cpu: CpuTime {
                direct_compress_ns: cpu_ns,
                ..CpuTime::default()
            },
            original_bytes: 300,
            compressed_bytes: 100,
            ..Totals::default()
        },
        ruling: None,
        counters: Counters {
            prefetched: 8,
            buffer_hits: 6,
            prefetch_wasted: 1,
            ..Counters::default()
        },
    };
    Run {
        trace: "t".into(),
        footprint_bytes: 200,
        file_pages: false,
        pressure: Pressure::Budget,
        sight: Sight::All,
        sample_share: None,
        cold_files: false,
        result,
        volumes: Vec::new(),
    }
}

#[test]
fn figures_are_nearest_ranks_with_the_parts_of_that_relaunch() {
    let of = |latencies: &[Latency]| {
        let relaunches: Vec<_> = latencies
            .iter()
            .map(|&latency| Relaunch {
                latency,
                ..Relaunch::default()
            })
            .collect();
        Figures::of(&relaunches)
    };
    assert_eq!(of(&[]), None);
    let figures = of(&[latency(4, 6), latency(1, 0), latency(9, 0), latency(0, 20)]).unwrap();
    assert_eq!(figures.median, latency(9, 0));
    assert_eq!(figures.p90, latency(0, 20));
    assert_eq!(figures.mean, latency(3, 6));
}

#[test]
fn ratios_are_worked_out_by_hand() {
    let runs = [
        run("zram", &[&[100, 200, 300], &[50]], 1000),
        run("ariadne", &[&[100, 100, 900], &[200]], 850),
        run("dram", &[&[10], &[10]], 0),
    ];
    let comparison = Comparison::of(&runs);
    assert_eq!(comparison.apps.len(), 6);
    assert_eq!(comparison.apps[1].scheme, "ariadne");
    assert_eq!(comparison.apps[1].latency.unwrap().median, latency(0, 100));
    let ariadne = &comparison.schemes[1];
    // sqrt(100/200 * 200/50) and sqrt(100/10 * 200/10)
    assert!((ariadne.latency_vs_zram.unwrap() - 2f64.sqrt()).abs() < 1e-9);
    assert!((ariadne.latency_vs_dram.unwrap() - 200f64.sqrt()).abs() < 1e-9);
    assert_eq!(ariadne.cpu_vs_zram, Some(0.85));
    assert_eq!(ariadne.data_ratio, Some(3.0));
    assert_eq!(ariadne.memory_ratio, None);
    assert!((ariadne.coverage.unwrap() - 0.7).abs() < 1e-12);
    assert!((ariadne.accuracy.unwrap() - 0.9).abs() < 1e-12);
    assert_eq!(ariadne.prefetch_used, Some(0.75));
    assert_eq!(ariadne.prefetch_wasted, Some(0.125));
    assert_eq!(ariadne.swap_in_pages, 8);
}

#[test]
fn without_the_baselines_there_are_no_ratios() {
    let comparison = Comparison::of(&[run("swap", &[&[100]], 0)]);
    assert_eq!(comparison.schemes[0].latency_vs_zram, None);
    assert_eq!(comparison.schemes[0].cpu_vs_zram, None);
    assert_eq!(comparison.verdict, None);
    assert_eq!(Comparison::of(&[]).schemes, []);
}

#[test]
fn cold_starts_after_a_kill_are_in_every_figure_and_shown_apart() {
    let mut zram = run("zram", &[&[100, 900, 300]], 0);
    zram.result.apps[0].relaunches[1].was_killed = true;
    zram.result.totals.kills = 1;
    let ours = run("warmswap", &[&[100, 150, 200]], 0);
    let comparison = Comparison::of(&[zram, ours]);
    let row = &comparison.schemes[0];
    let median = |figures: Option<Figures>| figures.unwrap().median.total_ns();
    assert_eq!((row.relaunches, row.cold_starts, row.kills), (3, 1, 1));
    assert_eq!(median(row.latency), 300);
    assert_eq!(median(row.cold_start_latency), 900);
    assert_eq!(row.warm_latency.unwrap().mean.total_ns(), 200);
    let verdict = comparison.verdict.unwrap();
    assert_eq!((verdict.kills, verdict.kills_of_zram), (0, 1));
    assert_eq!(verdict.median_vs_zram, Some(0.5));
    assert_eq!(verdict.scheme, "warmswap");
    assert!(!verdict.is_sample);
}

#[test]
fn what_is_not_alike_is_named_with_those_that_have_it() {
    let names = ["zram", "zswap", "ezswap"];
    let mut runs = names.map(|name| run(name, &[&[100]], 0));
    assert_eq!(Comparison::of(&runs).differences, []);
    runs[2].result.limits.pool_limit_bytes = 10;
    runs[2].file_pages = true;
    let found = Comparison::of(&runs).differences;
    let found: Vec<_> = found
        .iter()
        .map(|it| (it.what.as_str(), &it.schemes))
        .collect();
    let ezswap = vec!["ezswap".to_owned()];
    assert_eq!(
        found,
        [("pool limit", &ezswap), ("pages of files", &ezswap)]
    );
}

#[test]
fn all_schemes_have_the_backing_file_that_one_of_them_uses() {
    let of = |names: &[&str]| {
        let specs: Vec<_> = names
            .iter()
            .map(|name| SchemeSpec::parse(name).unwrap())
            .collect();
        alike(&Options::default(), &specs).backing
    };
    assert_eq!(
        of(&["zram", "warmswap"]),
        Some(crate::Amount::Percent(100.0))
    );
    assert_eq!(of(&["zram", "dram"]), Some(crate::Amount::Bytes(0)));
    let own = Options {
        backing: Some(crate::Amount::Bytes(7)),
        ..Options::default()
    };
    let warmswap = schemes(["warmswap"]);
    assert_eq!(alike(&own, &warmswap).backing, own.backing);
}

#[test]
fn ezswap_has_pages_of_files_and_a_limited_pool_as_in_its_paper() {
    let subject = synthetic(2000);
    let subjects = std::slice::from_ref(&subject);
    let specs = schemes(["zswap", "ezswap"]);
    let (comparison, runs) = compare(
        subjects,
        &specs,
        &Options::default(),
        as_in_its_paper,
        &|_| {},
    )
    .unwrap();
    assert_eq!(
        runs.iter().map(|run| run.file_pages).collect::<Vec<_>>(),
        [false, true]
    );
    let limits = runs.iter().map(|run| run.result.limits);
    let limits: Vec<_> = limits.collect();
    assert_eq!(limits[0].pool_limit_bytes, limits[0].budget_bytes);
    let tenth = crate::Amount::Percent(10.0).of(limits[1].budget_bytes);
    assert_eq!(limits[1].pool_limit_bytes, tenth);
    assert!(
        comparison
            .differences
            .iter()
            .any(|it| it.what == "pool limit")
    );
    // It has a larger footprint, and as much of it.
    let shares = runs
        .iter()
        .map(|run| run.result.limits.budget_bytes as f64 / run.footprint_bytes as f64);
    assert!(shares.into_iter().all(|share| (share - 0.5).abs() < 1e-3));
}

#[test]
fn every_scheme_replays_a_synthetic_trace_and_pressure_costs() {
    let subject = synthetic(2000);
    let last = std::sync::Mutex::new((0, 0));
    let names = [
        "dram",
        "zram",
        "swap",
        "zswap",
        "ariadne-al-1k-2k-16k",
        "warmswap",
    ];
    let (comparison, runs) = compare(
        std::slice::from_ref(&subject),
        &schemes(names),
        &Options::default(),
        |_, options| options,
        &|progress| {
            let mut last = last.lock().unwrap();
            *last = (last.0.max(progress.done), progress.total);
        },
    )
    .unwrap();
    let (done, total) = *last.lock().unwrap();
    assert_eq!(done, total);
    assert_eq!(total, 6 * subject.reader.summary().events);
    assert_eq!(runs.len(), 6);
    assert!(comparison.with_contents);
    let row = |name: &str| {
        let found = comparison.schemes.iter().find(|row| row.scheme == name);
        found.unwrap()
    };
    assert_eq!(row("dram").swap_out_pages, 0);
    assert_eq!(row("dram").latency_vs_dram, Some(1.0));
    // The recorded contents do not depend on the clock, nor does the modelled part.
    let modelled = |name| row(name).latency.unwrap().mean.modelled_ns;
    assert!(modelled("dram") < modelled("zram"));
    assert!(modelled("zram") < modelled("swap"));
    assert!(row("zram").data_ratio.unwrap() > 2.0);
    assert!(row("zram").kills > 0 || row("zram").flash_written_bytes == 0);
    assert!(row("ariadne-al-1k-2k-16k").prefetched_pages > 0);
}

#[test]
fn the_way_to_the_optimum_is_worked_out_by_hand() {
    let with_faults = |scheme: &str, in_windows: u64, elsewhere: u64| {
        let mut run = run(scheme, &[&[100]], 0);
        run.result.apps[0].relaunches[0].pool_faults = in_windows;
        run.result.counters = Counters {
            pool_faults: in_windows + elsewhere,
            ..Counters::default()
        };
        run
    };
    let mut killed = with_faults("zram", 50, 0);
    killed.result.apps[0].relaunches[0].lost_faults = 30;
    let runs = [
        killed,
        with_faults("warmswap", 40, 60),
        with_faults("lru", 100, 100),
        with_faults("optimal-windows", 20, 200),
        with_faults("optimal", 30, 10),
    ];
    let rows = Comparison::of(&runs).schemes;
    let way: Vec<_> = rows
        .iter()
        .map(|row| (row.way_in_windows, row.way))
        .collect();
    // Of 80 window faults, and of 160 faults.
    assert_eq!(way[0], (Some(0.25), Some(0.75)), "lost pages count");
    assert_eq!(way[1], (Some(0.75), Some(0.625)));
    assert_eq!(way[2], (Some(0.0), Some(0.0)));
    assert_eq!(way[3], (Some(1.0), Some(-0.125)));
    assert_eq!(way[4], (Some(0.875), Some(1.0)));
    assert_eq!(Comparison::of(&runs[..3]).schemes[1].way, None);
    let is_measured = |optimal: u64| {
        let runs = [
            with_faults("zram", 100, 0),
            with_faults("lru", 100, 0),
            with_faults("optimal", optimal, 0),
        ];
        Comparison::of(&runs).schemes[0].way.is_some()
    };
    assert_eq!(
        [70, 71, 99, 100].map(is_measured),
        [true, false, false, false]
    );
    let runs = [
        with_faults("warmswap", 100, 300),
        with_faults("lru", 100, 100),
        with_faults("optimal-windows", 70, 130),
        with_faults("optimal", 100, 70),
    ];
    let row = &Comparison::of(&runs).schemes[0];
    assert_eq!(row.way_in_windows, Some(0.0));
    assert_eq!(row.way, None, "seven times the way, backwards");
}

#[test]
fn nothing_beats_the_clairvoyant_and_it_stands_last() {
    let subject = synthetic(2000);
    let specs = with_limits(schemes(["optimal", "zram", "warmswap"]).to_vec()).unwrap();
    let names: Vec<_> = specs.iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(
        names,
        ["zram", "warmswap", "lru", "optimal-windows", "optimal"]
    );
    let page_by_page = |name: &str| {
        let spec = SchemeSpec::parse(name).unwrap();
        let subjects = std::slice::from_ref(&subject);
        let runs = crate::replay_all(subjects, &[spec], &Options::default(), &|_| {}).unwrap();
        let relaunches = runs[0].result.relaunches();
        let in_windows: u64 = relaunches.map(way::window_faults).sum();
        (in_windows, way::faults(&runs[0].result))
    };
    let (windows, optimal) = (page_by_page("optimal-windows"), page_by_page("optimal"));
    assert!(optimal.1 > 0);
    for name in ["lru", "lru+reclaim=hotness:hot=keep", "lru+reclaim=hotness"] {
        let found = page_by_page(name);
        assert!(windows.0 < found.0, "{name}: {windows:?} {found:?}");
        assert!(optimal.1 < found.1, "{name}: {optimal:?} {found:?}");
    }
}
