//! What one collection did.

use serde::Serialize;

use super::{Cause, Kind};
use crate::header::MOST_AGE;

/// What one collection did, and what it cost. The working set of a collection (section 7.1) is what the collector's
/// thread accessed: [`Self::touched_objects`], and the pages that they lie on.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CollectionReport {
    /// Which part of the heap was collected.
    pub kind: Kind,
    /// Why it began.
    pub cause: Cause,
    /// Whether a launch was under way when it began.
    pub in_launch: bool,
    /// Objects that the collector copied.
    pub copied_objects: u64,
    /// Bytes of them.
    pub copied_bytes: u64,
    /// Objects that the collector marked in place.
    pub marked_objects: u64,
    /// Objects in dirty cards, which it looked at for references.
    pub card_objects: u64,
    /// Objects that mutators copied or marked, since they accessed them first.
    pub mutator_objects: u64,
    /// Dirty cards at the beginning.
    pub dirty_cards: u64,
    /// Pages that hold what the collector accessed; pages that it copied to are not among them.
    pub touched_pages: u64,
    /// Objects by class, of a grouping collection: launch, working set, cold.
    pub grouped_objects: [u64; 3],
    /// Bytes of them.
    pub grouped_bytes: [u64; 3],
    /// Objects that the collector copied for the first, second, … fifteenth (or later) time: those that survived so
    /// many collections.
    pub survivors: [u64; MOST_AGE],
    /// Bytes of regions that are free again.
    pub freed_bytes: u64,
    /// Bytes of regions in use afterwards.
    pub used_bytes: u64,
    /// From the first stop to the end.
    pub duration_ns: u64,
    /// CPU time of the collector's thread.
    pub cpu_ns: u64,
    /// The longest time for which all mutators were stopped.
    pub longest_stop_ns: u64,
}

impl CollectionReport {
    /// Nothing done yet.
    #[must_use]
    pub fn new(kind: Kind, cause: Cause, in_launch: bool) -> Self {
        Self {
            kind,
            cause,
            in_launch,
            copied_objects: 0,
            copied_bytes: 0,
            marked_objects: 0,
            card_objects: 0,
            mutator_objects: 0,
            dirty_cards: 0,
            touched_pages: 0,
            grouped_objects: [0; 3],
            grouped_bytes: [0; 3],
            survivors: [0; MOST_AGE],
            freed_bytes: 0,
            used_bytes: 0,
            duration_ns: 0,
            cpu_ns: 0,
            longest_stop_ns: 0,
        }
    }

    /// Objects that the collector accessed.
    #[must_use]
    pub fn touched_objects(&self) -> u64 {
        self.copied_objects + self.marked_objects + self.card_objects
    }
}
