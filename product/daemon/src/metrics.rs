//! Metrics for Prometheus, on a socket file for root or on the loopback interface.
//!
//! Every user of the machine can read a port of the loopback interface. So what is served there says nothing of single
//! applications unless it is configured to.

mod http;

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use warmswap_control::{
    Access, Answer, AppStatus, DaemonStatus, Listener, Peer, Phase, Request, ServerError,
};

use self::http::{Response, Server, Socket};
use crate::config::sections::Listen;
use crate::event::Events;

/// What the page is.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The page cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// An address, or a thread, cannot be had.
    #[error("metrics: cannot listen on {at}: {source}")]
    Listen {
        /// The address, or the socket.
        at: Listen,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The socket file cannot be made.
    #[error("metrics: {0}")]
    Socket(#[from] ServerError),
}

/// The thread that serves `/metrics`. Dropping it ends the thread, and removes the socket file.
pub struct Metrics {
    server: Server,
    /// Last: the server connects to it to wake its own thread when it is dropped.
    _file: Option<Listener>,
}

impl Metrics {
    /// Serves what the daemon behind `events` knows. Each request asks it once. Applications have names on the page
    /// where `app_names` allows it, and on a socket file, which root alone can open.
    ///
    /// # Errors
    /// [`MetricsError`].
    pub fn serve(at: &Listen, app_names: bool, events: Events) -> Result<Self, MetricsError> {
        let failed = |source| MetricsError::Listen {
            at: at.clone(),
            source,
        };
        let (socket, file) = match at {
            Listen::Loopback(address) => (Socket::port(address).map_err(failed)?, None),
            Listen::Socket(path) => {
                let file = Listener::bind(path, Access::Owner)?;
                let socket = file.blocking().map_err(failed)?;
                (Socket::file(socket, path), Some(file))
            }
        };
        let names = if app_names || file.is_some() {
            Names::Told
        } else {
            Names::Withheld
        };
        let respond = move |path: &str| answer(path, names, &events);
        Ok(Self {
            server: Server::start(socket, respond).map_err(failed)?,
            _file: file,
        })
    }

    /// Where it is served: the port that was chosen, where port 0 was asked for. None on a socket file.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.server.address()
    }
}

/// Whether the page may say what applications are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Each application has its own lines.
    Told,
    /// All applications together have one line for each kind of memory. There are no sums of their counters, which
    /// would fall when an application is forgotten.
    Withheld,
}

fn answer(path: &str, names: Names, events: &Events) -> Response {
    if path != "/metrics" {
        return Response::plain("404 Not Found", "the page is /metrics\n");
    }
    match events.ask(Peer::ROOT, Request::Daemon) {
        Ok(Answer::Daemon(status)) => Response {
            status: "200 OK",
            content_type: CONTENT_TYPE,
            body: page(&status, names),
        },
        Ok(_) => {
            let why = "the daemon gave another answer\n";
            Response::plain("500 Internal Server Error", why)
        }
        Err(refusal) => Response::plain("503 Service Unavailable", format!("{refusal}\n")),
    }
}

/// One application.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct App {
    app: String,
}

/// One application's memory of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AppMemory {
    app: String,
    kind: &'static str,
}

/// One of the host's counters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Event {
    event: String,
}

/// One source of switch signals.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Signal {
    source: String,
}

/// The page: the status in the text format of OpenMetrics.
#[must_use]
pub fn page(status: &DaemonStatus, names: Names) -> String {
    let mut registry = Registry::with_prefix("warmswap");
    machine(status, &mut registry);
    match names {
        Names::Told => applications(&status.apps, &mut registry),
        Names::Withheld => memory(&[sum(&status.apps)], &mut registry),
    }
    let events = Family::<Event, Counter>::default();
    registry.register(
        "events",
        "What the host did, and what it was refused, by name",
        events.clone(),
    );
    for (name, count) in &status.counters {
        let label = Event {
            event: name.clone(),
        };
        events.get_or_create(&label).inc_by(*count);
    }
    let switches = Family::<Signal, Counter>::default();
    registry.register(
        "switches",
        "Switches by where they were heard",
        switches.clone(),
    );
    for signal in &status.signals {
        let label = Signal {
            source: signal.name.clone(),
        };
        switches.get_or_create(&label).inc_by(signal.switches);
    }
    let mut text = String::new();
    if encode(&mut text, &registry).is_err() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# EOF");
    }
    text
}

/// A gauge of whole numbers; bytes fit up to 8 EiB.
fn gauge(registry: &mut Registry, name: &str, help: &str, unit: Option<Unit>, value: u64) {
    let gauge: Gauge = Gauge::default();
    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
    match unit {
        Some(unit) => registry.register_with_unit(name, help, unit, gauge),
        None => registry.register(name, help, gauge),
    }
}

fn machine(status: &DaemonStatus, registry: &mut Registry) {
    let memory = &status.memory;
    let swap = &status.swap;
    for (name, help, value) in [
        ("memory_total", "Memory of the machine", memory.total_bytes),
        (
            "memory_available",
            "Memory that programs could have",
            memory.available_bytes,
        ),
        (
            "memory_missing",
            "Memory that is missing to the goal",
            memory.missing_bytes,
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
        (
            "files_locked",
            "Pages of files that the daemon has locked in memory",
            status.locked_file_bytes,
        ),
    ] {
        gauge(registry, name, help, Some(Unit::Bytes), value);
    }
    gauge(
        registry,
        "apps",
        "Applications",
        None,
        status.apps.len() as u64,
    );
    let cpu = Counter::<f64, std::sync::atomic::AtomicU64>::default();
    cpu.inc_by(status.cpu_seconds);
    registry.register_with_unit("cpu", "CPU time of the daemon", Unit::Seconds, cpu);
}

/// The memory of all applications together.
fn sum(apps: &[AppStatus]) -> AppStatus {
    let of = |bytes: fn(&AppStatus) -> u64| apps.iter().map(bytes).sum();
    AppStatus {
        name: "all".to_owned(),
        hot_bytes: of(|app| app.hot_bytes),
        warm_bytes: of(|app| app.warm_bytes),
        cold_bytes: of(|app| app.cold_bytes),
        swapped_bytes: of(|app| app.swapped_bytes),
        compressed_bytes: of(|app| app.compressed_bytes),
        ..AppStatus::default()
    }
}

fn memory(apps: &[AppStatus], registry: &mut Registry) {
    let memory = Family::<AppMemory, Gauge>::default();
    let help =
        "Anonymous memory of an application: resident by hotness, swapped out, and what that takes";
    registry.register_with_unit("app_memory", help, Unit::Bytes, memory.clone());
    for app in apps {
        for (kind, bytes) in [
            ("hot", app.hot_bytes),
            ("warm", app.warm_bytes),
            ("cold", app.cold_bytes),
            ("swapped", app.swapped_bytes),
            ("compressed", app.compressed_bytes),
        ] {
            let label = AppMemory {
                app: app.name.clone(),
                kind,
            };
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            memory.get_or_create(&label).set(bytes);
        }
    }
}

fn applications(apps: &[AppStatus], registry: &mut Registry) {
    memory(apps, registry);
    let foreground = Family::<App, Gauge>::default();
    let help = "1 for the application that is looked at";
    registry.register("app_foreground", help, foreground.clone());
    let latency = Family::<App, Gauge<f64, std::sync::atomic::AtomicU64>>::default();
    let help = "From the switch to the end of the last relaunch";
    registry.register_with_unit("app_last_relaunch", help, Unit::Seconds, latency.clone());
    for app in apps {
        let is_foreground = app.phase != Phase::Background;
        foreground
            .get_or_create(&label(app))
            .set(is_foreground.into());
        if let Some(last) = app.relaunches.last() {
            latency
                .get_or_create(&label(app))
                .set(last.latency_ns as f64 / 1e9);
        }
    }
    type Count = (&'static str, &'static str, fn(&AppStatus) -> u64);
    let counts: [Count; 5] = [
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
        (
            "app_paged_out_pages",
            "Pages that the daemon paged out",
            |app| app.paged_out_pages,
        ),
    ];
    for (name, help, value) in counts {
        let family = Family::<App, Counter>::default();
        registry.register(name, help, family.clone());
        for app in apps {
            family.get_or_create(&label(app)).inc_by(value(app));
        }
    }
}

fn label(app: &AppStatus) -> App {
    App {
        app: app.name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixStream;
    use warmswap_control::{RelaunchStatus, SignalStatus};

    use crate::event::Event as DaemonEvent;

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
        let page = page(&status(), Names::Told);
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
        let page = page(&status(), Names::Told);
        let mut asked = 0;
        for panel in dashboard["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().into_iter().flatten() {
                let query = target["expr"].as_str().unwrap();
                let names = query.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
                for name in names.filter(|name| name.starts_with("warmswap_")) {
                    let is_there = page.lines().any(|line| line.starts_with(name));
                    assert!(is_there, "{name} in {query}");
                    asked += 1;
                }
            }
        }
        assert!(asked > 5, "{asked}");
    }

    #[test]
    fn without_names_the_page_has_the_memory_of_all() {
        let mut status = status();
        status.apps.push(AppStatus {
            name: "another".to_owned(),
            hot_bytes: 100,
            ..AppStatus::default()
        });
        let page = page(&status, Names::Withheld);
        for line in [
            "warmswap_apps 2",
            r#"warmswap_app_memory_bytes{app="all",kind="hot"} 4196"#,
            r#"warmswap_events_total{event="scans"} 11"#,
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\n{page}");
        }
        for name in ["quoted", "another", "warmswap_app_foreground{", "relaunch"] {
            assert!(!page.contains(name), "{name}\n{page}");
        }
    }

    fn get(mut stream: impl Read + Write, path: &str) -> String {
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// A daemon that answers as root's until it is told to stop.
    fn daemon() -> (Events, std::thread::JoinHandle<()>) {
        let (events, heard) = Events::new();
        let daemon = std::thread::spawn(move || {
            for event in heard {
                let DaemonEvent::Request { peer, answer, .. } = event else {
                    return;
                };
                assert!(peer.is_root());
                answer.send(Ok(Answer::Daemon(Box::new(status())))).unwrap();
            }
        });
        (events, daemon)
    }

    #[test]
    fn the_page_is_served_over_loopback_with_names_where_they_are_allowed() {
        let (events, daemon) = daemon();
        let any = Listen::Loopback("127.0.0.1:0".parse().unwrap());
        for app_names in [false, true] {
            let metrics = Metrics::serve(&any, app_names, events.clone()).unwrap();
            let address = metrics.address().unwrap();
            let get = |path: &str| get(TcpStream::connect(address).unwrap(), path);

            let answer = get("/metrics");
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            assert!(answer.contains(CONTENT_TYPE), "{answer}");
            assert!(answer.contains("warmswap_apps 1\n"), "{answer}");
            assert_eq!(answer.contains("quoted"), app_names, "{answer}");
            assert!(get("/other").starts_with("HTTP/1.1 404"));
        }

        events.tell(DaemonEvent::Stop);
        daemon.join().unwrap();
        let metrics = Metrics::serve(&any, false, events.clone()).unwrap();
        let address = metrics.address().unwrap();
        let answer = get(TcpStream::connect(address).unwrap(), "/metrics");
        assert!(answer.starts_with("HTTP/1.1 503"));
        let taken = Metrics::serve(&Listen::Loopback(address), false, events);
        let taken = taken.err().unwrap().to_string();
        assert!(taken.contains(&address.to_string()), "{taken}");
    }

    #[test]
    fn the_page_on_a_socket_file_has_names_and_is_for_root_alone() {
        let (events, daemon) = daemon();
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("metrics.sock");
        let at = Listen::Socket(path.clone());
        let metrics = Metrics::serve(&at, false, events.clone()).unwrap();

        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let answer = get(UnixStream::connect(&path).unwrap(), "/metrics");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains("quoted"), "{answer}");
        let taken = Metrics::serve(&at, false, events.clone()).err().unwrap();
        assert!(taken.to_string().contains("metrics.sock"), "{taken}");

        drop(metrics);
        assert!(!path.exists());
        events.tell(DaemonEvent::Stop);
        daemon.join().unwrap();
    }
}
