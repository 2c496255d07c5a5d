//! The daemon's status as OpenMetrics text, for the textfile collector of node_exporter or a socket unit.

use std::fmt::{Display, Write as _};

use warmswap_protocol::{AppStatus, DaemonStatus, Phase};

/// Kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Goes up and down.
    Gauge,
    /// Counts from the daemon's start on; its samples have the suffix `_total`.
    Counter,
}

/// The text while it is written.
#[derive(Debug, Default)]
struct Text(String);

impl Text {
    /// Begins a metric without its prefix. `unit` is the end of its name, or empty.
    fn family<'t>(&'t mut self, kind: Kind, name: &str, unit: &str, help: &str) -> Family<'t> {
        let separator = if unit.is_empty() { "" } else { "_" };
        let name = format!("warmswap_{name}{separator}{unit}");
        let (word, suffix) = match kind {
            Kind::Gauge => ("gauge", ""),
            Kind::Counter => ("counter", "_total"),
        };
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "# HELP {name} {help}.\n# TYPE {name} {word}");
        if !unit.is_empty() {
            let _ = writeln!(self.0, "# UNIT {name} {unit}");
        }
        Family {
            sample: name + suffix,
            text: self,
        }
    }
}

/// A metric whose samples are written.
struct Family<'t> {
    sample: String,
    text: &'t mut Text,
}

impl Family<'_> {
    /// One sample with these labels.
    fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        let escaped = |value: &str| {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"");
            value.replace('\n', "\\n")
        };
        let labels: Vec<String> = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
            .collect();
        let labels = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(",")),
        };
        let _ = writeln!(self.text.0, "{}{labels} {value}", self.sample);
    }
}

/// The status in the text format of OpenMetrics 1.0.
#[must_use]
pub fn openmetrics(status: &DaemonStatus) -> String {
    let mut text = Text::default();
    machine(status, &mut text);
    applications(&status.apps, &mut text);
    let help = "What the host did, and what it was refused, by name";
    let mut events = text.family(Kind::Counter, "events", "", help);
    for (name, count) in &status.counters {
        events.sample(&[("event", name)], count);
    }
    let help = "Switches by where they were heard";
    let mut switches = text.family(Kind::Counter, "switches", "", help);
    for signal in &status.signals {
        switches.sample(&[("source", &signal.name)], signal.switches);
    }
    text.0 + "# EOF\n"
}

fn machine(status: &DaemonStatus, text: &mut Text) {
    let (memory, swap) = (&status.memory, &status.swap);
    for (name, help, bytes) in [
        ("memory_total", "Memory of the machine", memory.total_bytes),
        (
            "memory_available",
            "Memory that programs could have",
            memory.available_bytes,
        ),
        (
            "given_back",
            "Memory that came back in idle time since the daemon's start",
            status.given_back.bytes,
        ),
        (
            "opened_files_given_back",
            "What came back besides of files that programs use",
            status.given_back.opened_bytes,
        ),
        ("swap_total", "Swap of the machine", swap.total_bytes),
        ("swap_free", "Of it, unused", swap.free_bytes),
        (
            "pool_stored",
            "What compressed swap holds, uncompressed",
            swap.stored_bytes,
        ),
        ("pool_memory", "Memory of compressed swap", swap.pool_bytes),
        (
            "state",
            "What the daemon holds for what it knows of pages",
            status.state_bytes,
        ),
    ] {
        text.family(Kind::Gauge, name, "bytes", help)
            .sample(&[], bytes);
    }
    let apps = status.apps.len();
    text.family(Kind::Gauge, "apps", "", "Applications")
        .sample(&[], apps);
    let mut cpu = text.family(Kind::Counter, "cpu", "seconds", "CPU time of the daemon");
    cpu.sample(&[], status.cpu_seconds);
}

/// Name and meaning of a counter of each application, and its value.
type Count = (&'static str, &'static str, fn(&AppStatus) -> u64);

const COUNTS: [Count; 4] = [
    ("app_relaunches", "Relaunches", |app| app.relaunch_count),
    (
        "app_prefetched_pages",
        "Pages brought back ahead of use",
        |app| app.prefetched_pages,
    ),
    (
        "app_prefetch_used_pages",
        "Of them, those that were touched",
        |app| app.prefetch_used_pages,
    ),
    (
        "app_prefetch_wasted_pages",
        "Of them, those that were not",
        |app| app.prefetch_wasted_pages,
    ),
];

fn applications(apps: &[AppStatus], text: &mut Text) {
    let help =
        "Anonymous memory of an application: resident by hotness, swapped out, and what that takes";
    let mut memory = text.family(Kind::Gauge, "app_memory", "bytes", help);
    for app in apps {
        for (kind, bytes) in [
            ("hot", app.hot_bytes),
            ("warm", app.warm_bytes),
            ("cold", app.cold_bytes),
            ("swapped", app.swapped_bytes),
            ("compressed", app.compressed_bytes),
        ] {
            memory.sample(&[("app", &app.name), ("kind", kind)], bytes);
        }
    }
    let help = "1 for the application that is looked at";
    let mut foreground = text.family(Kind::Gauge, "app_foreground", "", help);
    for app in apps {
        let is_foreground = app.phase != Phase::Background;
        foreground.sample(&[("app", &app.name)], u8::from(is_foreground));
    }
    let help = "From the switch to the end of the last relaunch";
    let mut latency = text.family(Kind::Gauge, "app_last_relaunch", "seconds", help);
    for app in apps {
        if let Some(last) = app.relaunches.last() {
            latency.sample(&[("app", &app.name)], last.latency_ns as f64 / 1e9);
        }
    }
    for (name, help, value) in COUNTS {
        let mut family = text.family(Kind::Counter, name, "", help);
        for app in apps {
            family.sample(&[("app", &app.name)], value(app));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::of_host;
    use std::collections::BTreeMap;
    use warmswap_kernel::HostStatus;
    use warmswap_protocol::{RelaunchStatus, SignalStatus};

    fn status() -> DaemonStatus {
        DaemonStatus {
            cpu_seconds: 1.5,
            apps: vec![AppStatus {
                name: "a \"quoted\" app".to_owned(),
                hot_bytes: 4096,
                relaunch_count: 3,
                relaunches: vec![RelaunchStatus {
                    latency_ns: 250_000_000,
                    ..RelaunchStatus::default()
                }],
                prefetched_pages: 70,
                ..AppStatus::default()
            }],
            signals: vec![SignalStatus {
                name: "x11".to_owned(),
                switches: 9,
                ..SignalStatus::default()
            }],
            counters: BTreeMap::from([("scans".to_owned(), 11)]),
            ..DaemonStatus::default()
        }
    }

    #[test]
    fn the_page_has_a_line_for_each_value() {
        let page = openmetrics(&status());
        for line in [
            "warmswap_cpu_seconds_total 1.5",
            "warmswap_apps 1",
            r#"warmswap_app_memory_bytes{app="a \"quoted\" app",kind="hot"} 4096"#,
            r#"warmswap_app_relaunches_total{app="a \"quoted\" app"} 3"#,
            r#"warmswap_app_prefetched_pages_total{app="a \"quoted\" app"} 70"#,
            r#"warmswap_app_last_relaunch_seconds{app="a \"quoted\" app"} 0.25"#,
            r#"warmswap_events_total{event="scans"} 11"#,
            r#"warmswap_switches_total{source="x11"} 9"#,
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\n{page}");
        }
        assert!(page.ends_with("# EOF\n"));
    }

    #[test]
    fn every_metric_of_the_dashboard_is_on_the_page() {
        let text = include_str!("../../../dist/grafana-dashboard.json");
        let dashboard: serde_json::Value = serde_json::from_str(text).unwrap();
        let host = of_host(HostStatus::default(), |_| false, 0);
        let page = openmetrics(&DaemonStatus {
            counters: host.counters,
            ..status()
        });
        let mut asked = 0;
        for panel in dashboard["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().into_iter().flatten() {
                let query = target["expr"].as_str().unwrap();
                let names = query.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
                let names: Vec<&str> = names.filter(|n| n.starts_with("warmswap_")).collect();
                // What stands in quotes are labels' values, several of them with bars between.
                let values = query
                    .split('"')
                    .skip(1)
                    .step_by(2)
                    .flat_map(|v| v.split('|'));
                let values: Vec<String> = values.map(|value| format!("=\"{value}\"")).collect();
                for name in &names {
                    let lines = || page.lines().filter(|line| line.starts_with(name));
                    assert!(lines().next().is_some(), "{name} in {query}");
                    for value in &values {
                        let is_there = lines().any(|line| line.contains(value));
                        assert!(is_there, "{name}{{{value}}} in {query}");
                    }
                    asked += 1;
                }
            }
        }
        assert!(asked > 5, "{asked}");
    }

    #[test]
    fn each_metric_is_declared_once_and_before_its_samples() {
        let page = openmetrics(&status());
        let mut declared = Vec::new();
        let mut current = "";
        for line in page.lines().filter(|line| *line != "# EOF") {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                current = rest.split(' ').next().unwrap();
                assert!(!declared.contains(&current), "{current}");
                declared.push(current);
            } else if !line.starts_with('#') {
                let name = line.split(['{', ' ']).next().unwrap();
                assert!(
                    [current, &format!("{current}_total")].contains(&name),
                    "{line}"
                );
            }
        }
        assert!(page.contains(
            "# TYPE warmswap_cpu_seconds counter\n# UNIT warmswap_cpu_seconds seconds\n"
        ));
        assert_eq!(page.matches("# EOF").count(), 1);
    }
}
