//! The engine, and what it is told of the page tables.

use warmswap_engine::{Action, Decision, Engine, Limits, Place};
use warmswap_page::PAGE_BYTES;
use warmswap_page::{AppId, PageAddr};
use warmswap_policy::SchemeSpec;
use warmswap_policy::page::BLOCK_PAGES;
use warmswap_policy::reclaim::Arrival;
use warmswap_sys::Root;
use warmswap_sys::accessed::Accessed;

use super::app::{App, addr, place};
use crate::application::ProcessId;
use crate::config::{HostConfig, PrepageBy};
use crate::counters::Counters;
use crate::error::HostError;
use crate::files::FileNames;
use crate::pages::{Change, What};
use crate::prepage::thread_cpu_ns;
use crate::watch::Watched;

/// A budget that nothing exceeds: the engine is told what happened, and is not to decide anything.
pub(super) const UNBOUNDED_BYTES: u64 = 1 << 50;

/// The part of a process's pages that is much when it is new, and of an application's when it was freed.
const MUCH_IS_NEW: u64 = 4;

/// So few freed pages are never much.
const FEW_FREED_PAGES: u64 = 1024;

/// What is looked at, and for what.
#[derive(Debug, Clone, Copy)]
pub(super) enum Sight<'a> {
    /// All: what is there was there before.
    First,
    /// All: what is new happened since the last look.
    News,
    /// What became of these pages, which ascend.
    Around(&'a [u64]),
}

/// What all applications share.
#[derive(Debug)]
pub(super) struct Core {
    pub root: Root,
    pub engine: Engine,
    pub counters: Counters,
    /// The files that applications have mapped.
    pub names: FileNames,
    pub prepage_by: PrepageBy,
    pub evidence_launches: u8,
    /// Reads accessed bits; or why that cannot be done.
    pub accessed: Result<Accessed, String>,
    /// The host leaves all to the kernel.
    pub stands_aside: bool,
    /// Since when memory is not ample; none while it is, or the host stands aside.
    pub short_since_ns: Option<u64>,
    /// What a page takes in the compressed pool, in bytes; the kernel does not say it of each.
    pub mean_page_bytes: u32,
    changes: Vec<Change>,
}

impl Core {
    pub fn new(root: &Root, engine: Engine, prepage_by: PrepageBy, evidence_launches: u8) -> Self {
        Self {
            root: root.clone(),
            engine,
            counters: Counters::default(),
            names: FileNames::default(),
            prepage_by,
            evidence_launches,
            accessed: Err(String::new()),
            stands_aside: false,
            short_since_ns: Some(0),
            mean_page_bytes: PAGE_BYTES as u32 / 3,
            changes: Vec::new(),
        }
    }

    /// Memory was ample when it was last asked for.
    pub fn is_ample(&self) -> bool {
        self.short_since_ns.is_none()
    }

    /// What was found of that now.
    pub fn set_ample(&mut self, is_ample: bool, now_ns: u64) {
        let since_ns = self.short_since_ns.unwrap_or(now_ns);
        self.short_since_ns = (!is_ample).then_some(since_ns);
    }

    /// Looks at those processes of the application where something is worth it. Processes that are gone are left to
    /// the next search. While the host stands aside, nothing of them is known, and nobody asks.
    pub fn look(&mut self, app: &mut App) {
        if self.stands_aside {
            return;
        }
        if app.is_unknown {
            return self.look_first(app);
        }
        let begin = thread_cpu_ns();
        for at in 0..app.processes.len() {
            let process = &app.processes[at];
            if !process.is_untouchable && process.news(&self.root) >= self.worth_a_look(process) {
                self.look_at(app, at, Sight::News);
            }
        }
        self.forget_freed(app);
        app.sums.cpu_ns += thread_cpu_ns() - begin;
    }

    /// The news in a process that are worth a look. With ample memory and all its pages there, a look tells what is
    /// new and nothing else, and nobody asks yet: it can wait until much is new.
    fn worth_a_look(&self, process: &Watched) -> u64 {
        if self.is_ample() && process.pages.swapped() == 0 {
            (process.pages.present() / MUCH_IS_NEW).max(1)
        } else {
            1
        }
    }

    /// Looks at all processes of the application for the first time: what is there was there before.
    fn look_first(&mut self, app: &mut App) {
        app.is_unknown = false;
        for at in 0..app.processes.len() {
            self.look_at(app, at, Sight::First);
            self.mark_taught(app, at);
        }
    }

    /// Looks at one process.
    pub fn look_at(&mut self, app: &mut App, at: usize, sight: Sight<'_>) {
        let mut changes = std::mem::take(&mut self.changes);
        changes.clear();
        let process = &mut app.processes[at];
        let executed = process.executed;
        self.counters.scans += 1;
        let result = match sight {
            Sight::First | Sight::News => process.look(&self.root, &mut changes),
            Sight::Around(pages) => process.look_around(&self.root, pages, &mut changes),
        };
        match result {
            Ok(()) => {}
            Err(e) if e.is_gone() => self.counters.process_gone += 1,
            Err(_) => self.counters.process_unreadable += 1,
        }
        self.counters.process_executed += app.processes[at].executed - executed;
        self.engine.set_budget_bytes(UNBOUNDED_BYTES);
        let is_first = matches!(sight, Sight::First);
        for &change in &changes {
            self.tell(app, at, change, is_first);
        }
        self.drain();
        self.changes = changes;
    }

    fn tell(&mut self, app: &mut App, at: usize, change: Change, first: bool) {
        let page = addr(app.processes[at].slice(), change.page);
        match change.what {
            What::Appeared => {
                let arrival = if first {
                    Arrival::Untouched
                } else {
                    Arrival::Touched
                };
                self.engine.served(app.id, page, arrival);
                app.grown_bytes += PAGE_BYTES as u64;
            }
            What::AppearedSwapped => {
                self.engine.served(app.id, page, Arrival::Untouched);
                self.engine.send_away(app.id, page);
            }
            What::CameBack { ahead } => self.came_back(app, at, change.page, ahead),
            What::Left => {
                self.counters.left_by_kernel += 1;
                self.engine.send_away(app.id, page);
            }
            What::Freed => {
                app.freed += 1;
                self.engine.free(app.id, page, 1);
            }
        }
    }

    fn came_back(&mut self, app: &mut App, at: usize, number: u64, ahead: bool) {
        let page = addr(app.processes[at].slice(), number);
        app.grown_bytes += PAGE_BYTES as u64;
        let mut arrival = Arrival::Touched;
        if ahead && self.prepage_by == PrepageBy::Read {
            // It is there because it was read for it. Whether it is used is not seen: for a while it is held
            // to be.
            let is_likely =
                app.processes[at]
                    .pages
                    .is_needed(number, app.launch, self.evidence_launches);
            if !is_likely {
                arrival = Arrival::Untouched;
            }
        } else {
            self.counters.came_back += 1;
            if app.window.is_some() {
                app.processes[at].pages.mark_seen(number, app.launch);
            }
        }
        if let Some(window) = &mut app.window {
            window.faults += u64::from(!ahead);
            window.used += u64::from(ahead && arrival == Arrival::Touched);
        }
        self.engine.served(app.id, page, arrival);
    }

    /// Reports what happened already as done, and declines what this host does not do.
    pub fn drain(&mut self) {
        while let Some(Decision { action, .. }) = self.engine.next_decision() {
            self.pass_over(action);
        }
    }

    /// One decision that is not carried out, or has been.
    pub fn pass_over(&mut self, action: Action) {
        match action {
            Action::Store { chunk, .. } => {
                self.engine.stored(chunk, Place::Pool, self.mean_page_bytes);
            }
            Action::StoreRaw { chunk } => {
                self.engine.stored(chunk, Place::Backing, PAGE_BYTES as u32);
            }
            Action::Load { chunk, .. } => self.engine.load_abandoned(chunk),
            Action::WriteBack { chunk } => self.engine.write_back_failed(chunk),
            Action::Kill { .. } => self.engine.kill_refused(),
            Action::ReadFile {
                file, first, pages, ..
            } => {
                // Pages of files belong to no application.
                let first = PageAddr::File {
                    file,
                    number: first,
                };
                self.engine.free(AppId(0), first, pages);
            }
            Action::Free { .. }
            | Action::Drop { .. }
            | Action::Discard { .. }
            | Action::Forget { .. } => {}
        }
    }

    /// Has the engine give back what it keeps of parts of the address space that are freed, once much is: otherwise a
    /// program that allocates at ever new addresses would have it grow without end. Costs about 100 ns for 64 pages.
    fn forget_freed(&mut self, app: &mut App) {
        if app.freed < FEW_FREED_PAGES.max(app.pages() / MUCH_IS_NEW) {
            return;
        }
        app.freed = 0;
        let app = &*app;
        self.engine.free_blocks(app.id, |first| {
            let (slice, page) = place(first);
            let pages = page..page + BLOCK_PAGES as u64;
            app.by_slice(slice)
                .is_some_and(|at| !app.processes[at].pages.is_any(pages))
        });
        self.drain();
    }

    /// Forgets the processes that ended, or are watched no more: those for which `stays` does not hold. Their slices and
    /// all that is kept for the pages in them are for others.
    pub fn forget_gone(&mut self, app: &mut App, stays: impl Fn(ProcessId) -> bool) {
        let gone = app.processes.take_gone(stays);
        if gone.is_empty() {
            return;
        }
        // Its hot pages are no more.
        app.has_learned = true;
        self.engine
            .free_blocks(app.id, |first| gone.contains(&place(first).0));
        self.drain();
    }
}

/// An engine that knows no pages yet, for a host that sees accesses of pages that stay in memory, or faults alone.
pub(super) fn engine(config: &HostConfig, sees_accesses: bool) -> Result<Engine, HostError> {
    let scheme = SchemeSpec::parse(config.scheme(sees_accesses))?.build()?;
    let limits = Limits {
        budget_bytes: UNBOUNDED_BYTES,
        pool_limit_bytes: UNBOUNDED_BYTES,
        backing_limit_bytes: UNBOUNDED_BYTES,
    };
    let mut engine = Engine::new(scheme, limits)?;
    if !sees_accesses {
        engine.touches_are_unseen();
    }
    Ok(engine)
}

#[cfg(test)]
mod tests {
    use warmswap_sys::pagemap::{Region, Residence};
    use warmswap_sys::process::Stat;

    use super::*;
    use crate::application::{Application, Members};
    use crate::pages::{ALL, note};

    fn core(scheme: &str) -> Core {
        let scheme = scheme.to_owned();
        let config = HostConfig {
            scheme,
            ..HostConfig::default()
        };
        let engine = engine(&config, true).unwrap();
        Core::new(&Root::machine(), engine, PrepageBy::Read, 1)
    }

    #[test]
    fn what_is_kept_of_freed_pages_is_kept_of_others_then() {
        let mut core = core("asap+reclaim=adaptive:rule=history");
        let members = Members::Executable("x".to_owned());
        let name = "x".to_owned();
        let mut app = App::new(AppId(0), Application { name, members });
        let pid = std::process::id();
        let start_ticks = Stat::read(&core.root, pid).unwrap().start_ticks;
        let id = ProcessId { pid, start_ticks };
        app.processes
            .push(Watched::open(&core.root, id, 3).unwrap());
        let region = |first, count| Region {
            first,
            count,
            residence: Residence::Present,
        };
        let mut state_bytes = Vec::new();
        // 4096 pages that stay, and as many that are elsewhere each time.
        for turn in 1..50 {
            let mut fresh = Vec::new();
            note(&mut fresh, region(1 << 20, 4096));
            note(&mut fresh, region((1 << 20) + turn * 4096, 4096));
            let mut changes = Vec::new();
            app.processes[0].pages.compare(ALL, &fresh, &mut changes);
            for change in changes {
                core.tell(&mut app, 0, change, false);
            }
            core.forget_freed(&mut app);
            state_bytes.push(core.engine.state_bytes());
            assert_eq!(core.engine.usage().frames, 8192);
        }
        assert_eq!(state_bytes[2], state_bytes[48], "{state_bytes:?}");
    }

    #[test]
    fn memory_is_short_since_it_was_first_found_to_be() {
        let mut core = core("asap");
        assert!(!core.is_ample(), "until it was asked for");
        core.set_ample(true, 5);
        assert!(core.is_ample());
        for now_ns in [7, 9] {
            core.set_ample(false, now_ns);
            assert_eq!(core.short_since_ns, Some(7));
        }
        core.set_ample(true, 11);
        core.set_ample(false, 13);
        assert_eq!(
            core.short_since_ns,
            Some(13),
            "whoever was looked at before is overdue"
        );
    }
}
