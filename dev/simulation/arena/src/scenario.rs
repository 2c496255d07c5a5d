//! One simulation: an arena, programs that use it, and what goes wrong.

use std::cell::Cell;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::real_std::sync::{Mutex, MutexGuard, PoisonError};
use std::sync::Arc;
use std::time::Duration;
use std::{kernel, machine, random::Random, thread};

use warmswap_backing::Storage;
use warmswap_page::Mechanism;
use warmswap_policy::SchemeSpec;

use crate::application::Application;
use crate::arena::Arena;
use crate::config::{ArenaConfig, FaultMode};
use crate::content::{PIECES, ProgramMemory, Verified};
use crate::error::ArenaError;
use crate::program::program;
use crate::region::{Advice, Region};
use crate::stats::ArenaStats;

/// Schemes whose ways through the pager differ. The costly codec is seldom one of a simulation's.
const SCHEMES: [&str; 16] = [
    "zram",
    "zram+keep-copies=on",
    "zram+prefetch=next+keep-copies=on",
    "zram+codec=zstd+prefetch=next:buffer=8",
    "zram+prefetch=next:buffer=8",
    "ezswap",
    "ezswap",
    "asap",
    "asap+keep-copies=on",
    "ariadne",
    "ariadne+keep-copies=on",
    "warmswap",
    "warmswap",
    "warmswap",
    "warmswap+prefetch=next:buffer=8",
    "warmswap+sizing=adaptive:1k-2k-16k",
];

/// How arenas get their faults.
const FAULT_MODES: [FaultMode; 2] = [FaultMode::Signal, FaultMode::Thread];

/// Arenas before the first simulation of a thread.
const WARM_UPS: u64 = 4;

/// The least limit of a pool: what describes it takes most of that.
const LEAST_POOL_BYTES: u64 = 256 << 10;

/// What a simulation did.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Page swaps that were verified: whole pages that were compared with what they should hold, and that had left their
    /// places since they were last compared.
    pub swaps: u64,
    /// Whole pages that were compared.
    pub pages: u64,
    /// Pieces of pages that were written.
    pub writes: u64,
    /// What the arena did.
    pub stats: ArenaStats,
    /// What the machine did.
    pub machine: machine::Report,
}

/// What all tasks of a simulation share.
struct World {
    arena: Arena,
    apps: Vec<Application>,
    regions: Vec<(Region, ProgramMemory)>,
    verified: Verified,
    operations: u64,
}

/// Runs the simulation of a seed.
///
/// # Panics
/// When a page does not hold what it should, when a task waits for ever, and when the arena says that something is lost.
pub fn simulate(seed: u64) -> Outcome {
    let mut random = Random::new(seed ^ 0x5eed);
    let kernel = refusals(&mut random);
    // Programs need more of the machine than arenas do, and have more that can go wrong.
    let is_program = random.below(3) == 0;
    simulate_with(seed, kernel, move || {
        if is_program {
            program(&mut random)
        } else {
            world(random, &FAULT_MODES)
        }
    })
}

/// Runs a simulation in which no page can leave its place by a move: pauses and launches end all the same.
///
/// # Panics
/// As [`simulate`].
pub fn simulate_pinned(seed: u64) -> Outcome {
    let kernel = kernel::Config {
        busy: 1000,
        ..kernel::Config::default()
    };
    simulate_with(seed, kernel, move || world(Random::new(seed), &FAULT_MODES))
}

/// What the kernel refuses in a simulation; nothing in one of four.
fn refusals(random: &mut Random) -> kernel::Config {
    let trouble = random.below(4) as u32;
    kernel::Config {
        again: [0, 5, 50, 200][random.below(4) as usize] * trouble.min(1),
        partial: [0, 20, 100, 300][random.below(4) as usize] * trouble.min(1),
        busy: [0, 2, 20, 100][random.below(4) as usize] * trouble.min(1),
        denied: [0, 0, 2, 20][random.below(4) as usize] * trouble.min(1),
        no_memory: [0, 1, 10][random.below(3) as usize] * trouble.min(1),
        spurious: [0, 10, 100][random.below(3) as usize] * trouble.min(1),
    }
}

/// Runs a simulation with that main task.
fn simulate_with(
    seed: u64,
    kernel: kernel::Config,
    main: impl FnOnce() -> (Verified, ArenaStats) + 'static,
) -> Outcome {
    warm_up();
    let outcome = Rc::new(Cell::new(None));
    let place = Rc::clone(&outcome);
    let config = machine::Config { seed, kernel };
    let machine = machine::run(config, move || place.set(Some(main())));
    let Some((verified, stats)) = outcome.take() else {
        panic!("seed {seed}: the main task did not end");
    };
    Outcome {
        swaps: verified.swaps.into_inner(),
        pages: verified.pages.into_inner(),
        writes: verified.writes.into_inner(),
        stats,
        machine,
    }
}

/// What a process and a thread do once (the handler of SIGBUS, thread-local numbers) takes steps. It is done before the
/// first simulation, so that a seed replays in whatever process.
fn warm_up() {
    std::thread_local! {
        static IS_WARM: Cell<bool> = const { Cell::new(false) };
    }
    if !IS_WARM.replace(true) {
        let config = machine::Config {
            seed: 0,
            kernel: kernel::Config::default(),
        };
        machine::run(config, || {
            // More than one, since not all of them store pages.
            for seed in 0..WARM_UPS {
                world(Random::new(seed), &[FaultMode::Signal]);
            }
        });
    }
}

/// The budget of a simulation: half a MiB to four. What it is about lies in caches mostly.
pub fn budget_bytes(random: &mut Random) -> u64 {
    let least = 1 << 19 << random.below(3);
    least + random.below(least)
}

/// The main task.
fn world(mut random: Random, fault_modes: &[FaultMode]) -> (Verified, ArenaStats) {
    let budget = budget_bytes(&mut random);
    let scheme = SCHEMES[random.below(SCHEMES.len() as u64) as usize];
    let spec = SchemeSpec::parse(scheme).unwrap_or_else(|error| panic!("{scheme}: {error}"));
    let pool_limit_bytes = (budget / 4 + random.below(budget / 2)).max(LEAST_POOL_BYTES);
    let config = ArenaConfig {
        pool_limit_bytes: (random.below(3) == 0).then_some(pool_limit_bytes),
        mechanism: [Mechanism::Move, Mechanism::Move, Mechanism::Copy][random.below(3) as usize],
        fault_mode: fault_modes[random.below(fault_modes.len() as u64) as usize],
        handler_threads: 1 + random.below(3) as usize,
        restore_threads: 1 + random.below(2) as usize,
        service_slots: 1 + random.below(4) as usize,
        address_space_bytes: 128 << 20,
        backing_limit_bytes: 64 << 20,
        tape: std::env::var_os("WARMSWAP_TAPE").map(Into::into),
        ..ArenaConfig::new(budget, spec)
    };
    if std::env::var_os("WARMSWAP_VERBOSE").is_some() {
        eprintln!("{config:?}");
    }
    let arena = if random.below(2) == 0 {
        Arena::new(config)
    } else {
        let storage = Flaky {
            bytes: Mutex::default(),
            failures: [0, 5, 50][random.below(3) as usize],
        };
        Arena::with_storage(config, Box::new(storage))
    };
    let arena = arena.unwrap_or_else(|error| panic!("{error}"));
    let app = |name: usize| {
        let app = arena.application(format!("application {name}"));
        app.unwrap_or_else(|error| panic!("{error}"))
    };
    let apps: Vec<_> = (0..1 + random.below(3) as usize).map(app).collect();
    let budget_pages = budget / kernel::PAGE_BYTES as u64;
    let total = budget_pages / 2 + random.below(3 * budget_pages);
    let count = 1 + random.below(4);
    let regions = (0..count).map(|i| {
        let app = &apps[i as usize % apps.len()];
        let pages = (total / count).max(1) as usize;
        memory(app, pages, random.next())
    });
    let world = Arc::new(World {
        regions: regions.collect(),
        apps,
        arena,
        verified: Verified::default(),
        operations: 200 + random.below(3000),
    });
    let tasks: Vec<_> = (0..1 + random.below(5))
        .map(|_| {
            let (world, mut random) = (Arc::clone(&world), Random::new(random.next()));
            thread::spawn(move || world.use_memory(&mut random))
        })
        .collect();
    for task in tasks {
        let Ok(()) = task.join() else {
            panic!("a task ended by a panic")
        };
    }
    world.finish()
}

fn memory(app: &Application, pages: usize, salt: u64) -> (Region, ProgramMemory) {
    let region = app.region(pages * kernel::PAGE_BYTES);
    let region = region.unwrap_or_else(|error| panic!("{error}"));
    let memory = ProgramMemory::new(region.as_mut_ptr().addr(), pages, salt);
    (region, memory)
}

fn bytes(pages: std::ops::Range<usize>) -> std::ops::Range<usize> {
    pages.start * kernel::PAGE_BYTES..pages.end * kernel::PAGE_BYTES
}

impl World {
    /// What one thread of a program does.
    fn use_memory(&self, random: &mut Random) {
        let mut center = random.next() as usize;
        for _ in 0..self.operations {
            if random.below(40) == 0 {
                center = random.next() as usize;
            }
            let (region, memory) = &self.regions[random.below(self.regions.len() as u64) as usize];
            let pages = near(random, center, memory.len());
            let bytes = bytes(pages.clone());
            let done = match random.below(1000) {
                0..880 => {
                    pages.for_each(|page| self.touch(memory, page, random));
                    Ok(())
                }
                880..910 => region.advise(bytes, Advice::Cold),
                910..935 => region.advise(bytes, Advice::Hot),
                935..960 => region.advise(bytes, Advice::WorkingSet),
                960..970 => {
                    self.pin(region, memory, pages);
                    Ok(())
                }
                970..980 => self.discard(region, memory, pages),
                980..992 => {
                    self.change_foreground(random);
                    Ok(())
                }
                _ => {
                    self.use_region(random);
                    Ok(())
                }
            };
            done.unwrap_or_else(|error| panic!("{error}"));
        }
    }

    fn touch(&self, memory: &ProgramMemory, page: usize, random: &mut Random) {
        if !memory.begin_use(page) {
            return;
        }
        match random.below(4) {
            0 => memory.write(page, 0..PIECES, &self.verified),
            1 => {
                let piece = random.below(PIECES as u64) as usize;
                memory.write(page, piece..piece + 1, &self.verified);
            }
            _ => memory.verify(page, &self.verified),
        }
        memory.end_use(page);
    }

    /// Pins pages: the kernel could use them meanwhile.
    fn pin(&self, region: &Region, memory: &ProgramMemory, pages: std::ops::Range<usize>) {
        let users: Vec<_> = pages
            .clone()
            .filter(|&page| memory.begin_use(page))
            .collect();
        if users.len() == pages.len() {
            let pinned = region.pin(bytes(pages.clone()));
            let pinned = pinned.unwrap_or_else(|error| panic!("{error}"));
            for page in pages {
                assert!(memory.is_present(page), "a pinned page is away");
                memory.verify(page, &self.verified);
                assert!(memory.is_present(page), "a pinned page has left");
            }
            drop(pinned);
        }
        users.into_iter().for_each(|page| memory.end_use(page));
    }

    fn discard(
        &self,
        region: &Region,
        memory: &ProgramMemory,
        pages: std::ops::Range<usize>,
    ) -> Result<(), ArenaError> {
        if memory.take(pages.clone()) {
            region.discard(bytes(pages.clone()))?;
            memory.give_back(pages, true);
        }
        Ok(())
    }

    fn change_foreground(&self, random: &mut Random) {
        let app = &self.apps[random.below(self.apps.len() as u64) as usize];
        match random.below(3) {
            0 => app.foreground(),
            1 => app.launch_done(),
            _ => app.background(),
        }
    }

    /// Uses a region that is gone afterwards.
    fn use_region(&self, random: &mut Random) {
        let app = &self.apps[random.below(self.apps.len() as u64) as usize];
        let pages = 1 + random.below(64) as usize;
        let (region, memory) = memory(app, pages, random.next());
        for _ in 0..2 * pages {
            let page = random.below(pages as u64) as usize;
            self.touch(&memory, page, random);
        }
        drop(region);
    }

    /// All pages are compared, and nothing is left behind.
    fn finish(self: Arc<Self>) -> (Verified, ArenaStats) {
        for (_, memory) in &self.regions {
            (0..memory.len()).for_each(|page| memory.verify(page, &self.verified));
        }
        self.arena.check().unwrap_or_else(|error| panic!("{error}"));
        let stats = self.settled_stats();
        let Ok(world) = Arc::try_unwrap(self) else {
            panic!("a task holds on to the world");
        };
        (world.verified, stats)
    }
}

/// Looks at an arena whose threads come to rest.
const LOOKS: usize = 100;

impl World {
    /// What the arena holds, once its threads have come to rest.
    fn settled_stats(&self) -> ArenaStats {
        for _ in 0..LOOKS {
            let stats = self.arena.stats();
            let found = stats.resident_frames + stats.staged_frames + stats.free_frames;
            if found == stats.held_frames {
                return stats;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("frames are lost: {:?}", self.arena.stats());
    }
}

/// A few pages near a place that many operations are about.
fn near(random: &mut Random, center: usize, pages: usize) -> std::ops::Range<usize> {
    let first = match random.below(4) {
        0 => random.below(pages as u64) as usize,
        _ => (center + random.below(64) as usize) % pages,
    };
    let run = if random.below(8) == 0 { 32 } else { 4 };
    first..pages.min(first + 1 + random.below(run) as usize)
}

/// A backing file in memory that fails now and then.
#[derive(Debug)]
struct Flaky {
    /// Of the real machine: a lock of the backing log is held around every use.
    bytes: Mutex<Vec<u8>>,
    /// In a thousand writes.
    failures: u64,
}

impl Flaky {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Storage for Flaky {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.bytes();
        let from = bytes.get(offset as usize..).unwrap_or_default();
        let count = buffer.len().min(from.len());
        buffer[..count].copy_from_slice(&from[..count]);
        Ok(count)
    }

    fn write_at(&self, buffer: &[u8], offset: u64) -> io::Result<usize> {
        if machine::draw(1000) < self.failures {
            return Err(io::Error::from_raw_os_error(std::ENOSPC));
        }
        let mut bytes = self.bytes();
        let end = offset as usize + buffer.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[offset as usize..end].copy_from_slice(buffer);
        Ok(buffer.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.bytes().resize(len as usize, 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn path(&self) -> &Path {
        Path::new("a file in memory")
    }
}
