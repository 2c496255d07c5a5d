//! The engine with all that only the holder of its lock uses: who owns which pages, what is charged to the
//! budget, and the carrying out of decisions.

mod ahead;
mod allowance;
mod carry_out;
mod files;
mod leave;
mod program;
mod program_files;
mod program_kernel;
#[cfg(test)]
mod testing;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::Ordering;

use rustc_hash::FxHashMap;
use warmswap_codec::Scratch;
use warmswap_engine::calls::{Answer, Call};
use warmswap_engine::chunks::MAX_CHUNK_PAGES;
use warmswap_engine::{Decision, Outcome};
use warmswap_page::{AppId, LaunchKind, PAGE_BYTES, PageAddr};
use warmswap_policy::PageId;
use warmswap_policy::reclaim::Arrival;
use warmswap_store::Encoder;
use warmswap_sys::uffd::PagedError;

use crate::content_hash::ContentHash;
use crate::directory::{Claim, Directory, State, Word};
use crate::error::{ArenaError, ServeError};
use crate::service::Core;
use crate::tape::Taped;

use ahead::Ahead;
pub use allowance::Allowance;
use files::FileTable;
pub use program::{Mapped, Program};

/// Pages that are put out of sight at a time.
const BATCH_PAGES: usize = 64;

/// Batches between two chances for others to get the lock.
const BATCHES_PER_TURN: usize = 8;

/// Stores between two looks at the pool's gaps.
const STORES_BETWEEN_COMPACTIONS: u64 = 256;

/// The same after looks that gained nothing: a pool with two or three objects a page never gains.
const MOST_STORES_BETWEEN_COMPACTIONS: u64 = 64 * STORES_BETWEEN_COMPACTIONS;

/// Objects that are moved at one of them, at most.
const MOVES_OF_COMPACTION: u64 = 256;

/// Frames beyond what is waited for, when faults go beyond the budget: others follow.
const OVERCOMMIT_FRAMES: usize = 32;

/// Pages whose content is given up at a time.
const EMPTIED_PAGES: usize = 512;

/// What the pager counts; all in pages unless they say otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct PagerCounts {
    /// Pages that were compressed on their way out.
    pub compressed: u64,
    /// Pages that left without compression, since their kept copy has the same hash.
    pub left_clean: u64,
    /// Pages that were chosen to leave and had been written to since they came back.
    pub found_dirty: u64,
    /// Pages that stayed because they were pinned, shared, or touched again on their way out.
    pub stayed: u64,
    /// Chunks that were prefetched into staging.
    pub prefetched_chunks: u64,
    /// Pages of them.
    pub prefetched_pages: u64,
    /// Times that faults were given frames beyond the budget, since nothing could be given up.
    pub overcommits: u64,
}

/// The engine and its accounts. See the module.
#[derive(Debug)]
pub struct Brain {
    pub engine: Taped,
    pub counts: PagerCounts,
    /// First page and number of pages of each region; all whole grains.
    regions: BTreeMap<usize, usize>,
    /// The owner of each grain.
    owners: Vec<AppId>,
    apps: Vec<App>,
    mapped_pages: usize,
    files: FileTable,
    /// The addresses of a program whose whole memory this is.
    pub program: Program,
    /// How many want each pinned page to stay.
    pins: FxHashMap<usize, usize>,
    /// Chunk numbers used so far.
    chunks: usize,
    allowance: Allowance,
    keep_copies: bool,
    content_hash: ContentHash,
    /// The pool's stores when it was last compacted.
    compacted_at: u64,
    /// After so many more the gaps in it are closed again.
    compacts_after: u64,
    /// The footprint on its way back.
    pub ahead: Ahead,
    encoder: Encoder,
    plain: Vec<u8>,
    record: Vec<u8>,
    /// Pages that stay although the engine dropped them; told after the batch.
    stayed: Vec<usize>,
}

#[derive(Clone, Copy, Debug, Default)]
struct App {
    in_use: bool,
    /// It was in the foreground before.
    was_launched: bool,
    /// Its launch window is open.
    is_launching: bool,
}

impl Brain {
    pub fn new(engine: Taped, allowance: Allowance, keep_copies: bool, space_pages: usize) -> Self {
        Self {
            engine,
            counts: PagerCounts::default(),
            regions: BTreeMap::new(),
            owners: vec![AppId(0); space_pages / Directory::GRAIN_PAGES],
            apps: Vec::new(),
            mapped_pages: 0,
            files: FileTable::new(space_pages),
            program: Program::new(space_pages),
            pins: FxHashMap::default(),
            chunks: 0,
            allowance,
            keep_copies,
            content_hash: ContentHash::new(),
            compacted_at: 0,
            compacts_after: STORES_BETWEEN_COMPACTIONS,
            ahead: Ahead::default(),
            encoder: Encoder::new(Scratch::lean()),
            plain: vec![0; MAX_CHUNK_PAGES * PAGE_BYTES],
            record: Vec::new(),
            stayed: Vec::new(),
        }
    }

    // ---- applications and regions ----

    /// Takes a number for an application.
    pub fn add_app(&mut self) -> Result<AppId, ArenaError> {
        let free = self.apps.iter().position(|app| !app.in_use);
        let index = free.unwrap_or(self.apps.len());
        let id = u16::try_from(index).map_err(|_| ArenaError::Applications)?;
        if id == u16::MAX {
            return Err(ArenaError::Applications);
        }
        if index == self.apps.len() {
            self.apps.push(App::default());
        }
        self.apps[index] = App {
            in_use: true,
            ..App::default()
        };
        Ok(AppId(id))
    }

    /// Forgets an application, all of whose regions are gone.
    pub fn remove_app(&mut self, app: AppId) {
        // The next application to be added gets its number.
        self.engine.call(Call::Retire(app));
        self.apps[usize::from(app.0)] = App::default();
    }

    /// A launch window opens.
    pub fn launch_begin(&mut self, app: AppId) {
        let state = &mut self.apps[usize::from(app.0)];
        state.is_launching = true;
        self.ahead.launches += 1;
        let kind = if std::mem::replace(&mut state.was_launched, true) {
            LaunchKind::Relaunch
        } else {
            LaunchKind::Cold
        };
        self.engine.call(Call::LaunchBegin(app, kind));
    }

    /// The launch window, if it is open, closes.
    pub fn launch_end(&mut self, app: AppId) {
        let state = &mut self.apps[usize::from(app.0)];
        if std::mem::replace(&mut state.is_launching, false) {
            self.engine.call(Call::LaunchEnd(app));
            self.ahead.cancel();
        }
    }

    /// Finds room for a region, maps it, and makes its pages known.
    pub fn add_region(
        &mut self,
        core: &Core,
        app: AppId,
        pages: usize,
    ) -> Result<usize, ArenaError> {
        let first = self.map_region(core, app, pages)?;
        self.open_region(core, first..first + pages, Word::of(State::Fresh));
        Ok(first)
    }

    /// Finds room for a region and maps it; its pages have no words yet.
    fn map_region(&mut self, core: &Core, app: AppId, pages: usize) -> Result<usize, ArenaError> {
        let grain = Directory::GRAIN_PAGES;
        // The grain behind a region stays unmapped, so that running over its end is noticed.
        let whole = pages.next_multiple_of(grain) + grain;
        let space_pages = self.owners.len() * grain;
        let mut first = 0;
        for (&start, &taken) in &self.regions {
            if start - first >= whole {
                break;
            }
            first = start + taken;
        }
        if space_pages - first < whole {
            return Err(ArenaError::AddressSpace {
                bytes: pages * PAGE_BYTES,
                space_bytes: space_pages * PAGE_BYTES,
            });
        }
        core.memory.map(first, pages)?;
        self.regions.insert(first, whole);
        self.mapped_pages += whole;
        self.owners[first / grain..(first + whole) / grain].fill(app);
        Ok(first)
    }

    /// From now on the pages can be touched.
    fn open_region(&mut self, core: &Core, pages: Range<usize>, word: Word) {
        for page in pages {
            core.directory.update(page, |_| Some(word));
        }
        self.report(core);
    }

    /// Takes a region's pages out of everything and unmaps them. Nobody uses its addresses any more, but
    /// faults of other regions may be bringing its pages along.
    pub fn remove_region(
        &mut self,
        core: &Core,
        app: AppId,
        first: usize,
        pages: usize,
    ) -> Result<(), ServeError> {
        self.empty(core, app, first..first + pages, Word::of(State::Unmapped))?;
        core.memory.unmap(first, pages)?;
        self.remove_file(core, first);
        if let Some(whole) = self.regions.remove(&first) {
            self.mapped_pages -= whole;
            // Words of unmapped pages are zero: giving their memory back changes nothing but that.
            let _ = core.directory.discard(first, whole);
        }
        self.report(core);
        Ok(())
    }

    /// Gives up the content of pages of a region, which read as zeros afterwards.
    pub fn make_fresh(
        &mut self,
        core: &Core,
        app: AppId,
        pages: Range<usize>,
    ) -> Result<(), ServeError> {
        self.empty(core, app, pages, Word::of(State::Fresh))?;
        self.report(core);
        Ok(())
    }

    /// Gives up the content of pages. Each has this word then, while its frame is gone already.
    fn empty(
        &mut self,
        core: &Core,
        app: AppId,
        pages: Range<usize>,
        after: Word,
    ) -> Result<(), ServeError> {
        let discard = |pages: Range<usize>| core.memory.discard(pages.start, pages.len());
        self.empty_by(core, app, pages, (after, &discard))
    }

    /// The same, where `remove` sees to it that the frames go. It is called for a part of the pages at a time, while
    /// these are held.
    fn empty_by(
        &mut self,
        core: &Core,
        app: AppId,
        pages: Range<usize>,
        (after, remove): (Word, &dyn Fn(Range<usize>) -> Result<(), PagedError>),
    ) -> Result<(), ServeError> {
        // What is still in the queue would be told of pages that are no more.
        self.hear(core);
        let mut first = pages.start;
        while first < pages.end {
            let end = pages.end.min(first + EMPTIED_PAGES);
            // Held until the frames are gone: a touch meanwhile waits, and finds the page fresh.
            let claims: Vec<_> = (first..end).map(|page| hold(core, page)).collect();
            let claims = claims.into_iter().flatten();
            if let Err(error) = remove(first..end) {
                claims.for_each(|claim| core.release(claim, |before| before));
                return Err(error.into());
            }
            let mut in_place = 0;
            for mut claim in claims {
                in_place += usize::from(matches!(
                    claim.before.state,
                    State::Resident | State::Protected
                ));
                if let Some(slot) = claim.take_slot() {
                    core.frames.put_free(slot);
                }
                let pinned = claim.before.pinned;
                claim.release(after.pinned(pinned && after.state != State::Unmapped));
            }
            core.frames.released(in_place);
            let (_, addr) = self.locate(first);
            self.engine
                .call(Call::Free(app, addr, (end - first) as u32));
            first = end;
        }
        Ok(())
    }

    /// Every page of every region, and those of the unmapped grain behind each.
    pub fn pages(&self) -> impl Iterator<Item = usize> + '_ {
        self.regions
            .iter()
            .flat_map(|(&first, &n)| first..first + n)
            .chain(self.program.adopted_pages())
    }

    /// One more wants the page to stay; how many they are now.
    pub fn pin(&mut self, page: usize) -> usize {
        let count = self.pins.entry(page).or_default();
        *count += 1;
        *count
    }

    /// One less wants the page to stay; how many are left.
    pub fn unpin(&mut self, page: usize) -> usize {
        let Some(count) = self.pins.get_mut(&page) else {
            return 0;
        };
        *count -= 1;
        let left = *count;
        if left == 0 {
            self.pins.remove(&page);
        }
        left
    }

    /// The owner and address of a page.
    pub fn locate(&self, page: usize) -> (AppId, PageAddr) {
        let owner = self.owners[page / Directory::GRAIN_PAGES];
        let number = page as u64;
        // Where a program unmapped a part of a file there may be other memory by now.
        let is_file = |_: &PageAddr| !self.program.is_open(page);
        let addr = self.files.addr(page).filter(is_file);
        (owner, addr.unwrap_or(PageAddr::Anon { number }))
    }

    /// The number of a page that the engine knows.
    fn number(&self, page: PageId) -> usize {
        match self.engine.locate(page).1 {
            PageAddr::Anon { number } => number as usize,
            PageAddr::File { file, number } => self.files.page(file, number),
        }
    }

    /// The application's hot pages.
    pub fn hot_set(&self, app: AppId) -> Vec<u32> {
        let pages = self.engine.hot_set(app);
        pages.map(|page| self.number(page) as u32).collect()
    }

    // ---- the engine's ears ----

    /// Tells the engine what the fault path did.
    pub fn hear(&mut self, core: &Core) {
        // What is done by now has its news in the queue.
        let done = self.ahead.take_done();
        if core.news.take_overflow() {
            let pages: Vec<_> = self.pages().collect();
            pages.into_iter().for_each(|page| self.hear_of(core, page));
        }
        while let Some(page) = core.news.pop() {
            self.hear_of(core, page);
        }
        done.iter().for_each(|job| self.hear_of_job(core, job));
    }

    fn hear_of(&mut self, core: &Core, page: usize) {
        if let Some(arrival) = core.directory.take_news(page) {
            let (app, addr) = self.locate(page);
            let answer = self.engine.call(Call::Served(app, addr, arrival));
            // Touches of pages that are in their place are not seen. So that the hot set is complete, what
            // comes along with a touched page in a launch window, or ahead of it, counts as touched. A footprint
            // is watched instead.
            let is_watched = answer == Answer::Outcome(Outcome::Prepaged);
            let is_launching = self.apps[usize::from(app.0)].is_launching;
            if arrival == Arrival::Untouched && is_launching && !is_watched {
                self.engine.call(Call::Touch(app, addr, false));
            }
        }
    }

    /// The page is in its place and stays there, although the engine wanted it to leave.
    fn stays(&mut self, page: usize) {
        self.counts.stayed += 1;
        let (app, addr) = self.locate(page);
        self.engine.call(Call::Served(app, addr, Arrival::Touched));
    }

    // ---- accounts ----

    /// Bytes that describe pages and chunks.
    pub fn state_bytes(&self, core: &Core) -> (usize, usize) {
        let directory = self.mapped_pages * core.directory.bytes_per_page()
            + (self.chunks * core.store.bytes_per_chunk()).next_multiple_of(PAGE_BYTES)
            + core.frames.state_bytes();
        (self.engine.state_bytes(), directory)
    }

    /// All that is used beside frames: the pool, and what describes pages and chunks.
    fn other_bytes(&self, core: &Core) -> u64 {
        let (engine, directory) = self.state_bytes(core);
        core.store.pool.stats().memory_bytes + engine as u64 + directory as u64
    }

    /// Tells the engine what is used, and the fault path what it may take.
    pub fn report(&mut self, core: &Core) {
        let other_bytes = self.other_bytes(core);
        self.engine.call(Call::SetPoolBytes(other_bytes));
        self.engine
            .call(Call::SetBackingBytes(core.store.backing_bytes()));
        let stored_only = self.engine.stored_only_pages();
        core.counts
            .stored_only
            .store(stored_only, Ordering::Relaxed);
        let marks = self.engine.watermarks();
        let reserve = marks.min_frames / 2;
        let frames = self.allowance.bytes().saturating_sub(other_bytes) / PAGE_BYTES as u64;
        let limit = frames.saturating_sub(reserve) as usize;
        let low = (marks.low_frames - reserve) as usize;
        core.frames.set_limits(limit, low);
    }

    /// Works until there is nothing to do, or until others should have a turn; true in the second case.
    pub fn work(&mut self, core: &Core) -> Result<bool, ServeError> {
        self.hear(core);
        if self.allowance.ease() {
            self.set_limits();
        }
        self.compact(core);
        self.report(core);
        let mut batch = Vec::new();
        for _ in 0..BATCHES_PER_TURN {
            self.collect(&mut batch);
            if batch.is_empty() {
                return Ok(false);
            }
            self.put_out_of_sight(core, &batch)?;
            for decision in batch.drain(..) {
                self.carry_out(core, decision)?;
                self.report(core);
            }
            self.hand_over();
            for page in std::mem::take(&mut self.stayed) {
                self.stays(page);
            }
            core.frames.trim(&core.memory, usize::MAX)?;
            self.hear(core);
        }
        Ok(true)
    }

    /// Closes gaps in the pool now and then while frames are few: a span gained holds five of them for what it takes to
    /// compress one page.
    fn compact(&mut self, core: &Core) {
        if core.frames.available() as u64 > self.engine.watermarks().high_frames {
            return;
        }
        let stores = core.store.pool.stats().stores;
        if stores.abs_diff(self.compacted_at) >= self.compacts_after {
            let released_bytes = core.store.pool.compact(MOVES_OF_COMPACTION).released_bytes;
            self.compacts_after = if released_bytes > 0 {
                STORES_BETWEEN_COMPACTIONS
            } else {
                (2 * self.compacts_after).min(MOST_STORES_BETWEEN_COMPACTIONS)
            };
            self.compacted_at = stores;
        }
    }

    /// Takes decisions for about a batch of pages.
    fn collect(&mut self, batch: &mut Vec<Decision>) {
        let mut pages = 0;
        while pages < BATCH_PAGES
            && let Some(decision) = self.engine.next_background_decision()
        {
            pages += self.pages_to_leave(decision.action).count().max(1);
            batch.push(decision);
        }
    }

    /// Lets faults that wait go beyond the budget, since nothing can be given up within it. The pool may grow along,
    /// so that what is beyond it is compressed, too.
    pub fn overcommit(&mut self, core: &Core) {
        self.counts.overcommits += 1;
        let frames = core.frames.held() + core.frames.waiting() + OVERCOMMIT_FRAMES;
        let reserve = self.engine.watermarks().min_frames;
        let frame_bytes = (frames as u64 + reserve) * PAGE_BYTES as u64;
        self.allowance.exceed(self.other_bytes(core) + frame_bytes);
        self.set_limits();
        self.report(core);
    }

    /// Tells the engine what it may use.
    fn set_limits(&mut self) {
        let (budget, pool) = (self.allowance.bytes(), self.allowance.pool_limit_bytes());
        self.engine.call(Call::SetBudgetBytes(budget));
        self.engine.call(Call::SetPoolLimitBytes(pool));
    }
}

/// Takes hold of a page that has a word, waiting for whoever holds it: they do not wait for us.
fn hold(core: &Core, page: usize) -> Option<Claim<'_>> {
    loop {
        let word = core.directory.settled(page);
        if word.state == State::Unmapped {
            return None;
        }
        let claim = core.directory.claim(page, word);
        if claim.is_some() {
            return claim;
        }
    }
}
