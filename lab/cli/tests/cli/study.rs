//! `warmswap-lab study` on the shipped trace.

use crate::common::{assert_refused, json, run, shipped_trace, succeed};
use serde_json::Value;

/// Runs a study twice, for people and for machines.
#[track_caller]
fn study(name: &str, title: &str, more: &[&str]) -> Value {
    let trace = shipped_trace();
    let trace = trace.to_str().expect("the path is UTF-8");
    let args = [&["study", name, trace], more].concat();
    let tables = succeed(&args);
    assert!(tables.contains(title), "no {title:?} in {tables}");
    for line in tables.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    json(&format!("warmswap.study.{}", name.replace('-', "_")), &args)
}

/// Entries of a list of results; each must name an application.
#[track_caller]
fn apps(rows: &Value) -> Vec<&str> {
    let rows = rows.as_array().expect("a list");
    rows.iter()
        .map(|row| row["app"].as_str().expect("an application"))
        .collect()
}

const ALL: [&str; 6] = ["chromium", "cpython", "h2", "node", "redis", "sqlite"];

#[test]
fn studies_have_their_rows_for_each_application() {
    for (name, title, times) in [
        ("hotness-order", "(Figure 4), mixed under zram\n", 1),
        ("similarity", "Consecutive relaunches (Figure 5)\n", 1),
        ("locality", "that a relaunch uses (Table 3)\n", 1),
        // With all touches, and with faults.
        ("coverage", "by the hot list (Figure 14)\n", 2),
    ] {
        assert_eq!(apps(&study(name, title, &[])), ALL.repeat(times), "{name}");
    }
}

#[test]
fn chunk_size_is_figure_6() {
    let small = ["--passes", "1", "--sample-mib", "1"];
    let data = study("chunk-size", "Codecs by chunk size (Figure 6)\n", &small);
    let rows = data["rows"].as_array().expect("a list");
    for codec in ["lz4", "lzo", "zstd", "bdi"] {
        assert!(rows.iter().any(|row| row["codec"] == codec), "{codec}");
    }
}

#[test]
fn entropy_is_figures_5_and_6_of_ezswap() {
    let data = study("entropy", "(Figures 5 and 6), mixed\n", &["--pages", "500"]);
    assert_eq!(data["pages"], 500);
    assert!(data["head_512"].as_f64().expect("a coefficient") > 0.5);
}

#[test]
fn ezswap_is_figures_8_to_11_and_table_3() {
    let data = study(
        "ezswap",
        "Parts of ezswap beside swap (Figure 8, Table 3)",
        &[],
    );
    assert_eq!(data["rows"].as_array().map(Vec::len), Some(7));
    assert_eq!(data["pressure"].as_array().map(Vec::len), Some(16));
}

#[test]
fn compression_is_figures_11_to_13() {
    let schemes = ["--schemes", "zram,ariadne-ehl-1k-2k-16k"];
    let data = study("compression", "(Figures 11 to 13, 15)\n", &schemes);
    assert_eq!(
        data["schemes"],
        serde_json::json!(["zram", "ariadne-ehl-1k-2k-16k"])
    );
    assert_eq!(apps(&data["rows"]).len(), 12);
}

#[test]
fn sensitivity_is_figure_15() {
    let data = study("sensitivity", "(Figures 11 to 13, 15)\n", &[]);
    assert_eq!(data["schemes"][0], "zram");
}

#[test]
fn switches_are_figures_5_to_7_of_asap() {
    let rows = study("switches", "that touch them (Figures 5 to 7)\n", &[]);
    let named = apps(&rows);
    assert!(ALL.iter().all(|app| named.contains(app)), "{named:?}");
}

#[test]
fn prepaging_is_figure_12_of_asap() {
    let rows = study("prepaging", "Footprints of launches (Figure 12)\n", &[]);
    assert_eq!(apps(&rows), ALL);
    let rows = rows.as_array().expect("a list");
    let used = |row: &Value| row["anon"]["used"].as_u64().expect("a count");
    assert!(rows.iter().all(|row| used(row) > 0), "{rows:?}");
}

/// The dump that the fuzzer of heap dumps starts from.
#[test]
fn heap_is_figures_6_and_7_of_fleet() {
    let dump = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fuzz/seeds/hprof/small-8.hprof"
    );
    let args = ["study", "heap", dump, "--young-after", "a.Node"];
    let tables = succeed(args);
    for title in ["(Figure 7)", "(Figure 6b, memory)"] {
        assert!(tables.contains(title), "no {title:?} in {tables}");
    }
    for line in tables.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    let rows = json("warmswap.study.heap", args);
    assert_eq!(rows[0]["heap"]["objects"], 7);
    assert_eq!(rows[0]["launch_sets"].as_array().map(Vec::len), Some(6));
    let ran = run(["study", "heap", dump, "--young-after", "a.Nobody"]);
    assert_refused(&ran, 2, &["a.Nobody"]);
}

#[test]
fn parts_stand_beside_all_others_and_alone() {
    let data = study("parts", "Parts of the papers, mixed", &["--pool", "20"]);
    let rows = data["parts"].as_array().expect("a list");
    let names: Vec<_> = rows.iter().filter_map(|row| row["part"].as_str()).collect();
    for part in ["HotnessOrg", "footprints", "lottery", "all of Ariadne"] {
        assert!(names.contains(&part), "{names:?}");
    }
    let schemes = data["schemes"].as_array().expect("a list");
    assert_eq!(schemes[1]["scheme"], "all-four");
    for count in ["evicted_files", "written_back_chunks", "prepaged_used"] {
        assert!(
            schemes[1][count].as_u64() > Some(0),
            "{count}: {}",
            schemes[1]
        );
    }
}

#[test]
fn studies_refuse_what_they_cannot_use() {
    let trace = shipped_trace();
    let trace = trace.to_str().expect("the path is UTF-8");
    let ran = run(["study", "coverage", trace, "--schemes", "nobody"]);
    assert_refused(&ran, 2, &["'nobody'"]);
}
