//! What the command accepts, prints and refuses.

use crate::common::{
    Ran, assert_misused, assert_refused, folder, json, lab, run, shipped_trace, succeed, text,
    trace,
};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tempfile::TempDir;

const WIDTH: usize = 100;

/// A copy of the shipped trace that `change` has worked on.
fn changed_trace(folder: &TempDir, change: impl FnOnce(&mut Vec<u8>)) -> PathBuf {
    let mut bytes = fs::read(shipped_trace()).expect("the shipped trace can be read");
    change(&mut bytes);
    write(folder, "changed.wst", &bytes)
}

fn write(folder: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, bytes).expect("a temporary file can be written");
    path
}

#[track_caller]
fn assert_fits(tables: &str) {
    for line in tables.lines() {
        let width = line.chars().count();
        assert!(width <= WIDTH, "{width} columns: {line}");
    }
}

// ---- usage ----

#[test]
fn options_that_make_no_sense_are_named() {
    let trace = trace();
    for (args, named) in [
        (&["--scheme", "zrm"][..], "'zrm'"),
        (&["--scheme", "ariadne-al-1k-3k"], "ariadne-al-1k-3k"),
        (&["--set", "colour=red"], "'colour'"),
        (&["--set", "eviction=random"], "'random'"),
        (&["--set", "prefetch"], "prefetch"),
        (&["--device", "floppy"], "'floppy'"),
        (&["--budget", "1k"], "--budget 1K"),
    ] {
        let ran = run([&["replay", &trace, "--no-contents"][..], args].concat());
        assert_refused(&ran, 2, &[named]);
    }
    for (args, named) in [
        (&["--budget", "12q"][..], "\"12q\""),
        (&["--pool", "-1"], "'-1'"),
        (&["--pressure", "some"], "'some'"),
        (&["--bugdet", "1G"], "'--bugdet'"),
    ] {
        let ran = run([&["replay", &trace, "--no-contents"][..], args].concat());
        assert_misused(&ran, &[named]);
    }
}

#[test]
fn what_is_missing_is_named() {
    assert_misused(&run(["replay"]), &["<TRACE>"]);
    assert_misused(&run(["trace", "export", "x.wst"]), &["--out"]);
    assert_misused(&run(["squeeze"]), &["'squeeze'"]);
}

#[test]
fn help_and_version_go_to_standard_output() {
    assert!(succeed(["--help"]).contains("\nUsage: warmswap-lab"));
    assert!(succeed(["help", "replay"]).contains("--budget <SIZE>"));
    let version = concat!("warmswap-lab ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(succeed(["--version"]), version);
}

// ---- traces that cannot be read ----

#[test]
fn a_missing_trace_is_bad_input() {
    let folder = folder();
    let missing = folder.path().join("missing.wst");
    for command in [&["replay"][..], &["compare"], &["trace", "info"]] {
        let ran = run([command, &[text(&missing)]].concat());
        assert_refused(&ran, 2, &[text(&missing), "cannot open"]);
    }
}

#[test]
fn a_truncated_trace_is_refused_at_its_end() {
    let folder = folder();
    let cut = changed_trace(&folder, |bytes| bytes.truncate(1_000_000));
    for command in [&["replay"][..], &["trace", "info"], &["trace", "head"]] {
        let ran = run([command, &[text(&cut)]].concat());
        assert_refused(&ran, 2, &[text(&cut), "at byte 1000000", "truncated"]);
    }
    let empty = write(&folder, "empty.wst", b"");
    assert_refused(
        &run(["trace", "info", text(&empty)]),
        2,
        &[text(&empty), "at byte 0"],
    );
}

#[test]
fn a_foreign_file_is_no_trace() {
    let folder = folder();
    let foreign = write(&folder, "picture.png", &b"\x89PNG\r\n\x1a\n".repeat(100));
    let ran = run(["replay", text(&foreign)]);
    assert_refused(&ran, 2, &[text(&foreign), "at byte 0", "89504e47"]);
}

#[test]
fn damage_is_found_wherever_it_is() {
    let folder = folder();
    let len = fs::metadata(shipped_trace())
        .expect("the trace is there")
        .len() as usize;
    // In the description, in page contents, in the middle, in the tables and in the trailer.
    for place in [100, len / 4, len / 2, len - 300, len - 50] {
        let damaged = changed_trace(&folder, |bytes| bytes[place] ^= 0x10);
        let ran = run(["trace", "info", "--verify", text(&damaged)]);
        assert_refused(&ran, 2, &[text(&damaged), "at byte ", "damaged"]);
    }
    let damaged = changed_trace(&folder, |bytes| bytes[len / 2] ^= 0x10);
    let ran = run(["replay", "--scheme", "zram", text(&damaged)]);
    assert_refused(&ran, 2, &[text(&damaged), "at byte ", "damaged"]);
}

// ---- results ----

#[test]
fn a_result_that_cannot_be_written_is_refused() {
    let folder = folder();
    let path = folder.path().join("none/result.json");
    let ran = run(["schemes", "--json", text(&path)]);
    assert_refused(&ran, 2, &[text(&path)]);

    // What is noticed only in the end is a failure.
    let ran = run(["schemes", "--json", "/dev/full"]);
    let ran = Ran {
        stdout: String::new(),
        ..ran
    };
    assert_refused(&ran, 1, &["/dev/full"]);
}

#[test]
fn a_result_file_stands_beside_the_tables() {
    let folder = folder();
    let path = folder.path().join("result.json");
    let trace = trace();
    let args = [
        "replay",
        &trace,
        "--scheme",
        "zram",
        "--no-contents",
        "--json",
        text(&path),
    ];
    assert!(succeed(args).starts_with("Relaunches under zram\n"));
    let file = fs::read(&path).expect("the result was written");
    let file: Value = serde_json::from_slice(&file).expect("the result is JSON");
    assert_eq!(file["schema"], "warmswap.replay");
    assert_eq!(file["data"]["scheme"], "zram");
    assert_eq!(file["data"]["with_contents"], false);
}

#[test]
fn a_closed_pipe_ends_the_command_quietly() {
    let trace = trace();
    let head = ["trace", "head", &trace, "-n", "20000"];
    for args in [
        &head[..],
        &["schemes"],
        &["schemes", "--json", "-"],
        &["--help"],
    ] {
        let mut command = lab(args);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let mut first = String::new();
        // The reader is dropped with the pipe.
        BufReader::new(child.stdout.take().expect("a pipe"))
            .read_line(&mut first)
            .expect("the first line can be read");
        let mut stderr = String::new();
        child
            .stderr
            .take()
            .expect("a pipe")
            .read_to_string(&mut stderr)
            .expect("standard error can be read");
        let status = child.wait().expect("the command ends");
        assert_eq!((status.code(), stderr.as_str()), (Some(0), ""), "{args:?}");
        assert!(!first.is_empty(), "{args:?}");
    }
}

#[test]
fn commands_end_as_they_would_have_though_nothing_reads_what_they_say() {
    let trace = trace();
    let closed = || {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        writer
    };
    for args in [
        &["schemes"][..],
        &["schemes", "--csv", "-"],
        &["replay", &trace, "--no-contents", "--json", "-"],
        &["trace", "info", "/nonexistent"],
        &["report", "/nonexistent"],
        &["squeeze"],
    ] {
        let read = run(args);
        let unread = lab(args).stdout(closed()).stderr(closed()).status();
        let unread = unread.expect("the command starts").code();
        assert_eq!(unread, read.code, "{args:?}");
    }
}

#[test]
fn schemes_lists_what_can_be_named() {
    let tables = succeed(["schemes"]);
    assert_fits(&tables);
    let data = json("warmswap.schemes", ["schemes"]);
    for (list, key) in [
        ("schemes", "name"),
        ("policies", "name"),
        ("devices", "name"),
    ] {
        let entries = data[list].as_array().expect("a list");
        assert!(entries.len() >= 3, "{list}");
        for entry in entries {
            let name = entry[key].as_str().expect("a name");
            assert!(tables.contains(name), "{name}");
        }
    }
}

#[test]
fn replays_show_every_relaunch() {
    let trace = trace();
    let tables = succeed(["replay", &trace]);
    assert_fits(&tables);
    assert!(tables.starts_with("Relaunches under warmswap\n"));
    let args = [
        "replay",
        &trace,
        "--scheme",
        "zram+codec=zstd",
        "--set",
        "prefetch=next",
    ];
    let data = json("warmswap.replay", args);
    assert_eq!(data["with_contents"], true);
    assert!(
        data["counters"]["prefetched"].as_u64() > Some(0),
        "the slot was exchanged"
    );
    assert!(data["totals"]["compressed_bytes"].as_u64() > Some(0));
}

#[test]
fn traces_and_schemes_are_compared() {
    let folder = folder();
    let small = folder.path().join("small.wst");
    let trace = trace();
    succeed([
        "trace",
        "sample",
        &trace,
        "--share",
        "0.5",
        "--out",
        text(&small),
    ]);
    let args = ["compare", &trace, text(&small), "--schemes", "zram,ariadne"];
    let tables = succeed([&args[..], &["--no-contents"]].concat());
    assert_fits(&tables);
    for word in ["mixed", "small", "zram", "ariadne"] {
        assert!(tables.contains(word), "{word}");
    }
    let data = json("warmswap.compare", args);
    let text = data.to_string();
    assert!(text.contains("\"zram\"") && text.contains("\"ariadne\""));
    let all = succeed(["compare", &trace, "--no-contents"]);
    assert_fits(&all);
    let first = all.lines().next().expect("a line");
    assert!(first.contains("NOT ALIKE: budget and 3 more"), "{first}");
    let notes = all.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        notes.contains("Not alike: ") && notes.contains("ezswap has a budget of"),
        "{all}"
    );
    let last = all.lines().last().expect("a line");
    assert!(
        last.starts_with("warmswap: ") && last.ends_with("; a sample: sizes of pools mislead"),
        "{last}"
    );
    let alike = succeed(["compare", &trace, "--no-contents", "--pool", "100%"]);
    let first = alike.lines().next().expect("a line");
    assert!(first.contains("all else alike"), "{first}");
    // One scheme has the same memory whichever command replays it.
    for scheme in ["zram", "ezswap"] {
        let compared = [
            "compare",
            &trace,
            "--no-contents",
            "--no-optima",
            "--schemes",
            scheme,
        ];
        let replayed = ["replay", &trace, "--no-contents", "--scheme", scheme];
        let of = &json("warmswap.compare", compared)["schemes"][0];
        let limits = &json("warmswap.replay", replayed)["limits"];
        for limit in ["budget_bytes", "pool_limit_bytes"] {
            assert_eq!(of["memory"][limit], limits[limit], "{scheme}");
        }
    }
    let faults = ["replay", &trace, "--no-contents", "--touches"];
    let seen = |touches| json("warmswap.replay", [&faults[..], &[touches]].concat());
    assert_ne!(seen("all")["counters"], seen("faults")["counters"]);
}

// ---- record, as far as it goes without root ----

#[test]
fn a_definition_that_is_wrong_is_named_with_its_line() {
    let folder = folder();
    let out = folder.path().join("out.wst");
    let good = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps/cpython.toml");
    let good = fs::read_to_string(good).expect("the definition is shipped");
    let bad = good.replacen("name = ", "colour = \"red\"\nname = ", 1);
    let bad = write(&folder, "cpython.toml", bad.as_bytes());
    for given in [bad.as_path(), folder.path()] {
        let ran = run(["record", "--apps", text(given), "--out", text(&out)]);
        assert_refused(&ran, 2, &[&format!("{}:1: ", text(&bad)), "colour"]);
    }
    assert!(!out.exists());
}

#[test]
fn a_definition_that_is_not_there_is_bad_input() {
    let folder = folder();
    let out = folder.path().join("out.wst");
    let missing = folder.path().join("nobody.toml");
    let ran = run(["record", "--apps", text(&missing), "--out", text(&out)]);
    assert_refused(&ran, 2, &[text(&missing), "there is no", "--apps names"]);
    let none = folder.path().join("none");
    fs::create_dir(&none).expect("a folder can be made");
    let ran = run(["record", "--apps", text(&none), "--out", text(&out)]);
    assert_refused(&ran, 2, &["none of the applications is installed"]);
}
