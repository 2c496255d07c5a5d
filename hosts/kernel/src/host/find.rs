//! Which processes programs have now.

use std::time::Duration;

use warmswap_sys::peer::Owned;
use warmswap_sys::process::Stat;

use super::app::{App, Watched};
use super::{Found, Host, is_due};
use crate::act::Target;
use crate::act::job::{Job, Task};
use crate::see::application::{self, Application, ProcessId};

/// So long after a switch programs hardly wait for what they read back.
const SETTLED: Duration = Duration::from_secs(5);

/// Between two rounds of writing back: each reads the mappings of programs of which more may be cold.
const WRITE_BACK_INTERVAL: Duration = Duration::from_secs(10);

impl Host {
    /// Looks for processes that began or ended.
    pub(super) fn find_processes(&mut self, now_ns: u64) {
        self.found_ns = Some(now_ns);
        let applications: Vec<&Application> = self.in_order().map(|a| &a.application).collect();
        let Ok(found) = application::find(&self.root, &applications) else {
            return;
        };
        let order = self.order.clone();
        for (at, now) in order.into_iter().zip(found) {
            let Some(app) = &mut self.apps[at] else {
                continue;
            };
            let there: Found = now.iter().copied().collect();
            let before = app.processes.len();
            app.processes.retain(|id, _| there.contains(id));
            self.counters.process_gone += (before - app.processes.len()) as u64;
            app.unreadable.retain(|id| there.contains(id));
            for id in now {
                if app.processes.contains_key(&id) || app.unreadable.contains(&id) {
                    continue;
                }
                // It stays alone for as long as it lives, whichever program it belongs to.
                if self.unanswering.contains_key(&id) {
                    app.unreadable.insert(id);
                    continue;
                }
                if !may_look(&self.root, id.pid) {
                    self.counters.process_unreadable += 1;
                    app.unreadable.insert(id);
                    continue;
                }
                let memory = app.taught.remove(&id).unwrap_or_default();
                let memory = std::sync::Arc::new(parking_lot::Mutex::new(memory));
                let user = Owned::read(&self.root, id.pid).ok();
                let user = user.map(|process| process.users[0]);
                let watched = Watched {
                    user,
                    memory,
                    pages_itself: self.self_paging.contains(&id),
                };
                if !watched.pages_itself {
                    // It may have been pushed out before.
                    self.turn.waiting.push(app.target(id, &watched));
                }
                app.processes.insert(id, watched);
            }
        }
        self.forget_gone();
        let is_alive = |id: &ProcessId| {
            let stat = Stat::read(&self.root, id.pid);
            stat.is_ok_and(|stat| stat.start_ticks == id.start_ticks)
        };
        self.unanswering.retain(|id, _| is_alive(id));
        self.self_paging.retain(is_alive);
    }

    /// Has idle pages in zram compressed anew, some time after a switch.
    pub(super) fn recompress(&mut self, now_ns: u64) {
        let Some(recompressor) = &self.recompressor else {
            return;
        };
        let interval = recompressor.interval();
        if self.is_settled(now_ns) && is_due(self.recompressed_ns, interval, now_ns) {
            self.recompressed_ns = Some(now_ns);
            recompressor.round();
        }
    }

    /// Has cold pages of programs in the background written back, the one first that was used the longest ago.
    pub(super) fn write_back(&mut self, now_ns: u64) {
        let may = self.writes_back && self.is_settled(now_ns);
        if !may || !is_due(self.written_back_ns, WRITE_BACK_INTERVAL, now_ns) {
            return;
        }
        self.written_back_ns = Some(now_ns);
        let apps = self.apps.iter_mut().flatten();
        let mut cold: Vec<&mut App> = apps
            .filter(|app| !app.is_foreground && app.may_be_cold)
            .collect();
        cold.sort_by_key(|app| app.recency());
        cold.iter_mut().for_each(|app| app.may_be_cold = false);
        let targets: Vec<Target> = cold.iter().flat_map(|app| app.targets()).collect();
        if !targets.is_empty() {
            self.bringer.push(Job::new(Task::WriteBack, targets));
        }
    }

    fn is_settled(&self, now_ns: u64) -> bool {
        is_due(self.switched_ns, SETTLED, now_ns)
    }
}

/// Whether the page table of a process may be looked at: opening it takes no lock.
fn may_look(root: &warmswap_sys::Root, pid: u32) -> bool {
    match warmswap_sys::pagemap::Pagemap::open(root, pid) {
        Ok(_) => true,
        Err(error) => error.is_gone() || error.is_exhausted(),
    }
}
