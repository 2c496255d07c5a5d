//! What a host knows, as plain data.

use warmswap_page::PAGE_BYTES;

use super::Host;
use super::app::App;
use crate::counters::Counters;
use crate::status::{AppStatus, GivenBack, HostStatus, Unanswering};

const PAGE: u64 = PAGE_BYTES as u64;

impl Host {
    /// What it did so far, and what it was refused.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let mut counters = self.counters;
        if let Some(recompressor) = &self.recompressor {
            let done = recompressor.done();
            counters.recompressed_bytes = done.freed_bytes;
            counters.recompress_refused = u64::from(done.refused);
        }
        if let Some(files) = &self.files {
            let done = files.done();
            counters.brought_opened_pages = done.pages;
            counters.bring_cpu_ns += done.cpu_ns;
        }
        counters
    }

    fn given_back(&self) -> GivenBack {
        let mut given = self.given_back;
        if let Some(files) = &self.files {
            given.opened_bytes = files.done().pages * PAGE;
        }
        given
    }

    /// Everything, for people and programs. Costs about 15 µs a process, and waits for none.
    #[must_use]
    pub fn status(&self) -> HostStatus {
        let of_files = self
            .files
            .as_ref()
            .map_or(0, |files| files.done().state_bytes);
        let processes = self.in_order().flat_map(|app| app.processes.values());
        let of_processes = processes.map(|watched| watched.memory.lock().state_bytes());
        let state_bytes = of_files + of_processes.sum::<usize>();
        let unanswering = self.unanswering.iter();
        let mut unanswering: Vec<Unanswering> = unanswering
            .map(|(id, name)| Unanswering {
                name: name.clone(),
                pid: id.pid,
                start_ticks: id.start_ticks,
            })
            .collect();
        unanswering.sort_unstable();
        HostStatus {
            state: self.machine.state(),
            given_back: self.given_back(),
            unanswering,
            accesses_unseen: self.accesses_unseen.clone(),
            read_ahead_refused: self.read_ahead_refused.clone(),
            openings_unseen: self.openings_unseen.clone(),
            apps: self.in_order().map(|app| self.describe(app)).collect(),
            swap: self.swap,
            state_bytes: state_bytes as u64,
            counters: self.counters(),
        }
    }

    fn describe(&self, app: &App) -> AppStatus {
        let memory = app.memory(&self.root);
        let (mut hot, mut cold) = (0, 0);
        for watched in app.processes.values() {
            let known = watched.memory.lock();
            hot += known.hot_pages() * PAGE;
            cold += known.cold_pages() * PAGE;
        }
        // What is known may be away, or freed: no more is resident than the kernel says.
        let hot = hot.min(memory.anonymous_bytes);
        let cold = cold.min(memory.anonymous_bytes - hot);
        let swap = &self.swap;
        let share = swap.pool_bytes as f64 / swap.stored_bytes.max(1) as f64;
        AppStatus {
            name: app.application.name.clone(),
            processes: app.processes.len() as u32,
            unreadable_processes: app.unreadable.len() as u32,
            is_foreground: app.is_foreground,
            is_launching: app.window.is_some(),
            hot_bytes: hot,
            warm_bytes: memory.anonymous_bytes - hot - cold,
            cold_bytes: cold,
            swapped_bytes: memory.swapped_bytes,
            compressed_bytes: (memory.swapped_bytes as f64 * share) as u64,
            relaunches: app.relaunches.iter().copied().collect(),
            relaunch_count: app.relaunch_count,
            prefetched: app.brought,
            prefetch_used: app.used,
            prefetch_wasted: app.wasted,
        }
    }
}
