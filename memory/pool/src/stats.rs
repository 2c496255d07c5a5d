//! What the pool counts.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};

use crate::Refusal;

/// Declares the snapshot and the live counters from one list of fields.
macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $field:ident,)+) => {
        /// A snapshot of the pool's counters. It is exact while no other thread uses the pool.
        ///
        /// Levels go up and down; totals (their names say what was done) only go up.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct PoolStats {
            $($(#[doc = $doc])+ pub $field: u64,)+
            /// Level: memory held, in bytes: every span in use or kept for reuse, the handle
            /// table and all other bookkeeping. Moves when one of those is taken or given back.
            pub memory_bytes: u64,
            /// Highest value that `memory_bytes` ever had.
            pub peak_memory_bytes: u64,
            /// The limit of `memory_bytes`; constant.
            pub limit_bytes: u64,
        }

        /// The live counters.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $field: Counter,)+
        }

        impl Counters {
            /// The counters' values; the three fields about memory are left at 0.
            pub(crate) fn snapshot(&self) -> PoolStats {
                PoolStats { $($field: self.$field.get(),)+ ..PoolStats::default() }
            }
        }
    };
}

counters! {
    /// Level: objects in the pool, same-filled ones included. Up on a store, down on a free.
    stored_objects,
    /// Level: pages of the stored objects, as told by the caller. Moves with `stored_objects`.
    stored_pages,
    /// Level: bytes of the stored objects; 0 for same-filled ones. Moves with `stored_objects`.
    compressed_bytes,
    /// Level: same-filled objects. Moves with `stored_objects`.
    same_filled_objects,
    /// Level: objects as large as their pages or larger. Moves with `stored_objects`.
    raw_objects,
    /// Level: bytes of empty spans that are kept for reuse. Up when a free or a compaction empties
    /// a span that is kept, down when it is used again or given back to the kernel.
    cached_bytes,
    /// Total: successful stores, same-filled ones included.
    stores,
    /// Total: successful loads, same-filled ones included.
    loads,
    /// Total: successful frees.
    frees,
    /// Total: stores refused because the limit would be passed, or because it was and too little
    /// has been freed since.
    refused_full,
    /// Total: stores refused because the object is larger than the layout holds.
    refused_too_large,
    /// Total: stores refused because the object is larger than `accept_percent` of its pages.
    refused_incompressible,
    /// Total: stores refused because the object is empty or its pages are not 1 to 32.
    refused_invalid,
    /// Total: stores refused because the kernel gave no memory, or handles ran out.
    refused_out_of_memory,
    /// Total: loads that found a wrong checksum.
    corrupt_loads,
    /// Total: calls of `compact`.
    compactions,
    /// Total: objects that compaction moved.
    moved_objects,
    /// Total: spans that compaction emptied.
    compacted_spans,
}

/// One counter; a level or a total.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    pub(crate) fn sub(&self, n: u64) {
        self.0.fetch_sub(n, Relaxed);
    }

    /// Adds `n` unless the sum passes `max`.
    pub(crate) fn add_up_to(&self, n: u64, max: u64) -> bool {
        let sum = |now: u64| now.checked_add(n).filter(|&sum| sum <= max);
        self.0.fetch_update(Relaxed, Relaxed, sum).is_ok()
    }
}

impl Counters {
    pub(crate) fn count_refusal(&self, refusal: &Refusal) {
        let counter = match refusal {
            Refusal::Full { .. } => &self.refused_full,
            Refusal::TooLarge { .. } => &self.refused_too_large,
            Refusal::Incompressible { .. } => &self.refused_incompressible,
            Refusal::Invalid { .. } => &self.refused_invalid,
            Refusal::OutOfMemory { .. } => &self.refused_out_of_memory,
        };
        counter.add(1);
    }
}

impl PoolStats {
    /// Bytes of the stored pages before compression.
    pub fn original_bytes(&self) -> u64 {
        self.stored_pages * warmswap_page::PAGE_BYTES as u64
    }

    /// Memory held beyond the objects' own bytes: rounding up to size classes, free slots, empty
    /// spans kept for reuse, and bookkeeping.
    pub fn waste_bytes(&self) -> u64 {
        self.memory_bytes.saturating_sub(self.compressed_bytes)
    }

    /// [`waste_bytes`](Self::waste_bytes) as a part of the memory held, 0.0 to 1.0.
    pub fn waste(&self) -> f64 {
        ratio(self.waste_bytes(), self.memory_bytes).unwrap_or(0.0)
    }

    /// Original bytes / compressed bytes; `None` when nothing but same-filled pages is stored.
    pub fn data_ratio(&self) -> Option<f64> {
        ratio(self.original_bytes(), self.compressed_bytes)
    }

    /// Original bytes / memory held.
    pub fn memory_ratio(&self) -> Option<f64> {
        ratio(self.original_bytes(), self.memory_bytes)
    }

    /// Stores refused, for whatever reason.
    pub fn refusals(&self) -> u64 {
        self.refused_full
            + self.refused_too_large
            + self.refused_incompressible
            + self.refused_invalid
            + self.refused_out_of_memory
    }
}

fn ratio(a: u64, b: u64) -> Option<f64> {
    (b != 0).then(|| a as f64 / b as f64)
}

/// What one call of [`Pool::compact`](crate::Pool::compact) did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactionReport {
    /// Objects moved.
    pub moved_objects: u64,
    /// Bytes of the objects moved.
    pub moved_bytes: u64,
    /// Spans emptied.
    pub emptied_spans: u64,
    /// Memory given back to the kernel, in bytes.
    pub released_bytes: u64,
    /// Whether the budget ended the compaction before there was nothing left to gain.
    pub out_of_budget: bool,
}
