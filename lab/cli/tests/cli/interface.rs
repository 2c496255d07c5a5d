//! What the command says of itself, and the forms in which it gives results.

use crate::common::{Ran, assert_refused, folder, lab, run, succeed, text, trace};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use warmswap_testkit::schema::assert_described;

/// Runs the command in a terminal of so many columns, as far as it can tell.
fn in_columns(columns: usize, args: &[&str]) -> Ran {
    let mut command = lab(args);
    let output = command.env("COLUMNS", columns.to_string()).output();
    output.expect("the command starts").into()
}

#[test]
fn every_command_has_a_page_and_results_have_one() {
    let folder = folder();
    succeed(["man", text(folder.path())]);
    let read = |page: &str| fs::read_to_string(folder.path().join(page)).expect(page);
    let page = read("man1/warmswap-lab-trace-head.1");
    for section in ["NAME", "SYNOPSIS", "OPTIONS"] {
        assert!(page.contains(section), "{section}");
    }
    assert!(read("man1/warmswap-lab.1").contains(".SH \"EXIT STATUS\""));
    let json = read("man5/warmswap-json.5");
    for part in ["schema_version", "warmswap.status", "warmswap.compare"] {
        assert!(json.contains(part), "{part}");
    }
}

#[test]
fn shells_complete_subcommands() {
    for (shell, part) in [
        ("bash", "COMPREPLY"),
        ("zsh", "#compdef warmswap-lab"),
        ("fish", "complete -c warmswap-lab"),
    ] {
        let script = succeed(["completions", shell]);
        assert!(
            script.contains(part) && script.contains("compare"),
            "{shell}"
        );
    }
}

#[test]
fn what_has_no_result_refuses_to_write_one() {
    let folder = folder();
    let man = text(folder.path()).to_owned();
    let trace = trace();
    for args in [
        &["man", &man][..],
        &["completions", "bash"],
        &["study", "all", &trace, "-o", &man],
    ] {
        for option in ["--json", "--csv"] {
            let ran = run([&[option, "-"][..], args].concat());
            assert_refused(&ran, 2, &[args[0], option]);
        }
    }
    assert!(
        fs::read_dir(folder.path())
            .expect("a folder")
            .next()
            .is_none()
    );
    let head = run(["trace", "head", &trace, "--csv", "-"]);
    assert_refused(&head, 2, &["trace head", "--csv"]);
    let both = run(["schemes", "--json", "-", "--csv", "-"]);
    assert_refused(&both, 2, &["same file"]);
}

#[test]
fn the_schema_refuses_what_is_no_result() {
    let wrong = |change: fn(&mut Value)| {
        let ran = run(["schemes", "--json", "-"]);
        let mut envelope: Value = serde_json::from_str(&ran.stdout).expect("JSON");
        assert_described(&envelope);
        change(&mut envelope);
        std::panic::catch_unwind(|| assert_described(&envelope)).is_err()
    };
    assert!(wrong(
        |result| result["schema"] = "warmswap.unheard-of".into()
    ));
    assert!(wrong(|result| result["schema_version"] = "1".into()));
    assert!(wrong(|result| result["data"]["unheard_of"] = 5.into()));
    assert!(wrong(|result| drop(
        result["data"]
            .as_object_mut()
            .expect("an object")
            .remove("devices")
    )));
}

#[test]
fn tables_are_written_as_csv() {
    let trace = trace();
    let args = [
        "compare",
        &trace,
        "--no-contents",
        "--schemes",
        "zram,warmswap",
    ];
    let csv = succeed([&args[..], &["--csv", "-"]].concat());
    let mut lines = csv.split("\r\n");
    let keys: Vec<&str> = lines.next().expect("a line").split(',').collect();
    assert_eq!(keys[0], "scheme");
    let row: Vec<&str> = lines.next().expect("a line").split(',').collect();
    assert_eq!(row[0], "zram");
    assert_eq!(row.len(), keys.len());
    assert!(
        row.iter().any(|cell| cell.parse::<f64>().is_ok()),
        "{row:?}"
    );

    let folder = folder();
    let file = folder.path().join("x.csv");
    let shown = succeed([&args[..], &["--csv", text(&file)]].concat());
    assert!(shown.contains("warmswap: "), "{shown}");
    let written = fs::read_to_string(&file).expect("it was written");
    assert!(written.starts_with("scheme,"), "{written}");
}

#[test]
fn tables_fit_narrow_terminals() {
    let trace = trace();
    for args in [
        &["compare", trace.as_str()][..],
        &["compare", &trace, "--bytes"],
        &["replay", &trace],
        &["trace", "info", &trace],
        &["schemes"],
        &["study", "similarity", &trace],
        &["study", "switches", &trace],
    ] {
        let args = if args[0] == "compare" || args[0] == "replay" {
            [args, &["--no-contents"]].concat()
        } else {
            args.to_vec()
        };
        for columns in [80, 100] {
            let ran = in_columns(columns, &args);
            // What would help is a command, which is not broken.
            let tables = ran.stdout.split("\nTo fix what is not there:").next();
            for line in tables.expect("text").lines() {
                let width = line.chars().count();
                let is_sentence = line.starts_with("warmswap: ");
                assert!(width <= columns || is_sentence, "{args:?}: {width}: {line}");
            }
        }
    }
    let narrow = in_columns(80, &["compare", &trace, "--no-contents"]).stdout;
    assert!(narrow.contains("vs zram (paper)"), "{narrow}");
    let narrow = in_columns(60, &["compare", &trace, "--no-contents"]).stdout;
    assert!(narrow.contains("left out for width: "), "{narrow}");
}

#[test]
fn files_honour_the_umask() {
    let folder = folder();
    let out = |name: &str| text(&folder.path().join(name)).to_owned();
    let trace = trace();
    let (json, csv, sample) = (out("a.json"), out("a.csv"), out("a.wst"));
    let accesses = out("b.bin");
    let commands = [
        vec!["schemes", "--json", &json, "--csv", &csv],
        vec![
            "trace", "sample", &trace, "--share", "0.02", "--out", &sample,
        ],
        vec!["trace", "export", &sample, "--out", &accesses],
    ];
    for args in &commands {
        let mut shell = Command::new("sh");
        shell.args([
            "-c",
            "umask 027; exec \"$@\"",
            "sh",
            env!("CARGO_BIN_EXE_warmswap-lab"),
        ]);
        let output = shell.args(args).stdout(Stdio::null()).output();
        let output = output.expect("a shell starts");
        assert!(output.status.success(), "{args:?}: {output:?}");
    }
    for file in [json, csv, sample, accesses] {
        let mode = fs::metadata(&file)
            .expect("it was written")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o640, "{file}");
    }
}

#[test]
fn a_misspelt_scheme_is_asked_about() {
    let trace = trace();
    let replay = |args: &[&str]| run([&["replay", &trace, "--no-contents"][..], args].concat());
    let scheme = replay(&["--scheme", "zrm"]);
    assert_refused(&scheme, 2, &["did you mean zram?"]);
    let change = replay(&["--set", "prefetch"]);
    assert_refused(&change, 2, &["write prefetch=POLICY"]);
}

#[test]
fn events_are_data_too() {
    let trace = trace();
    let ran = run([
        "trace", "head", &trace, "-n", "3", "--from", "7", "--json", "-",
    ]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let envelope: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_described(&envelope);
    let events = envelope["data"].as_array().expect("a list");
    let numbers: Vec<_> = events
        .iter()
        .filter_map(|event| event["number"].as_u64())
        .collect();
    assert_eq!(numbers, [7, 8, 9]);
    assert!(events[0]["what"].is_string() && events[0]["app"].is_string());
}
