//! The arena: made here, and asked here what it holds.

use std::ops::Range;
use std::sync::Arc;

use warmswap_backing::{Backing, Storage};
use warmswap_page::PAGE_BYTES;
use warmswap_uffd::Addresses;

use crate::application::Application;
use crate::config::ArenaConfig;
use crate::error::ArenaError;
use crate::frames::FrameSource;
use crate::hooks::RegionHooks;
use crate::region::Pinned;
use crate::regions::Regions;
use crate::shared::{AddressKind, Shared};
use crate::stats::ArenaStats;

/// Memory of this process that may be larger than what it takes: pages that are not needed are compressed,
/// and come back when they are touched. See the [crate] for how.
///
/// Clones are the same arena. It ends with the last of its clones, applications and regions.
#[derive(Clone, Debug)]
pub struct Arena {
    pub(crate) shared: Arc<Shared<Regions>>,
}

impl Arena {
    /// An arena without regions.
    ///
    /// # Errors
    /// [`ArenaError`]: the kernel lacks something, the scheme is none, or the limits make no sense.
    pub fn new(config: ArenaConfig) -> Result<Self, ArenaError> {
        let backing = match &config.backing {
            Some(path) => Some(Backing::create(path, config.backing_config())?),
            None => None,
        };
        Self::started(Self::make(&config, backing)?, &config)
    }

    /// An arena whose backing file is this storage, which is empty; `config.backing` is not looked at.
    ///
    /// # Errors
    /// [`ArenaError`].
    pub fn with_storage(
        config: ArenaConfig,
        storage: Box<dyn Storage>,
    ) -> Result<Self, ArenaError> {
        let backing = Backing::on(storage, config.backing_config())?;
        Self::started(Self::make(&config, Some(backing))?, &config)
    }

    fn make(config: &ArenaConfig, backing: Option<Backing>) -> Result<Shared<Regions>, ArenaError> {
        let kind = AddressKind {
            addresses: Addresses::Parts,
            frames: FrameSource::Recycled,
            hooks: Arc::new(RegionHooks),
        };
        Shared::new(config, backing, kind, Regions::new)
    }

    fn started(mut shared: Shared<Regions>, config: &ArenaConfig) -> Result<Self, ArenaError> {
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
        Application::new(Arc::clone(&self.shared), name.into())
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
        let mut pager = self.shared.pager();
        pager.drain_arrivals(&self.shared.core);
        pager.engine.check()
    }
}
