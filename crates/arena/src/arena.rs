//! The arena: made here, and asked here what it holds.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use warmswap_backing::{Backing, BackingConfig, Storage};
use warmswap_control::Mechanism;
use warmswap_engine::calls::Call;
use warmswap_engine::{Engine, Limits, Watermarks};
use warmswap_page::PAGE_BYTES;
use warmswap_pool::{Pool, PoolConfig};
use warmswap_store::ChunkStore;
use warmswap_sys::uffd::{self, Addresses, FaultDelivery, Feature, PagedConfig, PagedMemory, Uffd};

use crate::application::{AppInner, Application};
use crate::brain::{Allowance, Brain};
use crate::config::{ArenaConfig, FaultMode};
use crate::directory::{Directory, MAX_SLOTS};
use crate::error::ArenaError;
use crate::frames::FrameSource;
use crate::lock::Mutex;
use crate::region::Pinned;
use crate::service::Core;
use crate::shared::Shared;
use crate::stats::ArenaStats;
use crate::tape::Taped;

/// Memory of this process that may be larger than what it takes: pages that are not needed are compressed,
/// and come back when they are touched. See the [crate] for how.
///
/// Clones are the same arena. It ends with the last of its clones, applications and regions.
#[derive(Clone, Debug)]
pub struct Arena {
    pub(crate) shared: Arc<Shared>,
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
        Self::started(Self::make(&config, backing, Addresses::Parts)?, &config)
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
        Self::started(
            Self::make(&config, Some(backing), Addresses::Parts)?,
            &config,
        )
    }

    /// Memory and tables; no threads yet.
    pub(crate) fn make(
        config: &ArenaConfig,
        backing: Option<Backing>,
        addresses: Addresses,
    ) -> Result<Shared, ArenaError> {
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
        let mut engine = Taped::new(engine, config.tape.as_deref(), &config.scheme, limits)
            .map_err(ArenaError::system("write the tape"))?;
        engine.call(Call::TouchesAreUnseen());
        let marks = Watermarks::of(config.budget_bytes);
        // The engine keeps the hysteresis, and the limit where it moves; what the pool keeps for reuse must not be
        // what fills a small one.
        let defaults = PoolConfig::default();
        let pool = Pool::new(PoolConfig {
            limit_bytes: config.pool_limit_bytes.unwrap_or(u64::MAX),
            resume_percent: 100,
            // Given back whenever frames are few.
            cache_bytes: pool_limit_bytes / 16,
            verify: config.verify,
            layout,
            ..defaults
        })?;
        let grain_bytes = Directory::GRAIN_PAGES * PAGE_BYTES;
        let pages = config.address_space_bytes.next_multiple_of(grain_bytes) / PAGE_BYTES;
        // With a slot for every frame, a frame that comes free need never go back to the kernel.
        let frames = usize::try_from(config.budget_bytes).unwrap_or(usize::MAX) / PAGE_BYTES;
        let slots = frames.min(MAX_SLOTS - 64) + 64;
        let (memory, empty) = PagedMemory::new(PagedConfig {
            pages,
            addresses,
            slots: slots.next_multiple_of(64),
            mechanism: mechanism(config.mechanism)?,
            delivery: match config.fault_mode {
                FaultMode::Signal => FaultDelivery::Signal,
                FaultMode::Thread => FaultDelivery::Events,
            },
        })?;
        let tables = ArenaError::system("reserve addresses for tables");
        let (directory, store) = Directory::new(pages, keep_copies)
            .and_then(|directory| Ok((directory, ChunkStore::new(pool, backing, 2 * pages)?)))
            .map_err(tables)?;
        let mut core = Core::new(memory, empty, directory, store, config.service_slots);
        core.is_program = matches!(addresses, Addresses::Whole { .. });
        if core.is_program {
            core.frames.source = FrameSource::Fresh;
        }
        core.neighbour_reserve = (marks.low_frames - marks.min_frames / 2) as usize / 2;
        let core = Arc::new(core);
        let mut brain = Brain::new(engine, allowance, keep_copies, pages);
        brain.report(&core);
        let brain = Arc::new(Mutex::new(brain));
        Ok(Shared {
            core,
            brain,
            registration: None,
            threads: Mutex::default(),
            budget_bytes: config.budget_bytes,
            learned_folder: config.learned_folder.clone(),
            process: std::process::id().into(),
        })
    }

    fn started(mut shared: Shared, config: &ArenaConfig) -> Result<Self, ArenaError> {
        shared.start(config)?;
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Adds an application. With [`ArenaConfig::learned_folder`], what an earlier run learned about one of that
    /// name is known again; a file that is damaged is passed over, with a warning on standard error.
    ///
    /// # Errors
    /// [`ArenaError::Applications`], when there are too many.
    pub fn application(&self, name: impl Into<String>) -> Result<Application, ArenaError> {
        let id = self.shared.brain().add_app()?;
        let inner = AppInner {
            shared: Arc::clone(&self.shared),
            id,
            name: name.into(),
            job: Mutex::new(None),
            is_unsaved: AtomicBool::new(false),
        };
        inner.recall_learned();
        Ok(Application {
            inner: Arc::new(inner),
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
        let mut brain = self.shared.brain();
        brain.hear(&self.shared.core);
        brain.engine.check()
    }
}

pub fn backing_config(config: &ArenaConfig) -> BackingConfig {
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
