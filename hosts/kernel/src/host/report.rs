//! What a host knows, as plain data.

use warmswap_page::PAGE_BYTES;
use warmswap_policy::Hotness;

use super::Host;
use super::app::App;
use super::core::Core;
use crate::counters::Counters;
use crate::mlock::{FileLocker, Locked};
use crate::status::{AppStatus, HostStatus};

const PAGE: u64 = PAGE_BYTES as u64;

impl Host {
    /// What it did so far, and what it was refused.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let mut counters = self.core.counters;
        counters.switches_aside = self.trial.switches_aside;
        counters.switches_in_vain = self.trial.switches_in_vain;
        if let Some(prepagers) = &self.prepagers {
            let done = prepagers.done();
            counters.prepage_done = done.done_pages;
            counters.refused_unmapped += done.refused_ranges;
            counters.refused_permission += done.refused_permission;
            counters.process_gone += done.process_gone;
            counters.prepage_cpu_ns = done.cpu_ns;
            let put_back = done.put_back;
            counters.prepage_put_back = put_back.advised.pages;
            counters.refused(put_back.advised);
            counters.page_out_cpu_ns += put_back.cpu_ns;
            counters.host_cpu_ns += put_back.cpu_ns;
        }
        let locked = self.locked();
        counters.file_faults_seen = locked.faults;
        counters.file_pages_locked = locked.locked;
        counters.file_pages_unlocked = locked.unlocked;
        counters.mlock_cpu_ns = locked.cpu_ns;
        if let Some(upkeeper) = &self.upkeeper {
            let done = upkeeper.done();
            counters.upkeep_freed_bytes = done.freed_bytes;
            counters.upkeep_refused = u64::from(done.refused);
        }
        counters
    }

    fn locked(&self) -> Locked {
        let locker = self.file_locker.as_ref();
        locker.map(FileLocker::done).unwrap_or_default()
    }

    /// Everything, for people and programs. Costs about 10 ns a page; while the host stands aside, 15 µs a process.
    #[must_use]
    pub fn status(&self) -> HostStatus {
        let apps = self.in_order();
        let state_bytes = apps.clone().map(App::state_bytes).sum::<usize>();
        let locked = self.locked();
        HostStatus {
            scheme: self.config.scheme(self.core.accessed.is_ok()).to_owned(),
            accesses_unseen: self.core.accessed.as_ref().err().cloned(),
            apps: apps.map(|app| self.core.describe(app)).collect(),
            swap: self.swap,
            missing_bytes: self.missing_bytes,
            worth: self.trial.found(),
            locked_file_bytes: locked.pages_now * PAGE,
            files_unlockable: locked.refused,
            state_bytes: (state_bytes + self.core.engine.state_bytes()) as u64,
            counters: self.counters(),
        }
    }
}

impl Core {
    fn describe(&self, app: &App) -> AppStatus {
        let mut frames = self.engine.frames_by_hotness(app.id);
        let mut swapped = app.swapped_pages();
        if self.stands_aside {
            // Which of it is hot is not looked at.
            let memory = app.memory(&self.root);
            frames[Hotness::Cold.index()] = memory.anonymous_bytes / PAGE;
            swapped = memory.swapped_bytes / PAGE;
        }
        AppStatus {
            name: app.application.name.clone(),
            processes: app.processes.len() as u32,
            unreadable_processes: app.unreadable.len() as u32,
            is_foreground: app.is_foreground,
            is_launching: app.window.is_some(),
            hot_bytes: frames[Hotness::Hot.index()] * PAGE,
            warm_bytes: frames[Hotness::Warm.index()] * PAGE,
            cold_bytes: frames[Hotness::Cold.index()] * PAGE,
            swapped_bytes: swapped * PAGE,
            compressed_bytes: swapped * u64::from(self.mean_page_bytes),
            relaunches: app.relaunches.iter().copied().collect(),
            relaunch_count: app.sums.relaunches,
            prefetched: app.sums.prefetched,
            prefetch_used: app.sums.prefetch_used,
            prefetch_wasted: app.sums.prefetch_wasted,
            paged_out: app.sums.paged_out,
            cost_cpu_ns: app.sums.cpu_ns,
        }
    }
}
