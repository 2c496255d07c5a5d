//! `warmswap-lab study all` and `warmswap-lab report`: from traces to a page.

use crate::common::{folder, run, shipped_trace, succeed, text};
use std::fs;
use warmswap_testkit::schema::assert_described;

#[test]
fn every_study_becomes_a_result_that_the_page_shows() {
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

    let page = folder.path().join("report.html");
    let mut args = vec!["report", "-o", text(&page)];
    args.extend(files.iter().map(|file| text(file)));
    let said = succeed(&args);
    assert!(said.contains(text(&page)), "{said}");
    let page = fs::read_to_string(&page).unwrap();
    assert!(page.len() < 5_000_000);
    // All but what is live, needs heap dumps, or cannot be measured here was run.
    let left: Vec<&str> = page
        .split("Not run: warmswap-lab ")
        .skip(1)
        .filter_map(|rest| rest.split([' ', '.']).nth(1))
        .collect();
    assert!(
        left.iter()
            .all(|command| ["relaunch", "fleet", "heap"].contains(command)),
        "{left:?}"
    );
}

#[test]
fn bad_results_are_named_by_file_and_field() {
    let folder = folder();
    let file = folder.path().join("x.json");
    let page = folder.path().join("report.html");
    for (what, wanted) in [
        ("nothing", "x.json: it is no result of --json: "),
        ("{\"schema\": 1}", "x.json: schema: "),
    ] {
        fs::write(&file, what).unwrap();
        let ran = run(["report", text(&file), "-o", text(&page)]);
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
        assert!(ran.stderr.contains(wanted), "{}", ran.stderr);
        assert!(!page.exists());
    }
    let missing = run(["report", "/nonexistent/x.json", "-o", text(&page)]);
    assert_eq!(missing.code, Some(2), "{}", missing.stderr);
    let nowhere = run(["report", text(&file)]);
    assert_eq!(nowhere.code, Some(2), "{}", nowhere.stderr);
}
