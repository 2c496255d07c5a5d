//! What the daemon reports, out of what its host knows.

use std::collections::BTreeMap;
use std::time::Instant;

use serde::Serialize;
use warmswap_kernel::status::Unanswering;
use warmswap_kernel::{HostStatus, Relaunch, State};
use warmswap_protocol::{
    AppStatus, DaemonStatus, GivenBack, KEPT_RELAUNCHES, Peer, Phase, RelaunchStatus, SignalStatus,
    SwapStatus, Verdict,
};

use crate::event::Source;

/// Applications from which on fewer relaunches of each are told, so that an answer stays short.
const MANY_APPS: usize = 64;

/// From this part of the pages on that came back and were used, the daemon is held to help.
const HELPS: f64 = 0.5;

/// What the host knows, at the time `now_ns` of the monotonic clock. What only the daemon knows is left out:
/// process, version, times, memory and signals.
#[must_use]
pub fn of_host(
    host: HostStatus,
    is_discovered: impl Fn(&str) -> bool,
    now_ns: u64,
) -> DaemonStatus {
    let kept = if host.apps.len() > MANY_APPS {
        2
    } else {
        KEPT_RELAUNCHES
    };
    let app = |app: warmswap_kernel::AppStatus| {
        let skipped = app.relaunches.len().saturating_sub(kept);
        let relaunches = app.relaunches.iter().skip(skipped);
        AppStatus {
            phase: match app {
                _ if app.is_launching => Phase::Launch,
                _ if app.is_foreground => Phase::Foreground,
                _ => Phase::Background,
            },
            discovered: is_discovered(&app.name),
            processes: app.processes,
            unreadable_processes: app.unreadable_processes,
            hot_bytes: app.hot_bytes,
            warm_bytes: app.warm_bytes,
            cold_bytes: app.cold_bytes,
            swapped_bytes: app.swapped_bytes,
            compressed_bytes: app.compressed_bytes,
            relaunch_count: app.relaunch_count,
            relaunches: relaunches
                .map(|relaunch| of_relaunch(relaunch, now_ns))
                .collect(),
            prefetched_pages: app.prefetched,
            prefetch_used_pages: app.prefetch_used,
            prefetch_wasted_pages: app.prefetch_wasted,
            name: app.name,
        }
    };
    DaemonStatus {
        state: host.state.name().to_owned(),
        verdict: verdict(&host),
        given_back: GivenBack {
            bytes: host.given_back.bytes,
            programs: host.given_back.programs,
            idle_seconds: host.given_back.idle_ns as f64 / 1e9,
            judged_pages: host.given_back.judged_pages,
            used_pages: host.given_back.used_pages,
            opened_bytes: host.given_back.opened_bytes,
        },
        unanswering: host.unanswering.iter().map(named).collect(),
        accesses_unseen: host.accesses_unseen,
        read_ahead_refused: host.read_ahead_refused,
        openings_unseen: host.openings_unseen,
        state_bytes: host.state_bytes,
        swap: SwapStatus {
            total_bytes: host.swap.total_bytes,
            free_bytes: host.swap.free_bytes,
            stored_bytes: host.swap.stored_bytes,
            pool_bytes: host.swap.pool_bytes,
            own_devices: Vec::new(),
        },
        apps: host.apps.into_iter().map(app).collect(),
        counters: numbers(&host.counters),
        ..DaemonStatus::default()
    }
}

fn named(process: &Unanswering) -> String {
    format!("{} ({})", process.name, process.pid)
}

fn verdict(host: &HostStatus) -> Verdict {
    let given = &host.given_back;
    let came_back = given.bytes > 0 || given.judged_pages > 0;
    if host.swap.total_bytes == 0 {
        Verdict::NoSwap
    } else if came_back && given.judged_pages == 0 {
        Verdict::NotUsed
    } else if came_back && given.used_pages as f64 >= HELPS * given.judged_pages as f64 {
        Verdict::Helping
    } else if came_back {
        Verdict::NotHelping
    } else if host.state == State::Short {
        Verdict::NotNow
    } else if host.apps.iter().any(|app| app.swapped_bytes > 0) {
        Verdict::NotKnown
    } else {
        Verdict::NotTested
    }
}

fn of_relaunch(relaunch: &Relaunch, now_ns: u64) -> RelaunchStatus {
    RelaunchStatus {
        age_seconds: now_ns.saturating_sub(relaunch.begin_ns) as f64 / 1e9,
        latency_ns: relaunch.latency_ns,
        is_answered: relaunch.is_answered,
        faults: relaunch.faults,
        prefetched_pages: relaunch.prefetched,
    }
}

/// The fields of a struct of numbers, by name.
fn numbers(counters: &impl Serialize) -> BTreeMap<String, u64> {
    // A struct of numbers is always an object of numbers.
    let value = serde_json::to_value(counters).unwrap_or_default();
    let fields = value.as_object().into_iter().flatten();
    fields
        .filter_map(|(name, number)| Some((name.clone(), number.as_u64()?)))
        .collect()
}

/// Longest state of a source that is shown, in bytes.
const MAX_STATE_BYTES: usize = 300;

/// A source of switch signals.
#[derive(Debug, Default)]
struct Signal {
    /// Where it stands, for people.
    state: String,
    /// It counts as listened to until then; `None` where it is not.
    live_until: Option<Instant>,
    /// It is listened to for as long as the daemon runs.
    is_always_live: bool,
    /// Switches that it told.
    switches: u64,
}

impl Signal {
    fn is_live(&self, now: Instant) -> bool {
        self.is_always_live || self.live_until.is_some_and(|until| now < until)
    }
}

/// The sources of switch signals, as they are reported.
#[derive(Debug, Default)]
pub struct Signals(BTreeMap<Source, Signal>);

impl Signals {
    /// Where a source stands, as a user says, and until when it counts as listened to.
    pub fn set(&mut self, source: Source, state: &str, live_until: Option<Instant>) {
        let signal = self.0.entry(source).or_default();
        signal.state = shown(state);
        signal.live_until = live_until;
    }

    /// A source told something: it counts as listened to until then.
    pub fn hear(&mut self, source: Source, live_until: Instant) {
        self.0.entry(source).or_default().live_until = Some(live_until);
    }

    /// Whether a source counts as listened to.
    #[must_use]
    pub fn is_live(&self, source: Source, now: Instant) -> bool {
        self.0
            .get(&source)
            .is_some_and(|signal| signal.is_live(now))
    }

    /// A source that is listened to for as long as the daemon runs.
    pub fn set_always(&mut self, source: Source, state: &str) {
        let signal = self.0.entry(source).or_default();
        state.clone_into(&mut signal.state);
        signal.is_always_live = true;
    }

    /// It told of one more switch.
    pub fn count(&mut self, source: Source) {
        self.0.entry(source).or_default().switches += 1;
    }

    /// The users whose windows are followed.
    pub fn followed(&self, now: Instant) -> impl Iterator<Item = u32> {
        let live = self.0.iter().filter(move |(_, signal)| signal.is_live(now));
        live.filter_map(|(source, _)| source.user())
    }

    /// All of them that this user may hear of: the machine's, and own ones; root of all, with the user's number.
    #[must_use]
    pub fn list(&self, peer: Peer, now: Instant) -> Vec<SignalStatus> {
        let status = |(source, signal): (&Source, &Signal)| {
            let other = source.user().filter(|&user| user != peer.user);
            if other.is_some() && !peer.is_root() {
                return None;
            }
            let name = source.name();
            Some(SignalStatus {
                name: other
                    .map_or_else(|| name.to_owned(), |user| format!("{name} of user {user}")),
                state: signal.state.clone(),
                is_live: signal.is_live(now),
                switches: signal.switches,
            })
        };
        self.0.iter().filter_map(status).collect()
    }
}

/// A user's text as a terminal of another user can be sent it: short, and without control characters.
fn shown(text: &str) -> String {
    let mut end = text.len().min(MAX_STATE_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let fit = |c: char| if c.is_control() { '?' } else { c };
    text[..end].chars().map(fit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use warmswap_protocol::WindowSystem;

    #[test]
    fn the_hosts_numbers_are_carried_over() {
        let relaunch = |begin_ns| Relaunch {
            begin_ns,
            latency_ns: 7,
            faults: 3,
            ..Relaunch::default()
        };
        let mut host = HostStatus {
            apps: vec![warmswap_kernel::AppStatus {
                name: "a".to_owned(),
                is_foreground: true,
                is_launching: true,
                cold_bytes: 4096,
                prefetched: 5,
                relaunches: (1..=3).map(|at| relaunch(at * 1_000_000_000)).collect(),
                ..Default::default()
            }],
            ..HostStatus::default()
        };
        host.counters.brought_pages = 12;
        host.given_back.idle_ns = 3_100_000_000;
        let is_discovered = |name: &str| name == "a";

        let status = of_host(host.clone(), is_discovered, 11_000_000_000);

        let app = &status.apps[0];
        assert_eq!(
            (app.phase, app.discovered, app.cold_bytes),
            (Phase::Launch, true, 4096)
        );
        assert_eq!(app.prefetched_pages, 5);
        assert_eq!(status.given_back.idle_seconds, 3.1);
        assert_eq!(app.relaunches[0].age_seconds, 10.0);
        assert_eq!(app.relaunches[2].faults, 3);
        assert_eq!(status.counters["brought_pages"], 12);

        host.apps = vec![host.apps[0].clone(); MANY_APPS + 1];
        host.apps[1].is_launching = false;
        host.apps[2].is_foreground = false;
        host.apps[2].is_launching = false;
        let status = of_host(host, is_discovered, 11_000_000_000);
        let phases = [0, 1, 2].map(|at: usize| status.apps[at].phase);
        assert_eq!(
            phases,
            [Phase::Launch, Phase::Foreground, Phase::Background]
        );
        assert_eq!(status.apps[0].relaunches.len(), 2, "the last ones");
        assert_eq!(status.apps[0].relaunches[1].age_seconds, 8.0);
    }

    #[test]
    fn help_is_claimed_only_where_something_came_back_and_was_used() {
        let mut host = HostStatus::default();
        let of = |host: &HostStatus| of_host(host.clone(), |_| false, 0).verdict;
        assert_eq!(of(&host), Verdict::NoSwap);
        host.swap.total_bytes = 4 << 30;
        assert_eq!(of(&host), Verdict::NotTested);
        host.apps = vec![warmswap_kernel::AppStatus {
            swapped_bytes: 4096,
            ..Default::default()
        }];
        assert_eq!(of(&host), Verdict::NotKnown);
        host.state = State::Short;
        assert_eq!(of(&host), Verdict::NotNow);
        host.given_back.bytes = 4096;
        assert_eq!(of(&host), Verdict::NotUsed);
        let mut judged = |used_pages| {
            host.given_back.judged_pages = 100;
            host.given_back.used_pages = used_pages;
            of(&host)
        };
        assert_eq!(judged(49), Verdict::NotHelping);
        assert_eq!(judged(50), Verdict::Helping);
    }

    #[test]
    fn a_source_is_live_until_its_time_has_passed() {
        let mut signals = Signals::default();
        let (x11, now) = (Source::Windows(WindowSystem::X11, 7), Instant::now());
        let until = now + Duration::from_secs(90);
        signals.set(x11, "display :0", Some(until));
        signals.set_always(Source::Command, "commands");
        let followed = |signals: &Signals, now| signals.followed(now).collect::<Vec<_>>();
        assert_eq!(followed(&signals, now), [7]);
        assert_eq!(followed(&signals, until), [0; 0]);
        assert!(signals.list(Peer::ROOT, until)[0].is_live, "commands");
        signals.set(x11, "closed", None);
        assert_eq!(followed(&signals, now), [0; 0]);
    }

    #[test]
    fn users_have_sources_of_their_own_and_hear_of_no_others() {
        let (mut signals, now) = (Signals::default(), Instant::now());
        let x11 = |user| Source::Windows(WindowSystem::X11, user);
        signals.set_always(Source::Command, "commands");
        signals.set(x11(7), "display :0", Some(now));
        signals.set(x11(8), "display :1", None);
        signals.count(x11(8));
        let list = |user| {
            let list = signals.list(Peer { user }, now).into_iter();
            list.map(|signal| (signal.name, signal.state, signal.switches))
                .collect::<Vec<_>>()
        };
        let is = |name: &str, state: &str, switches| (name.to_owned(), state.to_owned(), switches);
        let command = is("command", "commands", 0);
        assert_eq!(list(7), [command.clone(), is("x11", "display :0", 0)]);
        assert_eq!(list(8), [command.clone(), is("x11", "display :1", 1)]);
        assert_eq!(list(9), std::slice::from_ref(&command));
        let all = [
            command,
            is("x11 of user 7", "display :0", 0),
            is("x11 of user 8", "display :1", 1),
        ];
        assert_eq!(list(0), all);
    }

    #[test]
    fn text_of_a_user_is_made_fit_to_be_shown() {
        let text = shown(&format!("\u{1b}[2J\n{}", "é".repeat(5000)));
        assert!(text.starts_with("?[2J?é"), "{text}");
        assert!(text.len() <= MAX_STATE_BYTES);
    }
}
