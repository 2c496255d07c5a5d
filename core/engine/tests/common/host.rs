//! Drives an engine over a [`ModelMemory`], checks every content that is read, and the budget at every step.
//!
//! What a host does with a decision, and when:
//! - `Drop`, `Discard`, `ReadFile` and `Free` are carried out when they are taken; they wait for nothing.
//! - `Store`, `StoreRaw`, `WriteBack`, `Load` and `Kill` may be carried out later, and reported in any
//!   order. Each has a beginning, where contents are read, and an end, where they are put in place and the
//!   report is made; other events may come between. Both ask the engine again which pages still count.
//! - A `Load` or `WriteBack` looks for its chunk where the chunk is then, in pool or backing file.
//! - An access that waits for a page is made when the `Load` that brings it is reported, before anything
//!   else can happen to the page.
//! - Before a page is touched, the host waits until a frame and a span of the pool are free, as long as
//!   something is under way that can free them.

use super::events::{Event, Setup, app_of, nth};
use super::memory::{Key, ModelMemory, SPAN_BYTES, Shape, key};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use warmswap_engine::{Action, Cause, Decision, Engine, Limits, Outcome, Place, Refusal};
use warmswap_page::Layout;
use warmswap_page::{AppId, FileId, LaunchKind, PAGE_BYTES, PageAddr};
use warmswap_policy::page::BLOCK_PAGES;
use warmswap_policy::{ChunkId, PageId, PageState, SchemeSpec};

/// When decisions are carried out.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// At once, each before the next is taken.
    AtOnce,
    /// Some time later, in an order drawn from this seed.
    Later(u64),
}

/// Something under way: a decision that was taken, and what was read when it was begun.
#[derive(Debug)]
struct Work {
    action: Action,
    read: Option<BTreeMap<PageId, u64>>,
}

/// An engine and its memory.
#[derive(Debug)]
pub struct Host {
    pub engine: Engine,
    pub memory: ModelMemory,
    /// Every decision so far.
    pub log: Vec<Decision>,
    /// What was last written to each page that exists.
    pub(super) truth: BTreeMap<Key, u64>,
    pub(super) pages: BTreeMap<Key, PageId>,
    /// The chunk in which a page was stored last.
    pub(super) copies: BTreeMap<PageId, ChunkId>,
    /// Accesses that wait for their page: true for a write.
    waiting: BTreeMap<PageId, Vec<bool>>,
    under_way: Vec<Work>,
    pace: Pace,
    version: u64,
    /// Applications, least recently used first.
    pub(super) used: Vec<AppId>,
    pub(super) foreground: BTreeSet<AppId>,
    pub(super) holds_budget: bool,
    pub(super) exceeded_before: u64,
    /// Decisions taken since the last event.
    taken: usize,
    /// The pool has pages of three objects, and takes none of more than a page.
    by_page: bool,
}

impl Host {
    pub fn new(spec: &SchemeSpec, limits: Limits, shape: Shape, pace: Pace) -> Self {
        let scheme = spec.build().unwrap_or_else(|error| panic!("{error}"));
        let holds_budget = !scheme.reclaim.is_unlimited();
        let by_page = scheme.layout != Layout::SizeClasses;
        let mut memory =
            ModelMemory::new(shape, limits.pool_limit_bytes, limits.backing_limit_bytes);
        if by_page {
            memory.largest_object = 4032;
        }
        Self {
            engine: Engine::new(scheme, limits).unwrap_or_else(|error| panic!("{error}")),
            memory,
            log: Vec::new(),
            truth: BTreeMap::new(),
            pages: BTreeMap::new(),
            copies: BTreeMap::new(),
            waiting: BTreeMap::new(),
            under_way: Vec::new(),
            pace,
            version: 0,
            used: Vec::new(),
            foreground: BTreeSet::new(),
            holds_budget,
            exceeded_before: 0,
            taken: 0,
            by_page,
        }
    }

    /// A host for one random run.
    pub fn of(spec: &SchemeSpec, setup: Setup, pace: Pace) -> Self {
        let mut host = Self::new(spec, setup.limits, setup.shape, pace);
        host.memory.fail_every = setup.fail_every;
        host
    }

    // ---- events ----

    /// Makes one event happen, with all that follows, and checks everything.
    pub fn apply(&mut self, event: Event) {
        match event {
            Event::Touch {
                app,
                from,
                pages,
                write,
            } => (0..pages).for_each(|n| {
                self.touch(app, nth(from, n), write);
            }),
            Event::Changed { app, from, pages } => {
                (0..pages).for_each(|n| self.changed(app, nth(from, n)));
            }
            Event::FileWritten { from, pages } => {
                (0..pages).for_each(|n| self.file_written(nth(from, n)));
            }
            Event::LaunchBegin(app, kind) => self.launch_begin(app, kind),
            Event::LaunchEnd(app) => self.engine.launch_end(app_of(app)),
            Event::Background(app) => self.background(app),
            Event::Shrink(app) => self.shrink(app),
            Event::Free { app, from, pages } => self.free(app, from, pages),
            Event::FreeBlocks { app, first, blocks } => {
                self.free_blocks(app, first..first + blocks);
            }
            Event::Exit(app) => self.exit(app_of(app)),
            Event::Idle => self.idle(),
        }
        self.check();
    }

    /// Touches a page. The outcome is the engine's; the content was checked, now or, with work under way,
    /// when it arrives.
    pub fn touch(&mut self, app: u16, addr: PageAddr, write: bool) -> Outcome {
        self.wait_for_a_frame();
        let app = app_of(app);
        self.use_app(app);
        let touch = self.engine.touch(app, addr, write);
        self.access(key(app, addr), touch.page, touch.outcome, write);
        self.settle();
        touch.outcome
    }

    /// A page is written unseen.
    pub fn changed(&mut self, app: u16, addr: PageAddr) {
        self.wait_for_a_frame();
        let app = app_of(app);
        let key = key(app, addr);
        let before = self
            .pages
            .get(&key)
            .map(|&page| self.engine.page_state(page));
        if !matches!(before, None | Some(PageState::Absent | PageState::Resident)) {
            self.use_app(app);
        }
        let touch = self.engine.changed(app, addr);
        self.access(key, touch.page, touch.outcome, true);
        self.settle();
    }

    /// A page of a file is written past the memory; not while it is on its way in.
    pub fn file_written(&mut self, addr: PageAddr) {
        let key = key(app_of(0), addr);
        let page = self.pages.get(&key).copied();
        let state = page.map(|page| self.engine.page_state(page));
        if state == Some(PageState::Loading) {
            return;
        }
        self.version += 1;
        self.memory.write_file(key, self.version);
        if let Some(page) = page {
            self.truth.insert(key, self.version);
            if let Some(content) = self.memory.frames.get_mut(&page) {
                *content = self.version;
            }
        }
        self.engine.file_written(app_of(0), addr);
        self.settle();
    }

    pub fn launch_begin(&mut self, app: u16, kind: LaunchKind) {
        let app = app_of(app);
        self.use_app(app);
        self.foreground.insert(app);
        self.engine.launch_begin(app, kind);
        self.settle();
    }

    pub fn background(&mut self, app: u16) {
        self.foreground.remove(&app_of(app));
        self.engine.background(app_of(app));
        self.settle();
    }

    pub fn shrink(&mut self, app: u16) {
        self.engine.shrink(app_of(app));
        self.settle();
    }

    pub fn free(&mut self, app: u16, from: PageAddr, pages: u32) {
        for n in 0..u64::from(pages) {
            self.lose(key(app_of(app), nth(from, n)));
        }
        self.engine.free(app_of(app), from, pages);
        self.settle();
    }

    /// These blocks of the application's anonymous pages are gone.
    pub fn free_blocks(&mut self, app: u16, blocks: Range<u64>) {
        let app = app_of(app);
        let is_gone = |number: u64| blocks.contains(&(number / BLOCK_PAGES as u64));
        let theirs = |key: &Key| match *key {
            (Some(of), PageAddr::Anon { number }) => of == app && is_gone(number),
            _ => false,
        };
        let keys: Vec<_> = self.pages.keys().copied().filter(theirs).collect();
        keys.into_iter().for_each(|key| self.lose(key));
        self.engine.free_blocks(app, is_gone);
        self.settle();
    }

    pub fn exit(&mut self, app: AppId) {
        self.end(app);
        self.settle();
    }

    /// Takes background decisions until there are none.
    pub fn idle(&mut self) {
        self.taken = 0;
        while let Some(decision) = self.engine.next_background_decision() {
            self.begin(decision);
        }
        self.some_work();
    }

    // ---- what it looks like ----

    /// The state of a page that exists.
    pub fn state(&self, app: u16, addr: PageAddr) -> PageState {
        match self.pages.get(&key(app_of(app), addr)) {
            Some(&page) => self.engine.page_state(page),
            None => PageState::Absent,
        }
    }

    /// Takes the log of decisions so far.
    pub fn take_log(&mut self) -> Vec<Action> {
        let log = std::mem::take(&mut self.log);
        log.into_iter().map(|decision| decision.action).collect()
    }

    /// Finishes what is under way.
    pub fn finish_all(&mut self) {
        while !self.under_way.is_empty() {
            self.work();
            self.take_decisions();
        }
        assert!(
            self.waiting.is_empty(),
            "a thread waits: {:?}",
            self.waiting
        );
    }

    // ---- accesses ----

    fn access(&mut self, key: Key, page: PageId, outcome: Outcome, write: bool) {
        self.pages.insert(key, page);
        match outcome {
            Outcome::Hit | Outcome::BufferHit | Outcome::Prepaged => {}
            Outcome::FirstTouch => {
                assert!(key.0.is_some(), "{key:?} is in a file");
                let before = self.truth.insert(key, 0);
                assert_eq!(before, None, "{key:?} existed");
                self.memory.fill(page, 0);
            }
            Outcome::FileRead => {
                let content = self.memory.read_file(key);
                self.memory.fill(page, content);
                self.truth.entry(key).or_insert(content);
            }
            Outcome::Fault(_) | Outcome::InFlight => {
                return self.waiting.entry(page).or_default().push(write);
            }
        }
        self.read_or_write(key, page, write);
    }

    fn read_or_write(&mut self, key: Key, page: PageId, write: bool) {
        let content = self
            .memory
            .frames
            .get_mut(&page)
            .unwrap_or_else(|| panic!("{key:?} is touched and has no frame"));
        assert_eq!(*content, self.truth[&key], "{key:?} has a wrong content");
        if write {
            self.version += 1;
            *content = self.version;
            self.truth.insert(key, self.version);
        }
    }

    /// The page is no longer used; called before the engine hears of it.
    fn lose(&mut self, key: Key) {
        self.truth.remove(&key);
        if let Some(page) = self.pages.remove(&key) {
            self.memory.frames.remove(&page);
            self.waiting.remove(&page);
            self.copies.remove(&page);
        }
    }

    fn end(&mut self, app: AppId) {
        let theirs = |key: &Key| key.0 == Some(app);
        let keys: Vec<_> = self.pages.keys().copied().filter(theirs).collect();
        keys.into_iter().for_each(|key| self.lose(key));
        self.foreground.remove(&app);
        self.under_way
            .retain(|work| work.action != Action::Kill { app });
        self.engine.exit(app);
    }

    fn use_app(&mut self, app: AppId) {
        self.used.retain(|&other| other != app);
        self.used.push(app);
    }

    // ---- decisions ----

    fn settle(&mut self) {
        self.taken = 0;
        self.check_budget();
        self.take_decisions();
        self.some_work();
    }

    fn take_decisions(&mut self) {
        while let Some(decision) = self.engine.next_decision() {
            self.begin(decision);
        }
        if self.reserve_is_whole() {
            self.exceeded_before = self.engine.counters().budget_exceeded;
        }
    }

    fn begin(&mut self, decision: Decision) {
        self.log.push(decision);
        self.taken += 1;
        let most = 8 * (self.pages.len() + self.memory.chunks.len() + 64);
        assert!(self.taken <= most, "no end of decisions: {decision:?}");
        let action = decision.action;
        match action {
            Action::Drop { page } => {
                let content = self.memory.release(page);
                let copy = &self.memory.chunks[&self.copies[&page]];
                assert_eq!(copy.contents.get(&page), Some(&content), "{page:?}'s copy");
            }
            Action::Discard { page, dirty } => self.discard(page, dirty),
            // Its `Free` follows: the chunk is there, with the page.
            Action::Forget { page, chunk } => {
                let copy = &self.memory.chunks[&chunk];
                assert!(copy.contents.contains_key(&page), "{page:?} in {chunk:?}");
            }
            Action::ReadFile {
                file, first, pages, ..
            } => {
                assert!(pages <= 512, "{action:?}");
                (first..first + u64::from(pages)).for_each(|number| self.read_file(file, number));
            }
            Action::Free {
                chunk,
                place,
                bytes,
            } => {
                self.memory.free(chunk, place, bytes);
                self.report_usage();
            }
            Action::Kill { app } => {
                self.check_kill(app);
                self.under_way.push(Work { action, read: None });
            }
            _ => self.under_way.push(Work { action, read: None }),
        }
        if matches!(self.pace, Pace::AtOnce) {
            while !self.under_way.is_empty() {
                self.work();
            }
        }
        self.check_budget();
    }

    fn read_file(&mut self, file: FileId, number: u64) {
        let addr = PageAddr::File { file, number };
        let key = key(AppId(0), addr);
        let page = self.engine.page(AppId(0), addr);
        assert_eq!(self.engine.page_state(page), PageState::Buffered, "{key:?}");
        let content = self.memory.read_file(key);
        self.memory.fill(page, content);
        self.pages.insert(key, page);
        self.truth.entry(key).or_insert(content);
    }

    fn discard(&mut self, page: PageId, dirty: bool) {
        let (app, addr) = self.engine.locate(page);
        let key = key(app, addr);
        let content = self.memory.release(page);
        if dirty {
            self.memory.write_file(key, content);
        }
        assert_eq!(self.memory.read_file(key), content, "{key:?} is not clean");
    }

    /// Begins or ends one of the things under way.
    fn work(&mut self) {
        let index = match &mut self.pace {
            Pace::AtOnce => 0,
            Pace::Later(seed) => {
                *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (*seed >> 33) as usize % self.under_way.len()
            }
        };
        let action = self.under_way[index].action;
        match self.under_way[index].read.take() {
            None => self.under_way[index].read = Some(self.read(action)),
            Some(read) => {
                self.under_way.swap_remove(index);
                self.finish(action, read);
                self.check_budget();
            }
        }
    }

    fn some_work(&mut self) {
        if let Pace::Later(seed) = self.pace {
            for _ in 0..(seed >> 60) {
                if !self.under_way.is_empty() {
                    self.work();
                    self.take_decisions();
                }
            }
        }
    }

    fn wait_for_a_frame(&mut self) {
        while self.holds_budget && self.free_bytes() < PAGE_BYTES as u64 + SPAN_BYTES {
            if self.under_way.is_empty() {
                return;
            }
            self.work();
            self.take_decisions();
        }
    }

    /// What a piece of work reads when it begins.
    fn read(&self, action: Action) -> BTreeMap<PageId, u64> {
        let pages = |chunk| self.engine.chunk_pages(chunk).to_vec().into_iter();
        match action {
            Action::Store { chunk, .. } | Action::StoreRaw { chunk } => pages(chunk)
                .filter(|&page| self.engine.is_leaving(chunk, page))
                .map(|page| (page, self.memory.frames[&page]))
                .collect(),
            Action::Load { chunk, .. } => pages(chunk)
                .filter(|&page| self.engine.is_loading(chunk, page))
                .map(|page| (page, self.memory.chunks[&chunk].contents[&page]))
                .collect(),
            _ => BTreeMap::new(),
        }
    }

    fn finish(&mut self, action: Action, read: BTreeMap<PageId, u64>) {
        match action {
            Action::Store { chunk, plan } => {
                let pages = self.engine.chunk_pages(chunk).to_vec();
                assert!(pages.len() <= plan.max_pages(), "{pages:?} for {plan}");
                if self.engine.wants_sample(chunk) {
                    let content = read.values().next().copied().unwrap_or_default();
                    let estimated_bytes = self.memory.estimated_bytes(content);
                    if !self.engine.admit(chunk, estimated_bytes, Cause::Background) {
                        return;
                    }
                }
                match self.memory.store(chunk, read) {
                    Ok(()) => self.stored(chunk, Place::Pool),
                    Err(refusal) => self.engine.refused(chunk, refusal),
                }
            }
            Action::StoreRaw { chunk } => {
                assert_eq!(self.engine.chunk_pages(chunk).len(), 1);
                if self.memory.store_raw(chunk, read) {
                    self.stored(chunk, Place::Backing);
                } else {
                    self.engine.refused(chunk, Refusal::BackingFailed);
                }
            }
            Action::WriteBack { chunk } => {
                if self.memory.write_back(chunk) {
                    self.engine.written_back(chunk);
                } else {
                    self.engine.write_back_failed(chunk);
                }
            }
            Action::Load { chunk, .. } => self.loaded(chunk, &read),
            Action::Kill { app } => self.end(app),
            Action::Free { .. }
            | Action::Drop { .. }
            | Action::Discard { .. }
            | Action::Forget { .. }
            | Action::ReadFile { .. } => {
                unreachable!("carried out when it was taken")
            }
        }
        self.report_usage();
    }

    /// The chunk is where it belongs: the frames of the pages that still leave are free.
    fn stored(&mut self, chunk: ChunkId, place: Place) {
        let stored = &self.memory.chunks[&chunk];
        let bytes = stored.bytes;
        for &page in &*self.engine.chunk_pages(chunk) {
            if self.engine.is_leaving(chunk, page) {
                let content = self.memory.frames.remove(&page);
                assert_eq!(
                    content,
                    stored.contents.get(&page).copied(),
                    "{page:?} is lost"
                );
                self.copies.insert(page, chunk);
            }
        }
        // At most three chunks have neighbouring numbers, as three objects have a page.
        let pool_page = (self.by_page && bytes > 0).then_some(chunk.0 / 3);
        self.engine.stored_at(chunk, place, bytes, pool_page);
    }

    fn loaded(&mut self, chunk: ChunkId, read: &BTreeMap<PageId, u64>) {
        let mut arrived = Vec::new();
        for &page in &*self.engine.chunk_pages(chunk) {
            if self.engine.is_loading(chunk, page) {
                let content = read
                    .get(&page)
                    .unwrap_or_else(|| panic!("{page:?} joined a load of {chunk:?} too late"));
                self.memory.fill(page, *content);
                arrived.push(page);
            }
        }
        self.engine.loaded(chunk);
        for page in arrived {
            let (app, addr) = self.engine.locate(page);
            for write in self.waiting.remove(&page).unwrap_or_default() {
                self.read_or_write(key(app, addr), page, write);
            }
        }
    }

    fn report_usage(&mut self) {
        self.engine.set_pool_bytes(self.memory.pool_bytes);
        self.engine.set_backing_bytes(self.memory.backing_bytes);
    }
}
