//! A simulation of a paged program: its pages come back in new frames, pages can be protected, frames are shared with
//! children, and the gate closes for forks.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use std::{kernel, random::Random, thread};

use warmswap_page::AppId;
use warmswap_page::Mechanism;
use warmswap_policy::SchemeSpec;
use warmswap_uffd::{Addresses, Protection};

use crate::address_map::AddressMap;
use crate::application::Application;
use crate::config::{ArenaConfig, FaultMode};
use crate::content::{PIECES, ProgramMemory, Verified};
use crate::error::FaultError;
use crate::fault::Core;
use crate::frames::FrameSource;
use crate::hooks::{FaultHooks, HandlerHooks, RegionHooks};
use crate::page_words::{State, Word};
use crate::scenario::budget_bytes;
use crate::shared::{AddressKind, Shared};
use crate::stats::ArenaStats;

/// All pages are the program's.
#[derive(Debug)]
struct Space {
    pages: usize,
}

impl AddressMap for Space {
    fn ranges(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        std::iter::once(0..self.pages)
    }

    fn mapped_pages(&self) -> usize {
        self.pages
    }

    fn owner(&self, _: usize) -> AppId {
        AppId(0)
    }

    fn is_file_page(&self, _: usize) -> bool {
        false
    }
}

/// Faults of a closing gate wait until it is open again.
#[derive(Debug, Default)]
struct PutOff {
    pages: parking_lot::Mutex<Vec<usize>>,
}

impl FaultHooks for PutOff {
    fn handler(self: Arc<Self>) -> Box<dyn HandlerHooks> {
        Box::new(RegionHooks)
    }

    fn before_pager_turn(self: Arc<Self>) -> Box<dyn FnMut()> {
        Box::new(|| {})
    }

    fn before_wait(&self) {}

    fn fork_pending(&self, _: &Core) -> Result<(), FaultError> {
        thread::yield_now();
        Ok(())
    }

    fn put_off(&self, core: &Core, address: usize) -> Result<(), FaultError> {
        let page = core.memory.page_of(address).ok_or(FaultError::NotMapped)?;
        self.pages.lock().push(page);
        Ok(())
    }

    fn take_put_off(&self) -> Option<usize> {
        self.pages.lock().pop()
    }
}

/// What all tasks share.
struct Program {
    shared: Arc<Shared<Space>>,
    app: Application<Space>,
    memory: ProgramMemory,
    verified: Verified,
    operations: u64,
    has_ended: AtomicBool,
}

/// The main task.
pub fn program(random: &mut Random) -> (Verified, ArenaStats) {
    let budget = budget_bytes(random);
    let scheme = ["zram", "warmswap", "zram+keep-copies=on", "ariadne"][random.below(4) as usize];
    let spec = SchemeSpec::parse(scheme).unwrap_or_else(|error| panic!("{scheme}: {error}"));
    let pages = (budget / 8192 + random.below(budget / 2048)) as usize;
    let config = ArenaConfig {
        mechanism: [Mechanism::Move, Mechanism::Move, Mechanism::Copy][random.below(3) as usize],
        fault_mode: FaultMode::Thread,
        handler_threads: 1 + random.below(3) as usize,
        restore_threads: 1,
        service_slots: 1 + random.below(4) as usize,
        address_space_bytes: pages * kernel::PAGE_BYTES,
        tape: std::env::var_os("WARMSWAP_TAPE").map(Into::into),
        ..ArenaConfig::new(budget, spec)
    };
    if std::env::var_os("WARMSWAP_VERBOSE").is_some() {
        eprintln!("{config:?}");
    }
    let kind = AddressKind {
        addresses: Addresses::Whole { at: 1 << 44 },
        frames: FrameSource::Fresh,
        hooks: Arc::new(PutOff::default()),
    };
    let shared = Shared::new(&config, None, kind, |_| Space { pages });
    let mut shared = shared.unwrap_or_else(|error| panic!("{error}"));
    let core = Arc::clone(&shared.core);
    let adopted = core.memory.protect(0, pages, Protection::READ_WRITE);
    let adopted = adopted.and_then(|()| core.memory.adopt(0, pages));
    adopted.unwrap_or_else(|error| panic!("{error}"));
    shared
        .pager()
        .open_pages(&core, 0..pages, Word::of(State::Fresh));
    shared
        .start(&config)
        .unwrap_or_else(|error| panic!("{error}"));
    let shared = Arc::new(shared);
    let app = Application::new(Arc::clone(&shared), "a program".into());
    let program = Arc::new(Program {
        memory: ProgramMemory::new(core.memory.address(0), pages, random.next()),
        app: app.unwrap_or_else(|error| panic!("{error}")),
        shared,
        verified: Verified::default(),
        operations: 2000 + random.below(12_000),
        has_ended: AtomicBool::new(false),
    });
    let start = |does: fn(&Program, &mut Random), mut random: Random| {
        let program = Arc::clone(&program);
        thread::spawn(move || does(&program, &mut random))
    };
    let forks = start(Program::fork, Random::new(random.next()));
    let users: Vec<_> = (0..1 + random.below(5))
        .map(|_| start(Program::use_memory, Random::new(random.next())))
        .collect();
    let join = |task: thread::JoinHandle<()>| {
        let Ok(()) = task.join() else {
            panic!("a task ended by a panic")
        };
    };
    users.into_iter().for_each(join);
    program.has_ended.store(true, Relaxed);
    join(forks);
    program.finish()
}

impl Program {
    fn use_memory(&self, random: &mut Random) {
        let pages = self.memory.len() as u64;
        for _ in 0..self.operations {
            let page = match random.below(3) {
                0 => random.below(pages),
                _ => random.below(pages / 4 + 1).min(pages - 1),
            } as usize;
            if random.below(500) == 0 {
                match random.below(3) {
                    0 => self.app.foreground(),
                    1 => self.app.launch_done(),
                    _ => self.app.background(),
                }
            }
            if random.below(300) == 0 {
                self.discard(page..(page + 1 + random.below(16) as usize).min(pages as usize));
            }
            if !self.memory.begin_use(page) {
                continue;
            }
            match random.below(3) {
                0 => self.memory.write(page, 0..PIECES, &self.verified),
                _ => self.memory.verify(page, &self.verified),
            }
            self.memory.end_use(page);
        }
    }

    /// As `madvise(MADV_DONTNEED)`.
    fn discard(&self, pages: std::ops::Range<usize>) {
        if self.memory.take(pages.clone()) {
            let mut pager = self.shared.pager();
            let fresh = Word::of(State::Fresh);
            let emptied = pager.empty(&self.shared.core, AppId(0), pages.clone(), fresh);
            emptied.unwrap_or_else(|error| panic!("{error}"));
            drop(pager);
            self.memory.give_back(pages, true);
        }
    }

    /// Forks now and then. All tables are whole meanwhile, and afterwards a child has some of the frames, too.
    fn fork(&self, random: &mut Random) {
        let core = &self.shared.core;
        while !self.has_ended.load(Relaxed) {
            thread::sleep(Duration::from_micros(random.below(20_000)));
            core.gate.close();
            self.check_closed();
            for _ in 0..random.below(64) {
                let page = random.below(self.memory.len() as u64) as usize;
                kernel::share(core.memory.address(page), random.below(3) > 0);
            }
            core.gate.open();
        }
    }

    /// No thread is inside the gate: every page and every frame is where the tables say.
    fn check_closed(&self) {
        let core = &self.shared.core;
        let (mut resident, mut staged) = (0, 0);
        for page in 0..self.memory.len() {
            match core.words.word(page).state {
                State::Resident | State::Protected => {
                    assert!(
                        self.memory.is_present(page),
                        "page {page} is away in a fork"
                    );
                    resident += 1;
                }
                State::Staged => staged += 1,
                State::Busy => panic!("page {page} is held in a fork"),
                _ => assert!(
                    !self.memory.is_present(page),
                    "page {page} is there in a fork"
                ),
            }
        }
        let free = core.frames.free();
        assert_eq!(
            resident + staged + free,
            core.frames.held(),
            "frames are lost"
        );
    }

    fn finish(self: Arc<Self>) -> (Verified, ArenaStats) {
        (0..self.memory.len()).for_each(|page| self.memory.verify(page, &self.verified));
        self.shared.core.gate.close();
        self.check_closed();
        self.shared.core.gate.open();
        {
            let mut pager = self.shared.pager();
            pager.drain_arrivals(&self.shared.core);
            pager
                .engine
                .check()
                .unwrap_or_else(|error| panic!("{error}"));
        }
        let stats = self.shared.stats();
        // Its pages go before it does: a restore thread may still have some of them to bring.
        let unmapped = 0..self.memory.len();
        let mut pager = self.shared.pager();
        let emptied = pager.empty(
            &self.shared.core,
            AppId(0),
            unmapped,
            Word::of(State::Unmapped),
        );
        emptied.unwrap_or_else(|error| panic!("{error}"));
        self.shared.settle(&mut pager);
        assert_eq!(self.shared.core.store.pool.stats().stored_objects, 0);
        drop(pager);
        let Ok(program) = Arc::try_unwrap(self) else {
            panic!("a task holds on to the program");
        };
        (program.verified, stats)
    }
}
