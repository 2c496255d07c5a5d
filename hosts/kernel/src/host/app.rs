//! One program under watch.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use warmswap_page::AppId;
use warmswap_sys::Root;
use warmswap_sys::process::{MemoryUse, Stat};

use crate::act::Target;
use crate::decide::order::Recency;
use crate::learn::ProcessMemory;
use crate::learn::rest::{Effort, Rest};
use crate::learn::store::Memories;
use crate::see::application::{Application, ProcessId};
use crate::status::Relaunch;

/// Relaunches that are remembered.
const KEPT_RELAUNCHES: usize = 16;

/// A process under watch.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// The user that began it; none where that is not known.
    pub user: Option<u32>,
    pub memory: Arc<Mutex<ProcessMemory>>,
    /// Its pages are left to it.
    pub pages_itself: bool,
}

/// An open launch window.
#[derive(Debug)]
pub(super) struct Window {
    pub begin_ns: u64,
    /// The program ran before: no cold start.
    pub is_relaunch: bool,
    pub rest: Rest,
    pub major_faults: u64,
    pub prefetched: u64,
}

/// A program.
#[derive(Debug)]
pub(super) struct App {
    pub id: AppId,
    pub application: Application,
    pub processes: FxHashMap<ProcessId, Watched>,
    /// Processes that may not be looked at, or do not answer.
    pub unreadable: super::Found,
    /// What is kept of processes that were not found yet.
    pub taught: Memories,
    pub is_foreground: bool,
    pub used_ns: Option<u64>,
    pub window: Option<Window>,
    /// Its launches end when that is told.
    pub tells_answers: bool,
    /// Something was learned since it was kept.
    pub has_learned: bool,
    /// More of it may be cold, or away, since its cold pages were written back.
    pub may_be_cold: bool,
    /// Something came back in idle time.
    pub was_given: bool,
    pub relaunches: VecDeque<Relaunch>,
    pub relaunch_count: u64,
    pub brought: u64,
    pub used: u64,
    pub wasted: u64,
}

impl App {
    pub fn new(id: AppId, application: Application) -> Self {
        Self {
            id,
            application,
            processes: FxHashMap::default(),
            unreadable: super::Found::default(),
            taught: Memories::default(),
            is_foreground: false,
            used_ns: None,
            window: None,
            tells_answers: false,
            has_learned: false,
            may_be_cold: true,
            was_given: false,
            relaunches: VecDeque::new(),
            relaunch_count: 0,
            brought: 0,
            used: 0,
            wasted: 0,
        }
    }

    /// Its processes for a job.
    pub fn targets(&self) -> Vec<Target> {
        let others = self.processes.iter().filter(|(_, w)| !w.pages_itself);
        let target = |(&id, watched)| self.target(id, watched);
        let mut targets: Vec<Target> = others.map(target).collect();
        targets.sort_by_key(|target| target.id);
        targets
    }

    /// One of them.
    pub fn target(&self, id: ProcessId, watched: &Watched) -> Target {
        Target {
            app: usize::from(self.id.0),
            id,
            user: watched.user,
            memory: Arc::clone(&watched.memory),
            held_by: None,
        }
    }

    pub fn recency(&self) -> Recency {
        Recency {
            is_foreground: self.is_foreground,
            used_ns: self.used_ns,
        }
    }

    /// What its processes did since they began, and their major faults. Costs 10 µs a process.
    pub fn effort(&self, root: &Root) -> (Effort, u64) {
        let stats = self.processes.keys().filter_map(|id| {
            let stat = Stat::read(root, id.pid).ok()?;
            (stat.start_ticks == id.start_ticks).then_some(stat)
        });
        let (mut effort, mut major_faults) = (Effort::default(), 0);
        for stat in stats {
            effort.faults += stat.minor_faults + stat.major_faults;
            effort.cpu_ticks += stat.cpu_ticks;
            effort.waits |= stat.state == 'D';
            major_faults += stat.major_faults;
        }
        (effort, major_faults)
    }

    /// Memory of its processes, as the kernel counts it. Costs 15 µs a process.
    pub fn memory(&self, root: &Root) -> MemoryUse {
        let ids = self.processes.keys();
        let mut sum = MemoryUse::default();
        for memory in ids.flat_map(|id| MemoryUse::read(root, id.pid)) {
            sum.anonymous_bytes += memory.anonymous_bytes;
            sum.file_bytes += memory.file_bytes;
            sum.swapped_bytes += memory.swapped_bytes;
        }
        sum
    }

    /// Remembers a relaunch.
    pub fn remember(&mut self, relaunch: Relaunch) {
        if self.relaunches.len() == KEPT_RELAUNCHES {
            self.relaunches.pop_front();
        }
        self.relaunches.push_back(relaunch);
        self.relaunch_count += 1;
    }
}
