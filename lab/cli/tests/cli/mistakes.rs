//! What people get wrong on the command line: refused before any work, with what to do.

use crate::common::{
    Ran, assert_misused, assert_refused, folder, json, lab, run, shipped_trace, succeed, text,
    trace,
};
use std::fs;
use std::process::Command;
use warmswap_trace::synth::{SynthConfig, synthesize};

#[track_caller]
fn refused(args: &[&str], parts: &[&str]) {
    assert_refused(&run(args), 2, parts);
}

#[test]
fn a_misspelt_name_is_asked_about_where_it_stands() {
    let trace = trace();
    for (args, parts) in [
        (&["trace", "inf"][..], &["'inf'", "'info'"][..]),
        (
            &["bench", "program", "--rouds", "3", "--", "true"],
            &["unexpected argument '--rouds'", "'--rounds'"],
        ),
        (&["replay", &trace, "--bugdet", "1G"], &["'--budget'"]),
        (&["foo"], &["'foo'"]),
    ] {
        assert_misused(&run(args), parts);
    }
}

#[test]
fn files_that_cannot_be_written_are_refused_before_the_work() {
    let trace = trace();
    let no_folder = "/nonexistent/x";
    let why = "No such file or directory";
    for option in ["--json", "--csv"] {
        refused(
            &["replay", &trace, "--no-contents", option, no_folder],
            &[option, no_folder, why],
        );
    }
    for (args, option) in [
        (&["trace", "sample", &trace][..], "--out"),
        (&["trace", "export", &trace], "--out"),
        (&["record", "--apps", "apps"], "--out"),
    ] {
        let args = [args, &[option, no_folder]].concat();
        refused(&args, &[option, no_folder, why]);
    }
    let folder = folder();
    refused(
        &["schemes", "--json", text(folder.path())],
        &["it is a folder"],
    );
}

#[test]
fn inputs_that_are_none_are_bad_input() {
    let folder = folder();
    let out = folder.path().join("x.wst");
    let import = ["trace", "import", "/nonexistent", "--out", text(&out)];
    refused(&import, &["/nonexistent/", "No such file or directory"]);
    refused(
        &["bench", "program", "no-such-program-anywhere"],
        &["no-such-program-anywhere", "PATH"],
    );
    let trace = trace();
    let bad = folder.path().join("b.toml");
    fs::write(&bad, "\nfoo = 1\n").expect("a file");
    for args in [
        &["replay", &trace, "--no-contents", "--device", text(&bad)][..],
        &["record", "--out", text(&out), "--apps", text(&bad)],
    ] {
        refused(args, &["b.toml:2: ", "unknown field `foo`"]);
    }
    let costs = [
        "page_access",
        "first_touch",
        "fault",
        "install",
        "remove",
        "flash_read",
        "flash_write",
    ];
    let costs: String = costs
        .iter()
        .map(|cost| format!("{cost}_ns = 1\n"))
        .collect();
    for (speed, access, why) in [
        ("0", "1", "expected a nonzero u64"),
        ("1", "1000000001", "1000000001 ns are more than a second"),
    ] {
        let speeds = format!("flash_read_bytes_per_us = {speed}\nflash_write_bytes_per_us = 1\n");
        let costs = costs.replacen("= 1", &format!("= {access}"), 1);
        fs::write(&bad, format!("name = \"x\"\n{costs}{speeds}")).expect("a file");
        refused(
            &["replay", &trace, "--no-contents", "--device", text(&bad)],
            &["b.toml:", why],
        );
    }
}

#[test]
fn numbers_are_refused() {
    let trace = trace();
    let head = |number| run(["trace", "head", &trace, "-n", number]);
    for number in ["-1", "abc"] {
        let ran = head(number);
        assert_misused(&ran, &[number]);
    }
    let replay = |more: &[&str]| run([&["replay", &trace, "--no-contents"], more].concat());
    assert_misused(
        &replay(&["--budget=-1"]),
        &["--budget", "\"-1\" is negative"],
    );
    assert_refused(&replay(&["--budget", "1k"]), 2, &["--budget 1K", "256 KiB"]);
    assert_refused(&replay(&["--pool", "200%"]), 2, &["--pool 200%", "MiB"]);
}

#[test]
fn amounts_have_ranges() {
    let misused = |args: &[&str], parts: &[&str]| assert_misused(&run(args), parts);
    let trace = trace();
    let folder = folder();
    let out = text(&folder.path().join("out")).to_owned();
    for amount in ["0", "99999999999999999"] {
        let range = ["--sample-mib", "1..=65536"];
        let study = ["study", "chunk-size", &trace, "--sample-mib", amount];
        misused(&study, &range);
    }
    misused(
        &["study", "entropy", &trace, "--pages", "0"],
        &["--pages", "1..="],
    );
    misused(
        &[
            "record",
            "--apps",
            "apps",
            "--out",
            &out,
            "--relaunches",
            "0",
        ],
        &["--relaunches", "1..="],
    );
    refused(
        &["trace", "sample", &trace, "--out", &out, "--share", "0"],
        &["--share 0", "up to 1"],
    );
    refused(
        &["trace", "sample", &trace, "--out", &out, "--share", "2"],
        &["--share 2: a share is from 0 to 1"],
    );
    let sample = ["trace", "sample", &trace, "--out", &out];
    refused(
        &[&sample[..], &["--app-share", "redis=2"]].concat(),
        &["--app-share redis=2: a share is from 0 to 1"],
    );
    refused(
        &[&sample[..], &["--apps", "h2", "--app-share", "redis=0.1"]].concat(),
        &["--app-share redis=0.1: --apps leaves it out"],
    );
    misused(
        &[&sample[..], &["--level", "20"]].concat(),
        &["--level", "1..=19"],
    );
    misused(
        &["study", "parts", &trace, "--budget", "60x"],
        &["'60x' is no percentage"],
    );
    assert!(!folder.path().join("out").exists());
}

#[test]
fn what_is_named_twice_does_not_count_twice() {
    let trace = trace();
    refused(
        &["compare", &trace, "--schemes", "zram,zram"],
        &["the scheme zram is named twice"],
    );
    refused(
        &["compare", &trace, &trace],
        &["mixed.wst is named twice: leave one out"],
    );
    let folder = folder();
    let out = folder.path().join("out.wst");
    let shares = ["--app-share", "redis=0.1", "--app-share", "redis=0.9"];
    let args = ["trace", "sample", &trace, "--out", text(&out)];
    let why = "--app-share redis=0.9: the application has a share";
    refused(&[&args[..], &shares].concat(), &[why]);
}

#[test]
fn no_file_is_both_read_and_written_or_written_twice() {
    let folder = folder();
    let path = |name: &str| text(&folder.path().join(name)).to_owned();
    let (trace, again) = (path("in.wst"), path("./in.wst"));
    fs::copy(shipped_trace(), &trace).expect("a copy");
    let (result, new) = (path("result.json"), path("new"));
    let compare = ["compare", &trace, "--no-contents", "--schemes", "zram"];
    succeed([&compare[..], &["--json", &result]].concat());
    let before = [&trace, &result].map(|file| fs::read(file).expect("a file"));
    let same = "are the same file";
    for (args, why) in [
        (
            &["trace", "export", &trace, "--out", &again][..],
            "is the trace that is read",
        ),
        (
            &["trace", "sample", &trace, "--out", &again],
            "is the trace that is read",
        ),
        (&["trace", "info", &trace, "--json", &again], same),
        (&["trace", "head", &trace, "--json", &again], same),
        (&["replay", &trace, "--no-contents", "--csv", &again], same),
        (&["study", "launches", &trace, "--csv", &again], same),
        (&["study", "heap", &trace, "--json", &again], same),
        (
            &["trace", "sample", &trace, "--out", &new, "--json", &new],
            same,
        ),
        (
            &["trace", "export", &trace, "--out", &new, "--json", &new],
            same,
        ),
        (
            &[
                "trace",
                "info",
                &trace,
                "--json",
                &new,
                "--csv",
                &path("./new"),
            ],
            "the same file",
        ),
        (&["report", &result, "--json", &result], same),
        (
            &["report", "--compare", &result, &trace, "--csv", &result],
            same,
        ),
    ] {
        refused(args, &[why]);
    }
    let after = [&trace, &result].map(|file| fs::read(file).expect("a file"));
    assert!(before == after && !folder.path().join("new").exists());
}

#[test]
fn traces_of_one_name_are_told_apart_by_their_paths() {
    let folder = folder();
    let sampled = |name: &str, seed: &str| {
        let path = folder.path().join(name).join("z.wst");
        fs::create_dir(folder.path().join(name)).expect("a folder");
        let trace = trace();
        let args = [
            "trace", "sample", &trace, "--share", "0.1", "--seed", seed, "--out",
        ];
        succeed([&args[..], &[text(&path)]].concat());
        text(&path).to_owned()
    };
    let (a, b) = (sampled("a", "1"), sampled("b", "2"));
    let args = ["compare", &a, &b, "--no-contents", "--schemes", "zram"];
    let data = json("warmswap.compare", args);
    let traces = data["traces"].as_array().expect("a list");
    let names: Vec<_> = traces
        .iter()
        .filter_map(|row| row["trace"].as_str())
        .collect();
    assert_eq!(names, [a.as_str(), b.as_str()]);
}

#[test]
fn a_disk_that_is_full_is_no_bad_input() {
    let folder = folder();
    let out = folder.path().join("sample.wst");
    let mut shell = Command::new("sh");
    shell.args([
        "-c",
        "trap '' XFSZ; ulimit -f 8; exec \"$@\"",
        "sh",
        env!("CARGO_BIN_EXE_warmswap-lab"),
        "trace",
        "sample",
        &trace(),
        "--out",
        text(&out),
    ]);
    let ran = Ran::from(shell.output().expect("a shell starts"));
    assert_refused(&ran, 1, &[text(&out), "File too large"]);
}

#[test]
fn what_is_no_place_for_a_result_is_bad_input_and_what_cannot_be_shown_a_failure() {
    let trace = trace();
    let why = "this is no regular file";
    refused(&["trace", "sample", &trace, "--out", "/dev/null"], &[why]);
    let out = ["study", "all", &trace, "-o", "/proc/nonexistent"];
    refused(&out, &["cannot make /proc/nonexistent"]);
    let folder = folder();
    let results = folder.path().join("results");
    let missing = ["study", "all", "/nonexistent.wst", "-o", text(&results)];
    refused(&missing, &["/nonexistent.wst"]);
    let dumps = [
        &["study", "all", &trace, "-o", text(&results)],
        &["--dumps", "/nonexistent"][..],
    ];
    refused(&dumps.concat(), &["cannot read /nonexistent"]);
    assert!(!results.exists());
    // A pipe is not opened before its study reads it: this one has no writer, and would be waited for.
    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo starts").success());
    let piped = [&out[..], &["--dumps", text(&pipe)]].concat();
    refused(&piped, &["cannot make /proc/nonexistent"]);
    let full = fs::File::options()
        .write(true)
        .open("/dev/full")
        .expect("a device");
    let shown = lab(["--help"]).stdout(full).output().expect("it starts");
    assert_refused(&Ran::from(shown), 1, &["No space left on device"]);
}

#[test]
fn a_trace_in_a_pipe_is_named_as_that() {
    let mut command = Command::new("sh");
    let words = [
        "-c",
        "cat \"$1\" | \"$2\" trace info /dev/stdin",
        "sh",
        &trace(),
    ];
    command.args(words).arg(env!("CARGO_BIN_EXE_warmswap-lab"));
    let ran = Ran::from(command.output().expect("a shell starts"));
    assert_refused(&ran, 2, &["a pipe", "copy it to a file"]);
}

#[test]
fn a_report_goes_to_standard_output_alone() {
    let folder = folder();
    let result = folder.path().join("compare.json");
    let trace = trace();
    let args = ["compare", &trace, "--no-contents", "--schemes", "zram"];
    succeed([&args[..], &["--json", text(&result)]].concat());
    let mut report = lab(["report", text(&result), "--json", "-"]);
    let output = report.current_dir(folder.path()).output();
    let ran = Ran::from(output.expect("the command starts"));
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let said: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON alone");
    assert_eq!(said["schema"], "warmswap.report");
    assert!(!folder.path().join("-").exists());
}

#[test]
fn a_study_without_contents_leaves_out_what_needs_them() {
    let folder = folder();
    let (bare, results) = (
        folder.path().join("bare.wst"),
        folder.path().join("results"),
    );
    let config = SynthConfig {
        scale: 0.01,
        relaunches: 3,
        ..SynthConfig::default().with_apps(2)
    };
    synthesize(&bare, &config, None).expect("a trace can be written");
    let said = succeed(["study", "all", text(&bare), "-o", text(&results)]);
    let left = said
        .lines()
        .filter(|line| line.starts_with("left out: study "));
    let left: Vec<&str> = left.collect();
    assert!(
        left.iter()
            .any(|line| line.contains("chunk-size") && line.contains("no page contents")),
        "{said}"
    );
    assert!(results.join("similarity.json").exists(), "{said}");
    assert!(results.join("prepaging.json").exists(), "{said}");
    let refused = run([
        "study",
        "all",
        text(&bare),
        "-o",
        text(&results),
        "--json",
        "-",
    ]);
    assert_refused(&refused, 2, &["study all", "--json"]);
}
