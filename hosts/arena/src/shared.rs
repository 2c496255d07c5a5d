//! What all of an arena's handles share: memory and tables, the engine behind its lock, the threads.

use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard};

use warmswap_backing::Backing;
use warmswap_engine::calls::Call;
use warmswap_engine::{Engine, Limits, Watermarks};
use warmswap_page::Mechanism;
use warmswap_page::PAGE_BYTES;
use warmswap_policy::reclaim::Arrival;
use warmswap_pool::{Pool, PoolConfig};
use warmswap_store::ChunkStore;
use warmswap_uffd::{
    self as uffd, Addresses, FaultDelivery, Feature, PagedConfig, PagedMemory, Slots, Uffd, sigbus,
};

use crate::address_map::AddressMap;
use crate::config::{ArenaConfig, FaultMode};
use crate::error::{ArenaError, die};
use crate::fault::Core;
use crate::frames::{FrameSource, Frames};
use crate::gate::Inside;
use crate::hooks::FaultHooks;
use crate::lock::Mutex;
use crate::page_words::{MAX_SLOTS, PageWords, State};
use crate::pager::{Allowance, Pager};
use crate::stats::ArenaStats;
use crate::tape::RecordedEngine;
use crate::threads::Threads;

/// An arena with an address map.
#[derive(Debug)]
pub struct Shared<M> {
    /// What faults use, without the engine's lock.
    pub core: Arc<Core>,
    /// The pager, under the engine's lock.
    pub pager: Arc<Mutex<Pager<M>>>,
    /// Ends before the core may go.
    pub registration: Option<sigbus::Registration>,
    /// Its threads.
    pub threads: Mutex<Threads>,
    /// Memory for all of it, in bytes.
    pub budget_bytes: u64,
    /// Where what was learned survives a restart.
    pub learned_folder: Option<PathBuf>,
    /// The process that made it: threads and memory are its alone.
    pub process: AtomicU32,
}

/// The engine with all that only the holder of its lock uses. Its holder is inside the gate.
pub struct PagerGuard<'a, M> {
    pager: MutexGuard<'a, Pager<M>>,
    _inside: Inside<'a>,
}

impl<M> Deref for PagerGuard<'_, M> {
    type Target = Pager<M>;

    fn deref(&self) -> &Pager<M> {
        &self.pager
    }
}

impl<M> DerefMut for PagerGuard<'_, M> {
    fn deref_mut(&mut self) -> &mut Pager<M> {
        &mut self.pager
    }
}

/// The arena's threads. Its holder is inside the gate.
pub struct WorkersGuard<'a> {
    threads: MutexGuard<'a, Threads>,
    _inside: Inside<'a>,
}

impl Deref for WorkersGuard<'_> {
    type Target = Threads;

    fn deref(&self) -> &Threads {
        &self.threads
    }
}

impl<M> Shared<M> {
    /// Whether this is a child of the process that made the arena, which has none of its threads and memory.
    pub fn is_in_child(&self) -> bool {
        self.process.load(Relaxed) != std::process::id()
    }
}

/// What an arena's addresses are.
#[derive(Debug)]
pub struct AddressKind {
    /// One stretch, or parts of it that are mapped and unmapped.
    pub addresses: Addresses,
    /// Where the frames of pages that come back are from.
    pub frames: FrameSource,
    /// What their host adds around faults.
    pub hooks: Arc<dyn FaultHooks>,
}

impl<M: AddressMap> Shared<M> {
    /// Memory and tables; no threads yet. `map` makes the address map for so many pages.
    ///
    /// # Errors
    /// [`ArenaError`].
    pub fn new(
        config: &ArenaConfig,
        backing: Option<Backing>,
        kind: AddressKind,
        map: impl FnOnce(usize) -> M,
    ) -> Result<Self, ArenaError> {
        warmswap_sys::check_page_size()?;
        let scheme = config.scheme.build()?;
        let (keep_copies, layout) = (scheme.keep_copies, scheme.layout);
        let allowance = Allowance::of(config, backing.is_some());
        let pool_limit_bytes = allowance.pool_limit_bytes();
        let limits = Limits {
            budget_bytes: config.budget_bytes,
            pool_limit_bytes,
            backing_limit_bytes: if backing.is_some() {
                config.backing_limit_bytes
            } else {
                0
            },
        };
        let engine = Engine::new(scheme, limits)?;
        let mut engine =
            RecordedEngine::new(engine, config.tape.as_deref(), &config.scheme, limits)
                .map_err(ArenaError::system("write the tape"))?;
        engine.call(Call::TouchesAreUnseen());
        engine.call(Call::PresumeUnseenTouches());
        let marks = Watermarks::of(config.budget_bytes);
        // The engine keeps the hysteresis, and the limit where it moves; what the pool keeps for reuse must not be
        // what fills a small one.
        let pool = Pool::new(PoolConfig {
            limit_bytes: config.pool_limit_bytes.unwrap_or(u64::MAX),
            resume_percent: 100,
            // Given back whenever frames are few.
            cache_bytes: pool_limit_bytes / 16,
            verify: config.verify,
            layout,
            ..PoolConfig::default()
        })?;
        let grain_bytes = PageWords::GRAIN_PAGES * PAGE_BYTES;
        let pages = config.address_space_bytes.next_multiple_of(grain_bytes) / PAGE_BYTES;
        let (memory, empty) = paged_memory(config, pages, kind.addresses)?;
        let tables = ArenaError::system("reserve addresses for tables");
        let (words, store) = PageWords::new(pages, keep_copies)
            .and_then(|words| Ok((words, ChunkStore::new(pool, backing, 2 * pages)?)))
            .map_err(tables)?;
        let frames = Frames::new(&memory, empty, kind.frames);
        let mut core = Core::new(memory, frames, words, store, kind.hooks);
        core.set_slots(config.service_slots);
        core.neighbour_reserve = (marks.low_frames - marks.min_frames / 2) as usize / 2;
        let core = Arc::new(core);
        let mut pager = Pager::new(engine, allowance, keep_copies, (map(pages), pages));
        pager.report(&core);
        let pager = Arc::new(Mutex::new(pager));
        Ok(Self {
            core,
            pager,
            registration: None,
            threads: Mutex::default(),
            budget_bytes: config.budget_bytes,
            learned_folder: config.learned_folder.clone(),
            process: std::process::id().into(),
        })
    }

    /// The pager, whose lock is held inside the gate as long as the result lives.
    pub fn pager(&self) -> PagerGuard<'_, M> {
        let _inside = self.core.gate.enter();
        PagerGuard {
            pager: self.pager.lock(),
            _inside,
        }
    }

    /// The arena's threads. Its holder is inside the gate.
    pub fn workers(&self) -> WorkersGuard<'_> {
        let _inside = self.core.gate.enter();
        WorkersGuard {
            threads: self.threads.lock(),
            _inside,
        }
    }

    /// Starts everything that brings pages back.
    pub fn start(&mut self, config: &ArenaConfig) -> Result<(), ArenaError> {
        if config.fault_mode == FaultMode::Signal {
            let resolver = Arc::clone(&self.core) as Arc<dyn sigbus::FaultService>;
            let range = self.core.memory.range();
            self.registration = Some(sigbus::register(range, resolver)?);
        }
        self.start_threads(config)?;
        self.threads.lock().begin();
        Ok(())
    }

    /// Starts the threads, which wait for `Threads::begin`.
    ///
    /// # Errors
    /// [`ArenaError::System`].
    pub fn start_threads(&self, config: &ArenaConfig) -> Result<(), ArenaError> {
        let failed = || ArenaError::system("start a thread");
        let mut workers = self.threads.lock();
        self.pager.lock().ahead.jobs = Arc::clone(&workers.jobs);
        if config.fault_mode == FaultMode::Thread {
            workers
                .start_handlers(&self.core, config.handler_threads)
                .map_err(failed())?;
        }
        workers
            .start_pager(&self.core, &self.pager)
            .map_err(failed())?;
        workers
            .start_restorers(&self.core, config.restore_threads)
            .map_err(failed())
    }

    /// What it holds and has done. Linear in its pages.
    pub fn stats(&self) -> ArenaStats {
        let core = &self.core;
        let mut pager = self.pager();
        pager.drain_arrivals(core);
        let (mut resident, mut staged, mut stored) = (0, 0, 0);
        let ranges = pager.map.ranges();
        let touched = ranges.flat_map(|pages| core.words.touched(pages));
        for page in touched.flatten() {
            match core.words.word(page).state {
                State::Resident | State::Protected => resident += 1,
                State::Staged => staged += 1,
                State::Stored => stored += 1,
                _ => {}
            }
        }
        let (engine_bytes, page_words_bytes) = pager.state_bytes(core);
        let pool = core.store.pool.stats();
        let counts = &core.counts;
        ArenaStats {
            budget_bytes: self.budget_bytes,
            held_frames: core.frames.held() as u64,
            resident_frames: resident,
            staged_frames: staged,
            free_frames: core.frames.free() as u64,
            stored_pages: stored,
            pool_bytes: pool.memory_bytes,
            engine_bytes: engine_bytes as u64,
            page_words_bytes: page_words_bytes as u64,
            scratch_bytes: core.scratch_bytes() as u64,
            faults: counts.faults.load(Relaxed),
            first_touches: counts.first_touches.load(Relaxed),
            staged_faults: counts.staged.load(Relaxed),
            file_faults: counts.file_faults.load(Relaxed),
            chunks_read: counts.chunks_read.load(Relaxed),
            file_reads: counts.file_reads.load(Relaxed),
            neighbours: counts.neighbours.load(Relaxed),
            restored: counts.restored.load(Relaxed),
            restored_ahead: counts.restored_ahead.load(Relaxed),
            copied: counts.copied.load(Relaxed),
            frame_waits: core.frames.waits.load(Relaxed),
            lost_slots: core.frames.lost.load(Relaxed),
            is_prepaging: pager.is_prepaging(),
            pager: pager.counts,
            engine: pager.engine.counters(),
            pool,
            backing: core.store.backing.as_ref().map(Backing::stats),
        }
    }

    /// Lets the engine hear of everything, and carries out what is under way: a page that a prediction was
    /// bringing back when it was touched counts as touched once that is reported.
    ///
    /// Ends also when pages are to leave that cannot: the engine chooses such pages again and again, and only the pager
    /// thread, which needs the lock, can let faults go beyond the budget. And when every page could have been dealt with
    /// several times: what comes then are pages that cannot leave, and predictions that follow from them, without an end.
    pub fn settle(&self, pager: &mut Pager<M>) {
        for _ in 0..pager.turns_for_all() {
            let (generation, stayed) = (self.core.frames.generation(), pager.counts.stayed);
            match pager.work(&self.core) {
                Ok(true) => {
                    let is_in_vain = self.core.frames.generation() == generation;
                    if is_in_vain && pager.counts.stayed > stayed {
                        return;
                    }
                }
                Ok(false) => return,
                Err(error) => die(self.core.memory.address(0), &error),
            }
        }
    }

    /// Brings pages back as far as frames can be spared.
    pub fn restore(&self, pages: &[u32], arrival: Arrival) {
        if let Err(error) = self.core.restore(pages, arrival) {
            die(self.core.memory.address(0), &error);
        }
    }

    /// Brings a page to its place, or ends the process.
    #[cfg(test)]
    pub fn bring(&self, page: usize, wanted: crate::fault::Wanted) {
        if let Err(error) = self.core.fault_in(page, wanted) {
            die(self.core.memory.address(page), &error);
        }
    }
}

impl<M> Drop for Shared<M> {
    fn drop(&mut self) {
        if self.is_in_child() {
            // Nothing here is the child's; and the descriptor, if it were used, would change the parent.
            std::mem::forget(self.registration.take());
            std::mem::forget(Arc::clone(&self.core));
            // What is not yet on the tape is the parent's to write.
            std::mem::forget(Arc::clone(&self.pager));
            std::mem::forget(std::mem::take(&mut *self.threads.lock()));
            return;
        }
        self.threads.lock().stop(&self.core);
        drop(self.registration.take());
    }
}

/// Addresses for so many pages, and staging.
fn paged_memory(
    config: &ArenaConfig,
    pages: usize,
    addresses: Addresses,
) -> Result<(PagedMemory, Slots), ArenaError> {
    // With a slot for every frame, a frame that comes free need never go back to the kernel.
    let frames = usize::try_from(config.budget_bytes).unwrap_or(usize::MAX) / PAGE_BYTES;
    let slots = frames.min(MAX_SLOTS - 64) + 64;
    Ok(PagedMemory::new(PagedConfig {
        pages,
        addresses,
        slots: slots.next_multiple_of(64),
        mechanism: mechanism(config.mechanism)?,
        delivery: match config.fault_mode {
            FaultMode::Signal => FaultDelivery::Signal,
            FaultMode::Thread => FaultDelivery::Events,
        },
    })?)
}

/// Settles how frames come and go.
fn mechanism(wanted: Mechanism) -> Result<uffd::Mechanism, ArenaError> {
    Ok(match wanted {
        Mechanism::Move => uffd::Mechanism::Move,
        Mechanism::Copy => uffd::Mechanism::Copy,
        Mechanism::Auto => {
            let features = Uffd::probe().map_err(uffd::PagedError::from)?;
            if features.has(Feature::Move) {
                uffd::Mechanism::Move
            } else {
                uffd::Mechanism::Copy
            }
        }
    })
}
