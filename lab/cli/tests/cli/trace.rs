//! `warmswap-lab trace`: looking into traces and converting them.

use crate::common::{assert_refused, folder, json, run, succeed, text, trace};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

#[test]
fn info_tells_what_a_trace_holds() {
    let trace = trace();
    let tables = succeed(["trace", "info", &trace, "--verify"]);
    for line in tables.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    let data = json("warmswap.trace_info", ["trace", "info", &trace]);
    let apps = data["apps"].as_array().expect("a list of applications");
    let names: Vec<_> = apps.iter().filter_map(|app| app["name"].as_str()).collect();
    assert_eq!(
        names,
        ["chromium", "cpython", "h2", "node", "redis", "sqlite"]
    );
    for app in apps {
        assert_eq!(
            (&app["launches"], &app["relaunches"]),
            (&1.into(), &6.into())
        );
    }
}

#[test]
fn head_shows_events_from_anywhere() {
    let trace = trace();
    let all = succeed(["trace", "head", &trace, "-n", "60"]);
    let all: Vec<_> = all.lines().collect();
    assert_eq!(all.len(), 60);
    assert!(all[0].ends_with("launch"), "{}", all[0]);
    let some = succeed(["trace", "head", &trace, "-n", "10", "--from", "50"]);
    assert_eq!(some.lines().collect::<Vec<_>>(), all[50..]);
    let behind = succeed(["trace", "head", &trace, "--from", "100000000"]);
    assert_eq!(behind, "");
}

#[test]
fn export_writes_accesses_for_libcachesim() {
    let folder = folder();
    let out = folder.path().join("accesses.bin");
    let args = ["trace", "export", &trace()];
    let sizes = [&[][..], &["--files"]].map(|more| {
        let said = succeed([&args[..], &["--out", text(&out)], more].concat());
        assert!(said.contains(" accesses written to "), "{said}");
        fs::metadata(&out).expect("the file was written").len()
    });
    assert!(sizes[0] > 0 && sizes[0] < sizes[1]);
    assert!(sizes.iter().all(|bytes| bytes % 24 == 0), "{sizes:?}");
}

#[test]
fn a_sample_keeps_what_was_asked_for() {
    let folder = folder();
    let out = folder.path().join("sample.wst");
    let trace = trace();
    let make = |more: &[&str]| {
        let args = [
            "trace",
            "sample",
            &trace,
            "--level",
            "1",
            "--out",
            text(&out),
        ];
        json("warmswap.trace_info", [&args[..], more].concat())
    };
    let some = make(&["--apps", "redis,sqlite", "--share", "0.5"]);
    let names: Vec<_> = some["apps"]
        .as_array()
        .expect("a list of applications")
        .iter()
        .filter(|app| app["accesses"].as_u64() > Some(0))
        .filter_map(|app| app["name"].as_str())
        .collect();
    assert_eq!(names, ["redis", "sqlite"]);

    let args = ["trace", "sample", &trace, "--out", text(&out)];
    let ran = run([&args[..], &["--apps", "redis,nobody"]].concat());
    assert_refused(&ran, 2, &["'nobody'", "redis, sqlite"]);
    let ran = run([&args[..], &["--app-share", "redis"]].concat());
    assert_refused(&ran, 2, &["'redis'", "APP=SHARE"]);
    let ran = run([&args[..], &["--share", "2"]].concat());
    assert_refused(&ran, 2, &["share"]);
}

// ---- the artifact of the Ariadne authors ----

/// Three pages of two applications; the second is relaunched.
fn artifact(folder: &TempDir) -> PathBuf {
    let mut swap_outs = Vec::new();
    for (uid, pfn, sector, byte) in [(10001, 7, 8, 1), (10002, 8, 16, 2), (10002, 9, 24, 3)] {
        let mut header = format!("TEST^^^#{uid},{pfn},{sector}#^^^").into_bytes();
        header.resize(50, 0);
        swap_outs.extend(header);
        swap_outs.extend([byte; 4096]);
    }
    let dir = folder.path().join("artifact");
    fs::create_dir(&dir).expect("a folder can be made");
    let files: [(&str, &[u8]); 4] = [
        ("swapout_trace.txt", &swap_outs),
        ("ttid_swapin_trace.txt", b"x 10002,0,16\nx 10002,0,800\n"),
        ("swapin_trace.txt", b"x 10002,0,16\nx 10001,0,8\n"),
        ("lru_list.txt", b"10001,70\n"),
    ];
    for (name, bytes) in files {
        fs::write(dir.join(name), bytes).expect("a file can be written");
    }
    dir
}

#[test]
fn an_artifact_is_imported() {
    let folder = folder();
    let dir = artifact(&folder);
    let out = folder.path().join("out.wst");
    let said = succeed(["trace", "import", text(&dir), "--out", text(&out)]);
    let counts = "3 swap-outs, 1 swap-ins in the relaunch window, 1 after it, 1 from unknown sectors, \
                  1 pages on LRU lists";
    assert_eq!(said.lines().next(), Some(counts));
    let again = ["trace", "import", text(&dir), "--out", text(&out)];
    let imported = &json("warmswap.trace_info", again)["imported"];
    assert_eq!(imported["unknown_swap_ins"], 1, "{imported}");
    let events = succeed(["trace", "head", text(&out)]);
    let relaunch = events.lines().position(|line| line.ends_with("relaunch"));
    let answer = events
        .lines()
        .position(|line| line.ends_with("has answered"));
    assert!(relaunch.is_some() && relaunch < answer, "{events}");
    let data = json(
        "warmswap.trace_info",
        ["trace", "info", text(&out), "--verify"],
    );
    assert_eq!(data["summary"]["contents"], 3);
}

#[test]
fn a_damaged_artifact_is_refused_at_its_place() {
    let folder = folder();
    let dir = artifact(&folder);
    let out = folder.path().join("out.wst");
    let refused = |parts: &[&str]| {
        let ran = run(["trace", "import", text(&dir), "--out", text(&out)]);
        assert_refused(&ran, 2, parts);
        assert!(!out.exists(), "no trace is left behind");
    };
    let list = dir.join("lru_list.txt");
    fs::write(&list, "10001,70\n\nnonsense\n").expect("a file can be written");
    refused(&[text(&list), "line 3", "nonsense"]);

    let swap_outs = dir.join("swapout_trace.txt");
    let bytes = fs::read(&swap_outs).expect("the file is there");
    fs::write(&swap_outs, &bytes[..5000]).expect("a file can be written");
    refused(&[text(&swap_outs), "byte 4146", "854 bytes"]);
    fs::remove_file(&swap_outs).expect("the file is there");
    refused(&[text(&swap_outs)]);
}
