//! The engine with all that only the holder of its lock uses: the owners of pages, what is charged to the
//! budget, and the carrying out of decisions.

mod ahead;
mod allowance;
mod carry_out;
mod empty;
mod files;
mod leave;
#[cfg(test)]
pub(crate) mod testing;

use std::ops::Range;
use std::sync::atomic::Ordering;

use warmswap_codec::Scratch;
use warmswap_engine::calls::{Answer, Call};
use warmswap_engine::chunks::MAX_CHUNK_PAGES;
use warmswap_engine::{Decision, Outcome};
use warmswap_page::{AppId, LaunchKind, PAGE_BYTES, PageAddr};
use warmswap_policy::PageId;
use warmswap_policy::reclaim::Arrival;
use warmswap_store::Encoder;

use crate::address_map::AddressMap;
use crate::content_hash::ContentHash;
use crate::error::{ArenaError, FaultError};
use crate::fault::Core;
use crate::page_words::{Claim, State, Word};
use crate::tape::RecordedEngine;

use ahead::Ahead;
pub use allowance::Allowance;
pub use files::FileTable;

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

/// By how much the pool grows at a time where it is full and nothing can leave.
const POOL_STEP_BYTES: u64 = 256 << 10;

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
pub struct Pager<M> {
    /// The engine, with a log of its calls.
    pub engine: RecordedEngine,
    /// What was done.
    pub counts: PagerCounts,
    /// What is mapped where.
    pub map: M,
    /// Files that are mapped, by number.
    pub files: FileTable,
    apps: Vec<AppPhase>,
    /// Chunk numbers used so far.
    chunks: usize,
    allowance: Allowance,
    keep_copies: bool,
    content_hash: ContentHash,
    /// The pool's stores when it was last compacted.
    compacted_at: u64,
    /// After so many more the gaps in it are closed again.
    compacts_after: u64,
    /// Pages compressed when the pool was last allowed to grow beyond its share.
    compressed_at_step: u64,
    /// The footprint on its way back.
    pub ahead: Ahead,
    encoder: Encoder,
    plain: Vec<u8>,
    record: Vec<u8>,
    /// Pages that stay although the engine dropped them; told after the batch.
    stayed: Vec<usize>,
}

#[derive(Clone, Copy, Debug, Default)]
struct AppPhase {
    in_use: bool,
    /// It was in the foreground before.
    was_launched: bool,
    /// Its launch window is open.
    is_launching: bool,
}

impl<M: AddressMap> Pager<M> {
    /// A pager without pages.
    pub(crate) fn new(
        engine: RecordedEngine,
        allowance: Allowance,
        keep_copies: bool,
        (map, space_pages): (M, usize),
    ) -> Self {
        Self {
            engine,
            counts: PagerCounts::default(),
            map,
            files: FileTable::new(space_pages),
            apps: Vec::new(),
            chunks: 0,
            allowance,
            keep_copies,
            content_hash: ContentHash::new(),
            compacted_at: 0,
            compacts_after: STORES_BETWEEN_COMPACTIONS,
            compressed_at_step: 0,
            ahead: Ahead::default(),
            encoder: Encoder::new(Scratch::lean()),
            plain: vec![0; MAX_CHUNK_PAGES * PAGE_BYTES],
            record: Vec::new(),
            stayed: Vec::new(),
        }
    }

    // ---- applications and pages ----

    /// Takes a number for an application.
    pub fn add_app(&mut self) -> Result<AppId, ArenaError> {
        let free = self.apps.iter().position(|app| !app.in_use);
        let index = free.unwrap_or(self.apps.len());
        let id = u16::try_from(index).map_err(|_| ArenaError::Applications)?;
        if id == u16::MAX {
            return Err(ArenaError::Applications);
        }
        if index == self.apps.len() {
            self.apps.push(AppPhase::default());
        }
        self.apps[index] = AppPhase {
            in_use: true,
            ..AppPhase::default()
        };
        Ok(AppId(id))
    }

    /// Forgets an application, all of whose regions are gone.
    pub fn remove_app(&mut self, app: AppId) {
        // The next application to be added gets its number.
        self.engine.call(Call::Retire(app));
        self.apps[usize::from(app.0)] = AppPhase::default();
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

    /// It goes to the background. So it was launched before, seen or not.
    pub fn background(&mut self, app: AppId) {
        self.launch_end(app);
        self.was_launched(app);
        self.engine.call(Call::Background(app));
    }

    /// It was launched before: its next launch is a relaunch.
    pub fn was_launched(&mut self, app: AppId) {
        self.apps[usize::from(app.0)].was_launched = true;
    }

    /// From now on the pages can be touched.
    pub fn open_pages(&mut self, core: &Core, pages: Range<usize>, word: Word) {
        core.words.update_all(pages, |_| Some(word));
        self.report(core);
    }

    /// The owner and address of a page.
    pub fn locate(&self, page: usize) -> (AppId, PageAddr) {
        let number = page as u64;
        // Where a part of a file was unmapped there may be other memory by now.
        let is_file_page = |_: &PageAddr| self.map.is_file_page(page);
        let addr = self.files.addr(page).filter(is_file_page);
        let addr = addr.unwrap_or(PageAddr::Anon { number });
        (self.map.owner(page), addr)
    }

    /// The number of a page that the engine knows.
    fn number(&self, page: PageId) -> usize {
        match self.engine.locate(page).1 {
            PageAddr::Anon { number } => number as usize,
            PageAddr::File { file, number } => self.files.page(file, number),
        }
    }

    /// The application's hot pages, without those that are to show by a fault that they are needed.
    pub fn hot_set(&self, app: AppId) -> Vec<u32> {
        let pages = self.engine.hot_set(app);
        let pages = pages.filter(|&page| !self.engine.is_on_probation(page));
        pages.map(|page| self.number(page) as u32).collect()
    }

    // ---- the engine's ears ----

    /// Tells the engine what the fault path did.
    pub fn drain_arrivals(&mut self, core: &Core) {
        // The pages of jobs that are done by now are in the queue.
        let done = self.ahead.take_done();
        if core.arrivals.take_overflow() {
            let ranges: Vec<_> = self.map.ranges().collect();
            let touched = ranges
                .into_iter()
                .flat_map(|pages| core.words.touched(pages));
            touched
                .flatten()
                .for_each(|page| self.report_arrival(core, page));
        }
        while let Some(page) = core.arrivals.pop() {
            self.report_arrival(core, page);
        }
        done.iter().for_each(|job| self.report_job(core, job));
    }

    fn report_arrival(&mut self, core: &Core, page: usize) {
        if let Some(arrival) = core.words.take_arrival(page) {
            let (app, addr) = self.locate(page);
            let answer = self.engine.call(Call::Served(app, addr, arrival));
            // Touches of pages that are in their place are not seen. So that the hot set is complete, what
            // comes along with a touched page in a launch window, or ahead of it, is presumed to be touched. A
            // footprint is watched instead.
            let is_launching = self.apps[usize::from(app.0)].is_launching;
            let is_watched = answer == Answer::Outcome(Outcome::Prepaged);
            if arrival == Arrival::Untouched && is_launching && !is_watched {
                self.engine.call(Call::CameAlong(app, addr));
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
        let words = core.words.state_bytes(self.map.mapped_pages())
            + (self.chunks * core.store.bytes_per_chunk()).next_multiple_of(PAGE_BYTES)
            + core.frames.state_bytes();
        (self.engine.state_bytes(), words)
    }

    /// All that is used beside frames: the pool, and what describes pages and chunks.
    fn other_bytes(&self, core: &Core) -> u64 {
        let (engine, words) = self.state_bytes(core);
        core.store.pool.stats().memory_bytes + engine as u64 + words as u64
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

    /// Turns that have eight decisions for every page.
    pub fn turns_for_all(&self) -> usize {
        self.map.mapped_pages() / BATCH_PAGES + 2
    }

    /// Works until there is nothing to do, or until others should have a turn; true in the second case.
    pub fn work(&mut self, core: &Core) -> Result<bool, FaultError> {
        self.drain_arrivals(core);
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
            self.isolate(core, &batch)?;
            for decision in batch.drain(..) {
                self.carry_out(core, decision)?;
                self.report(core);
            }
            self.hand_over();
            for page in std::mem::take(&mut self.stayed) {
                // One that a second decision made leave would lose what it is stored in, if the engine took it for present.
                if core.words.settled(page).state.is_in_frame() {
                    self.stays(page);
                }
            }
            core.frames.trim(&core.memory, usize::MAX)?;
            self.drain_arrivals(core);
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

    /// Whether more than the budget is allowed, since what there was could not be held in it.
    pub fn is_beyond_budget(&self) -> bool {
        self.allowance.is_exceeded()
    }

    /// Lets the pool grow if more than the budget is in use and nothing can leave since the pool is full: a page takes less
    /// in it than in its frame. True if there is something to do now.
    pub fn let_pool_grow(&mut self, core: &Core) -> bool {
        if self.engine.exceeded_bytes() == 0 || !self.engine.pool_is_full() {
            return false;
        }
        // Where a step gained nothing the next one waits.
        let gained = std::mem::replace(&mut self.compressed_at_step, self.counts.compressed);
        if gained == self.counts.compressed && !self.allowance.is_settled() {
            return false;
        }
        // A pool that was full accepts no page before it holds much less: above the limit it does.
        let full_bytes = self
            .engine
            .limits()
            .pool_limit_bytes
            .max(self.other_bytes(core));
        let can_grow = self.allowance.exceed_for_pool(full_bytes + POOL_STEP_BYTES);
        if can_grow {
            self.set_limits();
            self.report(core);
        }
        can_grow
    }

    /// Tells the engine what it may use.
    fn set_limits(&mut self) {
        let (budget, pool) = (self.allowance.bytes(), self.allowance.pool_limit_bytes());
        self.engine.call(Call::SetBudgetBytes(budget));
        self.engine.call(Call::SetPoolLimitBytes(pool));
    }
}

/// Takes hold of a page that has a word, waiting for the thread that holds it; a holder never waits for the caller.
pub fn hold(core: &Core, page: usize) -> Option<Claim<'_>> {
    loop {
        let word = core.words.settled(page);
        if word.state == State::Unmapped {
            return None;
        }
        let claim = core.words.claim(page, word);
        if claim.is_some() {
            return claim;
        }
    }
}
