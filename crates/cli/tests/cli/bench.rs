//! Live memory beside the kernel's own swap.

use crate::common::{Ran, assert_refused, json, run, trace, warmswap};
use warmswap_sys::uffd::{Feature, Uffd};

#[test]
fn too_few_pages_are_refused() {
    let trace = trace();
    let args = ["bench", "faults", "--pages-of", &trace];
    for bad in [["--pages", "16"], ["--rounds", "0"]] {
        let ran = run([&args[..], &bad].concat());
        assert_refused(&ran, 2, &["at least 256 pages and one round"]);
    }
}

#[test]
fn what_relaunches_cannot_be_measured_with_is_refused() {
    let too_often = run(["bench", "relaunch", "--sample-ms", "1"]);
    assert_refused(&too_often, 2, &["--sample-ms"]);
    let apps = concat!(env!("CARGO_MANIFEST_DIR"), "/../../apps/cpython.toml");
    let args = [
        "bench",
        "relaunch",
        "--apps",
        apps,
        "--arms",
        "dram,preload",
    ];
    let missing = "/nonexistent/libwarmswap_preload.so";
    let mut command = warmswap(args);
    command.env("WARMSWAP_PRELOAD", missing);
    let ran = Ran::from(command.output().expect("the command starts"));
    assert_refused(&ran, 1, &["arm preload", "/nonexistent/"]);
}

#[test]
fn every_way_of_a_page_is_measured_on_both_sides() {
    let name = "every_way_of_a_page_is_measured_on_both_sides";
    let trace = trace();
    if let Err(error) = warmswap_sys::zram::probe(&warmswap_sys::Root::machine()) {
        let ran = run(["bench", "faults", "--pages-of", &trace]);
        assert_refused(&ran, 1, &["zram"]);
        warmswap_testkit::skip!(name, "{error}");
    }
    if !Uffd::probe().is_ok_and(|features| features.has(Feature::Sigbus)) {
        warmswap_testkit::skip!(name, "needs userfaultfd with SIGBUS");
    }
    let args = ["bench", "faults", "--pages-of", &trace];
    let small = ["--pages", "512", "--rounds", "1", "--allow-busy"];
    let data = json("warmswap.bench.faults", [&args[..], &small].concat());
    assert_eq!((&data["pages"], &data["rounds"]), (&512.into(), &1.into()));
    let measures = data["measures"].as_array().expect("a list");
    for key in [
        "touch_page",
        "touch_run",
        "bulk_run",
        "bulk_decompress",
        "out_page",
        "fits",
    ] {
        let measure = measures.iter().find(|measure| measure["key"] == key);
        let measure = measure.unwrap_or_else(|| panic!("{key} is missing"));
        for side in ["ours_ns", "other_ns", "ratio"] {
            assert!(measure[side].as_f64() > Some(0.0), "{measure}");
        }
    }
    let latencies = data["latencies"].as_array().expect("a list");
    assert_eq!(latencies.len(), 3);
}
