//! An application as a host sees it.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::ops::Add as _;
use std::time::Duration;

use rustc_hash::FxHasher;
use warmswap_page::{AppId, FileId, PAGE_BYTES, PageAddr};
use warmswap_policy::learned::Learned;
use warmswap_sys::Root;
use warmswap_sys::process::MemoryUse;

use super::pace::{EARLIEST_RETRY, FIRST_RETRY, LAST_RETRY};
use super::processes::Processes;
use crate::application::{Application, ProcessId};
use crate::pages::Pages;
use crate::rest::{Effort, Rest};
use crate::status::Relaunch;
use crate::watch::Watched;

/// Bits of a page number that hold the address within one process; its process's slice stands above.
const SLICE_BITS: u32 = 36;
/// Slices of an application: page numbers have 52 bits.
const SLICES: u64 = 1 << (52 - SLICE_BITS);

/// Relaunches that are remembered one by one.
const REMEMBERED: usize = 16;

/// What the pages of a page table are called towards the engine.
pub(super) fn addr(slice: u64, page: u64) -> PageAddr {
    PageAddr::Anon {
        number: slice << SLICE_BITS | page,
    }
}

/// The slice and the page of such a number.
pub(super) fn place(number: u64) -> (u64, u64) {
    (number >> SLICE_BITS, number & ((1 << SLICE_BITS) - 1))
}

/// A launch under way.
#[derive(Debug, Default)]
pub(super) struct Window {
    pub begin_ns: u64,
    /// Pages that were asked back ahead of use: slice and page.
    pub ahead: Vec<(u64, u64)>,
    /// The same of files.
    pub files: FilesAhead,
    /// What is mapped of files was looked at when it began.
    pub learns_files: bool,
    pub faults: u64,
    /// Of `ahead`, those that were touched so far.
    pub used: u64,
    /// Where the application was brought back for the first time, nothing is known of it.
    pub is_relaunch: bool,
    /// Whether the application rests by now; none where its answers are told.
    pub rest: Option<Rest>,
}

/// Pages of files that belong to the footprint of a launch.
#[derive(Debug, Default)]
pub(super) struct FilesAhead {
    /// They are read ahead.
    pub read: Vec<(FileId, u64)>,
    /// They were missing when it began, and are not read: the launch touches them or does without.
    pub left: Vec<(FileId, u64)>,
    /// They were mapped when it began: whether they are touched is not seen.
    pub unseen: Vec<(FileId, u64)>,
}

impl FilesAhead {
    /// How many they are in all, as the engine has them.
    pub fn pages(&self) -> u64 {
        (self.read.len() + self.left.len() + self.unseen.len()) as u64
    }
}

/// Sums since the host began.
#[derive(Debug, Default)]
pub(super) struct Sums {
    pub relaunches: u64,
    pub prefetched: u64,
    pub prefetch_used: u64,
    pub prefetch_wasted: u64,
    pub paged_out: u64,
    pub cpu_ns: u64,
}

/// An application under watch.
#[derive(Debug)]
pub(super) struct App {
    pub id: AppId,
    pub application: Application,
    pub processes: Processes,
    /// How many pages of files its processes had mapped when it went to the background; none where that was not seen.
    pub used_file_pages: Option<u64>,
    /// Pages of files that any of them has had mapped.
    pub files: BTreeMap<FileId, Pages>,
    /// Processes that may not be watched; not tried again.
    pub unreadable: Vec<ProcessId>,
    pub is_foreground: bool,
    /// The end of a launch of it was told.
    pub tells_answers: bool,
    pub window: Option<Window>,
    /// Something was learned of it, or forgotten, since its tables were kept.
    pub has_learned: bool,
    /// Pages of it were hot in an earlier run.
    pub is_taught: bool,
    /// What was learned of it before its pages were forgotten; none while they are known.
    pub forgotten: Option<Learned<FileId>>,
    /// Its pages are to be looked at for the first time.
    pub is_unknown: bool,
    /// Pages that it freed since the engine gave back what it keeps of those.
    pub freed: u64,
    /// When it was last looked at between events.
    pub looked_ns: Option<u64>,
    /// Since when it is noted which of its pages could not be paged out, and for how long.
    pub refused_since_ns: u64,
    pub retry_after: Duration,
    /// When the accessed bits of its pages were cleared; none while they say nothing.
    pub accessed_since_ns: Option<u64>,
    /// Counts launches from 1 to 255, over and over.
    pub launch: u8,
    /// Bytes that came into memory since the application came to the foreground.
    pub grown_bytes: u64,
    pub relaunches: VecDeque<Relaunch>,
    pub sums: Sums,
}

impl App {
    pub fn new(id: AppId, application: Application) -> Self {
        Self {
            id,
            application,
            processes: Processes::default(),
            used_file_pages: None,
            files: BTreeMap::new(),
            unreadable: Vec::new(),
            is_foreground: false,
            tells_answers: false,
            window: None,
            has_learned: false,
            is_taught: false,
            forgotten: None,
            is_unknown: false,
            freed: 0,
            looked_ns: None,
            refused_since_ns: 0,
            retry_after: FIRST_RETRY,
            accessed_since_ns: None,
            launch: 1,
            grown_bytes: 0,
            relaunches: VecDeque::new(),
            sums: Sums::default(),
        }
    }

    /// A slice for a process: the same one after a restart of the host, as a rule.
    pub fn free_slice(&self, id: ProcessId) -> Option<u64> {
        let mut hasher = FxHasher::default();
        id.hash(&mut hasher);
        let first = hasher.finish() >> 20;
        (0..SLICES)
            .map(|i| (first + i) % SLICES)
            .find(|&slice| self.by_slice(slice).is_none())
    }

    /// What its processes did so far; those that are gone count no more.
    pub fn effort(&self, root: &Root) -> Effort {
        let efforts = self.processes.iter().filter_map(|p| p.effort(root));
        efforts.fold(Effort::default(), Effort::add)
    }

    /// Pages of files that its processes have mapped, those of several counted for each. Costs 15 µs a process.
    pub fn file_pages(&self, root: &Root) -> u64 {
        self.memory(root).file_bytes / PAGE_BYTES as u64
    }

    /// Memory of its processes, pages of files that several have mapped counted for each. Costs 15 µs a process.
    pub fn memory(&self, root: &Root) -> MemoryUse {
        let mut sum = MemoryUse::default();
        for process in self.processes.iter() {
            // One that is gone has none.
            let memory = MemoryUse::read(root, process.id().pid).unwrap_or_default();
            sum.anonymous_bytes += memory.anonymous_bytes;
            sum.file_bytes += memory.file_bytes;
            sum.swapped_bytes += memory.swapped_bytes;
        }
        sum
    }

    /// Whether its launch is over, as far as that is seen without being told; so many jobs are left to bring its footprint
    /// back. Costs 10 µs a process.
    pub fn has_answered(&mut self, root: &Root, now_ns: u64, jobs: u64) -> bool {
        let asks = |window: &Window| window.rest.is_some();
        if !self.window.as_ref().is_some_and(asks) {
            return false;
        }
        let effort = Effort {
            jobs,
            ..self.effort(root)
        };
        let rest = self.window.as_mut().and_then(|window| window.rest.as_mut());
        rest.is_some_and(|rest| rest.is_over(now_ns, effort))
    }

    /// Whether anything is known of its pages.
    pub fn is_known(&self) -> bool {
        self.processes
            .iter()
            .any(|process| !process.pages.is_empty())
    }

    /// Forgets what is known of its pages, but for what was learned of its launches.
    pub fn forget_pages(&mut self, learned: Learned<FileId>) {
        self.is_taught |= !learned.hot.is_empty();
        self.forgotten = Some(learned);
        self.processes.iter_mut().for_each(Watched::forget);
        self.files = BTreeMap::new();
        self.used_file_pages = None;
        self.accessed_since_ns = None;
        self.freed = 0;
    }

    /// The place of the process whose slice it is.
    pub fn by_slice(&self, slice: u64) -> Option<usize> {
        self.processes.by_slice(slice)
    }

    pub fn remember(&mut self, relaunch: Relaunch) {
        if self.relaunches.len() == REMEMBERED {
            self.relaunches.pop_front();
        }
        self.relaunches.push_back(relaunch);
        self.sums.relaunches += 1;
        self.sums.prefetched += relaunch.prefetched;
        self.sums.prefetch_used += relaunch.prefetch_used;
        self.sums.prefetch_wasted += relaunch.prefetched - relaunch.prefetch_used;
    }

    /// Bytes that what is known of its pages takes.
    pub fn state_bytes(&self) -> usize {
        let processes = self.processes.iter().map(Watched::state_bytes);
        let files = self.files.values().map(Pages::state_bytes);
        processes.chain(files).sum()
    }

    /// Has the pages that could not be paged out tried again, where it is time for that. `has_ended`: a process of it has.
    /// How many they are.
    pub fn forget_refused(&mut self, has_ended: bool, now_ns: u64) -> u64 {
        let passed = Duration::from_nanos(now_ns.saturating_sub(self.refused_since_ns));
        if passed < self.retry_after && !(has_ended && passed >= EARLIEST_RETRY) {
            return 0;
        }
        let refused: u64 = (self.processes.iter_mut())
            .map(|process| process.pages.forget_refused())
            .sum();
        self.refused_since_ns = now_ns;
        if refused == 0 {
            self.retry_after = FIRST_RETRY;
        } else if passed >= self.retry_after {
            self.retry_after = (2 * self.retry_after).min(LAST_RETRY);
        }
        refused
    }

    pub fn swapped_pages(&self) -> u64 {
        self.processes.iter().map(|p| p.pages.swapped()).sum()
    }

    /// Pages of its processes, in memory or in swap.
    pub fn pages(&self) -> u64 {
        let pages = self.processes.iter().map(|process| &process.pages);
        pages.map(|pages| pages.present() + pages.swapped()).sum()
    }
}

#[cfg(test)]
mod tests {
    use warmswap_sys::pagemap::Residence;
    use warmswap_sys::process::Stat;

    use super::*;
    use crate::application::Members;

    fn app() -> App {
        let members = Members::Executable("x".to_owned());
        let name = "x".to_owned();
        App::new(AppId(0), Application { name, members })
    }

    #[test]
    fn numbers_hold_slice_and_page() {
        let PageAddr::Anon { number } = addr(65535, (1 << 36) - 1) else {
            panic!("anonymous")
        };
        assert!(number < 1 << 52);
        assert_eq!(place(number), (65535, (1 << 36) - 1));
    }

    #[test]
    fn a_process_keeps_its_slice_over_a_restart() {
        let id = ProcessId {
            pid: 4711,
            start_ticks: 99,
        };
        let slice = app().free_slice(id).unwrap();
        assert!(slice < SLICES);
        assert_eq!(app().free_slice(id), Some(slice));
    }

    #[test]
    fn what_was_refused_is_tried_again_ever_more_seldom_and_when_a_process_has_ended() {
        let root = Root::machine();
        let pid = std::process::id();
        let start_ticks = Stat::read(&root, pid).unwrap().start_ticks;
        let mut process = Watched::open(&root, ProcessId { pid, start_ticks }, 0).unwrap();
        process.look(&root, &mut Vec::new()).unwrap();
        let is_there = |&page: &u64| process.pages.residence(page) == Some(Residence::Present);
        let page = process.pages.numbers().find(is_there).unwrap();
        let mut app = app();
        process.pages.mark_refused(page);
        app.processes.push(process);
        // Seconds, whether a process has ended, whether a page that is refused is tried again.
        let steps = [
            (100, false, true),
            (219, false, false),
            (220, false, true),
            (229, true, false),
            (230, true, true),
            (469, false, false),
            (470, false, true),
        ];
        for (second, has_ended, is_tried) in steps {
            app.processes[0].pages.mark_refused(page);
            let tried = app.forget_refused(has_ended, second * 1_000_000_000);
            assert_eq!(tried, u64::from(is_tried), "{second} s");
            let is_refused = app.processes[0].pages.is_refused(page);
            assert_eq!(is_refused, !is_tried, "{second} s");
        }
        // Nothing is refused any more: it begins anew.
        app.forget_refused(false, 5_000_000_000_000);
        app.processes[0].pages.mark_refused(page);
        app.forget_refused(false, 5_060_000_000_000);
        assert!(!app.processes[0].pages.is_refused(page));
    }

    #[test]
    fn the_last_relaunches_are_remembered_and_all_are_counted() {
        let mut app = app();
        for n in 0..20 {
            app.remember(Relaunch {
                faults: n,
                prefetched: 3,
                prefetch_used: 2,
                ..Relaunch::default()
            });
        }
        assert_eq!((app.relaunches.len(), app.relaunches[0].faults), (16, 4));
        assert_eq!((app.sums.relaunches, app.sums.prefetch_wasted), (20, 20));
    }
}
