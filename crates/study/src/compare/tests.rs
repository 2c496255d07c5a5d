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
fn without_the_baselines_there_are_no_ratios_and_cold_starts_do_not_count() {
    let mut killed = run("swap", &[&[100]], 0);
    killed.result.apps[0].relaunches[0].was_killed = true;
    let comparison = Comparison::of(&[killed]);
    assert_eq!(comparison.schemes[0].latency_vs_zram, None);
    assert_eq!(comparison.schemes[0].cpu_vs_zram, None);
    assert_eq!(comparison.schemes[0].relaunches, 0);
    assert_eq!(comparison.apps[0].latency, None);
    assert_eq!(Comparison::of(&[]).schemes, []);
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
