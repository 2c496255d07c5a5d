//! Spans of one size, in mappings that double: any number of them, each reached without a lock.

use std::sync::OnceLock;

use rustix::io::Errno;

use crate::budget::{Budget, OverLimit};
use crate::entry::SPAN_BITS;
use crate::memory::{SpanMut, SpanRef, Spans};

/// Spans of the first mapping; each further mapping holds twice as many as the one before.
const FIRST_SPANS: u32 = 8;
const MAPPINGS: usize = (SPAN_BITS - FIRST_SPANS.ilog2()) as usize;

/// Why there is no room for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoSlot {
    OverLimit,
    OutOfMemory(Errno),
}

impl From<OverLimit> for NoSlot {
    fn from(_: OverLimit) -> NoSlot {
        NoSlot::OverLimit
    }
}

/// The memory of spans: mapping m holds the spans from `8 * (2^m - 1)` on.
#[derive(Debug)]
pub(crate) struct SpanSet {
    span_bytes: usize,
    mappings: [OnceLock<Spans>; MAPPINGS],
}

impl SpanSet {
    /// No spans yet, of `span_bytes` bytes each (whole pages).
    pub(crate) fn new(span_bytes: usize) -> SpanSet {
        SpanSet {
            span_bytes,
            mappings: [const { OnceLock::new() }; MAPPINGS],
        }
    }

    /// Bytes of a span.
    pub(crate) fn span_bytes(&self) -> u64 {
        self.span_bytes as u64
    }

    /// Makes the mapping that span number `span` lies in, if it is not there. The caller holds the lock
    /// under which spans are added.
    pub(crate) fn reach(&self, span: usize, budget: &Budget) -> Result<(), NoSlot> {
        if span >= 1 << SPAN_BITS {
            return Err(NoSlot::OutOfMemory(Errno::NOMEM));
        }
        let (mapping, _) = place_of(span as u32);
        if self.mappings[mapping].get().is_some() {
            return Ok(());
        }
        let count = (FIRST_SPANS as usize) << mapping;
        let lock_bytes = (count * Spans::LOCK_BYTES) as u64;
        budget.charge(lock_bytes)?;
        match Spans::map(count, self.span_bytes) {
            // Spans are added under a lock, so no other thread was first.
            Ok(spans) => {
                drop(self.mappings[mapping].set(spans));
                Ok(())
            }
            Err(errno) => {
                budget.release(lock_bytes);
                Err(NoSlot::OutOfMemory(errno))
            }
        }
    }

    /// Locks a span that is known to exist, shared.
    pub(crate) fn read(&self, span: u32) -> SpanRef<'_> {
        self.try_read(span).expect("the span was added")
    }

    /// Locks a span shared, if it exists.
    pub(crate) fn try_read(&self, span: u32) -> Option<SpanRef<'_>> {
        let (mapping, index) = place_of(span);
        Some(self.mappings.get(mapping)?.get()?.read(index))
    }

    /// Locks a span that is known to exist, exclusively.
    pub(crate) fn write(&self, span: u32) -> SpanMut<'_> {
        let (mapping, index) = place_of(span);
        let spans = self.mappings[mapping].get().expect("the span was added");
        spans.write(index)
    }
}

/// The mapping of a span, and its place there.
fn place_of(span: u32) -> (usize, usize) {
    let mapping = (span / FIRST_SPANS + 1).ilog2();
    let first = FIRST_SPANS * ((1 << mapping) - 1);
    (mapping as usize, (span - first) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_fill_the_mappings_one_after_the_other() {
        let mut expected = (0, 0);
        for span in 0..100_000 {
            assert_eq!(place_of(span), expected, "span {span}");
            expected.1 += 1;
            if expected.1 == (FIRST_SPANS as usize) << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
        assert!(place_of((1 << SPAN_BITS) - 1).0 <= MAPPINGS);
    }
}
