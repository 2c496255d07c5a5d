//! The page as a whole: what is in it, what is not, and what a browser makes of it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use warmswap_bench::RelaunchReport;
use warmswap_bench::relaunch::{Arm, ArmResult, CpuParts, RelaunchValue};
use warmswap_results::{Results, difference_page, page, picture};
use warmswap_testkit::skip;

/// A name that would do harm if it became markup.
const ATTACKER: &str = "</svg><script>document.title='taken'</script>\"'&";

fn envelope(schema: &str, version: u32, data: &str) -> String {
    let name = serde_json::to_string(ATTACKER).unwrap();
    format!(
        r#"{{"schema": "{schema}", "schema_version": {version}, "warmswap": "0.1.0",
            "machine": {{"cpu": {name}, "cores": 2, "kernel": "6.18.0", "memory_bytes": 1073741824}},
            "command": ["/usr/bin/warmswap", "bench", {name}], "data": {data}}}"#
    )
}

/// Live relaunches: `kernel` takes this part of what zram takes, and the limit is `total_bytes`.
fn live_in(part: f64, total_bytes: u64) -> String {
    let apps = [ATTACKER, "redis"].map(str::to_owned);
    let arms = [
        (Arm::Dram, 10.0),
        (Arm::Zram, 100.0),
        (Arm::Kernel, 100.0 * part),
    ];
    let values = arms.iter().flat_map(|&(arm, ms)| {
        let values = apps.iter().flat_map(move |app| {
            (0..9).map(move |round| RelaunchValue {
                arm,
                app: app.clone(),
                latency_ns: ((ms + f64::from(round)) * 1e6) as u64,
                ..RelaunchValue::default()
            })
        });
        values.collect::<Vec<_>>()
    });
    let values = values.collect();
    let arms = arms.map(|(arm, ms)| ArmResult {
        arm,
        cpu: CpuParts {
            programs_ns: Some(ms as u64),
            ..CpuParts::default()
        },
        mean_bytes: 1 << 20,
        ..ArmResult::default()
    });
    let report = RelaunchReport {
        apps: apps.into(),
        blocks: 1,
        processors: 2,
        footprint_bytes: Some(8 << 20),
        total_bytes: Some(total_bytes),
        arms: arms.into(),
        values,
        ..RelaunchReport::default()
    };
    let mut data = serde_json::to_value(report).unwrap();
    // A newer build may have more to say.
    data["arms"][0]["something_new"] = 1.into();
    envelope("warmswap.bench.relaunch", 1, &data.to_string())
}

fn live(part: f64) -> String {
    live_in(part, 4 << 20)
}

fn results(texts: &[String]) -> Results {
    let mut results = Results::default();
    for text in texts {
        results.add(Path::new("dir/<b>live.json"), text).unwrap();
    }
    results
}

fn count(text: &str, what: &str) -> usize {
    text.matches(what).count()
}

/// Fails unless every element is closed where it belongs.
fn is_balanced(html: &str) {
    const VOID: [&str; 2] = ["meta", "!DOCTYPE"];
    let mut open: Vec<&str> = Vec::new();
    for tag in html.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("a tag ends");
        let name = tag
            .split([' ', '\n', '/'])
            .find(|part| !part.is_empty())
            .unwrap_or("");
        if let Some(closed) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed), "in {tag}");
        } else if !tag.ends_with('/') && !VOID.contains(&name) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn a_page_holds_its_charts_their_numbers_and_the_evidence() {
    let page = page(&results(&[live(0.5)])).unwrap();

    is_balanced(&page);
    // Each chart for a wide page and for a narrow one.
    assert!(count(&page, "<svg role=\"img\" class=\"wide\"") >= 4);
    assert_eq!(
        count(&page, "class=\"wide\""),
        count(&page, "class=\"narrow\"")
    );
    assert_eq!(count(&page, "<svg"), count(&page, "<title id="));
    assert_eq!(count(&page, "<svg"), count(&page, "<desc id="));
    assert!(count(&page, "<details>") >= 4, "a table under every chart");
    for says in [
        "Live relaunches by application and arm",
        "zram, steered by warmswap",
        "0.5",
        "Ariadne",
        "ezswap",
        "ASAP",
        "Fleet",
    ] {
        assert!(page.contains(says), "{says}");
    }
    // What was not run is named with its command.
    assert!(page.contains("Not run: warmswap-lab study similarity TRACE."));
    assert!(page.contains("<code>warmswap-lab study coverage TRACE --json coverage.json</code>"));
    assert!(page.contains("more than noise"));
}

#[test]
fn no_name_becomes_markup_and_nothing_is_asked_for() {
    let results = results(&[live(0.5)]);
    for html in [page(&results).unwrap(), picture(&results).unwrap()] {
        assert_eq!(count(&html, "<script"), 0);
        assert_eq!(count(&html, "<b>live"), 0);
        let without_namespace = html.replace("http://www.w3.org/2000/svg", "");
        for asks in [
            "http:", "https:", "src=", "url(", "@import", "<link", "onload",
        ] {
            assert_eq!(count(&without_namespace, asks), 0, "{asks}");
        }
    }
    let page = page(&results).unwrap();
    assert!(page.contains("&lt;script&gt;"));
    assert!(page.contains("default-src &#39;none&#39;"));
}

#[test]
fn every_id_is_one_and_every_reference_has_its_target() {
    let page = page(&results(&[live(0.5)])).unwrap();
    let mut ids = HashSet::new();
    for part in page.split(" id=\"").skip(1) {
        let id = part.split('"').next().unwrap();
        assert!(ids.insert(id), "{id} is there twice");
        assert!(!id.contains(' '), "{id}");
    }
    for attribute in ["aria-labelledby=\"", "href=\"#"] {
        for part in page.split(attribute).skip(1) {
            for id in part.split('"').next().unwrap().split(' ') {
                assert!(ids.contains(id), "{attribute}{id}");
            }
        }
    }
}

#[test]
fn a_page_of_nothing_says_so() {
    let page = page(&Results::default()).unwrap();
    is_balanced(&page);
    assert!(page.contains("No results."));
    assert!(count(&page, "Not run: ") > 50);
    assert!(picture(&Results::default()).is_err());
}

#[test]
fn a_difference_is_told_from_noise() {
    let (half, same) = (results(&[live(0.5)]), results(&[live(0.5)]));
    let page = difference_page(&half, &same).unwrap();
    is_balanced(&page);
    assert!(page.contains("no more than noise"));
    assert!(!page.contains(": more than noise"));

    let page = difference_page(&half, &results(&[live(0.25)])).unwrap();
    let kernel = page
        .split("<li>")
        .find(|item| item.starts_with("zram, steered"))
        .unwrap();
    assert!(
        kernel.contains("shorter") && kernel.contains(": more than noise"),
        "{kernel}"
    );
    let zram = page
        .split("<li>")
        .find(|item| item.starts_with("zram: "))
        .unwrap();
    assert!(zram.contains("no more than noise"), "{zram}");

    assert!(difference_page(&half, &Results::default()).is_err());
}

#[test]
fn what_two_results_had_not_alike_stands_before_what_changed() {
    let page = |total_bytes| {
        let (before, after) = (results(&[live(0.5)]), results(&[live_in(0.5, total_bytes)]));
        difference_page(&before, &after).unwrap()
    };
    assert_eq!(count(&page(4 << 20), "Not alike"), 0);
    let unlike = page(2 << 20);
    let said = unlike.find("Not alike: memory: 4.00 MiB before, 2.00 MiB after.");
    assert!(said.unwrap() < unlike.find("<ul class=\"changes\">").unwrap());
}

#[test]
fn a_result_is_the_same_once_it_was_read_and_written() {
    let written: serde_json::Value = serde_json::from_str(&live(0.5)).unwrap();
    let mut data = written["data"].clone();
    let read = Results::again("warmswap.bench.relaunch", &data)
        .unwrap()
        .unwrap();
    data["arms"][0]
        .as_object_mut()
        .unwrap()
        .remove("something_new");
    assert_eq!(read, data);
    assert!(
        Results::again("warmswap.bench.relaunch", &"x".into())
            .unwrap()
            .is_err()
    );
    assert!(Results::again("warmswap.unknown", &data).is_none());
}

#[test]
fn the_picture_is_svg_for_light_and_dark() {
    let svg = picture(&results(&[live(0.5)])).unwrap();
    is_balanced(&svg);
    assert!(svg.starts_with("<svg xmlns="));
    assert!(svg.contains("prefers-color-scheme:dark"));
    assert!(svg.contains("--vermilion:#D55E00"));
}

fn chromium() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let all =
        std::env::split_paths(&folders).flat_map(|folder| names.map(|name| folder.join(name)));
    all.into_iter().find(|path| path.is_file())
}

/// What Chromium makes of a file: the document, and its messages.
fn browse(chromium: &Path, folder: &Path, file: &Path, width: u32) -> (String, String) {
    let output = Command::new(chromium)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
        ])
        .args(["--virtual-time-budget=60000", "--dump-dom"])
        .arg(format!("--window-size={width},900"))
        .arg(format!(
            "--user-data-dir={}",
            folder.join("profile").display()
        ))
        .arg(format!("file://{}", file.display()))
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// What the probe says of a page in Chromium at a width of `width` pixels, with the text of `axe-core` before it.
fn probe(chromium: &Path, html: &str, axe: &str, width: u32) -> serde_json::Value {
    let folder = tempfile::tempdir().unwrap();
    // A copy whose policy lets scripts run.
    let from = html.find("<meta http-equiv").unwrap();
    let to = from + html[from..].find('>').unwrap() + 1;
    let axe = axe.replace("</script", "<\\/script");
    let scripts = format!(
        "<script>{axe}</script><script>{}</script></body>",
        include_str!("probe.js")
    );
    let probed = format!(
        "{}{}",
        &html[..from],
        html[to..].replace("</body>", &scripts)
    );
    let file = folder.path().join("probed.html");
    std::fs::write(&file, probed).unwrap();

    let (document, messages) = browse(chromium, folder.path(), &file, width);

    assert!(!messages.contains("CONSOLE"), "{messages}");
    let said = document
        .split("data-probe=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    let said = said.unwrap_or_else(|| panic!("the probe ran: {messages}"));
    serde_json::from_str(&said.replace("&quot;", "\"").replace("&amp;", "&")).unwrap()
}

#[test]
fn a_browser_draws_the_charts_and_asks_for_nothing() {
    let name = "a_browser_draws_the_charts_and_asks_for_nothing";
    let Some(chromium) = chromium() else {
        skip!(name, "chromium is not installed (apt-get install chromium)");
    };
    let folder = tempfile::tempdir().unwrap();
    let page = page(&results(&[live(0.5)])).unwrap();
    let plain = folder.path().join("page.html");
    std::fs::write(&plain, &page).unwrap();

    let (document, messages) = browse(&chromium, folder.path(), &plain, 1280);

    assert!(document.contains("In ten seconds"), "{messages}");
    assert!(!messages.contains("CONSOLE"), "{messages}");
    for width in [1280, 500] {
        let said = probe(&chromium, &page, "", width);
        assert_eq!(said["drawn"], count(&page, "class=\"wide\""), "{said}");
        assert_eq!(said["requests"], 0, "{said}");
        assert_eq!(said["wide"], false, "nothing hangs over at {width}: {said}");
    }
}

#[test]
fn axe_finds_no_serious_violation() {
    let name = "axe_finds_no_serious_violation";
    let Some(chromium) = chromium() else {
        skip!(name, "chromium is not installed (apt-get install chromium)");
    };
    let Some(axe) = std::env::var_os("WARMSWAP_AXE") else {
        skip!(
            name,
            "WARMSWAP_AXE does not name the axe.min.js of npm's axe-core"
        );
    };
    let axe = std::fs::read_to_string(axe).expect("WARMSWAP_AXE names a file");
    let page = page(&results(&[live(0.5)])).unwrap();
    for width in [1280, 500] {
        let said = probe(&chromium, &page, &axe, width);
        let violations = said["violations"].as_array().unwrap();
        let serious: Vec<_> = violations
            .iter()
            .filter(|found| found["impact"] == "serious" || found["impact"] == "critical")
            .collect();
        assert!(serious.is_empty(), "{serious:?}");
    }
}
