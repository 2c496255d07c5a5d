//! What the tests share: heaps of every collector, small graphs of records, a plain model to compare with.

pub use warmswap_testkit::Random;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use warmswap_heap::{
    AllocError, Clock, Collector, FleetConfig, Heap, HeapConfig, HeapError, HeapMemory,
    KernelMemory, Kind, MarvinConfig, Mutator, Record, Ref, Root,
};

pub const MIB: usize = 1 << 20;

/// Until a timer expires by itself. Tests let it expire: `Heap::expire_timer`.
pub const NEVER: Duration = Duration::from_secs(1 << 30);

/// A heap over plain memory whose timers never expire by themselves.
pub fn heap(max_bytes: usize, collector: Collector) -> Heap {
    let config = HeapConfig {
        background_collection_wait: Some(NEVER),
        ..HeapConfig::new(max_bytes).with(collector)
    };
    heap_of(config)
}

pub fn heap_of(config: HeapConfig) -> Heap {
    let memory = KernelMemory::new(config.address_bytes()).expect("memory");
    Heap::new(memory, config).expect("a heap")
}

/// Fleet whose timers never expire by themselves.
pub fn fleet() -> FleetConfig {
    FleetConfig {
        background_wait: NEVER,
        foreground_wait: NEVER,
        advice_interval: NEVER,
        ..FleetConfig::learned()
    }
}

/// Marvin that bookmarks whatever was not accessed between two passes.
pub fn marvin() -> MarvinConfig {
    MarvinConfig {
        least_bytes: 128,
        idle_passes: 1,
        pass_interval: NEVER,
    }
}

/// The data words that an object with this number holds.
pub fn pattern(number: usize, word: usize) -> u32 {
    Random((number as u64) << 20 | word as u64).next() as u32
}

/// Allocates a record that holds its number's pattern.
pub fn alloc<'m>(
    mutator: &'m Mutator,
    number: usize,
    references: usize,
    words: usize,
) -> Result<Ref<'m, Record>, AllocError> {
    let record = mutator.alloc_record(references, 4 * words)?;
    for (i, word) in record.data(mutator).iter().enumerate() {
        word.store(pattern(number, i), std::sync::atomic::Ordering::Relaxed);
    }
    Ok(record)
}

/// Checks a record against its number.
pub fn check(mutator: &Mutator, record: Ref<'_, Record>, number: usize, shape: (usize, usize)) {
    assert_eq!(
        record.shape(mutator),
        (shape.0, 4 * shape.1),
        "object {number}"
    );
    for (i, word) in record.data(mutator).iter().enumerate() {
        let found = word.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(found, pattern(number, i), "object {number}, word {i}");
    }
}

/// An object of the model.
#[derive(Clone, Debug)]
pub struct Plain {
    pub references: Vec<Option<usize>>,
    pub words: usize,
}

/// A graph without a heap, and the roots that both have.
#[derive(Debug, Default)]
pub struct Model {
    pub objects: Vec<Plain>,
    pub roots: Vec<Option<(usize, Root<Record>)>>,
}

impl Model {
    /// Checks that the heap's graph is the model's, as far as it can be reached.
    pub fn check(&self, mutator: &Mutator) -> usize {
        let mut seen = vec![None; self.objects.len()];
        let mut count = 0;
        for (number, root) in self.roots.iter().flatten() {
            let mut queue = vec![(*number, root.get(mutator))];
            while let Some((number, record)) = queue.pop() {
                if let Some(before) = seen[number].replace(record) {
                    assert_eq!(before, record, "object {number} is in two places");
                    continue;
                }
                count += 1;
                let plain = &self.objects[number];
                check(
                    mutator,
                    record,
                    number,
                    (plain.references.len(), plain.words),
                );
                for (i, &to) in plain.references.iter().enumerate() {
                    let found = record.get(mutator, i);
                    assert_eq!(
                        found.is_some(),
                        to.is_some(),
                        "object {number}, reference {i}"
                    );
                    queue.extend(to.zip(found));
                }
            }
        }
        count
    }

    /// The object that a path of references leads to, from a root on, in both.
    pub fn walk<'m>(
        &self,
        mutator: &'m Mutator,
        root: usize,
        path: &[u8],
    ) -> Option<(usize, Ref<'m, Record>)> {
        let (number, root) = self.roots.get(root)?.as_ref()?;
        let (mut number, mut record) = (*number, root.get(mutator));
        for &step in path {
            let plain = &self.objects[number];
            if plain.references.is_empty() {
                break;
            }
            let i = usize::from(step) % plain.references.len();
            let Some(to) = plain.references[i] else { break };
            number = to;
            record = record.get(mutator, i).expect("as in the model");
        }
        Some((number, record))
    }
}

/// The kinds that a collector makes.
pub fn kinds(collector: Collector) -> &'static [Kind] {
    match collector {
        Collector::Fleet(_) => &Kind::ALL,
        _ => &[Kind::Minor, Kind::Major],
    }
}

/// What a heap said of its memory, in pages, and whether the memory hears of it.
#[derive(Debug, Default)]
pub struct Advised {
    pub cold: AtomicUsize,
    pub hot: AtomicUsize,
    pub restored: AtomicUsize,
    /// Launch regions are spoken of in vain.
    pub ignores_hot: AtomicBool,
}

/// Memory whose advice is counted.
#[derive(Debug)]
pub struct AdvisedMemory<M>(M, Arc<Advised>);

impl<M: HeapMemory> AdvisedMemory<M> {
    pub fn new(memory: M) -> (Self, Arc<Advised>) {
        let advised = Arc::<Advised>::default();
        (Self(memory, Arc::clone(&advised)), advised)
    }

    fn hears_hot(&self, count: &AtomicUsize, bytes: &Range<usize>) -> bool {
        count.fetch_add(bytes.len() / 4096, Ordering::Relaxed);
        !self.1.ignores_hot.load(Ordering::Relaxed)
    }
}

// SAFETY: the memory is the one within.
#[allow(unsafe_code)]
unsafe impl<M: HeapMemory> HeapMemory for AdvisedMemory<M> {
    fn base(&self) -> *mut u8 {
        self.0.base()
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    fn cold(&self, bytes: Range<usize>) -> Result<(), HeapError> {
        let pages = bytes.len() / 4096;
        self.1.cold.fetch_add(pages, Ordering::Relaxed);
        self.0.cold(bytes)
    }

    fn hot(&self, bytes: Range<usize>) -> Result<(), HeapError> {
        if self.hears_hot(&self.1.hot, &bytes) {
            self.0.hot(bytes)?;
        }
        Ok(())
    }

    fn restore(&self, bytes: Range<usize>) -> Result<(), HeapError> {
        if self.hears_hot(&self.1.restored, &bytes) {
            self.0.restore(bytes)?;
        }
        Ok(())
    }

    fn discard(&self, bytes: Range<usize>) -> Result<(), HeapError> {
        self.0.discard(bytes)
    }

    fn resident_pages(&self, bytes: Range<usize>) -> Result<usize, HeapError> {
        self.0.resident_pages(bytes)
    }

    fn foreground(&self) {
        self.0.foreground();
    }

    fn launch_done(&self) {
        self.0.launch_done();
    }

    fn background(&self) {
        self.0.background();
    }
}

/// A clock that stands still until it is set.
#[derive(Debug, Default)]
pub struct SetClock(AtomicU64);

impl SetClock {
    pub fn set_ms(&self, ms: u64) {
        self.0.store(ms, Ordering::Relaxed);
    }
}

impl Clock for SetClock {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}
