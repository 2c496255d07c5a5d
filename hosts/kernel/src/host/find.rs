//! Which processes applications have now: new ones are watched, and what is known of those that ended is given up.

use std::time::Duration;

use rustc_hash::FxHashSet;

use super::app::{App, addr};
use super::core::{Core, Sight};
use super::reclaim::Patience;
use super::{Host, is_due};
use crate::application::{Application, ProcessId};
use crate::watch::Watched;

/// The part of the swap that is little when no more is free.
const LITTLE_SWAP: u64 = 8;
/// So long after a switch programs hardly wait for what it brought back.
const QUIET: Duration = Duration::from_secs(5);

impl Host {
    /// Looks for processes that began or ended.
    pub(super) fn find_processes(&mut self, now_ns: u64) {
        let applications: Vec<&Application> = self.in_order().map(|a| &a.application).collect();
        let Ok(found) = self.finder.find(&applications) else {
            return;
        };
        for (&at, now) in self.order.iter().zip(found) {
            let Some(app) = &mut self.apps[at] else {
                continue;
            };
            let there: FxHashSet<ProcessId> = now.iter().copied().collect();
            let before = app.processes.len();
            self.core.forget_gone(app, |id| there.contains(&id));
            if app.forget_refused(app.processes.len() < before, now_ns) > 0 {
                self.patience = Patience::default();
            }
            app.unreadable.retain(|id| there.contains(id));
            let known = app.processes.iter().map(Watched::id);
            let known: FxHashSet<ProcessId> = known.chain(app.unreadable.iter().copied()).collect();
            for id in now.into_iter().filter(|id| !known.contains(id)) {
                self.core.watch(app, id);
            }
        }
    }

    /// Tells the thread that locks pages of files what it goes by. Where swap runs out, pages of files are what the kernel
    /// can still reclaim.
    pub(super) fn lock_files(&self) {
        let Some(locker) = &self.file_locker else {
            return;
        };
        let processes = |app: &App| {
            let of_app = |process: &Watched| (app.id, process.id());
            app.processes.iter().map(of_app).collect::<Vec<_>>()
        };
        let processes = self.in_order().flat_map(processes).collect();
        let is_short = self.swap.free_bytes <= self.swap.total_bytes / LITTLE_SWAP;
        locker.round(processes, self.gauge.memory_bytes().unwrap_or(0), is_short);
    }

    /// Has idle pages in zram worked on, some time after a switch.
    pub(super) fn keep_up(&mut self, now_ns: u64) {
        let Some(upkeeper) = &self.upkeeper else {
            return;
        };
        let is_quiet = is_due(self.switched_ns, QUIET, now_ns);
        if is_quiet && is_due(self.upkept_ns, self.config.upkeep.interval(), now_ns) {
            self.upkept_ns = Some(now_ns);
            upkeeper.round();
        }
    }

    /// Forgets the names of files that no application maps, and of which nothing is learned.
    pub(super) fn forget_file_names(&mut self) {
        let mut used = FxHashSet::default();
        for app in self.apps.iter().flatten() {
            used.extend(app.files.keys().copied());
            used.extend(app.processes.iter().flat_map(|p| p.files.mapped()));
            let learned = self.core.engine.learned(app.id);
            used.extend(learned.files.iter().map(|learned| learned.file));
            let forgotten = app.forgotten.iter().flat_map(|learned| &learned.files);
            used.extend(forgotten.map(|learned| learned.file));
        }
        self.core.names.retain(|file| used.contains(&file));
    }
}

impl Core {
    /// Watches one more process of the application.
    fn watch(&mut self, app: &mut App, id: ProcessId) {
        let Some(slice) = app.free_slice(id) else {
            return;
        };
        match Watched::open(&self.root, id, slice) {
            Ok(watched) => {
                let at = app.processes.push(watched);
                if self.stands_aside {
                    return;
                }
                // A child that is forked in a launch is news; what was there before is not.
                let sight = if app.window.is_none() {
                    Sight::First
                } else {
                    Sight::News
                };
                self.look_at(app, at, sight);
                self.mark_taught(app, at);
            }
            Err(e) if e.is_gone() => self.counters.process_gone += 1,
            // It is tried again when others have ended.
            Err(e) if e.is_exhausted() => {}
            Err(e) => {
                if e.is_refused() {
                    self.counters.refused_permission += 1;
                } else {
                    self.counters.process_unreadable += 1;
                }
                app.unreadable.push(id);
            }
        }
    }

    /// What was learned to be hot in an earlier run is evidence in this one. Looks at the pages of this process only, and
    /// at none where no page of it can be hot.
    pub(super) fn mark_taught(&mut self, app: &mut App, at: usize) {
        if !app.is_taught && app.window.is_none() {
            return;
        }
        let process = &mut app.processes[at];
        let slice = process.slice();
        let is_hot = |&page: &u64| self.engine.is_hot(app.id, addr(slice, page));
        let hot: Vec<u64> = process.pages.numbers().filter(is_hot).collect();
        for page in hot {
            process.pages.mark_seen(page, app.launch);
        }
    }
}
