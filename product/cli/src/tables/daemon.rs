//! The daemon: is it working, and is it helping?

use std::fmt::Write as _;

use warmswap_protocol::{AppStatus, DaemonStatus, Phase, RelaunchStatus, Verdict};

use super::programs::seconds;
use warmswap_columns::{Described, Value as _};
use warmswap_output::units::counted;
use warmswap_output::{Kind, Quantity, Style, Table};
use warmswap_page::PAGE_BYTES;

/// Where an application stands, in a word.
#[must_use]
pub fn standing(app: &AppStatus) -> &'static str {
    match app.phase {
        _ if app.processes == 0 => "absent",
        Phase::Foreground => "foreground",
        Phase::Launch => "launch",
        Phase::Background => "background",
    }
}

fn used_share(used: u64, wasted: u64) -> Option<f64> {
    (used + wasted > 0).then(|| used as f64 / (used + wasted) as f64)
}

/// The daemon in a few lines: whether it works, whether it helps, what is wrong. Each ends with a newline.
#[must_use]
pub fn summary(status: &DaemonStatus, style: Style) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "daemon: {} (process {}, up {})",
        working(status, style),
        status.pid,
        seconds(status.uptime_seconds).show(style)
    );
    let _ = writeln!(out, "helping: {}", helping(status, style));
    for (name, line) in [
        ("files", files(status, style)),
        ("cold", cold(status, style)),
    ] {
        if let Some(line) = line {
            let _ = writeln!(out, "{name}: {line}");
        }
    }
    let cost = status.cpu_seconds / status.uptime_seconds.max(1.0);
    let _ = writeln!(
        out,
        "cost: {} of one processor, {} of memory",
        Quantity::Fraction(cost).show(style),
        Quantity::Bytes(status.state_bytes).show(style)
    );
    if !status.unanswering.is_empty() {
        let count = status.unanswering.len() as u64;
        let processes = counted(count, "process does not answer", "processes do not answer");
        let names = status.unanswering.join(", ");
        let _ = writeln!(out, "left alone: {processes}: {names}");
    }
    let live: Vec<&str> = status
        .signals
        .iter()
        .filter(|signal| signal.is_live)
        .map(|signal| signal.name.as_str())
        .collect();
    let _ = writeln!(out, "switches: heard from {}", live.join(", "));
    if let Some(why) = &status.read_ahead_refused {
        let _ = writeln!(out, "at switches: nothing is read in bulk: {why}");
    }
    for warning in &status.warnings {
        let _ = writeln!(out, "warning: {warning}");
    }
    out
}

fn working(status: &DaemonStatus, style: Style) -> String {
    let bytes = |value| Quantity::Bytes(value).show(style);
    let swap = &status.swap;
    if swap.total_bytes == 0 {
        return "idle: this machine has no swap; write [zram0] into /etc/warmswap.toml and restart it"
            .to_owned();
    }
    let running = status.apps.iter().filter(|app| app.processes > 0);
    let unreadable: u32 = status.apps.iter().map(|app| app.unreadable_processes).sum();
    let swapped: u64 = status.apps.iter().map(|app| app.swapped_bytes).sum();
    let resident: u64 = status.apps.iter().map(AppStatus::resident_bytes).sum();
    let mut text = format!(
        "working: {}; {}, {} resident, {} in swap; {} of memory available",
        status.state,
        counted(running.count() as u64, "application", "applications"),
        bytes(resident),
        bytes(swapped),
        bytes(status.memory.available_bytes),
    );
    if unreadable > 0 {
        let processes = counted(unreadable.into(), "process", "processes");
        let _ = write!(text, "; {processes} may not be looked at");
    }
    if swap.free_bytes == 0 {
        text += "; swap is full, so that nothing can leave";
    }
    text
}

/// Files whose pages came back without being mapped.
fn files(status: &DaemonStatus, style: Style) -> Option<String> {
    if let Some(why) = &status.openings_unseen {
        return Some(format!("the kernel does not tell which are opened: {why}"));
    }
    let bytes = Some(status.given_back.opened_bytes).filter(|&bytes| bytes > 0)?;
    let bytes = Quantity::Bytes(bytes).show(style);
    Some(format!("read {bytes} of those that programs use"))
}

/// What went from zram to the disk behind it.
fn cold(status: &DaemonStatus, style: Style) -> Option<String> {
    let count = |name: &str| status.counters.get(name).copied().unwrap_or(0);
    let (pages, refused) = (count("written_back_pages"), count("write_back_refused"));
    if pages == 0 && refused == 0 {
        return None;
    }
    let bytes = Quantity::Bytes(pages * PAGE_BYTES as u64).show(style);
    let mut text =
        format!("wrote {bytes} that recent uses left alone from zram to the disk behind it");
    if refused > 0 {
        text += "; the disk took no more: it is full, or its budget of writes is used up";
    }
    Some(text)
}

/// Whether the daemon helps, and what it gave back.
fn helping(status: &DaemonStatus, style: Style) -> String {
    let given = &status.given_back;
    let gave = format!(
        "gave {} back to {} in {} of idle time",
        Quantity::Bytes(given.bytes).show(style),
        counted(given.programs.into(), "program", "programs"),
        seconds(given.idle_seconds).show(style),
    );
    let wasted = given.judged_pages.saturating_sub(given.used_pages);
    let used = used_share(given.used_pages, wasted).quantity(Kind::Percent);
    let used = used.show(style);
    match status.verdict {
        Verdict::NoSwap => "no: without swap it has nothing to do".to_owned(),
        Verdict::NotTested => "not tested yet: nothing has been swapped".to_owned(),
        Verdict::NotNow => {
            "not now: programs wait for memory, and pages come back when it is free again"
                .to_owned()
        }
        Verdict::NotKnown => "not known yet: nothing was given back so far".to_owned(),
        Verdict::NotUsed => format!("{gave}; none of them was used since"),
        Verdict::Helping => format!("{gave}; their next uses touched {used} of it"),
        Verdict::NotHelping => format!("little: {gave}; their next uses touched {used} of it"),
    }
}

/// A row of the applications.
#[derive(Described)]
#[column(app = self.0.name, text)]
#[column(standing = standing(self.0), text)]
#[column(hot_bytes = self.0.hot_bytes)]
#[column(warm_bytes = self.0.warm_bytes)]
#[column(cold_bytes = self.0.cold_bytes)]
#[column(swapped_bytes = self.0.swapped_bytes, kept)]
#[column(compressed_bytes = self.0.compressed_bytes, "as")]
#[column(relaunches = self.0.relaunch_count, count, "launches")]
#[column(given_back = self.0.prefetched_pages, pages, "back")]
#[column(
    prefetch_used = used_share(self.0.prefetch_used_pages, self.0.prefetch_wasted_pages),
    percent,
    "used"
)]
struct AppRow<'a>(&'a AppStatus);

/// Applications, one a row.
#[must_use]
pub fn apps(status: &DaemonStatus) -> Table {
    Table::of("Applications", status.apps.iter().map(AppRow)).note(
        "hot, warm, cold: resident anonymous memory; swapped: before compression; as: what that takes, by \
         the pool's mean. back: brought back in idle time and at switches; used: of that, what the next session \
         touched.",
    )
}

/// A row of the last relaunches.
#[derive(Described)]
#[column(age_ns = self.of.age_seconds * 1e9, "ago", measured)]
#[column(latency_ns = self.of.is_answered.then_some(self.of.latency_ns), "took", measured)]
#[column(faults = self.of.faults, count, "major faults", measured)]
#[column(prefetched = self.of.prefetched_pages, count, "read ahead", measured)]
struct RelaunchRow<'a> {
    #[column(text, "application")]
    app: &'a str,
    of: &'a RelaunchStatus,
}

/// The last relaunches of all applications, the youngest first, one a row, at most `most`.
#[must_use]
pub fn relaunches(status: &DaemonStatus, most: usize) -> Table {
    let mut rows = Vec::new();
    for app in &status.apps {
        let row = |of| RelaunchRow { app: &app.name, of };
        rows.extend(app.relaunches.iter().map(row));
    }
    rows.sort_by(|a, b| a.of.age_seconds.total_cmp(&b.of.age_seconds));
    rows.truncate(most);
    Table::of("Last relaunches", &rows)
        .note("took: where the end was told; read ahead: pages that were asked for at the switch.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmswap_protocol::{GivenBack, MemoryStatus, SignalStatus, SwapStatus};

    fn relaunch(age_seconds: f64) -> RelaunchStatus {
        RelaunchStatus {
            age_seconds,
            latency_ns: 120_000_000,
            is_answered: age_seconds < 50.0,
            faults: 100,
            prefetched_pages: 700,
        }
    }

    fn status() -> DaemonStatus {
        let app = |name: &str, phase| AppStatus {
            name: name.to_owned(),
            phase,
            processes: 2,
            hot_bytes: 100 << 20,
            cold_bytes: 50 << 20,
            swapped_bytes: 300 << 20,
            compressed_bytes: 100 << 20,
            relaunch_count: 2,
            relaunches: vec![relaunch(60.0), relaunch(10.0)],
            prefetch_used_pages: 630,
            prefetch_wasted_pages: 70,
            ..AppStatus::default()
        };
        let mut gone = app("gone", Phase::Background);
        gone.processes = 0;
        gone.relaunches.clear();
        gone.relaunch_count = 0;
        DaemonStatus {
            pid: 77,
            uptime_seconds: 100.0,
            cpu_seconds: 0.5,
            state_bytes: 3 << 20,
            state: "rest".to_owned(),
            verdict: Verdict::Helping,
            given_back: GivenBack {
                bytes: 742 << 20,
                programs: 5,
                idle_seconds: 3.1,
                judged_pages: 1000,
                used_pages: 970,
                opened_bytes: 120 << 20,
            },
            memory: MemoryStatus {
                total_bytes: 8 << 30,
                available_bytes: 1 << 30,
            },
            swap: SwapStatus {
                total_bytes: 4 << 30,
                free_bytes: 3 << 30,
                ..SwapStatus::default()
            },
            apps: vec![
                app("web", Phase::Launch),
                app("edit", Phase::Background),
                gone,
            ],
            signals: vec![
                SignalStatus {
                    name: "x11".to_owned(),
                    is_live: true,
                    ..SignalStatus::default()
                },
                SignalStatus {
                    name: "sway".to_owned(),
                    ..SignalStatus::default()
                },
            ],
            warnings: vec!["something is odd".to_owned()],
            counters: [("written_back_pages".to_owned(), 512)].into(),
            ..DaemonStatus::default()
        }
    }

    #[test]
    fn whether_it_works_and_helps_is_said_in_lines() {
        let text = summary(&status(), Style::PLAIN);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "daemon: working: rest; 2 applications, 450 MiB resident, 900 MiB in swap; 1.00 GiB of memory \
                 available (process 77, up 100 s)",
                "helping: gave 742 MiB back to 5 programs in 3.10 s of idle time; their next uses touched 97.0 % of it",
                "files: read 120 MiB of those that programs use",
                "cold: wrote 2.00 MiB that recent uses left alone from zram to the disk behind it",
                "cost: 0.5 % of one processor, 3.00 MiB of memory",
                "switches: heard from x11",
                "warning: something is odd",
            ]
        );
    }

    #[test]
    fn what_keeps_it_from_working_is_said_with_the_way_out() {
        let mut status = status();
        status.unanswering = vec!["web (17)".to_owned()];
        let text = summary(&status, Style::PLAIN);
        let line = "left alone: 1 process does not answer: web (17)";
        assert!(text.lines().any(|found| found == line), "{text}");
        status.read_ahead_refused = Some("the kernel is old".to_owned());
        let text = summary(&status, Style::PLAIN);
        let line = "at switches: nothing is read in bulk: the kernel is old";
        assert!(text.lines().any(|found| found == line), "{text}");
        status.openings_unseen = Some("it is older".to_owned());
        let text = summary(&status, Style::PLAIN);
        let line = "files: the kernel does not tell which are opened: it is older";
        assert!(text.lines().any(|found| found == line), "{text}");
        status.swap.free_bytes = 0;
        assert!(summary(&status, Style::PLAIN).contains("swap is full"));
        status.swap.total_bytes = 0;
        assert!(summary(&status, Style::PLAIN).contains("write [zram0] into /etc/warmswap.toml"));
    }

    #[test]
    fn the_verdict_is_told_in_words() {
        let mut status = status();
        let mut said = |verdict| {
            status.verdict = verdict;
            helping(&status, Style::PLAIN)
        };
        for (verdict, begin, end) in [
            (Verdict::NoSwap, "no: ", "nothing to do"),
            (Verdict::NotTested, "not tested yet: ", "swapped"),
            (Verdict::NotNow, "not now: ", "free again"),
            (Verdict::NotKnown, "not known yet: ", "so far"),
            (Verdict::NotUsed, "gave 742 MiB back", "used since"),
            (
                Verdict::Helping,
                "gave 742 MiB back",
                "touched 97.0 % of it",
            ),
            (Verdict::NotHelping, "little: gave", "touched 97.0 % of it"),
        ] {
            let text = said(verdict);
            assert!(text.starts_with(begin) && text.ends_with(end), "{text}");
        }
    }

    #[test]
    fn one_is_not_several() {
        let mut status = status();
        status.apps.truncate(1);
        status.given_back.programs = 1;
        status.apps[0].unreadable_processes = 1;
        let text = summary(&status, Style::PLAIN);
        for part in [
            "working: rest; 1 application, ",
            "1 process may not be looked at",
            "helping: gave 742 MiB back to 1 program in",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn applications_and_relaunches_are_rows() {
        let table = apps(&status()).json();
        let rows = table["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 3);
        let text = apps(&status()).text(Style::PLAIN);
        assert!(text.contains("absent") && text.contains("launch"), "{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );

        let relaunches = relaunches(&status(), 3);
        assert_eq!(relaunches.row_count(), 3);
        let text = relaunches.text(Style::PLAIN);
        let first = text
            .lines()
            .find(|line| line.contains("web") || line.contains("edit"));
        assert!(
            first.unwrap().contains("10.0 s"),
            "the youngest first: {text}"
        );
    }
}
