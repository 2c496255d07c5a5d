//! When to collect, and which part of the heap: as ART does (`Heap::GrowForUtilization`).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::collector::{CollectionReport, Kind};
use crate::layout::REGION_BYTES;

/// The heap grows by at least this between two collections, in bytes (ART's `kDefaultMinFree`, rounded up to regions).
const LEAST_GROWTH_BYTES: usize = 8 * REGION_BYTES;

/// Bytes freed and time taken by collections of one sort.
#[derive(Debug, Default)]
struct Yield {
    bytes: u64,
    ns: u64,
}

impl Yield {
    fn add(&mut self, report: &CollectionReport) {
        self.bytes += report.freed_bytes;
        self.ns += report.duration_ns.max(1);
    }

    /// Bytes freed in a second.
    fn throughput(&self) -> f64 {
        self.bytes as f64 * 1e9 / self.ns.max(1) as f64
    }
}

#[derive(Debug)]
struct History {
    factor: f64,
    /// What collections of the whole heap (or of the whole background) yielded.
    major: Yield,
    next: Kind,
}

/// The heap's limit, and what happens when it is reached.
#[derive(Debug)]
pub struct Limits {
    /// Most that mutators can have in use.
    max_bytes: usize,
    /// A collection begins here, in bytes in use.
    begin_bytes: AtomicUsize,
    /// Mutators wait for a collection that is under way here.
    stall_bytes: AtomicUsize,
    /// One was asked for and has not ended.
    is_due: AtomicBool,
    is_stalling: AtomicBool,
    history: Mutex<History>,
}

impl Limits {
    /// Of an empty heap of at most so many bytes.
    pub fn new(factor: f64, max_bytes: usize) -> Self {
        let history = History {
            factor,
            major: Yield::default(),
            next: Kind::Minor,
        };
        let limits = Self {
            max_bytes,
            begin_bytes: AtomicUsize::new(0),
            stall_bytes: AtomicUsize::new(0),
            is_due: AtomicBool::new(false),
            is_stalling: AtomicBool::new(false),
            history: Mutex::new(history),
        };
        limits.set_begin(2 * LEAST_GROWTH_BYTES, 0);
        limits.set_stall(4 * LEAST_GROWTH_BYTES, 0);
        limits
    }

    /// A mutator found no room: whether a collection is to begin. Mutators wait for it at their next safepoint.
    pub fn is_full(&self) -> bool {
        self.is_stalling.store(true, Ordering::Relaxed);
        !self.is_due.swap(true, Ordering::AcqRel)
    }

    /// So much is in use now: whether a collection is to begin.
    pub fn has_reached(&self, used_bytes: usize) -> bool {
        if used_bytes >= self.stall_bytes.load(Ordering::Relaxed) {
            self.is_stalling.store(true, Ordering::Relaxed);
        }
        used_bytes >= self.begin_bytes.load(Ordering::Relaxed)
            && !self.is_due.swap(true, Ordering::AcqRel)
    }

    /// Whether mutators allocate faster than the collector frees, and are to wait at their next safepoint.
    #[inline]
    pub fn is_stalling(&self) -> bool {
        self.is_stalling.load(Ordering::Relaxed)
    }

    /// What kind of collection is next.
    pub fn next(&self) -> Kind {
        self.history.lock().next
    }

    /// By how much a heap may grow before the next collection, in bytes.
    pub fn growth_bytes(&self, live_bytes: usize) -> usize {
        growth(self.history.lock().factor, live_bytes)
    }

    /// The factor is another from now on, the state of the application having changed.
    pub fn set_factor(&self, factor: f64, live_bytes: usize) {
        let mut history = self.history.lock();
        history.factor = factor;
        self.set_limit(&history, live_bytes);
    }

    /// The factor is another from the next collection on; a collection begins where it would have. Mutators have as
    /// much more room until they wait for it.
    pub fn set_next_factor(&self, factor: f64) {
        let mut history = self.history.lock();
        history.factor = factor;
        let begin = self.begin_bytes.load(Ordering::Relaxed);
        self.set_stall(begin.saturating_add(growth(factor, begin)), begin);
    }

    /// A collection ended, after which so many bytes are in use.
    pub fn collected(&self, report: &CollectionReport, live_bytes: usize) {
        let mut history = self.history.lock();
        if report.kind == Kind::Minor {
            let mut this = Yield::default();
            this.add(report);
            let was_worth_it =
                history.major.ns == 0 || this.throughput() >= history.major.throughput();
            let is_above = live_bytes > self.begin_bytes.load(Ordering::Relaxed);
            history.next = if is_above || !was_worth_it {
                Kind::Major
            } else {
                Kind::Minor
            };
            // The limit stays, unless it is far above what is live.
            let growth = growth(history.factor, live_bytes);
            let most = live_bytes.saturating_add(growth);
            self.begin_bytes.fetch_min(most, Ordering::Relaxed);
            self.stall_bytes
                .fetch_min(most.saturating_add(growth), Ordering::Relaxed);
            if is_above {
                // The next one begins with the next region.
                self.set_stall(live_bytes.saturating_add(growth), live_bytes);
            }
        } else {
            history.major.add(report);
            history.next = Kind::Minor;
            self.set_limit(&history, live_bytes);
        }
        self.is_due.store(false, Ordering::Release);
        self.is_stalling.store(false, Ordering::Release);
    }

    fn set_limit(&self, history: &History, live_bytes: usize) {
        let limit = live_bytes.saturating_add(growth(history.factor, live_bytes));
        let stall = limit.saturating_add(growth(history.factor, limit));
        self.set_begin(limit, live_bytes);
        self.set_stall(stall, live_bytes);
    }

    /// A collection begins at `bytes`, or when an eighth of the heap is left: else mutators find it full without that
    /// one was ever asked for.
    fn set_begin(&self, bytes: usize, live_bytes: usize) {
        let most = (self.max_bytes - self.max_bytes / 8).max(live_bytes + REGION_BYTES);
        self.begin_bytes.store(bytes.min(most), Ordering::Relaxed);
    }

    /// Mutators wait at `bytes`, or when a sixteenth of the heap is left.
    fn set_stall(&self, bytes: usize, live_bytes: usize) {
        let most = (self.max_bytes - self.max_bytes / 16).max(live_bytes + REGION_BYTES);
        self.stall_bytes.store(bytes.min(most), Ordering::Relaxed);
    }

    /// A collection begins when so many bytes are in use.
    pub fn limit_bytes(&self) -> usize {
        self.begin_bytes.load(Ordering::Relaxed)
    }
}

/// By how much a heap may grow.
fn growth(factor: f64, live_bytes: usize) -> usize {
    let growth = live_bytes as f64 * (factor - 1.0);
    (growth as usize).max(LEAST_GROWTH_BYTES)
}
