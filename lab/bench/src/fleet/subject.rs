//! One arm with its arena and programs.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use warmswap_arena::{Arena, ArenaConfig, ArenaStats};
use warmswap_heap::{Collector, HeapConfig, LaunchDepth};
use warmswap_policy::SchemeSpec;

use super::arm::{Arm, Swap};
use super::cached::Cached;
use super::flash::{FlashCounts, SwapFile};
use super::{FleetError, Program};

/// Timers are expired by the benchmark.
const NEVER: Duration = Duration::from_secs(1 << 30);

/// Makes a program from a seed.
pub type Make = Arc<dyn Fn(u64) -> Box<dyn Program> + Send + Sync>;

/// A program to be measured.
#[derive(Clone)]
pub struct Subject {
    /// Makes it.
    pub make: Make,
    /// Size limit of its heap, in bytes.
    pub max_bytes: usize,
}

impl std::fmt::Debug for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Subject({})", self.max_bytes)
    }
}

/// What an arm's memory is.
#[derive(Clone, Copy, Debug)]
pub struct Memory<'a> {
    /// Budget of the arena, in bytes.
    pub budget_bytes: u64,
    /// Where pages go that leave.
    pub swap: Swap,
    /// Size of the backing file, in bytes.
    pub flash_bytes: u64,
    /// Folder for the backing file.
    pub folder: &'a Path,
}

/// One arm: an arena, and programs in it.
#[derive(Debug)]
pub struct Side {
    pub arm: Arm,
    pub arena: Arena,
    pub programs: Vec<Cached>,
    pub flash: Arc<FlashCounts>,
    /// Factor by which a heap may grow in the background.
    background_factor: f64,
    observe_launches: bool,
    collector: Collector,
}

impl Side {
    /// An arena without programs.
    pub fn new(arm: Arm, memory: Memory<'_>, background_factor: f64) -> Result<Self, FleetError> {
        let spec = SchemeSpec::parse(arm.scheme(memory.swap))?;
        let flash = Arc::new(FlashCounts::default());
        let config = ArenaConfig {
            backing_limit_bytes: memory.flash_bytes,
            ..ArenaConfig::new(memory.budget_bytes, spec)
        };
        let arena = match memory.swap {
            Swap::Pool => Arena::new(config)?,
            Swap::Flash | Swap::Counted => {
                let counts = Arc::clone(&flash);
                let is_slow = memory.swap == Swap::Flash;
                let file = SwapFile::create(memory.folder, counts, is_slow);
                let file = file.map_err(|source| FleetError::Backing {
                    folder: memory.folder.to_owned(),
                    source,
                })?;
                Arena::with_storage(config, Box::new(file))?
            }
        };
        Ok(Self {
            arm,
            arena,
            programs: Vec::new(),
            flash,
            background_factor,
            observe_launches: false,
            collector: arm.collector(),
        })
    }

    /// With another D, and launches observed.
    pub fn with_depth(mut self, depth: u32) -> Self {
        if let Collector::Fleet(fleet) = &mut self.collector {
            fleet.launch_depth = LaunchDepth::References(depth);
        }
        self.observe_launches = true;
        self
    }

    /// Adds a program, which is started. Its number makes its seed.
    pub fn add(&mut self, subject: &Subject, seed: u64) -> Result<(), FleetError> {
        let config = HeapConfig {
            background_factor: self.background_factor,
            background_collection_wait: Some(NEVER),
            launch_raises_limit: false,
            observe_launches: self.observe_launches,
            ..HeapConfig::new(subject.max_bytes).with(self.collector)
        };
        let number = self.programs.len();
        let program = (subject.make)(seed + number as u64);
        let cached = Cached::new(&self.arena, config, program, number)?;
        cached.start()?;
        self.programs.push(cached);
        Ok(())
    }

    /// What the arena holds and did.
    pub fn stats(&self) -> ArenaStats {
        self.arena.stats()
    }

    /// Bytes of all heaps.
    pub fn heap_bytes(&self) -> Result<u64, FleetError> {
        let mut bytes = 0;
        for program in &self.programs {
            bytes += program.stats()?.used_bytes as u64;
        }
        Ok(bytes)
    }

    /// Bytes read from flash so far.
    pub fn flash_read_bytes(&self) -> u64 {
        self.flash.read_bytes.load(Ordering::Relaxed)
    }
}
