//! What a heap holds and has done.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use serde::Serialize;
use warmswap_page::latency::{LatencyHistogram, LatencySummary};

use crate::collector::CollectionReport;
use crate::error::HeapError;
use crate::heap::Inner;
use crate::launch::LaunchReport;

/// Reports that are kept; the oldest go first.
const MOST_REPORTS: usize = 4096;

/// What the heap's parts record.
#[derive(Debug, Default)]
pub struct Recorder {
    /// Times that mutators spent at a safepoint while all were to stop.
    pub pauses: LatencyHistogram,
    /// The same while they had to wait for the end of a collection.
    pub stalls: LatencyHistogram,
    /// Times from the request for all mutators to stop to their release.
    pub stops: LatencyHistogram,
    reports: Mutex<Vec<CollectionReport>>,
    launches: Mutex<Vec<LaunchReport>>,
    collections: AtomicU64,
    launch_collections: AtomicU64,
    /// Times that the memory below refused an advice.
    refusals: AtomicU64,
}

impl Recorder {
    /// A collection has ended.
    pub fn collected(&self, report: CollectionReport) {
        let mut reports = self.reports.lock();
        if reports.len() == MOST_REPORTS {
            reports.remove(0);
        }
        reports.push(report);
        self.collections.fetch_add(1, Ordering::Relaxed);
        let in_launch = u64::from(report.in_launch);
        self.launch_collections
            .fetch_add(in_launch, Ordering::Relaxed);
    }

    /// A launch that was noted has ended.
    pub fn launched(&self, report: LaunchReport) {
        let mut launches = self.launches.lock();
        if launches.len() == MOST_REPORTS {
            launches.remove(0);
        }
        launches.push(report);
    }

    /// The memory below refused an advice: nothing is wrong then, but less is gained.
    pub fn note_refusal(&self, _error: &HeapError) {
        self.refusals.fetch_add(1, Ordering::Relaxed);
    }
}

/// A look at a heap.
#[derive(Clone, Debug, Serialize)]
pub struct HeapStats {
    /// Bytes of regions in use, garbage that was not collected yet included.
    pub used_bytes: usize,
    /// A collection begins here.
    pub limit_bytes: usize,
    /// Most that mutators can have in use.
    pub max_bytes: usize,
    /// Bytes of addresses: room for copies and what the heap may grow to included.
    pub address_bytes: usize,
    /// Bytes of the card table: two for each KiB of addresses, its mark, and where the first object begins in it.
    pub card_bytes: usize,
    /// Bytes of region table, mark bits and launch log.
    pub table_bytes: usize,
    /// Roots there are.
    pub roots: usize,
    /// Bytes of foreground regions; of them, of launch, working-set and cold regions.
    pub foreground_bytes: usize,
    /// Bytes of launch, working-set and cold regions.
    pub grouped_bytes: [usize; 3],
    /// Objects that are swapped out with their references kept (Marvin).
    pub bookmarks: usize,
    /// Collections so far.
    pub collections: u64,
    /// Of them, those that began in a launch.
    pub launch_collections: u64,
    /// What the last ones did, the oldest first; at most 4096.
    pub reports: Vec<CollectionReport>,
    /// What launches accessed, the oldest first, where that is noted; at most 4096.
    pub launches: Vec<LaunchReport>,
    /// Times that mutators waited at safepoints for all to stop.
    pub pauses: LatencySummary,
    /// Times that they waited for the end of a collection, since memory was used up faster than it was freed.
    pub stalls: LatencySummary,
    /// Times for which all mutators were stopped, or waited for.
    pub stops: LatencySummary,
    /// Times that the memory below refused an advice.
    pub refusals: u64,
}

impl HeapStats {
    pub(crate) fn of(heap: &Inner) -> Self {
        use crate::regions::Flags;
        let regions = &heap.space.regions;
        let bytes_of = |wanted: Flags| {
            let has = |&(region, _): &(usize, usize)| regions.info(region).flags().has(wanted);
            let spans = regions.used().filter(has).map(|(_, span)| span);
            spans.sum::<usize>() * crate::layout::REGION_BYTES
        };
        Self {
            used_bytes: heap.used_bytes(),
            limit_bytes: heap.limits.limit_bytes(),
            max_bytes: heap.config.max_bytes,
            address_bytes: heap.space.bytes(),
            card_bytes: heap.space.cards.state_bytes(),
            table_bytes: regions.state_bytes() + 2 * heap.space.marks.state_bytes(),
            roots: heap.roots().len(),
            foreground_bytes: bytes_of(Flags::FOREGROUND),
            grouped_bytes: [Flags::LAUNCH, Flags::WORKING_SET, Flags::COLD].map(bytes_of),
            bookmarks: heap.bookmarks.len(),
            collections: heap.stats.collections.load(Ordering::Relaxed),
            launch_collections: heap.stats.launch_collections.load(Ordering::Relaxed),
            reports: heap.stats.reports.lock().clone(),
            launches: heap.stats.launches.lock().clone(),
            pauses: heap.stats.pauses.summary(),
            stalls: heap.stats.stalls.summary(),
            stops: heap.stats.stops.summary(),
            refusals: heap.stats.refusals.load(Ordering::Relaxed),
        }
    }
}
