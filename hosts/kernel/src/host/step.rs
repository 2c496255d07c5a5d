//! One step of the host: what is free, and whether pages come back now.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use warmswap_sys::meminfo::Meminfo;
use warmswap_sys::process::Stat;
use warmswap_sys::{Root, monotonic_ns};

use super::app::App;
use super::{Host, Tick, is_due};
use crate::act::job::{Job, Report, Task};
use crate::act::{Costs, Target, write_back};
use crate::decide::{QUIET, Seen, State, Stop};
use crate::see::application::ProcessId;
use crate::see::bounds;
use crate::see::swap::swapped_bytes;
use crate::status::SwapStatus;
use warmswap_page::PAGE_BYTES;

/// How often processes and swap devices are looked for.
const FIND_INTERVAL: Duration = Duration::from_secs(10);

/// The longest wait for a tick after a switch: an answer that is not told is noticed by then.
pub const AFTER_SWITCH: Duration = Duration::from_millis(50);

/// Between looks while pages come back.
const BUSY: Duration = Duration::from_millis(250);

/// A turn that was stopped, or processes whose groups had no room, are tried again after so long.
const RETRY: Duration = Duration::from_secs(2);

/// Between looks at rest.
pub(super) const AT_REST: Duration = Duration::from_secs(2);

/// When swap holds so much more than at its least since the last turn, there may be something to bring back.
const MORE_SWAPPED_BYTES: u64 = 1 << 20;

/// A turn that found nothing more to do is repeated after so long: shared memory and dropped pages of files are counted nowhere.
const REPEAT: Duration = Duration::from_secs(60);

/// What is told when no more threads are begun.
const TOO_MANY_STUCK: &str = "too many processes do not answer: until one of them does, nothing is brought back or looked at";

/// What is told when all processes of a user are left alone.
const TOO_MANY_OF_USER: &str = "too many processes of one user do not answer: until one of them does, none of this user's is brought back or looked at";

/// Bringing back.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// There may be something to bring back, of any program.
    pub is_due: bool,
    /// Processes of which something may come back though nothing else is due: new ones, and those whose group had no room.
    pub waiting: Vec<Target>,
    /// Of the one under way, processes whose group had no room.
    pub held: Vec<Target>,
    /// It is under way.
    pub is_running: bool,
    /// It is about all programs.
    is_whole: bool,
    /// Something came back in it.
    has_brought: bool,
    /// The least that swap held since the last whole turn came to its end.
    swapped_bytes: u64,
    /// When it did.
    ended_ns: Option<u64>,
    /// When one was stopped, or held up by a group, last.
    pub stopped_ns: Option<u64>,
}

impl Turn {
    fn is_any_due(&self) -> bool {
        self.is_due || !self.waiting.is_empty()
    }
}

impl Host {
    pub(super) fn step(&mut self) -> Tick {
        let now_ns = monotonic_ns();
        self.drain_reports();
        self.unstick();
        if is_due(self.found_ns, FIND_INTERVAL, now_ns) {
            self.find_processes(now_ns);
            self.recompress(now_ns);
            self.writes_back = self.config.write_back && write_back::is_possible(&self.root);
        }
        let is_launch = self.close_windows(now_ns);
        if !is_launch {
            self.look_at_ended(now_ns);
        }
        // A machine that cannot be read is left alone.
        let state = match Meminfo::read(&self.root) {
            Ok(memory) => {
                self.swap = SwapStatus::read(&self.root, &memory).unwrap_or(self.swap);
                self.note_swapped(swapped_bytes(&memory), now_ns);
                self.look_at_memory(&memory)
            }
            Err(_) => State::Rest,
        };
        let is_ready = !self.turn.is_running && is_due(self.turn.stopped_ns, RETRY, now_ns);
        if state == State::Calm && is_ready && self.turn.is_any_due() {
            self.begin_turn();
        } else if state != State::Short && !self.turn.is_running {
            self.write_back(now_ns);
        }
        let wait = match () {
            () if is_launch => AFTER_SWITCH,
            () if self.turn.is_running => BUSY,
            () if self.turn.is_due || !self.ended.is_empty() => QUIET,
            () => AT_REST,
        };
        Tick {
            wait,
            warning: self.warning(),
        }
    }

    fn warning(&self) -> Option<&'static str> {
        let workers = [&self.bringer, &self.looker];
        if workers.iter().any(|worker| worker.is_exhausted()) {
            return Some(TOO_MANY_STUCK);
        }
        let is_crowded = workers.iter().any(|worker| worker.is_crowded());
        is_crowded.then_some(TOO_MANY_OF_USER)
    }

    fn note_swapped(&mut self, swapped_bytes: u64, now_ns: u64) {
        // A turn that is under way is about what swap holds now.
        if !self.turn.is_running {
            let is_more = swapped_bytes > self.turn.swapped_bytes + MORE_SWAPPED_BYTES;
            if is_more {
                let apps = self.apps.iter_mut().flatten();
                apps.for_each(|app| app.may_be_cold = true);
            }
            self.turn.is_due |= is_more || is_due(self.turn.ended_ns, REPEAT, now_ns);
            self.turn.swapped_bytes = self.turn.swapped_bytes.min(swapped_bytes);
        }
        if !self.config.bring_back {
            self.turn.is_due = false;
            self.turn.waiting.clear();
        }
    }

    /// Looks at the machine; what it is about.
    pub(super) fn look_at_memory(&mut self, memory: &Meminfo) -> State {
        let Ok(seen) = bounds::machine(&self.root, memory) else {
            return State::Rest;
        };
        let seen = Seen {
            brought_bytes: self.pace.brought_bytes(),
            ..seen
        };
        let is_away = self.turn.is_any_due() || self.turn.is_running;
        let state = self.machine.see(seen, is_away);
        self.turn.is_due |= state == State::Short && self.config.bring_back;
        state
    }

    /// Has pages of all programs come back, in their order, or of the processes that wait.
    fn begin_turn(&mut self) {
        let Some(task) = self.bring_task() else {
            return;
        };
        let mut targets = std::mem::take(&mut self.turn.waiting);
        self.turn.is_whole = std::mem::take(&mut self.turn.is_due);
        if self.turn.is_whole {
            let mut apps: Vec<_> = self.in_order().collect();
            apps.sort_by_key(|app| Reverse(app.recency()));
            targets = apps.into_iter().flat_map(App::targets).collect();
            if targets.is_empty() {
                let memory = Meminfo::read(&self.root).ok();
                return self.turn_ended(memory.map(|memory| swapped_bytes(&memory)));
            }
            self.counters.turns += 1;
        }
        self.turn.is_running = true;
        self.turn.has_brought = false;
        self.bringer.push(Job::new(task, targets));
    }

    /// Has files come back, into memory that programs leave.
    fn bring_files(&self) {
        if let (Some(files), Some(machine)) = (&self.files, self.machine.last()) {
            files.bring(machine, self.machine.reserve_bytes());
        }
    }

    /// What is done in a turn; none before the machine was seen.
    pub(super) fn bring_task(&self) -> Option<Task> {
        Some(Task::Bring {
            machine: self.machine.last()?,
            reserve_bytes: self.machine.reserve_bytes(),
            may_ask: self.read_ahead_refused.is_none(),
            costs: self.costs,
        })
    }

    /// Takes in what the threads told.
    pub(super) fn drain_reports(&mut self) {
        while let Some(report) = self.bringer.report().or_else(|| self.looker.report()) {
            self.take_in(report);
        }
    }

    pub(super) fn take_in(&mut self, report: Report) {
        match report {
            Report::Brought {
                target,
                done,
                elapsed,
            } => {
                self.counters.brought_pages += done.private_pages;
                self.counters.brought_shared_pages += done.shared_pages;
                self.counters.brought_file_pages += done.file_pages;
                self.counters.refused_pages += done.refused_pages;
                self.counters.skipped_regions += done.skipped_regions;
                self.counters.cold_pages += done.cold_pages;
                self.given_back.bytes += done.pages() * PAGE_BYTES as u64;
                if done.pages() > 0 {
                    self.turn.has_brought = true;
                    self.given_back.idle_ns += elapsed.as_nanos() as u64;
                    self.given(target.app, done.pages());
                }
                if done.private_pages > 0 {
                    self.looker.push(Job::new(Task::Clear, vec![target]));
                }
            }
            Report::Held(target) => self.turn.held.push(target),
            Report::Finished {
                stop,
                costs,
                swapped_bytes,
            } => self.finished(stop, costs, swapped_bytes),
            Report::Fetched { app, pages } => {
                self.counters.switch_pages += pages;
                if let Some(Some(app)) = self.apps.get_mut(app) {
                    app.brought += pages;
                    app.window.iter_mut().for_each(|w| w.prefetched += pages);
                }
            }
            Report::Judged { app, looked } => {
                if let Some(files) = &self.files {
                    files.note_held(looked.held);
                }
                let judged = looked.judged;
                self.counters.used_pages += judged.used;
                self.counters.wasted_pages += judged.wasted;
                self.given_back.used_pages += judged.used;
                self.given_back.judged_pages += judged.used + judged.wasted;
                if let Some(Some(app)) = self.apps.get_mut(app) {
                    app.used += judged.used;
                    app.wasted += judged.wasted;
                    app.may_be_cold = true;
                }
            }
            Report::Written(written) => {
                self.counters.written_back_pages += written.pages;
                self.counters.write_back_refused += u64::from(written.is_refused);
            }
            Report::Failed { is_gone: true } => self.counters.process_gone += 1,
            Report::Failed { is_gone: false } => self.counters.process_unreadable += 1,
            Report::Unseen(why) => self.accesses_unseen = Some(why),
            Report::Spent(cpu_ns) => self.counters.bring_cpu_ns += cpu_ns,
        }
    }

    fn given(&mut self, app: usize, pages: u64) {
        if let Some(Some(app)) = self.apps.get_mut(app) {
            app.brought += pages;
            app.has_learned = true;
            if !std::mem::replace(&mut app.was_given, true) {
                self.given_back.programs += 1;
            }
        }
    }

    pub(super) fn finished(
        &mut self,
        stop: Option<Stop>,
        costs: Costs,
        swapped_bytes: Option<u64>,
    ) {
        self.costs = costs;
        self.turn.is_running = false;
        match stop {
            Some(Stop::Pressure) => self.counters.stopped_short += 1,
            Some(Stop::Reserve) => self.counters.stopped_reserve += 1,
            None => {}
        }
        self.turn.is_due |= stop.is_some();
        let held = std::mem::take(&mut self.turn.held);
        let is_over = stop.is_none() && held.is_empty();
        // Programs go first: where they have no room, files would take what is about to be theirs.
        if is_over && self.turn.is_whole || stop.is_none() && self.turn.has_brought {
            self.bring_files();
        }
        self.turn.stopped_ns = (!is_over).then(monotonic_ns);
        self.turn.waiting.extend(held);
        self.forget_gone();
        if stop.is_none() && self.turn.is_whole {
            self.turn_ended(swapped_bytes);
        }
    }

    /// Of the processes that wait only those are kept that still belong to their programs.
    pub(super) fn forget_gone(&mut self) {
        let apps = &self.apps;
        self.turn.waiting.retain(|target| {
            let app = apps.get(target.app).and_then(Option::as_ref);
            let watched = app.and_then(|app| app.processes.get(&target.id));
            // Another program may have the number by now.
            watched.is_some_and(|watched| Arc::ptr_eq(&watched.memory, &target.memory))
        });
    }

    /// All that was to come back did: there is more to do when more is in swap, or after a while.
    fn turn_ended(&mut self, swapped_bytes: Option<u64>) {
        self.turn.ended_ns = Some(monotonic_ns());
        self.turn.swapped_bytes = swapped_bytes.unwrap_or(self.turn.swapped_bytes);
    }

    /// Replaces threads that wait too long for a process, which is left alone from then on.
    fn unstick(&mut self) {
        let stuck = [self.bringer.unstick(), self.looker.unstick()];
        for id in stuck.into_iter().flatten() {
            self.leave_alone(id);
        }
    }

    pub(super) fn leave_alone(&mut self, id: ProcessId) {
        let apps = self.apps.iter_mut().flatten();
        for app in apps.filter(|app| app.processes.contains_key(&id)) {
            app.processes.remove(&id);
            app.unreadable.insert(id);
        }
        self.turn.waiting.retain(|target| target.id != id);
        self.counters.process_unanswering += 1;
        let name = name_of(&self.root, id);
        self.unanswering.insert(id, name);
    }
}

/// The name of a process, by its number if it has none any more.
fn name_of(root: &Root, id: ProcessId) -> String {
    let stat = Stat::read(root, id.pid);
    stat.map_or_else(|_| "?".to_owned(), |stat| stat.command)
}
