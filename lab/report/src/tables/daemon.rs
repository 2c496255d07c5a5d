//! The daemon: is it working, and is it helping?

use std::fmt::Write as _;

use serde::Serialize;
use warmswap_control::{AppStatus, DaemonStatus, Phase, RelaunchStatus};

use super::cells::{fraction, text};
use super::programs::seconds;
use crate::table::{Column, Origin, Table, TableError};
use crate::units::{Kind, Quantity, Style, counted};

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

/// Part of the pages that were touched in relaunches which did not have to come from swap; `None` when none
/// were touched.
#[must_use]
pub fn avoided_share(relaunches: &[RelaunchStatus]) -> Option<f64> {
    let sum = |value: fn(&RelaunchStatus) -> u64| relaunches.iter().map(value).sum::<u64>() as f64;
    let (faults, avoided) = (sum(|r| r.faults), sum(|r| r.faults_avoided));
    (faults + avoided > 0.0).then(|| avoided / (faults + avoided))
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
    if status.locked_file_bytes > 0 {
        let locked = Quantity::Bytes(status.locked_file_bytes).show(style);
        let _ = writeln!(
            out,
            "files: {locked} locked in memory, since programs had to read them again"
        );
    }
    if let Some(why) = &status.files_unlockable {
        let _ = writeln!(out, "files: none can be locked in memory: {why}");
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
        return "idle: this machine has no swap; write [zram0] into /etc/warmswap.conf and restart it"
            .to_owned();
    }
    let running = status.apps.iter().filter(|app| app.processes > 0);
    let unreadable: u32 = status.apps.iter().map(|app| app.unreadable_processes).sum();
    let swapped: u64 = status.apps.iter().map(|app| app.swapped_bytes).sum();
    let resident: u64 = status.apps.iter().map(AppStatus::resident_bytes).sum();
    let mut text = format!(
        "working: {}, {} resident, {} in swap; {} of memory available",
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
    } else if status.memory.missing_bytes > 0 {
        let _ = write!(text, "; {} to page out", bytes(status.memory.missing_bytes));
    }
    text
}

/// From this part of the pages on that did not have to come from swap, the daemon is held to help.
const HELPS: f64 = 0.5;

/// What the daemon has done for relaunches so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Helping {
    /// It cannot: the machine has no swap.
    NoSwap,
    /// Nothing has been swapped, so every relaunch was as fast as without it.
    NotTested,
    /// Nothing was switched to.
    NotKnown,
    /// Programs wait no longer for memory without it than with it, or hardly: it leaves all to the kernel.
    NotNeeded,
    /// Most pages that the last relaunches touched did not have to come from swap.
    Helping,
    /// Most of them had to.
    NotHelping,
}

/// Whether the daemon helps, for programs and in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// For programs.
    pub state: Helping,
    /// For people.
    pub text: String,
}

/// Whether a page of an application has ever been in swap.
fn was_swapped(status: &DaemonStatus) -> bool {
    let counted = ["page_out_done", "left_by_kernel"];
    let mut counters = counted.iter().filter_map(|name| status.counters.get(*name));
    counters.any(|&pages| pages > 0) || status.apps.iter().any(|app| app.swapped_bytes > 0)
}

/// Whether the daemon helps, as far as is known.
#[must_use]
pub fn verdict(status: &DaemonStatus, style: Style) -> Verdict {
    let show = |quantity: Quantity| quantity.show(style);
    let of = |state, text: &str| Verdict {
        state,
        text: text.to_owned(),
    };
    if status.swap.total_bytes == 0 {
        return of(Helping::NoSwap, "no: without swap it has nothing to do");
    }
    let count: u64 = status.apps.iter().map(|app| app.relaunch_count).sum();
    let is_measured = status.waits.without_daemon_seconds.is_some();
    if status.waits.stands_aside && count == 0 && !is_measured {
        let text = "not known yet: nothing was switched to so far, and it stands aside until then";
        return of(Helping::NotKnown, text);
    }
    if status.waits.stands_aside {
        return of(Helping::NotNeeded, &not_needed(status, style));
    }
    if !was_swapped(status) {
        let text = "not tested yet: nothing has been swapped";
        return of(Helping::NotTested, text);
    }
    let known: Vec<RelaunchStatus> = status
        .apps
        .iter()
        .flat_map(|app| app.relaunches.iter().copied())
        .collect();
    let verdict = |helps: bool, text: String| match helps {
        true => Verdict {
            state: Helping::Helping,
            text,
        },
        false => of(Helping::NotHelping, &format!("little: {text}")),
    };
    let measured = &status.waits;
    let waits_less = measured
        .with_daemon_seconds
        .zip(measured.without_daemon_seconds);
    let waits_less = waits_less.map(|(with, without)| with < without);
    let waits = waits(status, style);
    let launches = counted(count, "relaunch", "relaunches");
    let Some(share) = avoided_share(&known).filter(|_| count > 0) else {
        if let Some((waits, waits_less)) = waits.zip(waits_less) {
            return verdict(waits_less, format!("{launches}; {waits}"));
        }
        let text = match count {
            0 => "not known yet: nothing was switched to so far",
            _ => "not known yet: nothing is known of the pages that the last relaunches touched",
        };
        return of(Helping::NotKnown, text);
    };
    let avoided: u64 = known.iter().map(|relaunch| relaunch.faults_avoided).sum();
    let (_, used, wasted) = status.prefetch_pages();
    let (last, they) = match known.len() {
        1 => ("the last".to_owned(), "it"),
        several => (format!("the last {several}"), "they"),
    };
    let mut text = format!(
        "{launches}; in {last}, {} of the pages that {they} touched ({}) did not have to come from swap",
        show(Quantity::Fraction(share)),
        show(Quantity::Pages(avoided)),
    );
    if let Some(used) = used_share(used, wasted) {
        let used = show(Quantity::Fraction(used));
        let _ = write!(text, "; {used} of what came back early was used");
    }
    if let Some(waits) = waits {
        let _ = write!(text, "; {waits}");
    }
    verdict(waits_less.unwrap_or(share >= HELPS), text)
}

/// Why it stands aside.
fn not_needed(status: &DaemonStatus, style: Style) -> String {
    let why = match (waits(status, style), status.waits.without_daemon_seconds) {
        (Some(waits), _) => waits,
        (None, Some(without)) => format!(
            "without it programs wait {} for memory after a switch",
            seconds(without).show(style)
        ),
        (None, None) => "how long programs wait without it is being measured".to_owned(),
    };
    format!("not needed now, it stands aside: {why}")
}

/// What programs wait for memory with the daemon and without, and what it takes for that, once both are known.
fn waits(status: &DaemonStatus, style: Style) -> Option<String> {
    let waits = status.waits;
    let show = |value| seconds(value).show(style);
    let (with, without) = waits
        .with_daemon_seconds
        .zip(waits.without_daemon_seconds)?;
    let mut text = format!(
        "programs wait {} for memory after a switch, without it {}",
        show(with),
        show(without)
    );
    if let Some(cpu) = waits.daemon_cpu_seconds {
        let _ = write!(text, "; it takes {} of CPU time", show(cpu));
    }
    Some(text)
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
        Column::new("faults_avoided", "avoided", Kind::Percent),
        Column::new("prefetch_used", "used", Kind::Percent),
        Column::new("cpu_ns", "CPU", Kind::Duration),
    ];
    let mut table = Table::new("Applications", columns);
    for app in &status.apps {
        let used = used_share(app.prefetch_used_pages, app.prefetch_wasted_pages);
        table.row([
            text(&app.name),
            text(standing(app)),
            Quantity::Bytes(app.hot_bytes),
            Quantity::Bytes(app.warm_bytes),
            Quantity::Bytes(app.cold_bytes),
            Quantity::Bytes(app.swapped_bytes),
            Quantity::Bytes(app.compressed_bytes),
            Quantity::Count(app.relaunch_count),
            fraction(avoided_share(&app.relaunches)),
            fraction(used),
            seconds(app.cost_cpu_seconds),
        ])?;
    }
    table.footnote(
        "hot, warm, cold: resident anonymous memory; swapped: before compression; as: what that takes, by \
         the pool's mean. avoided: of the pages touched in the last relaunches, those that did not have to \
         come from swap; used: of the pages brought back early, those that were touched.",
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
        measured("faults", "from swap", Kind::Count),
        measured("faults_avoided", "avoided", Kind::Count),
        measured("prefetched", "prefetched", Kind::Count),
        measured("prefetch_used", "used", Kind::Count),
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
            text(app),
            seconds(relaunch.age_seconds),
            took,
            Quantity::Count(relaunch.faults),
            Quantity::Count(relaunch.faults_avoided),
            Quantity::Count(relaunch.prefetched_pages),
            Quantity::Count(relaunch.prefetch_used_pages),
        ])?;
    }
    table.footnote("Pages, but for ago and took; took: where the end was told.");
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmswap_control::{MemoryStatus, SignalStatus, SwapStatus, WaitStatus};

    fn relaunch(age_seconds: f64) -> RelaunchStatus {
        RelaunchStatus {
            age_seconds,
            latency_ns: 120_000_000,
            is_answered: age_seconds < 50.0,
            faults: 100,
            faults_avoided: 900,
            prefetched_pages: 700,
            prefetch_used_pages: 630,
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
            cost_cpu_seconds: 0.25,
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
            memory: MemoryStatus {
                total_bytes: 8 << 30,
                available_bytes: 1 << 30,
                missing_bytes: 0,
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
                "daemon: working: 2 applications, 450 MiB resident, 900 MiB in swap; 1.00 GiB of memory \
                 available (process 77, up 100 s)",
                "helping: 4 relaunches; in the last 4, 90.0 % of the pages that they touched (3,600 pages) \
                 did not have to come from swap; 90.0 % of what came back early was used",
                "cost: 0.5 % of one processor, 3.00 MiB of memory",
                "switches: heard from x11",
                "warning: something is odd",
            ]
        );
    }

    #[test]
    fn what_keeps_it_from_working_is_said_with_the_way_out() {
        let mut status = status();
        status.memory.missing_bytes = 5 << 20;
        assert!(summary(&status, Style::PLAIN).contains("5.00 MiB to page out"));
        status.swap.free_bytes = 0;
        assert!(summary(&status, Style::PLAIN).contains("swap is full"));
        status.swap.total_bytes = 0;
        assert!(summary(&status, Style::PLAIN).contains("write [zram0] into /etc/warmswap.conf"));
        assert_eq!(verdict(&status, Style::PLAIN).state, Helping::NoSwap);
    }

    #[test]
    fn help_is_claimed_only_where_something_was_swapped_and_came_back() {
        let state = |status: &DaemonStatus| verdict(status, Style::PLAIN).state;
        let mut status = status();
        assert_eq!(state(&status), Helping::Helping);
        for app in &mut status.apps {
            app.swapped_bytes = 0;
        }
        let not_tested = verdict(&status, Style::PLAIN);
        assert_eq!(not_tested.state, Helping::NotTested);
        assert_eq!(
            not_tested.text, "not tested yet: nothing has been swapped",
            "relaunches alone show nothing"
        );
        // All of it is back: it has been tested all the same.
        status.counters.insert("left_by_kernel".to_owned(), 1);
        assert_eq!(state(&status), Helping::Helping);
        for app in &mut status.apps {
            for relaunch in &mut app.relaunches {
                relaunch.faults = 2000;
            }
        }
        let little = verdict(&status, Style::PLAIN);
        assert_eq!(little.state, Helping::NotHelping);
        assert!(little.text.starts_with("little: "), "{}", little.text);
        status.apps.clear();
        assert_eq!(state(&status), Helping::NotKnown);
    }

    #[test]
    fn what_programs_wait_is_said_and_why_it_stands_aside() {
        let mut status = status();
        status.waits.without_daemon_seconds = Some(0.064);
        assert!(!summary(&status, Style::PLAIN).contains("wait"));
        status.waits.with_daemon_seconds = Some(0.0155);
        status.waits.daemon_cpu_seconds = Some(0.05);
        let wait = "programs wait 15.5 ms for memory after a switch, without it 64.0 ms; it takes 50.0 ms of CPU time";
        let helping = verdict(&status, Style::PLAIN);
        assert!(helping.text.ends_with(wait), "{helping:?}");
        assert_eq!(helping.state, Helping::Helping);
        status.waits.with_daemon_seconds = Some(0.065);
        assert_eq!(verdict(&status, Style::PLAIN).state, Helping::NotHelping);
        status.waits.with_daemon_seconds = Some(0.0155);
        let mut unseen = status.clone();
        unseen
            .apps
            .iter_mut()
            .for_each(|app| app.relaunches.clear());
        let text = verdict(&unseen, Style::PLAIN).text;
        assert_eq!(text, format!("4 relaunches; {wait}"));
        unseen.waits = WaitStatus::default();
        let text = verdict(&unseen, Style::PLAIN).text;
        assert!(text.ends_with("the last relaunches touched"), "{text}");
        status.waits.stands_aside = true;
        let aside = verdict(&status, Style::PLAIN);
        assert_eq!(aside.state, Helping::NotNeeded);
        assert_eq!(
            aside.text,
            format!("not needed now, it stands aside: {wait}")
        );
        status.waits.with_daemon_seconds = None;
        let text = verdict(&status, Style::PLAIN).text;
        assert!(
            text.ends_with("without it programs wait 64.0 ms for memory after a switch"),
            "{text}"
        );
        status.waits.without_daemon_seconds = None;
        let text = verdict(&status, Style::PLAIN).text;
        assert!(text.ends_with("is being measured"), "{text}");
        status
            .apps
            .iter_mut()
            .for_each(|app| app.relaunch_count = 0);
        let aside = verdict(&status, Style::PLAIN);
        assert_eq!(aside.state, Helping::NotKnown);
        assert!(aside.text.ends_with("until then"), "{aside:?}");
    }

    #[test]
    fn one_is_not_several() {
        let mut status = status();
        status.apps.truncate(1);
        let app = &mut status.apps[0];
        app.relaunches.truncate(1);
        app.relaunch_count = 1;
        app.unreadable_processes = 1;
        let text = summary(&status, Style::PLAIN);
        for part in [
            "working: 1 application, ",
            "1 process may not be looked at",
            "helping: 1 relaunch; in the last, 90.0 % of the pages that it touched",
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
