//! Launch windows: the footprint comes back, and the end of the window tells what it was worth.

use std::collections::BTreeMap;

use warmswap_engine::evidence::next_launch;
use warmswap_engine::{Action, Cause};
use warmswap_page::PAGE_BYTES;
use warmswap_page::{FileId, LaunchKind, PageAddr};
use warmswap_policy::ChunkId;
use warmswap_sys::monotonic_ns;

use super::Host;
use super::app::{App, Window, addr, place};
use super::core::{Core, UNBOUNDED_BYTES};
use crate::config::PrepageBy;
use crate::prepage::Prepagers;
use crate::rest::Rest;
use crate::status::Relaunch;

/// Launches whose growth decides how much is kept free for the next.
pub(super) const REMEMBERED_GROWTHS: usize = 8;

/// The part of the resident memory that a footprint may take although there is no room for it.
const LEAST_FOOTPRINT_PART: u64 = 16;

/// The part of its pages of files that an application no longer has mapped when some of them were dropped.
const DROPPED_PART: u64 = 4;

/// What is to come back for a launch, by the application's processes and the numbers of pages there.
struct Plan {
    /// Pages for which there is room.
    room: u64,
    /// Pages so far.
    asked: u64,
    anonymous: BTreeMap<usize, Vec<u64>>,
    /// Pages of files, whether they are there or not, in the order in which they are wanted.
    files: Vec<(FileId, u64)>,
}

impl Host {
    /// Opens a launch window and has the footprint brought back, as far as there is room.
    pub(super) fn open_window(&mut self, at: usize) {
        let resident = self.resident_bytes();
        let Some(app) = &mut self.apps[at] else {
            return;
        };
        let is_relaunch = !app.processes.is_empty();
        app.grown_bytes = 0;
        app.is_foreground = true;
        let begin_ns = monotonic_ns();
        let rest = Rest::new(begin_ns, app.effort(&self.core.root));
        app.window = Some(Window {
            begin_ns,
            is_relaunch,
            rest: (!app.tells_answers).then_some(rest),
            ..Window::default()
        });
        if self.core.stands_aside {
            // Nothing is seen of this launch, and nothing must be learned of it.
            return;
        }
        if app.is_unknown {
            self.core.look(app);
        }
        app.launch = next_launch(app.launch);
        app.has_learned = true;
        let kind = if is_relaunch {
            LaunchKind::Relaunch
        } else {
            LaunchKind::Cold
        };
        self.core.engine.set_budget_bytes(UNBOUNDED_BYTES);
        self.core.engine.launch_begin(app.id, kind);
        self.core.engine.spare(Some(app.id));
        self.launches += 1;
        let Some(prepagers) = &self.prepagers else {
            return self.core.drain();
        };
        prepagers.only(self.launches);
        let (pool, counted) = (self.swap.pool_bytes, self.page_cache.counted());
        let room = self.gauge.room(pool, resident, 0, counted);
        // Where the machine cannot be read, nothing is risked.
        let room = room.unwrap_or_default();
        self.core.set_ample(room.is_ample, monotonic_ns());
        // Where there is too little room, colder pages leave for the first of the footprint: the kernel sees to that at
        // once, and without making the application wait.
        let least = resident / LEAST_FOOTPRINT_PART;
        let room_pages = room.spare_bytes.max(least) / PAGE_BYTES as u64;
        if self.core.learns_files(app) {
            // So that what was touched before is not taken for touched in this launch.
            self.core.look_at_files(app, false);
            app.window.iter_mut().for_each(|w| w.learns_files = true);
        } else {
            self.core.engine.leave_files();
        }
        self.core
            .bring_back(app, room_pages, prepagers, self.launches);
    }

    /// Closes the launch window of an application: what was touched in it is learned. Whether one was open, so that the
    /// application was looked at.
    pub(super) fn close_window(&mut self, at: usize, is_answered: bool) -> bool {
        let now_ns = monotonic_ns();
        let Some(app) = &mut self.apps[at] else {
            return false;
        };
        // Also by an answer that comes when the window was closed since the application rested.
        app.tells_answers |= is_answered;
        if self.core.stands_aside {
            if let Some(window) = app.window.take()
                && window.is_relaunch
            {
                app.remember(Relaunch {
                    begin_ns: window.begin_ns,
                    latency_ns: now_ns - window.begin_ns,
                    is_answered,
                    ..Relaunch::default()
                });
            }
            return false;
        }
        if app.window.is_none() {
            return false;
        }
        app.has_learned = true;
        if let Some(prepagers) = &self.prepagers {
            prepagers.only(u64::MAX);
        }
        self.core.look(app);
        let files = self.core.learn_files(app);
        let mut held = self.core.note_launch_touches(app);
        self.core.engine.launch_end(app.id);
        self.core.engine.spare(None);
        let Some(mut window) = app.window.take() else {
            return false;
        };
        self.core.release(app, &window, self.prepagers.as_ref());
        window.faults += files.faults;
        window.used += files.used;
        held += files.kept;
        self.core.forget_files(app, files, &window.files.read);
        let prefetched = (window.ahead.len() + window.files.read.len()) as u64;
        self.core.counters.prepage_used += window.used;
        self.core.counters.prepage_wasted += prefetched - window.used;
        if window.is_relaunch {
            app.remember(Relaunch {
                begin_ns: window.begin_ns,
                latency_ns: now_ns - window.begin_ns,
                is_answered,
                faults: window.faults,
                faults_avoided: held + window.used,
                prefetched,
                prefetch_used: window.used,
            });
        }
        true
    }
}

impl Core {
    /// Whether the launch that began is worth looks at what is mapped of files: where something is learned of them, and
    /// memory is short.
    fn learns_files(&self, app: &App) -> bool {
        if self.is_ample() {
            return false;
        }
        // A look at the page tables of a process takes a millisecond.
        let are_dropped = app.used_file_pages.is_none_or(|used| {
            let kept = app.file_pages(&self.root);
            kept <= used - used / DROPPED_PART
        });
        self.engine.watches_files(app.id, are_dropped)
    }

    /// Takes the engine's plan for the launch that just began, and hands it to the threads.
    fn bring_back(&mut self, app: &mut App, room_pages: u64, prepagers: &Prepagers, launch: u64) {
        let mut plan = Plan {
            room: room_pages,
            asked: 0,
            anonymous: BTreeMap::new(),
            files: Vec::new(),
        };
        while let Some(decision) = self.engine.next_background_decision() {
            match (decision.action, decision.cause) {
                (Action::Load { chunk, .. }, Cause::Prepage) => {
                    self.plan_chunk(app, &mut plan, chunk);
                }
                (
                    Action::ReadFile {
                        file, first, pages, ..
                    },
                    Cause::Prepage,
                ) => {
                    let pages = first..first + u64::from(pages);
                    plan.files.extend(pages.map(|page| (file, page)));
                }
                (action, _) => self.pass_over(action),
            }
        }
        let files = self.files_ahead(app, &plan.files, plan.room.saturating_sub(plan.asked));
        self.counters.prepage_asked += plan.asked + files.len() as u64;
        for group in files.chunk_by(|a, b| a.0 == b.0) {
            let pages: Vec<u64> = group.iter().map(|&(_, page)| page).collect();
            prepagers.read_ahead(app.processes[group[0].0].process(), &pages, launch);
        }
        for (at, pages) in plan.anonymous {
            prepagers.bring(app.processes[at].process(), &pages, launch);
        }
    }

    fn plan_chunk(&mut self, app: &mut App, plan: &mut Plan, chunk: ChunkId) {
        if plan.asked >= plan.room {
            return self.engine.load_abandoned(chunk);
        }
        for page in self.engine.chunk_pages(chunk).to_vec() {
            if !self.engine.is_loading(chunk, page) {
                continue;
            }
            let (_, PageAddr::Anon { number }) = self.engine.locate(page) else {
                continue;
            };
            let (slice, page) = place(number);
            let Some(at) = app.by_slice(slice) else {
                continue;
            };
            app.processes[at].pages.mark_ahead(page);
            plan.anonymous.entry(at).or_default().push(page);
            if let Some(window) = &mut app.window {
                window.ahead.push((slice, page));
            }
            plan.asked += 1;
        }
        // They count as being there from now on: a touch comes for them or it does not.
        self.engine.loaded(chunk);
    }

    /// What was brought back and not touched is where it was: in swap. Where memory is short it does not stay in the
    /// swap cache either, since the swap still has its content.
    fn release(&mut self, app: &mut App, window: &Window, prepagers: Option<&Prepagers>) {
        let mut wasted: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for &(slice, page) in &window.ahead {
            let Some(at) = app.by_slice(slice) else {
                continue;
            };
            if app.processes[at].pages.take_ahead(page) {
                self.engine.send_away(app.id, addr(slice, page));
                wasted.entry(at).or_default().push(page);
            }
        }
        self.drain();
        let Some(prepagers) = prepagers else { return };
        if self.prepage_by == PrepageBy::WillNeed && !self.is_ample() {
            for (at, mut pages) in wasted {
                pages.sort_unstable();
                prepagers.put_back(app.processes[at].process(), pages);
            }
        }
    }
}
