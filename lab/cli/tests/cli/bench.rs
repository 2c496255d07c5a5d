//! Live memory beside the kernel's own swap.

use std::process::Command;

use crate::common::{Ran, assert_misused, assert_refused, json, lab, run};
use serde_json::Value;
use warmswap_sys::meminfo::Meminfo;
use warmswap_sys::{Root, swap};
use warmswap_testkit::schema::assert_described;
use warmswap_testkit::skip;
use warmswap_uffd::{Feature, Uffd};

#[test]
fn what_relaunches_cannot_be_measured_with_is_refused() {
    let too_often = run(["bench", "relaunch", "--sample-ms", "1"]);
    assert_misused(&too_often, &["--sample-ms"]);
    let set = run(["bench", "relaunch", "--set", "training"]);
    assert_misused(&set, &["training", "judging"]);
    let apps = concat!(env!("CARGO_MANIFEST_DIR"), "/../../apps/cpython.toml");
    let args = [
        "bench",
        "relaunch",
        "--apps",
        apps,
        "--arms",
        "dram,preload",
    ];
    for (arms, machine, why) in [
        ("dram,daemon", None, "the arm daemon needs --machine"),
        (
            "zram,daemon",
            Some("--machine"),
            "the arm zram needs a control group: leave out --machine",
        ),
    ] {
        let named = ["bench", "relaunch", "--apps", apps, "--arms", arms];
        let ran = run(named.into_iter().chain(machine));
        assert_refused(&ran, 2, &[why]);
    }
    let missing = "/nonexistent/libwarmswap_preload.so";
    let mut command = lab(args);
    command.env("WARMSWAP_PRELOAD", missing);
    let ran = Ran::from(command.output().expect("the command starts"));
    assert_refused(&ran, 1, &["arm preload", "/nonexistent/"]);
}

#[test]
fn what_returns_cannot_be_measured_with_is_refused() {
    let app = concat!(env!("CARGO_MANIFEST_DIR"), "/../../apps/cpython.toml");
    let with = |more: &[&str]| run([&["bench", "return", "--apps", app], more].concat());
    assert_misused(&with(&["--swaps", "tape"]), &["tape", "zswap"]);
    assert_misused(&with(&["--hog", "pig"]), &["pig", "compiler"]);
    assert_misused(&with(&["--arms", "no-limit"]), &["no-limit", "daemon"]);
    assert_misused(&with(&["--waits", "0,x"]), &["--waits"]);
    let bounds = "at least one block is needed, and waits and the hog's time of 0 to 3600 s";
    assert_refused(&with(&["--waits", "0,3601"]), 2, &[bounds]);
    assert_refused(&with(&["--blocks", "0"]), 2, &[bounds]);
    assert_refused(&with(&["--hog-seconds", "NaN"]), 2, &[bounds]);
    assert_misused(&with(&["--quick", "--waits", "1"]), &["--quick", "--waits"]);
    let other_set = with(&["--set", "judging"]);
    assert_refused(&other_set, 2, &["none of the applications is installed"]);
}

#[test]
fn a_first_look_at_returns_is_whole() {
    let name = "a_first_look_at_returns_is_whole";
    if let Err(error) = warmswap_sys::zram::probe(&Root::machine()) {
        skip!(name, "{error}");
    }
    for program in ["python3", "sqlite3"] {
        if Command::new(program).arg("--version").output().is_err() {
            skip!(name, "{program} is not installed");
        }
    }
    let apps = concat!(env!("CARGO_MANIFEST_DIR"), "/../../apps");
    let apps = ["cpython", "sqlite"].map(|name| format!("{apps}/{name}.toml"));
    let mut command = lab(["bench", "return", "--quick", "--allow-busy", "--apps"]);
    command.args([&apps.join(","), "--json", "-"]);
    let ran = Ran::from(command.output().unwrap());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let envelope: Value = serde_json::from_str(&ran.stdout).expect("valid JSON");
    assert_described(&envelope);
    assert_eq!(envelope["schema"], "warmswap.bench.return");
    let data = &envelope["data"];
    let rows = data["rows"].as_array().expect("a list");
    let arms: Vec<_> = rows.iter().filter_map(|row| row["arm"].as_str()).collect();
    assert_eq!(arms, ["no-limit", "kernel", "daemon"]);
    for row in rows {
        assert_eq!(row["answer"]["count"], 2);
        assert!(row["cpu_ns"].as_f64() > Some(0.0), "{row}");
    }
    assert!(rows[2]["daemon_cpu_ns"].as_f64() > Some(0.0));
    assert!(rows[1]["major_faults"].as_f64() > rows[0]["major_faults"].as_f64());
    assert_eq!(data["values"].as_array().map(Vec::len), Some(9));
}

/// Two GiB are taken away from the machine, which programs that run beside do not notice.
#[test]
fn the_daemon_as_shipped_runs_on_a_machine_with_less_memory() {
    const TAKEN_MIB: u64 = 2048;
    let name = "the_daemon_as_shipped_runs_on_a_machine_with_less_memory";
    let root = Root::machine();
    if let Err(error) = warmswap_sys::zram::probe(&root) {
        skip!(name, "{error}");
    }
    let apps = concat!(env!("CARGO_MANIFEST_DIR"), "/../../apps");
    let apps = ["cpython", "sqlite"].map(|name| format!("{apps}/{name}.toml"));
    for program in ["python3", "sqlite3"] {
        if Command::new(program).arg("--version").output().is_err() {
            skip!(name, "{program} is not installed");
        }
    }
    if let Some(area) = swap::areas(&root).unwrap().first() {
        skip!(name, "{} is in use as swap", area.path);
    }
    // Others may take so much meanwhile that less is available than is to be left: then once more.
    let data = loop {
        let memory = Meminfo::read(&root).unwrap();
        if memory.available_bytes >> 20 < 2 * TAKEN_MIB {
            skip!(name, "needs 4 GiB of available memory");
        }
        let left_mib = (memory.available_bytes >> 20) - TAKEN_MIB;
        let mut command = lab(["bench", "relaunch", "--machine", "--quick", "--allow-busy"]);
        command.args(["--arms", "zram-default,daemon,daemon-untold", "--apps"]);
        command.args([&apps.join(","), "--total-mib", &left_mib.to_string()]);
        let ran = Ran::from(command.args(["--json", "-"]).output().unwrap());
        if ran.code == Some(1) && ran.stderr.contains("are to be left, but only") {
            continue;
        }
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let mut envelope: Value = serde_json::from_str(&ran.stdout).expect("valid JSON");
        break envelope["data"].take();
    };
    let arms = data["arms"].as_array().expect("a list");
    let of = |name: &str| {
        let arm = arms.iter().find(|arm| arm["arm"] == name);
        arm.unwrap_or_else(|| panic!("{name} was measured"))
    };
    for name in ["daemon", "daemon-untold"] {
        let arm = of(name);
        assert_eq!(arm["latency"]["count"], 6);
        assert!(arm["cpu"]["host_ns"].as_u64() > Some(0), "{arm}");
        assert!(arm["cpu"]["machine_ns"].as_u64() > arm["cpu"]["host_ns"].as_u64());
        assert!(arm["host"].is_object());
        assert!(arm["conditions"]["available_bytes"].as_u64() > Some(0));
    }
    assert!(of("zram-default")["host"].is_null());
}

#[test]
fn sizes_and_arms_that_fleet_cannot_be_measured_with_are_refused() {
    for (bad, says) in [
        (["--scale", "9"], "within 0.01 to 4"),
        (["--budget", "1"], "a budget of 5 to 400 per cent"),
        (["--launches", "0"], "at least one launch"),
    ] {
        let ran = run([&["bench", "fleet"][..], &bad].concat());
        assert_refused(&ran, 2, &[says]);
    }
    let arms = run(["bench", "fleet", "--arms", "fleet,lru"]);
    assert_misused(&arms, &["'lru'", "possible values: dram, native"]);
}

#[test]
fn fleet_is_measured_beside_a_native_collector() {
    let name = "fleet_is_measured_beside_a_native_collector";
    if !Uffd::probe().is_ok_and(|features| features.has(Feature::Sigbus)) {
        warmswap_testkit::skip!(name, "needs userfaultfd with SIGBUS");
    }
    let texts = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let small = ["bench", "fleet", "--quick", "--scale", "0.05", "--corpus"];
    let what = ["--only", "working-set,pool", "--arms", "native,fleet"];
    let args = [&small[..], &[texts, "--launches", "1"], &what].concat();
    let data = json("warmswap.bench.fleet", args);
    let rows = data["working_set"]["rows"].as_array().expect("a list");
    assert_eq!(rows.len(), 12);
    for row in rows {
        assert!(
            row["bgc_objects"].as_u64() < row["native_objects"].as_u64(),
            "{row}"
        );
    }
    let arms = data["launches"][0]["arms"].as_array().expect("a list");
    let names: Vec<_> = arms.iter().filter_map(|arm| arm["arm"].as_str()).collect();
    assert_eq!(names, ["native", "fleet"]);
    for arm in arms {
        let launches = arm["launch_ns"].as_array().expect("a list");
        assert_eq!(launches.len(), 10);
        assert!(arm["pages_out"].as_u64() > Some(0), "{arm}");
    }
}
