//! The engine and its events: all that is an `impl Engine`, one file for each subject.
//!
//! | module | subject |
//! |---|---|
//! | `decide` | what is to be done, now or when no thread waits |
//! | `swap_out`, `swap_in` | the way of a page out of its frame, and back |
//! | `evict` | what leaves the pool when it is full |
//! | `frames` | pages that come into frames, and copies that writes make worthless |
//! | `admission` | what the admission policy is shown of a page |
//! | `file_pages` | pages of files in the pool: all-page accommodation (ezswap section III-A) |
//! | `prepage` | the footprint of a launch, brought back ahead of use: the prepaging manager (ASAP section 5) |
//! | `served` | for hosts that serve faults before the engine hears of them |
//! | [`evidence`] | touches that were seen, and those that are presumed |
//! | `learn` | what survives a restart |
//! | `gone` | pages that are no longer used |
//! | `queries`, `check` | what a host may ask; what must always hold |

use crate::budget::{Budget, Limits};
use crate::chunks::{Chunk, ChunkTable, Place};
use crate::counters::Counters;
use crate::decision::{Cause, Decision};
use crate::loads::Loads;
use evidence::Evidence;
use prepage::Prepaging;
use std::collections::VecDeque;
use swap_in::PrefetchBuffer;
use thiserror::Error;
use warmswap_page::{AppId, LaunchKind, PAGE_BYTES, PageAddr};
use warmswap_policy::page::Mark;
use warmswap_policy::reclaim::Arrival;
use warmswap_policy::{ChunkId, PageId, PageState, PageTable, Scheme};

/// Why limits make no engine.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    /// The budget is too small for a reserve and a working set.
    #[error("a budget of {budget_bytes} bytes is below the minimum of {minimum_bytes} bytes")]
    BudgetTooSmall {
        /// What was asked for.
        budget_bytes: u64,
        /// The least that works: 64 pages.
        minimum_bytes: u64,
    },
    /// The pool could never be that large.
    #[error(
        "a pool limit of {pool_limit_bytes} bytes is more than the budget of {budget_bytes} bytes"
    )]
    PoolBeyondBudget {
        /// What was asked for.
        pool_limit_bytes: u64,
        /// The budget.
        budget_bytes: u64,
    },
}

/// Pages that [`Engine::anticipate`] looks at in one call.
pub const ANTICIPATED_PAGES: usize = 32;

/// The least budget: 64 pages.
pub const MINIMUM_BUDGET_BYTES: u64 = 64 * PAGE_BYTES as u64;

/// What a touch found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// The page.
    pub page: PageId,
    /// What it costs.
    pub outcome: Outcome,
}

/// What a touch costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing: the page is resident.
    Hit,
    /// A fresh frame, filled with zeros.
    FirstTouch,
    /// A fresh frame, filled from the page's file.
    FileRead,
    /// A page that was prefetched: it has only to be put in its place.
    BufferHit,
    /// A page of the launch's footprint that was brought back ahead: it may be in its place already.
    Prepaged,
    /// The page comes back from its chunk; a `Load` is among the decisions.
    Fault(Place),
    /// The page is on its way already.
    InFlight,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AppState {
    last_used: u64,
    /// Anonymous pages that exist.
    pages: u64,
    is_foreground: bool,
    /// Its launch window is open, and the prefetch policy hears of accesses in it.
    pub(crate) in_window: bool,
}

/// Page states, budget and scheme. See the [crate] for how a host drives it.
///
/// A touch of a resident page is constant time; any other event is constant time for each page or chunk
/// that it moves. Memory: 16 bytes a page, 8 bytes a stored chunk, 8 bytes and 4 for each page of a chunk of
/// several, and what the scheme's eviction keeps (8 bytes a chunk where something is written back).
#[derive(Debug)]
pub struct Engine {
    pub(crate) table: PageTable,
    pub(crate) chunks: ChunkTable,
    pub(crate) scheme: Scheme,
    pub(crate) budget: Budget,
    pub(crate) counters: Counters,
    pub(crate) decisions: VecDeque<Decision>,
    /// Which touches were seen, for a host that does not see all.
    pub(crate) evidence: Option<Evidence>,
    /// Pages that reclaim took so far.
    pub(crate) reclaimed_pages: u64,
    /// Pages whose content is in chunks and nowhere else.
    pub(crate) stored_only_pages: u64,
    /// Pages that were chosen to leave and have no chunk yet; some may have been touched since.
    pub(crate) outbox: VecDeque<(PageId, Cause)>,
    pub(crate) buffer: PrefetchBuffer,
    pub(crate) prepaging: Prepaging,
    /// Chunks all of whose pages are resident, oldest first; some may have changed since.
    pub(crate) kept: [VecDeque<ChunkId>; 2],
    pub(crate) loads: Loads,
    /// Pages that were touched while their chunk was being loaded without them; its next load brings them.
    pub(crate) late: Vec<(ChunkId, PageId)>,
    /// The backing file failed; not tried again until something leaves it.
    pub(crate) backing_failed: bool,
    /// Chunks that were to leave the pool when the backing file took none, oldest first; some may have changed since.
    pub(crate) set_aside: VecDeque<ChunkId>,
    pub(crate) background_is_active: bool,
    /// A kill is under way, so that a second one waits for its effect.
    pub(crate) dying: Option<AppId>,
    /// Free frames, or those beyond the budget, when direct reclaim last began, since the last touch.
    pub(crate) balance_before_reclaim: Option<i64>,
    /// Reclaim found nothing, or the host could not take what it found; until the next event.
    pub(crate) stuck: bool,
    pub(crate) scratch: Vec<PageId>,
    apps: Vec<AppState>,
    most_recent: AppId,
    clock: u64,
}

impl Engine {
    /// An engine with nothing in memory.
    ///
    /// # Errors
    /// [`ConfigError`], when the limits make no sense. A scheme whose pages never leave takes any.
    pub fn new(scheme: Scheme, limits: Limits) -> Result<Self, ConfigError> {
        let Limits {
            budget_bytes,
            pool_limit_bytes,
            ..
        } = limits;
        if !scheme.reclaim.is_unlimited() {
            if budget_bytes < MINIMUM_BUDGET_BYTES {
                return Err(ConfigError::BudgetTooSmall {
                    budget_bytes,
                    minimum_bytes: MINIMUM_BUDGET_BYTES,
                });
            }
            if pool_limit_bytes > budget_bytes {
                return Err(ConfigError::PoolBeyondBudget {
                    pool_limit_bytes,
                    budget_bytes,
                });
            }
        }
        let buffer = PrefetchBuffer::new(scheme.prefetch.buffer_pages());
        let prepaging = Prepaging::new(&*scheme.prefetch, limits);
        Ok(Self {
            table: PageTable::default(),
            chunks: ChunkTable::default(),
            scheme,
            budget: Budget::new(limits),
            counters: Counters::default(),
            decisions: VecDeque::new(),
            evidence: None,
            reclaimed_pages: 0,
            stored_only_pages: 0,
            outbox: VecDeque::new(),
            buffer,
            prepaging,
            kept: [VecDeque::new(), VecDeque::new()],
            loads: Loads::default(),
            late: Vec::new(),
            backing_failed: false,
            set_aside: VecDeque::new(),
            background_is_active: false,
            dying: None,
            balance_before_reclaim: None,
            stuck: false,
            scratch: Vec::new(),
            apps: Vec::new(),
            most_recent: AppId(u16::MAX),
            clock: 0,
        })
    }

    // ---- events ----

    /// The application touched a page. Any decisions that follow are to be carried out before the next
    /// event of this application.
    pub fn touch(&mut self, app: AppId, addr: PageAddr, write: bool) -> Touch {
        let page = self.table.find_or_insert(app, addr);
        self.used(app);
        let outcome = match self.table[page].state {
            PageState::Resident => {
                self.counters.hits += 1;
                if self.table[page].take(Mark::Prefetched) {
                    self.counters.neighbours_used += 1;
                }
                self.scheme.reclaim.touch(&mut self.table, page);
                Outcome::Hit
            }
            PageState::Absent => self.first_touch(page),
            PageState::Discarded => {
                self.take_frame(page, Arrival::Touched);
                self.read_file()
            }
            PageState::Buffered => self.touch_buffered(page),
            PageState::Stored => self.fault(page),
            PageState::Leaving => {
                self.counters.hits += 1;
                self.budget.leaving -= 1;
                self.make_resident(page, Arrival::Touched);
                // Its chunk, if it has one already, may be stored without it.
                self.has_no_copy(page);
                self.drop_copy(page);
                Outcome::Hit
            }
            PageState::Loading => {
                self.wait_for(page);
                Outcome::InFlight
            }
        };
        self.note_access(app, addr, outcome);
        self.note_seen(page);
        if write {
            self.written(page);
        }
        Touch { page, outcome }
    }

    /// The page was written without a touch that was seen: a stored copy is
    /// no longer valid. A page that did not exist comes into being; one that is stored must be touched
    /// instead.
    pub fn changed(&mut self, app: AppId, addr: PageAddr) -> Touch {
        let page = self.table.find_or_insert(app, addr);
        self.stuck = false;
        match self.table[page].state {
            PageState::Absent => {
                let outcome = self.first_touch_as(page, Arrival::Untouched);
                self.written(page);
                Touch { page, outcome }
            }
            PageState::Resident => {
                self.written(page);
                Touch {
                    page,
                    outcome: Outcome::Hit,
                }
            }
            _ => self.touch(app, addr, true),
        }
    }

    /// A page of a file was written in its file, past the memory: a stored copy of it is no longer valid.
    /// A page that is in its frame stays there, and its host brings it up to date; one that is on its way
    /// in comes with what its chunk holds.
    pub fn file_written(&mut self, app: AppId, addr: PageAddr) {
        debug_assert!(matches!(addr, PageAddr::File { .. }));
        let Some(page) = self.table.find(app, addr) else {
            return;
        };
        self.stuck = false;
        match self.table[page].state {
            PageState::Absent | PageState::Discarded => {}
            PageState::Stored => self.drop_stored_file(page),
            PageState::Resident | PageState::Buffered => self.drop_copy(page),
            // What is being stored is old: the page stays.
            PageState::Leaving => {
                self.budget.leaving -= 1;
                self.make_resident(page, Arrival::Untouched);
                self.drop_copy(page);
            }
            // Its copy goes when it is here.
            PageState::Loading => self.table[page].set(Mark::Dirty),
        }
    }

    /// Reads what is known of pages that will be touched next, in that order, so that the latencies of memory overlap and
    /// touches search no more. It changes nothing, and saves more than it costs only for dozens of pages at a time.
    pub fn anticipate(&mut self, accesses: impl Iterator<Item = (AppId, PageAddr)>) {
        let mut pages = [PageId::NONE; ANTICIPATED_PAGES];
        let len = self.table.anticipate(accesses, &mut pages);
        let pages = &pages[..len];
        // All of a kind before the first that is found there.
        let seen = self.read_chunks_of(pages);
        let (mut stored, mut count) = ([ChunkId::NONE; ANTICIPATED_PAGES], 0);
        let mut seen = pages.iter().fold(seen, |seen, &page| {
            if self.table[page].state != PageState::Stored {
                return seen ^ self.table.read_neighbours(page);
            }
            stored[count] = self.table[page].chunk;
            count += 1;
            seen
        });
        seen ^= self.scheme.eviction.read_neighbours(&stored[..count]);
        std::hint::black_box(seen);
    }

    /// The application comes to the foreground.
    pub fn launch_begin(&mut self, app: AppId, kind: LaunchKind) {
        self.used(app);
        self.app(app).is_foreground = true;
        self.begin_launch(app, kind);
        self.open_window(app, kind);
    }

    /// The application has answered.
    pub fn launch_end(&mut self, app: AppId) {
        self.scheme.reclaim.launch_end(app);
        self.close_window(app);
        self.end_launch(app);
    }

    /// The application goes to the background.
    pub fn background(&mut self, app: AppId) {
        self.stuck = false;
        self.close_window(app);
        self.app(app).is_foreground = false;
    }

    /// The application is asked to give up what the scheme lets go: all its pages, but its hot ones where
    /// those are excluded. The decisions are background ones.
    pub fn shrink(&mut self, app: AppId) {
        let mut pages = std::mem::take(&mut self.scratch);
        self.scheme
            .reclaim
            .victims_of(&mut self.table, app, &mut pages);
        self.send_off(&mut pages, Cause::Background);
        self.scratch = pages;
    }

    /// The pool holds this much memory now. To be called after every operation on it.
    pub fn set_pool_bytes(&mut self, bytes: u64) {
        self.stuck &= bytes >= self.budget.usage.pool_bytes;
        self.budget.set_pool_bytes(bytes);
    }

    /// The backing file holds this much now. To be called after every operation on it.
    pub fn set_backing_bytes(&mut self, bytes: u64) {
        let before = std::mem::replace(&mut self.budget.usage.backing_bytes, bytes);
        if bytes < before {
            self.backing_failed = false;
            self.take_up(before - bytes);
        }
    }

    /// The budget for frames and pool is this from now on, and the watermarks follow; less than the minimum
    /// counts as the minimum. For a host whose own state takes more or less of it.
    pub fn set_budget_bytes(&mut self, bytes: u64) {
        self.stuck = false;
        // What reclaim gained is not to be told from what the budget lost.
        self.balance_before_reclaim = None;
        self.budget
            .set_budget_bytes(bytes.max(MINIMUM_BUDGET_BYTES));
    }

    /// Of the budget, the pool may take so much from now on.
    pub fn set_pool_limit_bytes(&mut self, bytes: u64) {
        self.stuck = false;
        self.budget.set_pool_limit_bytes(bytes);
    }

    // ---- within ----

    /// Reads pages, then their chunks, so that the latencies of memory overlap; what it returns means nothing.
    pub(crate) fn read_chunks_of(&self, pages: &[PageId]) -> u32 {
        let of_pages = pages
            .iter()
            .fold(0, |seen, &page| seen ^ self.table[page].chunk.0);
        pages.iter().fold(of_pages, |seen, &page| {
            let chunk = self.chunks.get(self.table[page].chunk);
            seen ^ chunk.map_or(0, Chunk::stored_bytes)
        })
    }

    pub(crate) fn app(&mut self, app: AppId) -> &mut AppState {
        let index = usize::from(app.0);
        if self.apps.len() <= index {
            self.apps.resize(index + 1, AppState::default());
        }
        &mut self.apps[index]
    }

    /// Something happened: reclaim may find what it did not find before.
    fn used(&mut self, app: AppId) {
        self.stuck = false;
        self.balance_before_reclaim = None;
        if self.most_recent != app {
            self.most_recent = app;
            self.clock += 1;
            self.app(app).last_used = self.clock;
        }
    }

    /// The background application that was not used for the longest time and has pages to give.
    pub(crate) fn least_used_app(&self) -> Option<AppId> {
        let candidates = self.apps.iter().enumerate().filter(|&(index, app)| {
            app.pages > 0 && !app.is_foreground && index != usize::from(self.most_recent.0)
        });
        candidates
            .min_by_key(|(_, app)| app.last_used)
            .map(|(index, _)| AppId(index as u16))
    }
}

mod admission;
mod check;
mod decide;
mod evict;
pub mod evidence;
mod file_pages;
mod frames;
mod gone;
mod learn;
mod prepage;
mod queries;
mod served;
mod swap_in;
mod swap_out;
#[cfg(test)]
mod tests;
