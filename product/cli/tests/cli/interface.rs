//! What the command says of itself, and the forms in which it gives results.

use crate::common::{Ran, assert_refused, folder, run, succeed, text, trace, warmswap};
use crate::schema::assert_described;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs the command in a terminal of so many columns, as far as it can tell.
fn in_columns(columns: usize, args: &[&str]) -> Ran {
    let mut command = warmswap(args);
    // A long path is not broken.
    command.env("WARMSWAP_PRELOAD", "/none");
    let output = command.env("COLUMNS", columns.to_string()).output();
    output.expect("the command starts").into()
}

// ---- help, manual pages and completions ----

#[test]
fn help_lists_commands_in_groups() {
    let help = succeed(["--help"]);
    let place = |title: &str| help.find(&format!("\n{title}:\n")).expect(title);
    assert!(place("Use") < place("Inspect") && place("Inspect") < place("Research"));
    let (used, inspected) = help.split_at(place("Inspect"));
    assert!(
        used.contains("  daemon ") && used.contains("  run "),
        "{help}"
    );
    assert!(inspected.contains("  compare "), "{help}");
    for hidden in ["follow-windows", "completions", "\n  man "] {
        assert!(!help.contains(hidden), "{hidden}");
    }
    assert!(succeed(["help", "status"]).contains("Examples:\n  warmswap status\n"));
}

/// The visible commands by the names of their pages.
fn pages(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder.join("man1")).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    names
        .map(|name| name.into_string().expect("UTF-8"))
        .collect()
}

#[test]
fn every_page_has_its_sections() {
    let folder = folder();
    succeed(["man", text(folder.path())]);
    let pages = pages(folder.path());
    for page in ["warmswap.1", "warmswap-run.1", "warmswap-trace-head.1"] {
        assert!(pages.contains(page), "{pages:?}");
    }
    for page in &pages {
        let roff = fs::read_to_string(folder.path().join("man1").join(page)).expect("a page");
        for section in ["NAME", "SYNOPSIS", "EXIT STATUS", "SEE ALSO"] {
            let heading = format!("\n.SH \"{section}\"\n");
            let plain = format!("\n.SH {section}\n");
            assert!(
                roff.contains(&heading) || roff.contains(&plain),
                "{page}: {section}"
            );
        }
    }
    let read = |page: &str| fs::read_to_string(folder.path().join(page)).expect("a page");
    let status = read("man1/warmswap-status.1");
    for part in [
        "EXAMPLES",
        "FILES",
        "\\fB3\\fR\nNeither",
        "\\fB4\\fR\nThis user",
    ] {
        assert!(status.contains(part), "{part}: {status}");
    }
    let json = read("man5/warmswap-json.5");
    for part in ["schema_version", "warmswap.status", "warmswap.compare"] {
        assert!(json.contains(part), "{part}");
    }
}

#[test]
fn shells_complete_subcommands_and_options() {
    let folder = folder();
    let file = folder.path().join("warmswap.bash");
    fs::write(&file, succeed(["completions", "bash"])).expect("a file");
    let complete = |words: &[&str]| {
        let last = words.len() - 1;
        let script = format!(
            ". {file}; COMP_WORDS=({words}); COMP_CWORD={last}; _warmswap warmswap '{word}' ''; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            file = text(&file),
            words = words.join(" "),
            word = words[last],
        );
        let output = Command::new("bash").args(["-c", &script]).output();
        let output = output.expect("bash starts");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    assert_eq!(complete(&["warmswap", "sta"]), "status\n");
    let options = complete(&["warmswap", "run", "--bud"]);
    assert_eq!(options, "--budget\n");
    assert_eq!(complete(&["warmswap", "trace", "inf"]), "info\n");
    for (shell, part) in [
        ("zsh", "#compdef warmswap"),
        ("fish", "complete -c warmswap"),
    ] {
        let script = succeed(["completions", shell]);
        assert!(
            script.contains(part) && script.contains("compare"),
            "{shell}"
        );
    }
}

// ---- results ----

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
    assert!(wrong(
        |result| result["data"]["schemes"][0]["reclaim"] = 5.into()
    ));
    assert!(wrong(|result| drop(
        result["data"]
            .as_object_mut()
            .expect("an object")
            .remove("devices")
    )));
}

#[test]
fn what_has_no_result_refuses_to_write_one() {
    let folder = folder();
    let man = text(folder.path()).to_owned();
    for args in [
        &["daemon"][..],
        &["launch", "x", "--", "true"],
        &["top"],
        &["config", "--example"],
        &["man", &man],
        &["completions", "bash"],
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
    let trace = trace();
    let head = run(["trace", "head", &trace, "--csv", "-"]);
    assert_refused(&head, 2, &["trace head", "--csv"]);
    let both = run(["schemes", "--json", "-", "--csv", "-"]);
    assert_refused(&both, 2, &["same file"]);
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
        &["doctor"],
        &["doctor", "run"],
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
    assert!(narrow.contains("no room for: "), "{narrow}");
}

#[test]
fn files_honour_the_umask() {
    let folder = folder();
    let out = |name: &str| text(&folder.path().join(name)).to_owned();
    let trace = trace();
    let (json, csv, sample) = (out("a.json"), out("a.csv"), out("a.wst"));
    let (synthetic, costs, parquet) = (out("b.wst"), out("c.toml"), out("d.parquet"));
    let commands = [
        vec!["schemes", "--json", &json, "--csv", &csv],
        vec![
            "trace", "sample", &trace, "--share", "0.02", "--out", &sample,
        ],
        vec![
            "trace",
            "synth",
            "--scale",
            "0.01",
            "--apps",
            "1",
            "--relaunches",
            "1",
            "--out",
            &synthetic,
        ],
        vec![
            "calibrate",
            &trace,
            "--passes",
            "1",
            "--sample-mib",
            "1",
            "--out",
            &costs,
        ],
        vec!["trace", "export", &sample, "--out", &parquet],
    ];
    for args in &commands {
        let mut shell = Command::new("sh");
        shell.args([
            "-c",
            "umask 027; exec \"$@\"",
            "sh",
            env!("CARGO_BIN_EXE_warmswap"),
        ]);
        let output = shell.args(args).stdout(Stdio::null()).output();
        let output = output.expect("a shell starts");
        assert!(output.status.success(), "{args:?}: {output:?}");
    }
    for file in [json, csv, sample, synthetic, costs, parquet] {
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
    let folder = folder();
    let file = folder.path().join("a.conf");
    fs::write(&file, "[host]\nprefetch = maybe\n[zram0]\nzram-size = 4X\n").expect("a file");
    let config = run(["config", "--effective", "--config", text(&file)]);
    let lines: Vec<&str> = config.stderr.lines().collect();
    assert_eq!(
        (config.code, lines.len()),
        (Some(2), 2),
        "{}",
        config.stderr
    );
    assert!(
        lines.iter().all(|line| line.starts_with("warmswap: ")),
        "{lines:?}"
    );
    let budget = run(["run", "--budget", "3", "--", "true"]);
    assert_refused(&budget, 2, &["did you mean 3M?"]);
    assert_refused(&run(["statsu"]), 2, &["statsu", "'status'"]);
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
