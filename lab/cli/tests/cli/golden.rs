//! Exact counts of replays of the shipped trace.
//!
//! What the engine decides depends on the trace, the scheme and the compressed sizes alone: neither on
//! time nor on the machine. With assumed sizes it does not depend on compressors either, nor on the
//! checksum that the pool adds to each object in debug builds. So the counters with assumed sizes are
//! kept in `tests/golden`, and every change of them is deliberate: run these tests with
//! `WARMSWAP_UPDATE_GOLDEN=1` in the environment to write the file anew, and read what changed before
//! it is committed.
//!
//! With contents, a replay must repeat itself, and its counters must add up.

use crate::common::{json, shipped_trace};
use serde_json::{Map, Value};
use std::fmt::Write as _;
use std::path::PathBuf;

const SCHEMES: [&str; 17] = [
    "dram",
    "swap",
    "zram",
    "zswap",
    "asap",
    "asap-anon",
    "asap-file",
    "all-four",
    "ariadne-al-1k-2k-16k",
    "ariadne-ehl-1k-2k-16k",
    "ezswap",
    "ezswap-zswap",
    "ezswap-apa",
    "ezswap-apa-ca",
    "ezswap-apa-sa",
    "ezswap-ca-sa",
    "warmswap",
];
const BUDGET: &str = "60%";
const UPDATE: &str = "WARMSWAP_UPDATE_GOLDEN";

/// Counts of each relaunch that are summed up, beside the engine's counters.
const RELAUNCH_COUNTS: [&str; 4] = ["touched_pages", "hot_pages", "hot_touched", "hot_used"];

/// The counters of one replay: those of the engine, and the sums over all relaunches.
fn counts(scheme: &str, more: &[&str]) -> Map<String, Value> {
    let trace = shipped_trace();
    let mut args = vec!["replay", trace.to_str().expect("the path is UTF-8")];
    args.extend(["--scheme", scheme, "--budget", BUDGET]);
    args.extend(more);
    let mut data = json("warmswap.replay", args);
    let Value::Object(mut counts) = data["counters"].take() else {
        panic!("the result of {scheme} has no counters");
    };
    let apps = data["apps"].as_array().expect("a list of applications");
    let relaunches: Vec<&Value> = apps
        .iter()
        .flat_map(|app| app["relaunches"].as_array().expect("a list of relaunches"))
        .collect();
    counts.insert("events".into(), data["totals"]["events"].clone());
    counts.insert("relaunches".into(), relaunches.len().into());
    for name in RELAUNCH_COUNTS {
        let count = |relaunch: &&Value| relaunch[name].as_u64().expect("a count");
        counts.insert(
            name.into(),
            relaunches.iter().map(count).sum::<u64>().into(),
        );
    }
    counts
}

fn count(counts: &Map<String, Value>, name: &str) -> u64 {
    let value = counts.get(name).and_then(Value::as_u64);
    value.unwrap_or_else(|| panic!("{name} is no count"))
}

/// Accesses that were answered, in whatever way.
fn answers(counts: &Map<String, Value>) -> u64 {
    let ways = [
        "hits",
        "first_touches",
        "pool_faults",
        "backing_faults",
        "buffer_hits",
    ];
    ways.map(|name| count(counts, name)).iter().sum()
}

/// All schemes, one line each.
fn text(schemes: &Map<String, Value>) -> String {
    let mut text = String::from("{\n");
    for (index, (name, counts)) in schemes.iter().enumerate() {
        let comma = if index + 1 < schemes.len() { "," } else { "" };
        writeln!(text, "\"{name}\": {counts}{comma}").expect("a string takes all");
    }
    text + "}\n"
}

/// One line for each counter that differs.
fn differences(golden: &Map<String, Value>, now: &Map<String, Value>) -> Vec<String> {
    let empty = Map::new();
    let mut lines = Vec::new();
    for scheme in golden
        .keys()
        .chain(now.keys().filter(|name| !golden.contains_key(*name)))
    {
        let of = |all: &Map<String, Value>| {
            let counts = all.get(scheme).and_then(Value::as_object);
            counts.unwrap_or(&empty).clone()
        };
        let (was, is) = (of(golden), of(now));
        for name in was
            .keys()
            .chain(is.keys().filter(|name| !was.contains_key(*name)))
        {
            if was.get(name) != is.get(name) {
                let show = |value: Option<&Value>| value.map_or("nothing".into(), Value::to_string);
                let (was, is) = (show(was.get(name)), show(is.get(name)));
                lines.push(format!("{scheme}: {name} was {was}, is {is}"));
            }
        }
    }
    lines
}

#[track_caller]
fn assert_golden(file: &str, more: &[&str]) {
    let now: Map<_, _> = SCHEMES
        .iter()
        .map(|scheme| ((*scheme).to_owned(), counts(scheme, more).into()))
        .collect();
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let path = folder.join(file);
    if std::env::var_os(UPDATE).is_some_and(|value| value == "1") {
        std::fs::write(&path, text(&now)).expect("the golden file can be written");
        return;
    }
    let golden = std::fs::read_to_string(&path).expect("the golden file can be read");
    let golden = serde_json::from_str(&golden).expect("the golden file is JSON");
    let lines = differences(&golden, &now);
    assert!(
        lines.is_empty(),
        "{}\n{file} differs; {UPDATE}=1 writes it anew",
        lines.join("\n")
    );
}

#[test]
fn counts_with_assumed_sizes() {
    assert_golden("mixed.json", &["--no-contents"]);
}

/// A pool so small that it evicts, and pages of files.
#[test]
fn counts_with_assumed_sizes_a_small_pool_and_files() {
    let more = ["--no-contents", "--files", "--pool", "10%"];
    assert_golden("mixed-files.json", &more);
}

/// With contents and files, and under the hardest pressure, too.
#[test]
fn a_replay_repeats_itself() {
    for scheme in [
        "zswap",
        "asap",
        "ariadne-ehl-1k-2k-16k",
        "ezswap",
        "warmswap",
    ] {
        let more = ["--files", "--pressure", "full", "--pool", "50%"];
        let (first, second) = (counts(scheme, &more), counts(scheme, &more));
        assert_eq!(first, second, "{scheme}");
    }
}

/// What holds for every scheme, whatever the compressor.
#[test]
fn counters_add_up() {
    let dram = counts("dram", &[]);
    for scheme in SCHEMES {
        let counts = counts(scheme, &[]);
        let get = |name| count(&counts, name);
        assert!(
            get("neighbours_used") <= get("neighbours_loaded"),
            "{scheme}"
        );
        assert!(get("prefetch_wasted") <= get("prefetched"), "{scheme}");
        assert!(get("buffer_hits") <= get("prefetched"), "{scheme}");
        assert!(get("prepaged_used") <= get("prepaged"), "{scheme}");
        assert!(get("prepaged") <= get("prefetched"), "{scheme}");
        assert!(get("hot_touched") <= get("touched_pages"), "{scheme}");
        assert_eq!(get("budget_exceeded"), 0, "{scheme}");
        for name in ["relaunches", "touched_pages"] {
            assert_eq!(counts[name], dram[name], "{scheme}: {name}");
        }
        // Each access is answered in exactly one way. What changed a page unseen counts only where the
        // page was not resident.
        let (answered, events) = (answers(&counts), get("events"));
        assert!(answered >= answers(&dram), "{scheme}: {answered} answers");
        assert!(
            answered <= events,
            "{scheme}: {answered} answers to {events} events"
        );
        if get("kills") == 0 {
            assert_eq!(counts["first_touches"], dram["first_touches"], "{scheme}");
        }
    }
}

#[test]
fn a_difference_names_scheme_and_counter() {
    let parse = |text: &str| serde_json::from_str(text).expect("valid JSON");
    let golden = parse(r#"{"zram": {"hits": 1, "kills": 0}, "swap": {"hits": 4}}"#);
    let now = parse(r#"{"zram": {"hits": 2, "kills": 0, "new": 3}, "swap": {"hits": 4}}"#);
    let expected = ["zram: hits was 1, is 2", "zram: new was nothing, is 3"];
    assert_eq!(differences(&golden, &now), expected);
    assert_eq!(parse(&text(&golden)), golden);
}
