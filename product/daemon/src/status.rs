//! What the daemon reports, out of what its host knows.

use std::collections::BTreeMap;

use serde::Serialize;
use warmswap_control::{
    AppStatus, DaemonStatus, KEPT_RELAUNCHES, Phase, RelaunchStatus, SignalStatus, SwapStatus,
    WaitStatus,
};
use warmswap_kernel::host::Turn;
use warmswap_kernel::{HostStatus, Relaunch};

/// Applications from which on fewer relaunches of each are told, so that an answer stays short.
const MANY_APPS: usize = 64;

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
            paged_out_pages: app.paged_out,
            cost_cpu_seconds: app.cost_cpu_ns as f64 / 1e9,
            name: app.name,
        }
    };
    DaemonStatus {
        scheme: host.scheme,
        accesses_unseen: host.accesses_unseen,
        state_bytes: host.state_bytes,
        locked_file_bytes: host.locked_file_bytes,
        files_unlockable: host.files_unlockable,
        swap: SwapStatus {
            total_bytes: host.swap.total_bytes,
            free_bytes: host.swap.free_bytes,
            stored_bytes: host.swap.stored_bytes,
            pool_bytes: host.swap.pool_bytes,
            own_devices: Vec::new(),
        },
        waits: WaitStatus {
            stands_aside: host.worth.turn == Turn::Kernel,
            with_daemon_seconds: host.worth.with_host_us.map(|us| us / 1e6),
            without_daemon_seconds: host.worth.without_host_us.map(|us| us / 1e6),
            daemon_cpu_seconds: host.worth.host_cpu_us.map(|us| us / 1e6),
        },
        apps: host.apps.into_iter().map(app).collect(),
        counters: numbers(&host.counters),
        ..DaemonStatus::default()
    }
}

fn of_relaunch(relaunch: &Relaunch, now_ns: u64) -> RelaunchStatus {
    RelaunchStatus {
        age_seconds: now_ns.saturating_sub(relaunch.begin_ns) as f64 / 1e9,
        latency_ns: relaunch.latency_ns,
        is_answered: relaunch.is_answered,
        faults: relaunch.faults,
        faults_avoided: relaunch.faults_avoided,
        prefetched_pages: relaunch.prefetched,
        prefetch_used_pages: relaunch.prefetch_used,
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

/// The sources of switch signals, as they are reported.
#[derive(Debug, Default)]
pub struct Signals(BTreeMap<crate::event::Source, SignalStatus>);

impl Signals {
    /// Where a source stands.
    pub fn set(&mut self, source: crate::event::Source, state: &str, is_live: bool) {
        let signal = self.entry(source);
        signal.state = state.to_owned();
        signal.is_live = is_live;
    }

    /// It told of one more switch.
    pub fn count(&mut self, source: crate::event::Source) {
        self.entry(source).switches += 1;
    }

    /// Whether it is listened to.
    #[must_use]
    pub fn is_live(&self, source: crate::event::Source) -> bool {
        self.0.get(&source).is_some_and(|signal| signal.is_live)
    }

    /// All of them.
    #[must_use]
    pub fn list(&self) -> Vec<SignalStatus> {
        self.0.values().cloned().collect()
    }

    fn entry(&mut self, source: crate::event::Source) -> &mut SignalStatus {
        self.0.entry(source).or_insert_with(|| SignalStatus {
            name: source.name().to_owned(),
            ..SignalStatus::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_numbers_are_carried_over() {
        let relaunch = |begin_ns| Relaunch {
            begin_ns,
            latency_ns: 7,
            faults: 3,
            faults_avoided: 90,
            ..Relaunch::default()
        };
        let mut host = HostStatus {
            apps: vec![warmswap_kernel::AppStatus {
                name: "a".to_owned(),
                is_foreground: true,
                is_launching: true,
                cold_bytes: 4096,
                prefetched: 5,
                cost_cpu_ns: 2_000_000_000,
                relaunches: (1..=3).map(|at| relaunch(at * 1_000_000_000)).collect(),
                ..Default::default()
            }],
            ..HostStatus::default()
        };
        host.counters.page_out_done = 12;
        let is_discovered = |name: &str| name == "a";

        let status = of_host(host.clone(), is_discovered, 11_000_000_000);

        let app = &status.apps[0];
        assert_eq!(
            (app.phase, app.discovered, app.cold_bytes),
            (Phase::Launch, true, 4096)
        );
        assert_eq!((app.prefetched_pages, app.cost_cpu_seconds), (5, 2.0));
        assert_eq!(app.relaunches[0].age_seconds, 10.0);
        assert_eq!(app.relaunches[2].faults_avoided, 90);
        assert_eq!(status.counters["page_out_done"], 12);

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
}
