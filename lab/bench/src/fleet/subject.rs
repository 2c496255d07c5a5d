//! One arm with its arena and programs.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use warmswap_arena::{Arena, ArenaConfig};
use warmswap_heap::{ArenaMemory, Collector, Heap, HeapConfig, KernelMemory, LaunchDepth};
use warmswap_policy::SchemeSpec;
use warmswap_sys::meminfo::VmstatFile;
use warmswap_sys::process::Stat;
use warmswap_sys::{FileError, Root, swap};

use super::arm::{Arm, SwapTarget};
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
pub struct ArmMemory<'a> {
    /// Budget of the arena, in bytes.
    pub budget_bytes: u64,
    /// Where pages go that leave.
    pub swap: SwapTarget,
    /// Size of the backing file, in bytes.
    pub flash_bytes: u64,
    /// Folder for the backing file.
    pub folder: &'a Path,
}

/// What lies below the heaps of an arm.
#[derive(Debug)]
enum Below {
    Arena(Arena),
    /// The kernel's memory and swap.
    Kernel,
}

/// What swap did for an arm.
#[derive(Clone, Copy, Debug, Default)]
pub struct SwapUse {
    /// Faults; major ones of this process where the kernel pages.
    pub faults: u64,
    /// Pages that left; of the whole machine where the kernel pages.
    pub pages_out: u64,
    /// Times that faults went beyond the budget.
    pub overcommits: u64,
}

/// One arm: its memory, and programs in it.
#[derive(Debug)]
pub struct Side {
    pub arm: Arm,
    below: Below,
    pub programs: Vec<Cached>,
    pub flash: Arc<FlashCounts>,
    /// Factor by which a heap may grow in the background.
    background_factor: f64,
    observe_launches: bool,
    depth: Option<u32>,
}

impl Side {
    /// Memory without programs.
    pub fn new(
        arm: Arm,
        memory: ArmMemory<'_>,
        background_factor: f64,
    ) -> Result<Self, FleetError> {
        let flash = Arc::new(FlashCounts::default());
        let below = if arm == Arm::Kernel {
            if swap::areas(&Root::machine())?.is_empty() {
                return Err(FleetError::NoSwap);
            }
            Below::Kernel
        } else {
            Below::Arena(arena(arm, memory, &flash)?)
        };
        Ok(Self {
            arm,
            below,
            programs: Vec::new(),
            flash,
            background_factor,
            observe_launches: false,
            depth: None,
        })
    }

    /// With another D, and launches observed.
    pub fn with_depth(self, depth: u32) -> Self {
        Self {
            depth: Some(depth),
            observe_launches: true,
            ..self
        }
    }

    fn heap_config(&self, max_bytes: usize) -> HeapConfig {
        let mut collector = self.arm.collector(max_bytes);
        if let (Collector::Fleet(fleet), Some(depth)) = (&mut collector, self.depth) {
            fleet.launch_depth = LaunchDepth::References(depth);
        }
        HeapConfig {
            background_factor: self.background_factor,
            background_collection_wait: Some(NEVER),
            launch_raises_limit: false,
            observe_launches: self.observe_launches,
            ..HeapConfig::new(max_bytes).with(collector)
        }
    }

    fn heap(&self, name: &str, config: HeapConfig) -> Result<Heap, FleetError> {
        let bytes = config.address_bytes();
        Ok(match &self.below {
            Below::Arena(arena) => {
                let app = arena.application(name.to_owned())?;
                Heap::new(ArenaMemory::new(app, bytes)?, config)?
            }
            Below::Kernel => Heap::new(KernelMemory::new(bytes)?, config)?,
        })
    }

    /// Adds a program, which is started. Its number makes its seed.
    pub fn add(&mut self, subject: &Subject, seed: u64) -> Result<(), FleetError> {
        let config = self.heap_config(subject.max_bytes);
        let number = self.programs.len();
        let program = (subject.make)(seed + number as u64);
        let name = format!("{} {number}", program.name());
        let heap = self.heap(&name, config)?;
        let cached = Cached::new(name, heap, program)?;
        cached.start()?;
        self.programs.push(cached);
        Ok(())
    }

    /// What swap did so far.
    pub fn stats(&self) -> Result<SwapUse, FleetError> {
        Ok(match &self.below {
            Below::Arena(arena) => {
                let stats = arena.stats();
                SwapUse {
                    faults: stats.faults,
                    pages_out: stats.pager.compressed,
                    overcommits: stats.pager.overcommits,
                }
            }
            Below::Kernel => swap_use_of_kernel()?,
        })
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

fn arena(arm: Arm, memory: ArmMemory<'_>, flash: &Arc<FlashCounts>) -> Result<Arena, FleetError> {
    let spec = SchemeSpec::parse(arm.scheme(memory.swap))?;
    let config = ArenaConfig {
        backing_limit_bytes: memory.flash_bytes,
        ..ArenaConfig::new(memory.budget_bytes, spec)
    };
    if memory.swap == SwapTarget::Pool {
        return Ok(Arena::new(config)?);
    }
    let is_slow = memory.swap == SwapTarget::Flash;
    let file = SwapFile::create(memory.folder, Arc::clone(flash), is_slow);
    let file = file.map_err(|source| FleetError::Backing {
        folder: memory.folder.to_owned(),
        source,
    })?;
    Ok(Arena::with_storage(config, Box::new(file))?)
}

fn swap_use_of_kernel() -> Result<SwapUse, FileError> {
    let root = Root::machine();
    Ok(SwapUse {
        faults: Stat::read(&root, std::process::id())?.major_faults,
        pages_out: VmstatFile::open(&root)?.read()?.out_pages,
        overcommits: 0,
    })
}
