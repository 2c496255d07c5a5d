//! `warmswap-lab study all` and `warmswap-lab report`: from traces to the papers' claims.

use crate::common::{folder, run, shipped_trace, succeed, text};
use std::fs;
use warmswap_testkit::schema::assert_described;

#[test]
fn every_study_becomes_a_result_that_the_report_reads() {
    let folder = folder();
    let (results, trace) = (folder.path().join("results"), shipped_trace());

    let said = succeed(["study", "all", text(&trace), "-o", text(&results)]);

    // Each result names the command that makes it alone.
    let files: Vec<_> = fs::read_dir(&results)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(files.len() >= 15, "{files:?}");
    for file in &files {
        let result: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        let words: Vec<&str> = result["command"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|w| w.as_str())
            .collect();
        assert!(!words.contains(&"all"), "{words:?}");
        assert_described(&result);
        assert!(said.contains(&words.join(" ")), "{words:?}");
    }

    let (report, csv) = (
        folder.path().join("report.json"),
        folder.path().join("report.csv"),
    );
    let mut args = vec!["report", "--json", text(&report), "--csv", text(&csv)];
    args.extend(files.iter().map(|file| text(file)));
    let said = succeed(&args);
    assert!(said.contains("claims of the four papers: "), "{said}");
    let report = fs::read_to_string(&report).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_described(&report);
    let claims = report["data"].as_array().unwrap();
    // Heads of the four tables, and blank lines between them.
    let csv = fs::read_to_string(&csv).unwrap();
    assert_eq!(csv.lines().count(), claims.len() + 7);
    // All but what is live, needs heap dumps, or cannot be measured here was run.
    let not_run = claims.iter().filter(|claim| claim["verdict"] == "not-run");
    let left: Vec<&str> = not_run
        .filter_map(|claim| claim["command"].as_str()?.split(' ').nth(2))
        .collect();
    assert!(!left.is_empty());
    assert!(
        left.iter()
            .all(|command| ["relaunch", "fleet", "heap"].contains(command)),
        "{left:?}"
    );
}

#[test]
fn two_results_are_compared() {
    let folder = folder();
    let trace = shipped_trace();
    let [before, after, report] = ["a", "b", "report"].map(|name| folder.path().join(name));
    for (budget, file) in [("50%", &before), ("80%", &after)] {
        let args = ["--no-contents", "--schemes", "zram", "--budget", budget];
        let args = [&["compare", text(&trace), "--json", text(file)], &args[..]];
        succeed(args.concat());
    }
    let args = ["--compare", text(&before), text(&after)];
    let said = succeed([&["report", "--json", text(&report)], &args[..]].concat());
    assert!(said.contains("Not alike: budget of "), "{said}");
    assert!(!said.contains("Not alike: recordings"), "{said}");
    let report = fs::read_to_string(&report).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_described(&report);
    assert_eq!(report["data"]["rows"][0]["arm"], "zram");
}

#[test]
fn bad_results_are_named_by_file_and_field() {
    let folder = folder();
    let file = folder.path().join("x.json");
    for (what, wanted) in [
        ("nothing", "x.json: it is no result of --json: "),
        ("{\"schema\": 1}", "x.json: schema: "),
    ] {
        fs::write(&file, what).unwrap();
        let ran = run(["report", text(&file)]);
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
        assert!(ran.stderr.contains(wanted), "{}", ran.stderr);
    }
    let missing = run(["report", "/nonexistent/x.json"]);
    assert_eq!(missing.code, Some(2), "{}", missing.stderr);
}
