//! Metrics for Prometheus, on the loopback interface.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use tiny_http::{Header, Method, Request as HttpRequest, Response, Server};
use warmswap_control::{Answer, AppStatus, DaemonStatus, Peer, Phase, Request};

use crate::event::Events;

/// What the page is.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The page cannot be served.
#[derive(Debug, thiserror::Error)]
#[error("metrics: cannot listen on {address}: {source}")]
pub struct MetricsError {
    /// Where.
    pub address: SocketAddr,
    /// Why.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// The thread that serves `/metrics`. Dropping it ends the thread.
pub struct Metrics {
    server: Arc<Server>,
    thread: Option<JoinHandle<()>>,
}

impl Metrics {
    /// Serves what the daemon behind `events` knows. Each request asks it once.
    ///
    /// # Errors
    /// [`MetricsError`].
    pub fn serve(address: SocketAddr, events: Events) -> Result<Self, MetricsError> {
        let failed = |source| MetricsError { address, source };
        let server = Arc::new(Server::http(address).map_err(failed)?);
        let serving = Arc::clone(&server);
        let serve = move || {
            for request in serving.incoming_requests() {
                answer(request, &events);
            }
        };
        let thread = std::thread::Builder::new().name("metrics".to_owned());
        let thread = thread.spawn(serve).map_err(|error| failed(error.into()))?;
        Ok(Self {
            server,
            thread: Some(thread),
        })
    }

    /// Where it is served: the port that was chosen, where port 0 was asked for.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.server.server_addr().to_ip()
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.server.unblock();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(request: HttpRequest, events: &Events) {
    let said = |status, text: String, kind: &str| {
        let response = Response::from_string(text).with_status_code(status);
        match Header::from_bytes("Content-Type", kind) {
            Ok(header) => response.with_header(header),
            Err(()) => response,
        }
    };
    let plain = "text/plain; charset=utf-8";
    let response = match (request.method(), request.url()) {
        (Method::Get | Method::Head, "/metrics") => match events.ask(Peer::ROOT, Request::Daemon) {
            Ok(Answer::Daemon(status)) => said(200, page(&status), CONTENT_TYPE),
            Ok(_) => said(500, "the daemon gave another answer\n".to_owned(), plain),
            Err(refusal) => said(503, format!("{refusal}\n"), plain),
        },
        _ => said(404, "the page is /metrics\n".to_owned(), plain),
    };
    // Whoever asked may have gone.
    let _ = request.respond(response);
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
pub fn page(status: &DaemonStatus) -> String {
    let mut registry = Registry::with_prefix("warmswap");
    machine(status, &mut registry);
    applications(&status.apps, &mut registry);
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

fn applications(apps: &[AppStatus], registry: &mut Registry) {
    let memory = Family::<AppMemory, Gauge>::default();
    let help =
        "Anonymous memory of an application: resident by hotness, swapped out, and what that takes";
    registry.register_with_unit("app_memory", help, Unit::Bytes, memory.clone());
    let foreground = Family::<App, Gauge>::default();
    let help = "1 for the application that is looked at";
    registry.register("app_foreground", help, foreground.clone());
    let latency = Family::<App, Gauge<f64, std::sync::atomic::AtomicU64>>::default();
    let help = "From the switch to the end of the last relaunch";
    registry.register_with_unit("app_last_relaunch", help, Unit::Seconds, latency.clone());
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
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;
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
        let page = page(&status());
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
        let page = page(&status());
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

    fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn the_page_is_served_over_loopback() {
        let (events, heard) = Events::new();
        let daemon = std::thread::spawn(move || {
            for event in heard {
                let DaemonEvent::Request { answer, .. } = event else {
                    return;
                };
                answer.send(Ok(Answer::Daemon(Box::new(status())))).unwrap();
            }
        });
        let metrics = Metrics::serve("127.0.0.1:0".parse().unwrap(), events.clone()).unwrap();
        let address = metrics.address().unwrap();

        let answer = get(address, "/metrics");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains(CONTENT_TYPE), "{answer}");
        assert!(answer.contains("warmswap_apps 1\n"), "{answer}");
        assert!(get(address, "/other").starts_with("HTTP/1.1 404"));

        events.tell(DaemonEvent::Stop);
        daemon.join().unwrap();
        assert!(get(address, "/metrics").starts_with("HTTP/1.1 503"));
        let taken = Metrics::serve(address, events).err().unwrap();
        assert!(taken.to_string().contains(&address.to_string()), "{taken}");
    }
}
