//! Launches and sessions of programs.

use std::time::Duration;

use super::app::Window;
use super::{Host, is_due};
use crate::act::job::{Job, Task};
use crate::act::look::End;
use crate::learn::rest::Rest;
use crate::status::Relaunch;
use warmswap_sys::meminfo::Meminfo;
use warmswap_sys::monotonic_ns;

/// A launch ends after so long at most: a program that works on has been used for a while.
const LONGEST_LAUNCH: Duration = Duration::from_secs(3);

/// What can wait leaves the machine to a program that comes to the foreground for so long at most: most answer by then, and those
/// that are returned to next wait for their pages.
const LONGEST_ANSWER: Duration = Duration::from_millis(500);

/// The end of a session is looked at so long after the switch that ended it: the next program answers by then, and has the
/// processors to itself.
const AFTER_ANSWER: Duration = Duration::from_secs(1);

impl Host {
    /// A session of the program begins, with a launch.
    pub(super) fn begin_session(&mut self, at: usize, now_ns: u64) {
        let is_known = self.apps[at]
            .as_ref()
            .is_some_and(|app| !app.processes.is_empty());
        if !is_known {
            self.find_processes(now_ns);
        }
        // What came back so far is cleared of the host's own reads before the program's touches are looked for.
        self.drain_reports();
        self.foreground = Some(at);
        self.switched_ns = Some(now_ns);
        // It goes on.
        self.ended.retain(|&other| other != at);
        if let Ok(memory) = Meminfo::read(&self.root) {
            self.look_at_memory(&memory);
        }
        let Some(app) = &mut self.apps[at] else {
            return;
        };
        let (effort, major_faults) = app.effort(&self.root);
        app.is_foreground = true;
        app.used_ns = Some(now_ns);
        app.window = Some(Window {
            begin_ns: now_ns,
            is_relaunch: is_known,
            rest: Rest::new(now_ns, effort),
            major_faults,
            prefetched: 0,
        });
        let targets = app.targets();
        if let Some(task) = self.begin_task() {
            self.looker.push(Job::new(task, targets));
        }
    }

    /// What is done as a session begins; none before the machine was seen.
    pub(super) fn begin_task(&self) -> Option<Task> {
        Some(Task::Begin {
            state: self.machine.state(),
            machine: self.machine.last()?,
            reserve_bytes: self.machine.reserve_bytes(),
            may_fetch: self.config.prefetch && self.read_ahead_refused.is_none(),
            disk: self.costs.disk,
            writes_back: self.writes_back,
        })
    }

    /// Closes the launch window of a program: what was touched in it is learned.
    pub(super) fn close_window(&mut self, at: usize, is_answered: bool) {
        let Some(app) = &mut self.apps[at] else {
            return;
        };
        // Also by an answer that comes when the window was closed since the program rested.
        app.tells_answers |= is_answered;
        let Some(window) = app.window.take() else {
            return;
        };
        app.has_learned = true;
        let (_, major_faults) = app.effort(&self.root);
        if window.is_relaunch {
            app.remember(Relaunch {
                begin_ns: window.begin_ns,
                latency_ns: monotonic_ns().saturating_sub(window.begin_ns),
                is_answered,
                faults: major_faults.saturating_sub(window.major_faults),
                prefetched: window.prefetched,
            });
        }
        let targets = app.targets();
        self.looker.push(Job::new(Task::End(End::Launch), targets));
    }

    /// Tells the threads until when an answer is expected.
    pub(super) fn expect_answer(&self) {
        let windows = self.in_order().filter_map(|app| app.window.as_ref());
        let begin_ns = windows.map(|window| window.begin_ns).max();
        let until_ns = begin_ns.map(|at| at + LONGEST_ANSWER.as_nanos() as u64);
        self.pace.expect_answer(until_ns);
    }

    /// Closes windows whose programs rest, or that have been open for long. Whether one stays open.
    pub(super) fn close_windows(&mut self, now_ns: u64) -> bool {
        let mut is_any_open = false;
        for at in 0..self.apps.len() {
            let Some(app) = &mut self.apps[at] else {
                continue;
            };
            let effort = app.window.is_some().then(|| app.effort(&self.root).0);
            let (Some(effort), Some(window)) = (effort, &mut app.window) else {
                continue;
            };
            let rests = window.rest.is_over(now_ns, effort) && !app.tells_answers;
            if rests || is_due(Some(window.begin_ns), LONGEST_LAUNCH, now_ns) {
                self.close_window(at, false);
            } else {
                is_any_open = true;
            }
        }
        is_any_open
    }

    /// The program goes to the background, and its session ends.
    pub(super) fn send_to_background(&mut self, at: usize) {
        self.close_window(at, false);
        if self.foreground == Some(at) {
            self.foreground = None;
        }
        let Some(app) = &mut self.apps[at] else {
            return;
        };
        if std::mem::take(&mut app.is_foreground) {
            app.has_learned = true;
            app.used_ns = Some(monotonic_ns());
            self.ended.retain(|&other| other != at);
            self.ended.push(at);
        }
    }

    /// Looks at sessions that ended, once the switch is over.
    pub(super) fn look_at_ended(&mut self, now_ns: u64) {
        if self.ended.is_empty() || !is_due(self.switched_ns, AFTER_ANSWER, now_ns) {
            return;
        }
        for at in std::mem::take(&mut self.ended) {
            if let Some(Some(app)) = self.apps.get(at) {
                let targets = app.targets();
                self.looker.push(Job::new(Task::End(End::Session), targets));
            }
        }
    }
}
