//! What people get wrong on the command line: refused before any work, with what to do.

use crate::common::{assert_misused, assert_refused, folder, run, succeed, text};
use std::fs;

#[track_caller]
fn refused(args: &[&str], parts: &[&str]) {
    assert_refused(&run(args), 2, parts);
}

#[test]
fn a_misspelt_name_is_asked_about_where_it_stands() {
    for (args, parts) in [
        (&["statsu"][..], &["statsu", "'status'"][..]),
        (&["doctor", "daemom"], &["'daemon'"]),
        (&["doctor", "brain"], &["'brain'"]),
        (
            &["run", "--budgt", "64M", "--", "true"],
            &["unexpected argument '--budgt'", "'--budget'"],
        ),
        (
            &["launch", "mail", "sleep", "1"],
            &["'sleep'", "<APP> -- <COMMAND>..."],
        ),
    ] {
        assert_misused(&run(args), parts);
    }
    let budget = ["run", "--budget", "3", "--", "true"];
    refused(&budget, &["did you mean 3M?"]);
    assert_misused(
        &run(["run", "--budget=-1", "true"]),
        &["--budget", "\"-1\" is negative"],
    );
    let apart = run(["run", "--budget", "-1", "true"]);
    assert_misused(&apart, &["unexpected argument '-1'"]);
    assert!(!apart.stderr.contains("-- -1"), "{}", apart.stderr);
}

#[test]
fn files_that_cannot_be_written_are_refused_before_the_work() {
    let no_folder = "/nonexistent/x";
    let why = "No such file or directory";
    for option in ["--json", "--csv"] {
        refused(&["doctor", option, no_folder], &[option, no_folder, why]);
    }
    for option in ["--stats-json", "--control", "--backing"] {
        let args = ["run", "--host", "preload", option, no_folder, "echo", "ran"];
        refused(&args, &[option, no_folder, why]);
    }
    refused(
        &["run", "--stats-json", "-", "echo", "ran"],
        &["--stats-json -", "name a file"],
    );
    let folder = folder();
    let full = folder.path().join("full");
    fs::write(&full, "x").expect("a file");
    let control = ["run", "--control", text(&full), "echo", "ran"];
    refused(&control, &["--control", "it is there, and is no socket"]);
    let backing = ["run", "--host", "preload", "--backing", text(&full), "echo"];
    refused(&backing, &["it is not empty"]);
    let limited = [
        "run",
        "--host",
        "preload",
        "--backing",
        "x",
        "--backing-limit",
        "3M",
        "echo",
    ];
    refused(
        &limited,
        &["--backing-limit: 3.00 MiB is too little, the file has at least 4.00 MiB"],
    );
    let device = ["run", "--host", "preload", "--backing", "/dev/null", "echo"];
    refused(&device, &["it is no regular file"]);
    let json = ["doctor", "--json", text(folder.path())];
    refused(&json, &["it is a folder"]);
}

#[test]
fn inputs_that_are_none_are_bad_input() {
    refused(
        &["config", "--effective", "--config", "/nonexistent"],
        &["/nonexistent", "No such file"],
    );
    refused(
        &["config", "--effective", "--config", "/dev/zero"],
        &["/dev/zero", "more than 1 MiB is no configuration"],
    );
    refused(
        &["status", "abc"],
        &["'abc' is neither a process nor a socket"],
    );
    for scheme in ["optimal-windows", "zram+reclaim=optimal"] {
        let args = ["run", "--host", "preload", "--scheme", scheme, "true"];
        refused(&args, &[scheme, "it knows the future"]);
    }
}

#[test]
fn help_hides_what_is_refused_and_has_output_last() {
    let help = succeed(["launch", "-h"]);
    assert!(
        !help.contains("--json") && !help.contains("--csv"),
        "{help}"
    );
    for (command, has_tables) in [("run", false), ("switch", false), ("status", true)] {
        let help = succeed([command, "-h"]);
        let (before, output) = help.split_once("\nOutput:\n").expect("a group");
        assert!(
            !before.contains("--bytes") && output.contains("--bytes") && output.contains("--json"),
            "{help}"
        );
        assert_eq!(output.contains("--csv"), has_tables, "{command}: {help}");
    }
}
