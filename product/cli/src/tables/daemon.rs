//! The daemon: is it working, and is it helping?

use std::fmt::Write as _;

use serde::Serialize;
use warmswap_protocol::{AppStatus, DaemonStatus, Phase, RelaunchStatus};

use super::programs::seconds;
use warmswap_output::table::TableError;
use warmswap_output::units::counted;
use warmswap_output::{Column, Kind, Origin, Quantity, Style, Table};

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
    let _ = writeln!(out, "helping: {}", verdict(status, style).text);
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

/// From this part of the pages on that came back and were used, the daemon is held to help.
const HELPS: f64 = 0.5;

/// What the daemon has done for relaunches so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Benefit {
    /// It cannot: the machine has no swap.
    NoSwap,
    /// Nothing has been swapped, so every relaunch was as fast as without it.
    NotTested,
    /// Nothing came back so far, or nothing of it was in a session since.
    NotKnown,
    /// Most pages that came back were used by the next session of their program.
    Helping,
    /// Most of them were not.
    NotHelping,
}

/// Whether the daemon helps, for programs and in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// For programs.
    pub state: Benefit,
    /// For people.
    pub text: String,
}

/// Whether the daemon helps, as far as is known.
#[must_use]
pub fn verdict(status: &DaemonStatus, style: Style) -> Verdict {
    let of = |state, text: &str| Verdict {
        state,
        text: text.to_owned(),
    };
    let given = &status.given_back;
    if status.swap.total_bytes == 0 {
        return of(Benefit::NoSwap, "no: without swap it has nothing to do");
    }
    let is_any_away = status.apps.iter().any(|app| app.swapped_bytes > 0);
    match status.state.as_str() {
        _ if given.bytes > 0 || given.judged_pages > 0 => {}
        "short" => {
            let text =
                "not now: programs wait for memory, and pages come back when it is free again";
            return of(Benefit::NotKnown, text);
        }
        _ if is_any_away => {
            let text = "not known yet: nothing was given back so far";
            return of(Benefit::NotKnown, text);
        }
        _ => {
            let text = "not tested yet: nothing has been swapped";
            return of(Benefit::NotTested, text);
        }
    }
    let mut text = format!(
        "gave {} back to {} in {} of idle time",
        Quantity::Bytes(given.bytes).show(style),
        counted(given.programs.into(), "program", "programs"),
        seconds(given.idle_seconds).show(style),
    );
    let wasted = given.judged_pages - given.used_pages.min(given.judged_pages);
    let Some(share) = used_share(given.used_pages, wasted) else {
        text += "; none of them was used since";
        return of(Benefit::NotKnown, &text);
    };
    let used = Quantity::Fraction(share).show(style);
    let _ = write!(text, "; their next uses touched {used} of it");
    match share >= HELPS {
        true => of(Benefit::Helping, &text),
        false => of(Benefit::NotHelping, &format!("little: {text}")),
    }
}

/// Applications, one a row.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn apps(status: &DaemonStatus) -> Result<Table, TableError> {
    let columns = vec![
        Column::new("app", "app", Kind::Text),
        Column::new("standing", "standing", Kind::Text),
        Column::new("hot_bytes", "hot", Kind::Bytes),
        Column::new("warm_bytes", "warm", Kind::Bytes),
        Column::new("cold_bytes", "cold", Kind::Bytes),
        Column::new("swapped_bytes", "swapped", Kind::Bytes).kept(),
        Column::new("compressed_bytes", "as", Kind::Bytes),
        Column::new("relaunches", "launches", Kind::Count),
        Column::new("given_back", "back", Kind::Pages),
        Column::new("prefetch_used", "used", Kind::Percent),
    ];
    let mut table = Table::new("Applications", columns);
    for app in &status.apps {
        let used = used_share(app.prefetch_used_pages, app.prefetch_wasted_pages);
        table.row([
            Quantity::text(&app.name),
            Quantity::text(standing(app)),
            Quantity::Bytes(app.hot_bytes),
            Quantity::Bytes(app.warm_bytes),
            Quantity::Bytes(app.cold_bytes),
            Quantity::Bytes(app.swapped_bytes),
            Quantity::Bytes(app.compressed_bytes),
            Quantity::Count(app.relaunch_count),
            Quantity::Pages(app.prefetched_pages),
            super::fraction(used),
        ])?;
    }
    table.footnote(
        "hot, warm, cold: resident anonymous memory; swapped: before compression; as: what that takes, by \
         the pool's mean. back: brought back in idle time and at switches; used: of that, what the next session \
         touched.",
    );
    Ok(table)
}

/// The last relaunches of all applications, the youngest first, one a row, at most `rows`.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn relaunches(status: &DaemonStatus, rows: usize) -> Result<Table, TableError> {
    let measured = |key, title, kind| Column::new(key, title, kind).from(Origin::Measured);
    let columns = vec![
        Column::new("app", "application", Kind::Text),
        measured("age_ns", "ago", Kind::Duration),
        measured("latency_ns", "took", Kind::Duration),
        measured("faults", "major faults", Kind::Count),
        measured("prefetched", "read ahead", Kind::Count),
    ];
    let mut table = Table::new("Last relaunches", columns);
    let mut all: Vec<(&str, &RelaunchStatus)> = status
        .apps
        .iter()
        .flat_map(|app| {
            app.relaunches
                .iter()
                .map(|relaunch| (app.name.as_str(), relaunch))
        })
        .collect();
    all.sort_by(|(_, a), (_, b)| a.age_seconds.total_cmp(&b.age_seconds));
    for (app, relaunch) in all.into_iter().take(rows) {
        let took = if relaunch.is_answered {
            Quantity::nanoseconds(relaunch.latency_ns)
        } else {
            Quantity::Missing
        };
        table.row([
            Quantity::text(app),
            seconds(relaunch.age_seconds),
            took,
            Quantity::Count(relaunch.faults),
            Quantity::Count(relaunch.prefetched_pages),
        ])?;
    }
    table.footnote(
        "took: where the end was told; read ahead: pages that were asked for at the switch.",
    );
    Ok(table)
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
            given_back: GivenBack {
                bytes: 742 << 20,
                programs: 5,
                idle_seconds: 3.1,
                judged_pages: 1000,
                used_pages: 970,
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
        status.swap.free_bytes = 0;
        assert!(summary(&status, Style::PLAIN).contains("swap is full"));
        status.swap.total_bytes = 0;
        assert!(summary(&status, Style::PLAIN).contains("write [zram0] into /etc/warmswap.toml"));
        assert_eq!(verdict(&status, Style::PLAIN).state, Benefit::NoSwap);
    }

    #[test]
    fn help_is_claimed_only_where_something_came_back_and_was_used() {
        let mut status = status();
        let state = |status: &DaemonStatus| verdict(status, Style::PLAIN).state;
        assert_eq!(state(&status), Benefit::Helping);
        status.given_back.used_pages = 100;
        let little = verdict(&status, Style::PLAIN);
        assert_eq!(little.state, Benefit::NotHelping);
        assert!(little.text.starts_with("little: "), "{}", little.text);
        (status.given_back.judged_pages, status.given_back.used_pages) = (0, 0);
        let unused = verdict(&status, Style::PLAIN);
        assert_eq!(unused.state, Benefit::NotKnown);
        assert!(unused.text.ends_with("used since"), "{}", unused.text);

        status.given_back = GivenBack::default();
        status.state = "short".to_owned();
        let short = verdict(&status, Style::PLAIN);
        assert!(short.text.starts_with("not now: "), "{}", short.text);
        status.state = "calm".to_owned();
        assert_eq!(state(&status), Benefit::NotKnown);
        status.apps.iter_mut().for_each(|app| app.swapped_bytes = 0);
        assert_eq!(state(&status), Benefit::NotTested);
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
        let table = apps(&status()).unwrap().json();
        let rows = table["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 3);
        let text = apps(&status()).unwrap().text(Style::PLAIN);
        assert!(text.contains("absent") && text.contains("launch"), "{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );

        let relaunches = relaunches(&status(), 3).unwrap();
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
