//! The heap: what its mutators and its collector share, and its public face.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use warmswap_page::latency::Latencies;
use warmswap_protocol::Follower;

use crate::clock::{Clock, SystemClock};
use crate::collector::{self, Control, Kind, SharedCopies};
use crate::config::{Collector, HeapConfig};
use crate::error::HeapError;
use crate::follow;
use crate::launch::LaunchLog;
use crate::layout::{Addr, REGION_BYTES};
use crate::limits::Limits;
use crate::marvin::Bookmarks;
use crate::memory::HeapMemory;
use crate::mutator::{Mutator, is_attached};
use crate::regions::RegionState;
use crate::roots::SlotTable;
use crate::space::Space;
use crate::stats::{HeapStats, Recorder};
use crate::world::World;

/// Why the read barrier does more than load: bits of [`Inner::barrier`].
pub mod barrier {
    /// A collection runs: references into evacuated regions are followed, objects in place are marked.
    pub const COLLECTING: u8 = 1;
    /// It has found all live objects: weak references to others are void.
    pub const CLEARING: u8 = 2;
    /// A launch is being learned: accesses are noted.
    pub const LEARNING: u8 = 4;
    /// Marvin: accesses are noted, and bookmarked objects restored.
    pub const BOOKMARKS: u8 = 8;
}

/// Something to call when an object is no more.
pub struct Finaliser {
    pub object: Addr,
    pub run: Box<dyn FnOnce() + Send>,
}

impl std::fmt::Debug for Finaliser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Finaliser({:?})", self.object)
    }
}

/// What mutators and the collector share.
#[derive(Debug)]
pub struct Inner {
    pub config: HeapConfig,
    pub space: Space,
    pub world: World,
    pub limits: Limits,
    pub control: Control,
    /// The timers' time.
    pub clock: Arc<dyn Clock>,
    pub stats: Recorder,
    /// Changes while all mutators rest only; each has a copy.
    pub barrier: AtomicU8,
    /// Collections that have begun. Changes while all mutators rest only.
    flips: AtomicU64,
    roots: SlotTable,
    weaks: SlotTable,
    pub finalisers: Mutex<Vec<Finaliser>>,
    /// What mutators copied and marked for the collection that runs.
    pub shared: Mutex<SharedCopies>,
    pub launch: LaunchLog,
    pub bookmarks: Bookmarks,
}

impl Inner {
    pub fn roots(&self) -> &SlotTable {
        &self.roots
    }

    pub fn weaks(&self) -> &SlotTable {
        &self.weaks
    }

    pub fn flips(&self) -> u64 {
        self.flips.load(Ordering::Acquire)
    }

    /// A collection begins. With all mutators stopped.
    pub fn count_flip(&self) {
        self.flips.fetch_add(1, Ordering::AcqRel);
    }

    pub fn foreground(&self) {
        self.launch.begin();
        self.space.memory.foreground();
        self.control.set_foreground(true);
    }

    pub fn launch_done(&self) {
        self.space.memory.launch_done();
        self.control.launch_done();
    }

    pub fn background(&self) {
        self.space.memory.background();
        self.control.set_foreground(false);
    }

    /// Switches reasons of the read barrier on and off. With all mutators stopped.
    pub fn set_barrier(&self, on: u8, off: u8) {
        let bits = self.barrier.load(Ordering::Relaxed) & !off | on;
        self.barrier.store(bits, Ordering::Release);
    }

    /// Whether accesses are noted while a launch is under way.
    pub fn is_learning(&self) -> bool {
        self.barrier.load(Ordering::Relaxed) & barrier::LEARNING != 0
    }

    /// Bytes of regions in use.
    pub fn used_bytes(&self) -> usize {
        self.space.regions.in_use() * REGION_BYTES
    }

    /// A mutator took a region, or there is none for it.
    pub fn note_growth(&self, has_room: bool) {
        let is_due = if has_room {
            let charged = self.space.regions.charged() * REGION_BYTES;
            self.limits.has_reached(charged)
        } else {
            self.limits.is_full()
        };
        if is_due {
            self.control.request(None);
        }
    }

    /// Waits, at a safepoint, for a collection when mutators are too fast for it; whether that was so.
    pub fn wait_while_full(&self) -> bool {
        let is_stalling = self.limits.is_stalling();
        if is_stalling {
            self.control.wait_for_end();
        }
        is_stalling
    }

    pub fn add_finaliser(&self, object: Addr, run: Box<dyn FnOnce() + Send>) {
        self.finalisers.lock().push(Finaliser { object, run });
    }

    /// The slow half of the read barrier.
    #[cold]
    pub fn read_barrier(&self, reasons: u8, object: Addr, slot: &AtomicU32) -> Addr {
        let mut now = object;
        if reasons & barrier::COLLECTING != 0 {
            now = self.follow(object);
            heal(slot, object, now);
        }
        if reasons & barrier::LEARNING != 0 {
            self.launch.note(now);
        }
        if reasons & barrier::BOOKMARKS != 0 {
            self.bookmarks.accessed(&self.space, now);
        }
        now
    }

    /// The same for a weak reference.
    pub fn weak_barrier(&self, reasons: u8, object: Addr, slot: &AtomicU32) -> Option<Addr> {
        if reasons & barrier::CLEARING != 0 && !self.has_survived(object) {
            return None;
        }
        Some(self.read_barrier(reasons, object, slot))
    }

    /// Where an object of the collection that runs is, which a mutator loaded: it is alive.
    fn follow(&self, object: Addr) -> Addr {
        match self.space.regions.state(object.region()) {
            RegionState::Evacuated => match self.space.header(object).forwarding() {
                Some(to) => to,
                None => self.shared.lock().copy(&self.space, object),
            },
            RegionState::InPlace => {
                if self.space.marks.set(object.granule() as usize) {
                    self.shared.lock().marked(&self.space, object);
                }
                object
            }
            _ => object,
        }
    }

    /// Whether an object is alive, once the collection that runs has found all that are.
    pub fn has_survived(&self, object: Addr) -> bool {
        match self.space.regions.state(object.region()) {
            RegionState::Evacuated => self.space.header(object).forwarding().is_some(),
            RegionState::InPlace => self.space.marks.get(object.granule() as usize),
            _ => true,
        }
    }
}

/// Lets a slot refer to an object's copy, unless it refers to another object by now.
pub fn heal(slot: &AtomicU32, from: Addr, to: Addr) {
    if from != to {
        let (from, to) = (from.granule(), to.granule());
        // A slot that changed meanwhile refers to something newer.
        let _ = slot.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
    }
}

/// A managed heap with its collector. See the [crate].
///
/// Dropping it ends the collector's thread; mutators and roots that are left keep the memory, uncollected.
#[derive(Debug)]
pub struct Heap {
    inner: Arc<Inner>,
    thread: Option<JoinHandle<()>>,
}

impl Heap {
    /// A heap in this memory; it uses [`HeapConfig::address_bytes`] of it.
    ///
    /// # Errors
    /// [`HeapError`]: the configuration makes no sense, the memory is too small, or there is no thread.
    pub fn new(memory: impl HeapMemory + 'static, config: HeapConfig) -> Result<Self, HeapError> {
        Self::with_clock(memory, config, Arc::new(SystemClock))
    }

    /// The same with another clock for its timers (T_B, T_F, the next advice or pass).
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_clock(
        memory: impl HeapMemory + 'static,
        config: HeapConfig,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, HeapError> {
        config.check()?;
        let needed = config.address_bytes();
        if memory.bytes() < needed {
            return Err(HeapError::Memory {
                needed,
                bytes: memory.bytes(),
            });
        }
        let space = Space::new(Box::new(memory), config.regions(), config.most_in_use());
        let uses_bookmarks = matches!(config.collector, Collector::Marvin(_));
        let inner = Arc::new(Inner {
            launch: LaunchLog::new(space.bytes()),
            space,
            world: World::default(),
            limits: Limits::new(config.foreground_factor, config.max_bytes),
            control: Control::default(),
            clock,
            stats: Recorder::default(),
            barrier: AtomicU8::new(if uses_bookmarks {
                barrier::BOOKMARKS
            } else {
                0
            }),
            flips: AtomicU64::new(0),
            roots: SlotTable::default(),
            weaks: SlotTable::default(),
            finalisers: Mutex::default(),
            shared: Mutex::new(SharedCopies::new()),
            bookmarks: Bookmarks::default(),
            config,
        });
        let thread = collector::start(Arc::clone(&inner)).map_err(HeapError::Thread)?;
        Ok(Self {
            inner,
            thread: Some(thread),
        })
    }

    /// Lets this thread use the heap. Waits while the world is stopped.
    ///
    /// # Errors
    /// [`HeapError::Attached`]: it has a mutator of this heap.
    pub fn mutator(&self) -> Result<Mutator, HeapError> {
        Mutator::new(Arc::clone(&self.inner))
    }

    /// Collects garbage now, and waits for the end of it.
    ///
    /// # Errors
    /// [`HeapError::Attached`]: this thread has a mutator, which the collection would wait for; see
    /// [`Mutator::collect`].
    pub fn collect(&self, kind: Kind) -> Result<(), HeapError> {
        if is_attached(&self.inner) {
            return Err(HeapError::Attached);
        }
        self.inner.control.collect(kind);
        Ok(())
    }

    /// The application comes to the foreground: its launch begins.
    pub fn foreground(&self) {
        self.inner.foreground();
    }

    /// The application has answered its user: its launch ends.
    pub fn launch_done(&self) {
        self.inner.launch_done();
    }

    /// The application goes to the background.
    pub fn background(&self) {
        self.inner.background();
    }

    /// Has the daemon say when the application comes and goes, from now on, as its user switches between programs; a launch
    /// ends three seconds later, or when the program says so. `socket` is the daemon's, as a rule
    /// [`DAEMON_SOCKET`](warmswap_protocol::DAEMON_SOCKET). Until a daemon runs whose socket this user may use, nothing is heard.
    /// Takes a thread, which ends within a second of the heap.
    ///
    /// # Errors
    /// [`HeapError::Follow`], [`HeapError::Thread`].
    pub fn follow_daemon(&self, socket: &Path) -> Result<(), HeapError> {
        let follower = Follower::new(socket).map_err(HeapError::Follow)?;
        follow::start(&self.inner, follower)
    }

    /// What the heap holds and did.
    #[must_use]
    pub fn stats(&self) -> HeapStats {
        HeapStats::of(&self.inner)
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    /// How long mutators waited at safepoints for all others to stop and for what is done then, each time.
    #[must_use]
    pub fn pauses(&self) -> Latencies {
        self.inner.stats.pauses.snapshot()
    }

    /// How long mutators waited at safepoints for the end of a collection, each time: they allocate faster than the
    /// collector frees.
    #[must_use]
    pub fn stalls(&self) -> Latencies {
        self.inner.stats.stalls.snapshot()
    }

    /// Waits until the collector has nothing to do at once. Timers may be running.
    pub fn settle(&self) {
        self.inner.control.settle();
    }

    /// The clock was set: does what is due by it, and waits for that. A mutator that this thread has must rest
    /// ([`Mutator::blocking`]): else this waits for ever.
    pub fn clock_changed(&self) {
        self.inner.control.look_at_clock();
    }

    /// Does now what the collector would do when its timer (T_B, T_F, the next advice or pass) expires, and waits for
    /// it. A mutator that this thread has must rest ([`Mutator::blocking`]): else this waits for ever.
    pub fn expire_timer(&self) {
        self.inner.control.expire_timer();
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        self.inner.control.end();
        if is_attached(&self.inner) || self.inner.control.is_collector() {
            // The collector may be waiting for this thread's mutator, or this is its own thread, in a finaliser. It
            // ends by itself.
            return;
        }
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            // It has said what happened.
            std::process::abort();
        }
    }
}
