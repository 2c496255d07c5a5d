//! Whose turn it is: the host takes part, or leaves all to the kernel.

use warmswap_sys::heap;
use warmswap_sys::meminfo::Reclaimed;

use super::app::App;
use super::core::engine;
use super::pace::{self, WAITING};
use super::page_cache::PageCache;
use super::worth::Sums;
use super::{Host, Tick, is_due};
use crate::goal::Shortage;

impl Host {
    /// An application comes to the foreground: whether the host takes part from now on, and how much idle page cache counts.
    pub(super) fn weigh_switch(&mut self, now_ns: u64) {
        let may_stand_aside = self.config.may_stand_aside && self.gauge.is_held_by_kernel();
        let is_changed = match may_stand_aside.then(|| self.gauge.shortage()) {
            Some(Ok(Some(shortage))) => self.trial.switched(self.sums(shortage), now_ns),
            // It cannot be read at the moment.
            Some(Err(_)) => false,
            Some(Ok(None)) | None => self.trial.reset(),
        };
        if is_changed {
            self.take_turn(now_ns);
        }
        if !self.core.stands_aside
            && self.gauge.counts_page_cache()
            && let Ok(reclaimed) = Reclaimed::read(&self.core.root)
        {
            self.page_cache.switched(reclaimed);
        }
    }

    /// Until the first switch there is nothing by which a gain could be measured: the host stands aside where it may.
    pub(super) fn await_switches(&mut self, now_ns: u64) {
        // In a launch window something is to be learned.
        let is_launch = self.apps.iter().flatten().any(|app| app.window.is_some());
        let may_stand_aside = self.config.may_stand_aside
            && !is_launch
            && !self.trial.is_begun()
            && !self.trial.is_aside()
            && self.gauge.is_held_by_kernel();
        if may_stand_aside && matches!(self.gauge.shortage(), Ok(Some(_))) {
            self.trial.stand_aside(now_ns);
            self.take_turn(now_ns);
        }
    }

    /// The host takes part again, or stands aside from now on. No launch window is open.
    pub(super) fn take_turn(&mut self, now_ns: u64) {
        let is_aside = self.trial.is_aside();
        self.core.stands_aside = is_aside;
        self.core.set_ample(is_aside, now_ns);
        // What was counted says nothing of the other turn.
        self.page_cache = PageCache::default();
        if is_aside {
            self.forget_pages();
        }
        for app in self.apps.iter_mut().flatten() {
            // The next look at each is the first: all of them at once would take long, and a program is being switched to.
            app.is_unknown = !is_aside;
            app.looked_ns = None;
            if !is_aside {
                app.forgotten = None;
            }
        }
    }

    /// Forgets all pages, but for what was learned of launches: nothing keeps up to date what is known of them, and on a small
    /// machine its memory is missing to programs. It is as after a restart of the host.
    fn forget_pages(&mut self) {
        if !self.apps.iter().flatten().any(App::is_known) {
            return;
        }
        // That of the same configuration was built before.
        let Ok(mut engine) = engine(&self.config, self.core.accessed.is_ok()) else {
            return;
        };
        for app in self.apps.iter_mut().flatten() {
            let learned = self.core.engine.learned(app.id);
            engine.teach(app.id, &learned);
            app.forget_pages(learned);
        }
        self.core.engine = engine;
        heap::trim();
    }

    fn sums(&self, shortage: Shortage) -> Sums {
        let host_cpu_us = self.core.counters.host_cpu_ns / 1000;
        Sums {
            waited_us: shortage.waited_us,
            host_cpu_us,
            kswapd_us: shortage.kswapd_us,
        }
    }

    /// Counts what programs waited since the last switch, once that was a while ago. Whether anybody waited since the last call.
    pub(super) fn note_wait(&mut self, now_ns: u64) -> bool {
        if !self.trial.is_begun() {
            return false;
        }
        let Ok(Some(shortage)) = self.gauge.shortage() else {
            return false;
        };
        if is_due(self.switched_ns, WAITING, now_ns) {
            self.trial.waited(self.sums(shortage), now_ns);
        }
        self.trial.note(shortage.waited_us)
    }

    /// Nothing is paged out, and nothing is missing as long as the host stands aside.
    pub(super) fn stand_aside(&mut self, is_waiting: bool) -> Tick {
        self.missing_bytes = 0;
        let tick = Tick::default();
        let wait = pace::wait(&tick, false, !is_waiting, false);
        Tick { wait, ..tick }
    }
}
