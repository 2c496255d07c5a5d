//! The arena and what it hands out: applications and regions.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use warmswap_backing::{Backing, BackingConfig, Storage};
use warmswap_engine::{Engine, Limits, Watermarks};
use warmswap_policy::reclaim::Arrival;
use warmswap_pool::{Pool, PoolConfig};
use warmswap_sys::uffd::{self, FaultDelivery, Feature, PagedConfig, PagedMemory, Uffd, sigbus};
use warmswap_trace::{AppId, PAGE_BYTES};

use crate::brain::Brain;
use crate::config::{ArenaConfig, FaultMode, Mechanism};
use crate::directory::{Directory, MAX_SLOTS, State, Word};
use crate::error::{ArenaError, die};
use crate::restore::Job;
use crate::service::{Core, Wanted};
use crate::stats::ArenaStats;
use crate::store::Store;
use crate::threads::Threads;

/// What a region's owner knows of its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Not needed for long: it leaves now.
    Cold,
    /// Needed now and at every launch: it comes back and counts as touched.
    Hot,
    /// Needed soon: it comes back, and is as hot as it was.
    WorkingSet,
}

/// Memory of this process that may be larger than what it takes: pages that are not needed are compressed,
/// and come back when they are touched. See the [crate] for how.
///
/// Clones are the same arena. It ends with the last of its clones, applications and regions.
#[derive(Clone, Debug)]
pub struct Arena {
    shared: Arc<Shared>,
}

/// A user of the arena whose launches and pauses the scheme is told of.
#[derive(Clone, Debug)]
pub struct Application {
    inner: Arc<AppInner>,
}

/// Anonymous memory of an application. Unmapped on drop.
///
/// It is reached through a raw pointer: whoever makes references of it sees to it that the region outlives
/// them, as for memory of `mmap`. A child of `fork` does not have it: an access there is a segmentation fault,
/// never zeros.
#[derive(Debug)]
pub struct Region {
    app: Arc<AppInner>,
    first: usize,
    pages: usize,
}

#[derive(Debug)]
struct Shared {
    core: Arc<Core>,
    brain: Arc<Mutex<Brain>>,
    /// Ends before the core may go.
    registration: Option<sigbus::Registration>,
    threads: Threads,
    budget_bytes: u64,
    /// The process that made it: threads and memory are its alone.
    process: u32,
}

#[derive(Debug)]
struct AppInner {
    shared: Arc<Shared>,
    id: AppId,
    name: String,
    job: Mutex<Option<Arc<Job>>>,
}

impl Arena {
    /// An arena without regions.
    ///
    /// # Errors
    /// [`ArenaError`]: the kernel lacks something, the scheme is none, or the limits make no sense.
    pub fn new(config: ArenaConfig) -> Result<Self, ArenaError> {
        let backing = match &config.backing {
            Some(path) => Some(Backing::create(path, backing_config(&config))?),
            None => None,
        };
        Self::make(config, backing)
    }

    /// An arena whose backing file is this storage, which is empty; `config.backing` is not looked at.
    ///
    /// # Errors
    /// [`ArenaError`].
    pub fn with_storage(
        config: ArenaConfig,
        storage: Box<dyn Storage>,
    ) -> Result<Self, ArenaError> {
        let backing = Backing::on(storage, backing_config(&config))?;
        Self::make(config, Some(backing))
    }

    fn make(config: ArenaConfig, backing: Option<Backing>) -> Result<Self, ArenaError> {
        warmswap_sys::check_page_size()?;
        let scheme = config.scheme.build()?;
        let keep_copies = scheme.keep_copies;
        let pool_limit_bytes = config
            .pool_limit_bytes
            .unwrap_or(config.budget_bytes / 4 * 3);
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
        let marks = Watermarks::of(config.budget_bytes);
        // The engine keeps the hysteresis; what the pool keeps for reuse must not be what fills a small one.
        let defaults = PoolConfig::default();
        let pool = Pool::new(PoolConfig {
            limit_bytes: pool_limit_bytes,
            resume_percent: 100,
            cache_bytes: defaults.cache_bytes.min(pool_limit_bytes / 64),
            verify: config.verify,
            ..defaults
        })?;
        let grain_bytes = Directory::GRAIN_PAGES * PAGE_BYTES;
        let pages = config.address_space_bytes.next_multiple_of(grain_bytes) / PAGE_BYTES;
        // With a slot for every frame, a frame that comes free need never go back to the kernel.
        let frames = usize::try_from(config.budget_bytes).unwrap_or(usize::MAX) / PAGE_BYTES;
        let slots = frames.min(MAX_SLOTS - 64) + 64;
        let (memory, empty) = PagedMemory::new(PagedConfig {
            pages,
            addresses: uffd::Addresses::Parts,
            slots: slots.next_multiple_of(64),
            mechanism: mechanism(config.mechanism)?,
            delivery: match config.fault_mode {
                FaultMode::Signal => FaultDelivery::Signal,
                FaultMode::Thread => FaultDelivery::Events,
            },
        })?;
        let tables = ArenaError::system("reserve addresses for tables");
        let (directory, store) = Directory::new(pages, keep_copies)
            .and_then(|directory| Ok((directory, Store::new(pool, backing, 2 * pages)?)))
            .map_err(tables)?;
        let mut core = Core::new(memory, empty, directory, store, config.service_slots);
        core.neighbour_reserve = (marks.low_frames - marks.min_frames / 2) as usize / 2;
        let core = Arc::new(core);
        let mut brain = Brain::new(engine, config.budget_bytes, keep_copies, pages);
        brain.report(&core);
        let brain = Arc::new(Mutex::new(brain));
        let mut shared = Shared {
            core,
            brain,
            registration: None,
            threads: Threads::default(),
            budget_bytes: config.budget_bytes,
            process: std::process::id(),
        };
        shared.start(&config)?;
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Adds an application.
    ///
    /// # Errors
    /// [`ArenaError::Applications`], when there are too many.
    pub fn application(&self, name: impl Into<String>) -> Result<Application, ArenaError> {
        let id = self.shared.brain.lock().add_app()?;
        Ok(Application {
            inner: Arc::new(AppInner {
                shared: Arc::clone(&self.shared),
                id,
                name: name.into(),
                job: Mutex::new(None),
            }),
        })
    }

    /// What the arena holds and has done. Linear in the pages of all regions.
    #[must_use]
    pub fn stats(&self) -> ArenaStats {
        self.shared.stats()
    }

    /// Brings a range of addresses to its place and keeps it there as long as the result lives, so that a
    /// system call can be given it. Addresses of other memory are passed over.
    #[must_use = "the pages may leave again once the result is dropped"]
    pub fn touch_for_kernel(&self, range: Range<*const u8>) -> Pinned {
        let (start, end) = (range.start.addr(), range.end.addr());
        let memory = &self.shared.core.memory;
        let ours = memory.range();
        let (start, end) = (start.max(ours.start), end.min(ours.end));
        let pages = if start < end {
            (start - ours.start) / PAGE_BYTES..(end - ours.start).div_ceil(PAGE_BYTES)
        } else {
            0..0
        };
        Pinned::new(Arc::clone(&self.shared), pages)
    }

    /// Checks every invariant of the engine; for tests. Linear in all pages.
    ///
    /// # Errors
    /// A sentence about what is wrong.
    pub fn check(&self) -> Result<(), String> {
        let mut brain = self.shared.brain.lock();
        brain.hear(&self.shared.core);
        brain.engine.check()
    }
}

fn backing_config(config: &ArenaConfig) -> BackingConfig {
    BackingConfig {
        capacity_bytes: config.backing_limit_bytes,
        ..BackingConfig::default()
    }
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

impl Shared {
    fn start(&mut self, config: &ArenaConfig) -> Result<(), ArenaError> {
        let threads = || ArenaError::system("start a thread");
        match config.fault_mode {
            FaultMode::Signal => {
                let service = Arc::clone(&self.core) as Arc<dyn sigbus::FaultService>;
                let range = self.core.memory.range();
                self.registration = Some(sigbus::register(range, service)?);
            }
            FaultMode::Thread => self
                .threads
                .start_handlers(&self.core, config.handler_threads)
                .map_err(threads())?,
        }
        self.threads
            .start_pager(&self.core, &self.brain)
            .map_err(threads())?;
        self.threads
            .start_restorers(&self.core, config.restore_threads)
            .map_err(threads())
    }

    fn stats(&self) -> ArenaStats {
        use std::sync::atomic::Ordering::Relaxed;
        let core = &self.core;
        let mut brain = self.brain.lock();
        brain.hear(core);
        let (mut resident, mut staged) = (0, 0);
        for page in brain.pages() {
            match core.directory.word(page).state {
                State::Resident | State::Protected => resident += 1,
                State::Staged => staged += 1,
                _ => {}
            }
        }
        let (engine_bytes, directory_bytes) = brain.state_bytes(core);
        let pool = core.store.pool.stats();
        let counts = &core.counts;
        ArenaStats {
            budget_bytes: self.budget_bytes,
            held_frames: core.frames.held() as u64,
            resident_frames: resident,
            staged_frames: staged,
            free_frames: core.frames.free() as u64,
            pool_bytes: pool.memory_bytes,
            engine_bytes: engine_bytes as u64,
            directory_bytes: directory_bytes as u64,
            scratch_bytes: core.scratch_bytes() as u64,
            faults: counts.faults.load(Relaxed),
            first_touches: counts.first_touches.load(Relaxed),
            staged_faults: counts.staged.load(Relaxed),
            chunks_read: counts.chunks_read.load(Relaxed),
            neighbours: counts.neighbours.load(Relaxed),
            copied: counts.copied.load(Relaxed),
            frame_waits: core.frames.waits.load(Relaxed),
            pager: brain.counts,
            engine: brain.engine.counters(),
            pool,
            backing: core.store.backing.as_ref().map(Backing::stats),
        }
    }

    /// Whether this is a child of the process that made the arena, which has none of its threads and memory.
    fn is_in_child(&self) -> bool {
        self.process != std::process::id()
    }

    /// Lets the engine hear of everything, and carries out what is under way: a page that a prediction was
    /// bringing back when it was touched counts as touched once that is reported.
    fn settle(&self, brain: &mut Brain) {
        loop {
            match brain.work(&self.core) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => die(self.core.memory.address(0), &error),
            }
        }
    }

    /// Brings pages back as far as frames can be spared.
    fn restore(&self, pages: &[u32], arrival: Arrival) {
        if let Err(error) = self.core.restore(pages, arrival) {
            die(self.core.memory.address(0), &error);
        }
    }

    fn bring(&self, page: usize, wanted: Wanted) {
        if let Err(error) = self.core.serve_page(page, wanted) {
            die(self.core.memory.address(page), &error);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.is_in_child() {
            // Nothing here is the child's; and the descriptor, if it were used, would change the parent.
            std::mem::forget(self.registration.take());
            std::mem::forget(Arc::clone(&self.core));
            std::mem::forget(std::mem::take(&mut self.threads));
            return;
        }
        self.threads.stop(&self.core);
        drop(self.registration.take());
    }
}

impl Application {
    /// The name that it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Maps a region of at least `bytes` bytes, rounded up to whole pages; it reads as zeros.
    ///
    /// # Errors
    /// [`ArenaError::AddressSpace`], and what the kernel refuses.
    pub fn region(&self, bytes: usize) -> Result<Region, ArenaError> {
        let pages = bytes.div_ceil(PAGE_BYTES).max(1);
        let shared = &self.inner.shared;
        let first = shared
            .brain
            .lock()
            .add_region(&shared.core, self.inner.id, pages)?;
        Ok(Region {
            app: Arc::clone(&self.inner),
            first,
            pages,
        })
    }

    /// The application comes to the foreground: its launch window opens, and its hot set begins to come back
    /// on idle processor time.
    pub fn foreground(&self) {
        let shared = &self.inner.shared;
        let pages = {
            let mut brain = shared.brain.lock();
            brain.hear(&shared.core);
            let pages = brain.hot_set(self.inner.id);
            brain.launch_begin(self.inner.id);
            pages
        };
        let job = Arc::new(Job::new(pages));
        if let Some(earlier) = self.inner.job.lock().replace(Arc::clone(&job)) {
            earlier.cancel();
        }
        shared.threads.jobs.push(job);
    }

    /// The application has answered: the launch window closes. What is left of its hot set is brought back
    /// first, with the help of the calling thread.
    pub fn launch_done(&self) {
        let shared = &self.inner.shared;
        if let Some(job) = self.inner.job.lock().take() {
            job.finish(&shared.core);
        }
        let mut brain = shared.brain.lock();
        shared.settle(&mut brain);
        brain.launch_end(self.inner.id);
    }

    /// The application goes to the background. What it holds leaves when others need room.
    pub fn background(&self) {
        let shared = &self.inner.shared;
        if let Some(job) = self.inner.job.lock().take() {
            job.cancel();
        }
        let mut brain = shared.brain.lock();
        shared.settle(&mut brain);
        brain.launch_end(self.inner.id);
        brain.engine.background(self.inner.id);
    }

    /// Pages that are held to be hot.
    #[must_use]
    pub fn hot_pages(&self) -> u64 {
        let shared = &self.inner.shared;
        let mut brain = shared.brain.lock();
        brain.hear(&shared.core);
        brain.engine.hot_pages(self.inner.id)
    }
}

impl Drop for AppInner {
    fn drop(&mut self) {
        if !self.shared.is_in_child() {
            self.shared.brain.lock().remove_app(self.id);
        }
    }
}

impl Region {
    /// First byte. Valid for reads and writes of [`Self::len`] bytes as long as the region lives.
    #[must_use]
    pub fn as_mut_ptr(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.core().memory.address(self.first))
    }

    /// Bytes; whole pages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pages * PAGE_BYTES
    }

    /// Never: a region has at least a page.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    fn core(&self) -> &Core {
        &self.app.shared.core
    }

    /// The pages that a range of bytes touches.
    fn pages_of(&self, bytes: Range<usize>) -> Result<Range<usize>, ArenaError> {
        if bytes.start > bytes.end || bytes.end > self.len() {
            return Err(ArenaError::OutOfRange {
                offset: bytes.start,
                len: bytes.end.saturating_sub(bytes.start),
                region_bytes: self.len(),
            });
        }
        let first = self.first + bytes.start / PAGE_BYTES;
        Ok(first..self.first + bytes.end.div_ceil(PAGE_BYTES))
    }

    /// Says what a range of bytes is needed for. Pages that leave are only those that lie wholly within.
    ///
    /// # Errors
    /// [`ArenaError::OutOfRange`].
    pub fn advise(&self, bytes: Range<usize>, advice: Advice) -> Result<(), ArenaError> {
        let pages = self.pages_of(bytes.clone())?;
        let shared = &self.app.shared;
        if advice == Advice::Cold {
            let first = self.first + bytes.start.div_ceil(PAGE_BYTES);
            let end = self.first + bytes.end / PAGE_BYTES;
            let mut brain = shared.brain.lock();
            brain.hear(&shared.core);
            for page in first..end {
                let (app, addr) = brain.locate(page);
                brain.engine.send_away(app, addr);
            }
            drop(brain);
            shared.core.frames.call_pager();
            return Ok(());
        }
        let mut away = Vec::new();
        for page in pages {
            match shared.core.directory.word(page).state {
                // Nothing was ever there.
                State::Fresh => {}
                State::Resident => {
                    if advice == Advice::Hot {
                        let mut brain = shared.brain.lock();
                        brain.hear(&shared.core);
                        let (app, addr) = brain.locate(page);
                        brain.engine.served(app, addr, Arrival::Touched);
                    }
                }
                _ => away.push(page as u32),
            }
        }
        let arrival = match advice {
            Advice::Hot => Arrival::Touched,
            _ => Arrival::Untouched,
        };
        shared.restore(&away, arrival);
        Ok(())
    }

    /// Brings a range of bytes to its place and keeps it there as long as the result lives.
    ///
    /// # Errors
    /// [`ArenaError::OutOfRange`].
    pub fn pin(&self, bytes: Range<usize>) -> Result<Pinned, ArenaError> {
        let pages = self.pages_of(bytes)?;
        Ok(Pinned::new(Arc::clone(&self.app.shared), pages))
    }

    /// How many pages of a range of bytes are in their place. For tests and reports: a moment later it may be
    /// another number.
    ///
    /// # Errors
    /// [`ArenaError::OutOfRange`].
    pub fn resident_pages(&self, bytes: Range<usize>) -> Result<usize, ArenaError> {
        let directory = &self.core().directory;
        let pages = self.pages_of(bytes)?;
        Ok(pages
            .filter(|&page| {
                matches!(
                    directory.word(page).state,
                    State::Resident | State::Protected
                )
            })
            .count())
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let shared = &self.app.shared;
        if shared.is_in_child() {
            return;
        }
        let mut brain = shared.brain.lock();
        let removed = brain.remove_region(&shared.core, self.app.id, self.first, self.pages);
        if let Err(error) = removed {
            die(shared.core.memory.address(self.first), &error);
        }
        drop(brain);
        // What it held in the pool is freed by the pager.
        shared.core.frames.call_pager();
    }
}

/// Pages that are in their place and stay there until this is dropped. The region must live as long.
#[derive(Debug)]
pub struct Pinned {
    shared: Arc<Shared>,
    pages: Range<usize>,
}

impl Pinned {
    fn new(shared: Arc<Shared>, pages: Range<usize>) -> Self {
        for page in pages.clone() {
            if shared.brain.lock().pin(page) > 1 {
                continue;
            }
            loop {
                shared.bring(page, Wanted::Now);
                let pin = |word: Word| {
                    let is_there = word.state == State::Resident;
                    is_there.then_some(word.pinned(true))
                };
                if shared.core.directory.update(page, pin).is_some() {
                    break;
                }
            }
        }
        Self { shared, pages }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if self.shared.is_in_child() {
            return;
        }
        for page in self.pages.clone() {
            let mut brain = self.shared.brain.lock();
            if brain.unpin(page) == 0 {
                let unpin = |word: Word| {
                    let is_there = word.state == State::Resident;
                    is_there.then_some(word.pinned(false))
                };
                self.shared.core.directory.update(page, unpin);
            }
        }
    }
}
