use warmswap_codec::Codec;
use warmswap_engine::{Counters, Limits};
use warmswap_policy::reclaim::{RuleRow, Ruling};
use warmswap_replay::{AppResult, CpuTime, Latency, Relaunch, ReplayResult, Sight, Totals};
use warmswap_study::chunk_size::{ChunkSizeRow, ChunkSizes};
use warmswap_study::compare::{AppRow, Difference, Figures, SchemeRow, TraceRow, Verdict};
use warmswap_study::compression::{CompressionRow, CompressionStudy};
use warmswap_study::coverage::CoverageRow;
use warmswap_study::hotness_order::{HotnessOrder, PARTS, Part};
use warmswap_study::{Comparison, Locality, Similarity, Volume};

use super::*;
use warmswap_columns::{Style, Table};

const MS: u64 = 1_000_000;

fn figures(measured_ns: u64, modelled_ns: u64) -> Option<Figures> {
    let latency = Latency {
        measured_ns,
        modelled_ns,
    };
    Some(Figures {
        median: latency,
        p90: latency,
        mean: latency,
    })
}

fn app_row(scheme: &str, app: usize) -> AppRow {
    AppRow {
        trace: "phone".into(),
        app: format!("app{app}"),
        scheme: scheme.into(),
        relaunches: 5,
        latency: figures(MS, app as u64 * MS),
        latencies: Vec::new(),
        pool_faults: 0,
        backing_faults: 0,
        buffer_hits: 0,
        coverage: None,
        accuracy: None,
        data_ratio: None,
        cpu: CpuTime::default(),
        kills: 0,
    }
}

fn sample(apps: usize) -> Comparison {
    let row = |scheme: &str, measured_ms: u64, modelled_ms: u64| SchemeRow {
        scheme: scheme.into(),
        relaunches: 25,
        latency: figures(measured_ms * MS, modelled_ms * MS),
        ..SchemeRow::default()
    };
    Comparison {
        traces: vec![TraceRow {
            trace: "phone".into(),
            footprint_bytes: 1 << 30,
            budget_bytes: 1 << 29,
            sample_share: None,
            cold_files: false,
        }],
        schemes: vec![
            row("dram", 0, 3),
            SchemeRow {
                latency_vs_zram: Some(1.0),
                latency_vs_dram: Some(8.0),
                cpu: CpuTime {
                    direct_compress_ns: 2000 * MS,
                    ..CpuTime::default()
                },
                cpu_vs_zram: Some(1.0),
                ..row("zram", 6, 18)
            },
            SchemeRow {
                latency_vs_zram: Some(0.51),
                latency_vs_dram: Some(4.1),
                cpu: CpuTime {
                    direct_compress_ns: 1640 * MS,
                    ..CpuTime::default()
                },
                cpu_vs_zram: Some(0.82),
                ..row("ariadne-ehl-1k-2k-16k", 3, 9)
            },
        ],
        apps: (0..apps)
            .flat_map(|app| {
                ["dram", "zram", "ariadne-ehl-1k-2k-16k"].map(|scheme| app_row(scheme, app))
            })
            .collect(),
        with_contents: true,
        device: "ufs-3.1".into(),
        ..Comparison::default()
    }
}

fn assert_lines(found: &str, expected: &[&str]) {
    let found: Vec<&str> = found.lines().collect();
    assert_eq!(found, expected, "\n{}", found.join("\n"));
}

#[test]
fn the_relaunch_table_is_golden() {
    let table = compare::relaunch(&sample(2));
    assert_lines(
        &table.text(Style::PLAIN),
        &[
            "phone: footprint 1.00 GiB, budget 512 MiB, all else alike; 25 relaunches",
            " scheme                  relaunch       p90      mean   kills   vs zram   vs zram   vs dram",
            "                              p50                                           paper",
            "────────────────────────────────────────────────────────────────────────────────────────────",
            " dram                     3.00 ms   3.00 ms   3.00 ms       0         –         –         –",
            " zram                     24.0 ms   24.0 ms   24.0 ms       0     1.00×         –     8.00×",
            " ariadne-ehl-1k-2k-16k    12.0 ms   12.0 ms   12.0 ms       0     0.51×     0.50×     4.10×",
            " [1] Pool limit 0 B, backing file 0 B, without pages of files, flash ufs-3.1.",
            " [2] Time that memory cost in the launch window: codec and pool measured, faults, frames and flash",
            "     modelled. The application's own work is not in it.",
            " [3] The relaunch of an application that was killed takes as long as its recorded cold launch, the",
            "     application's own work included. It is in every figure.",
            " [4] vs zram, vs dram: geometric mean, over the applications whose medians are not 0, of the ratio",
            "     of medians.",
            " [5] Paper: whole relaunches, the application's own work included; vs dram at most 1.10× (Ariadne,",
            "     Figure 10 and section 6.1: within 10 %).",
        ],
    );
}

#[test]
fn the_first_line_says_what_differs_and_the_last_one_what_came_out() {
    let mut unlike = sample(1);
    assert_eq!(compare::verdict(&unlike), None);
    unlike.schemes[2].memory.pool_limit_bytes = 1 << 20;
    unlike.differences = vec![Difference {
        what: "pool limit".into(),
        schemes: vec!["ariadne-ehl-1k-2k-16k".into()],
    }];
    unlike.verdict = Some(Verdict {
        scheme: "warmswap".into(),
        median_vs_zram: Some(0.16),
        kills: 0,
        kills_of_zram: 7,
        is_sample: true,
    });
    let table = compare::relaunch(&unlike).text(Style::PLAIN);
    let first = table.lines().next().unwrap();
    assert!(
        first.ends_with("NOT ALIKE: pool limit of ariadne-ehl-1k-2k-16k"),
        "{first}"
    );
    assert!(table.contains("a pool limit of 1.00 MiB"), "{table}");
    unlike.differences[0].what = "budget, pool limit, pages of files".into();
    let long = compare::relaunch(&unlike).text(Style::PLAIN);
    let first = long.lines().next().unwrap();
    assert!(
        first.ends_with("NOT ALIKE: budget, pool limit, pages of files"),
        "{first}"
    );
    let parts = ["budget", "pool limit", "backing file", "pages of files"];
    unlike.differences = parts
        .map(|what| Difference {
            what: format!("{what}, said at length"),
            schemes: vec!["ezswap".into()],
        })
        .to_vec();
    let longer = compare::relaunch(&unlike).text(Style::PLAIN);
    let first = longer.lines().next().unwrap();
    assert!(
        first.ends_with("NOT ALIKE: budget, said at length and 3 more"),
        "{first}"
    );
    let line = compare::verdict(&unlike).unwrap();
    assert_eq!(
        line,
        "warmswap: 0.16× of zram at the median, 0 kills against 7; a sample: sizes of pools mislead"
    );
}

#[test]
fn cold_starts_stand_apart() {
    let mut killed = sample(1);
    killed.schemes[1].kills = 3;
    killed.schemes[1].cold_starts = 2;
    killed.schemes[1].cold_start_latency = figures(0, 500 * MS);
    killed.schemes[1].warm_latency = figures(MS, MS);
    let row = compare::cold_starts(&killed).json()["rows"][1].clone();
    assert_eq!((&row["kills"], &row["cold_starts"]), (&3.into(), &2.into()));
    assert_eq!(
        (&row["cold_start_mean_ns"], &row["warm_p50_ns"]),
        (&5e8.into(), &2e6.into())
    );
    let beside = compare::relaunch(&killed).json();
    assert_eq!(beside["rows"][1]["kills"], 3);
}

#[test]
fn applications_stand_in_columns_six_to_a_table() {
    let tables = compare::applications(&sample(8));
    assert_eq!(tables.len(), 2);
    let second = tables[1].json();
    assert_eq!(second["columns"].as_array().unwrap().len(), 3);
    assert_eq!(second["rows"][2]["scheme"], "ariadne-ehl-1k-2k-16k");
    assert_eq!(second["rows"][2]["app7"], 8e6);
}

/// Widest line of the text form.
fn width(table: &Table) -> usize {
    let text = table.text(Style::PLAIN);
    text.lines()
        .map(|line| line.chars().count())
        .max()
        .unwrap_or(0)
}

#[test]
fn comparisons_and_replays_fit_a_hundred_columns() {
    let mut wide = sample(8);
    for row in &mut wide.schemes {
        row.data_ratio = Some(3.25);
        row.memory_ratio = Some(3.05);
        row.swap_out_pages = 1_234_567;
        row.swap_in_pages = 1_234_567;
        row.flash_read_bytes = 123 << 20;
        row.flash_written_bytes = 123 << 20;
        row.coverage = Some(0.7);
        row.accuracy = Some(0.92);
        row.prefetch_used = Some(0.81);
    }
    let tables = comparison(&wide).into_iter();
    for table in tables.chain(replay(&result())) {
        assert!(width(&table) <= 100, "{}", table.text(Style::PLAIN));
    }
}

fn result() -> ReplayResult {
    let relaunch = Relaunch {
        time_ns: 100_000 * MS,
        latency: Latency {
            measured_ns: 3 * MS,
            modelled_ns: 9 * MS,
        },
        touched_pages: 12_345,
        pool_faults: 2_345,
        ..Relaunch::default()
    };
    let killed = Relaunch {
        was_killed: true,
        ..relaunch.clone()
    };
    ReplayResult {
        scheme: "zram".into(),
        limits: Limits {
            budget_bytes: 512 << 20,
            pool_limit_bytes: 256 << 20,
            backing_limit_bytes: 0,
        },
        device: "ufs-3.1".into(),
        with_contents: true,
        apps: vec![AppResult {
            name: "chromium".into(),
            relaunches: vec![relaunch, killed],
            kills: 1,
            ..AppResult::default()
        }],
        totals: Totals {
            original_bytes: 300,
            compressed_bytes: 100,
            ..Totals::default()
        },
        ruling: None,
        counters: Counters::default(),
    }
}

#[test]
fn a_cold_start_after_a_kill_is_marked_and_counts() {
    let relaunches = replay::relaunches(&result()).json();
    assert_eq!(relaunches["rows"].as_array().unwrap().len(), 2);
    let marked = &relaunches["footnotes"][0]["cells"];
    assert_eq!(marked.as_array().unwrap().len(), 1);
    assert_eq!(marked[0]["row"], 1);
    assert_eq!(relaunches["rows"][0]["latency_ns"], 12e6);
    let apps = replay::applications(&result()).json();
    assert_eq!(apps["rows"][0]["relaunches"], 2);
    let memory = replay::memory(&result()).json();
    assert_eq!(memory["rows"][0]["data_ratio"], 3.0);
}

#[test]
fn what_ruled_is_told_where_there_was_a_choice() {
    let mut chosen = result();
    assert_eq!(replay(&chosen).len(), 5);
    chosen.ruling = Some(Ruling {
        rule: "lru-2".into(),
        changes: 3,
        rules: vec![RuleRow {
            rule: "lru".into(),
            launches: 40,
            window_misses: 1_234,
            misses: 12_345,
        }],
    });
    let tables = replay(&chosen);
    assert_eq!(tables.len(), 6);
    assert!(width(&tables[5]) <= 100);
    let row = &tables[5].json()["rows"][0];
    assert_eq!(
        (&row["launches"], &row["misses"]),
        (&40.into(), &12_345.into())
    );
    let text = tables[5].text(Style::PLAIN);
    assert!(text.contains("at last lru-2, after 3 changes"), "{text}");
    if let Some(ruling) = &mut chosen.ruling {
        ruling.changes = 1;
    }
    let text = replay(&chosen)[5].text(Style::PLAIN);
    assert!(text.contains("after 1 change."), "{text}");
}

#[test]
fn studies_stand_beside_the_paper() {
    let names = |row: &str| (row.to_owned(), "Firefox".to_owned(), "zram".to_owned());
    let (trace, app, scheme) = names("phone");
    let locality = Locality {
        trace: trace.clone(),
        app: app.clone(),
        scheme: scheme.clone(),
        swapped_in_pages: 4,
        with_next: 3,
        with_next_three: 1,
    };
    let row = &studies::locality(&[locality]).json()["rows"][0];
    assert_eq!(
        (&row["two"], &row["two_paper"]),
        (&0.75.into(), &0.69.into())
    );
    assert_eq!(
        (&row["four"], &row["four_paper"]),
        (&0.25.into(), &0.43.into())
    );

    let similarity = Similarity {
        trace: trace.clone(),
        app: app.clone(),
        pairs: 4,
        hot_pages: 10.0,
        similarity: 0.75,
        reused: 1.0,
    };
    let row = &studies::similarity(&[similarity]).json()["rows"][0];
    assert_eq!(row["similarity_paper"], 0.7);

    let coverage = CoverageRow {
        trace: trace.clone(),
        app: app.clone(),
        scheme: scheme.clone(),
        sight: Sight::Faults,
        relaunches: 4,
        hot_pages: 10.4,
        window_pages: 20.0,
        coverage: Some(0.5),
        accuracy: None,
    };
    let row = &studies::coverage(&[coverage]).json()["rows"][0];
    assert_eq!(
        (&row["hot_pages"], &row["sight"]),
        (&10.into(), &"faults".into())
    );
    assert_eq!(row["accuracy_paper"], 0.92);
    assert!(row["accuracy"].is_null());

    let mut parts = [Part::default(); PARTS];
    parts[0].hot_pages = 1;
    parts[0].cold_pages = 3;
    let order = HotnessOrder {
        trace,
        app,
        scheme,
        relaunches: 1,
        parts,
    };
    let tables = studies::hotness_order(&[order]);
    let rows = &tables[0].json()["rows"];
    assert_eq!(rows[0]["part_0"], 0.25);
    assert_eq!(rows[2]["part_0"], 0.75);
    assert!(rows[0]["part_9"].is_null());
}

#[test]
fn paper_numbers_stand_only_where_the_paper_has_them() {
    let row = |codec, chunk_bytes, compress_ns| ChunkSizeRow {
        codec,
        chunk_bytes,
        original_bytes: 1 << 20,
        compressed_bytes: 1 << 19,
        compress_ns,
        decompress_ns: 1000,
    };
    let sizes = ChunkSizes {
        passes: 3,
        rows: vec![
            row(Codec::Lz4, 128, 2000),
            row(Codec::Lz4, 131_072, 3000),
            row(Codec::Zstd, 128, 9000),
        ],
    };
    let json = studies::chunk_sizes(&sizes).json();
    assert_eq!(json["rows"][0]["data_ratio_paper"], 1.7);
    assert!(json["rows"][2]["data_ratio_paper"].is_null());
    let note = json["footnotes"][1]["text"].as_str().unwrap();
    assert!(note.contains("1.50×") && note.contains("59.2×"), "{note}");

    let row = |scheme: &str, compress_ns| CompressionRow {
        trace: "phone".into(),
        app: "Firefox".into(),
        scheme: scheme.into(),
        compress_ns,
        decompress_ns: 10,
        volume: Volume {
            original_bytes: 30,
            compressed_bytes: 10,
        },
        compress_vs_first: Some(compress_ns as f64 / 100.0),
        decompress_vs_first: Some(1.0),
        cpu_vs_first: None,
    };
    let study = CompressionStudy {
        schemes: vec!["zram".into(), "ariadne-al-1k-2k-16k".into()],
        rows: vec![row("zram", 100), row("ariadne-al-1k-2k-16k", 75)],
        with_contents: true,
    };
    let tables = studies::compression(&study);
    let means = &tables[0].json()["rows"];
    assert!(means[0]["decompress_paper"].is_null());
    assert_eq!(means[1]["decompress_paper"], 0.4);
    assert!(
        means[1]["compress_paper"].is_null(),
        "the paper gives it for EHL"
    );
    assert_eq!(means[1]["compress"], 0.75);
    assert_eq!(means[1]["data_ratio"], 3.0);
}

#[test]
fn footprints_stand_beside_the_papers_numbers() {
    let row = warmswap_study::SwitchFootprint {
        trace: "phone".into(),
        app: "mail".into(),
        memory: warmswap_study::switches::PageOrigin::File,
        switches: 10,
        pages: 12.4,
        by_switches: vec![0; 11],
        invariant: 0.8,
        rare: 0.1,
        of_largest: Some(0.9),
        cold_files: true,
    };
    let row = &asap::switches(&[row]).json()["rows"][0];
    assert_eq!(row["invariant_paper"], 0.75);
    assert_eq!(row["memory"], "file");
    let prediction = warmswap_study::prepaging::Prediction {
        launches: 2,
        pages: 10,
        used: 5,
        missed: 15,
    };
    let row = warmswap_study::PrepagingRow {
        trace: "phone".into(),
        app: "mail".into(),
        scheme: "asap".into(),
        relaunches: 3,
        anon: prediction,
        file: warmswap_study::prepaging::Prediction::default(),
        table_peak_bytes: 4096,
        cold_files: true,
    };
    let json = asap::prepaging(&[row]).json();
    let (anon, file) = (&json["rows"][0], &json["rows"][1]);
    assert_eq!(
        (&anon["precision"], &anon["recall"]),
        (&0.5.into(), &0.25.into())
    );
    assert_eq!(anon["recall_paper"], 0.604);
    assert!(file["precision"].is_null());
}
