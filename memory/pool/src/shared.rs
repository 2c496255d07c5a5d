//! What both layouts work with: the pool's accounts and handles, objects on their way in and out, empty spans.

use std::ops::{Deref, Range};
use std::sync::atomic::Ordering;

use crate::budget::Budget;
use crate::entry::{Entry, Placed};
use crate::handle::{Handle, HandleTable};
use crate::memory::SpanRef;
use crate::spans::{NoSlot, SpanSet};
use crate::stats::Counter;

/// The pool-wide things that a layout works with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolWide<'a> {
    pub(crate) budget: &'a Budget,
    pub(crate) handles: &'a HandleTable,
    /// Bytes of the empty spans that are kept, and how many that may be.
    pub(crate) cached_bytes: &'a Counter,
    pub(crate) cache_bytes: u64,
    /// Whether other empty spans go back to the kernel.
    pub(crate) returns_spans: bool,
}

impl PoolWide<'_> {
    /// Publishes the place of a handle's object.
    pub(crate) fn publish(&self, handle: Handle, placed: Placed) {
        if let Some(entry) = self.handles.entry(handle) {
            entry.store(Entry::Placed(placed).pack(), Ordering::Release);
        }
    }

    /// Makes the entry of `handle` read as free, if it still places an object of `length` bytes. The caller
    /// holds the lock of the place where objects of that length lie.
    pub(crate) fn unpublish(&self, handle: Handle, length: u32) -> Option<Placed> {
        let entry = self.handles.entry(handle)?;
        match Entry::unpack(entry.load(Ordering::Acquire)) {
            Entry::Placed(placed) if placed.length == length => {
                entry.store(Entry::Free { next: 0 }.pack(), Ordering::Release);
                Some(placed)
            }
            _ => None,
        }
    }
}

/// What is to be stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object<'a> {
    pub(crate) bytes: &'a [u8],
    /// Its checksum, in a pool with checksums.
    pub(crate) checksum: Option<u32>,
}

/// Bytes of an object's checksum, when there is one.
pub(crate) const CHECKSUM_BYTES: usize = 4;

/// An object whose span is locked shared.
#[derive(Debug)]
pub(crate) struct ObjectRef<'a> {
    pub(crate) span: SpanRef<'a>,
    /// Where the object lies in the span.
    pub(crate) range: Range<usize>,
    /// Where its checksum stands, in a pool with checksums.
    pub(crate) checksum_at: usize,
}

impl ObjectRef<'_> {
    /// The checksum that was stored with it; meaningless in a pool without checksums.
    pub(crate) fn checksum(&self) -> u32 {
        let checksum = self.span[self.checksum_at..].first_chunk();
        checksum.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    }
}

impl Deref for ObjectRef<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.span[self.range.clone()]
    }
}

/// The empty spans of a span set. The lock of its owner protects them.
#[derive(Debug, Default)]
pub(crate) struct EmptySpans {
    /// Kept for reuse: their memory is counted.
    pub(crate) cached: Vec<u32>,
    /// These hold no memory, as far as the budget knows.
    pub(crate) discarded: Vec<u32>,
}

impl EmptySpans {
    /// Bytes of bookkeeping for each span: its place in one of the lists.
    pub(crate) const STATE_BYTES: usize = size_of::<u32>();

    /// Whether there is none, so that one must be added to `discarded` before [`EmptySpans::take`].
    pub(crate) fn are_used_up(&self) -> bool {
        self.cached.is_empty() && self.discarded.is_empty()
    }

    /// Takes a span out, with memory: one that was kept, else a discarded one, which is charged.
    pub(crate) fn take(&mut self, spans: &SpanSet, shared: PoolWide<'_>) -> Result<u32, NoSlot> {
        if let Some(span) = self.cached.pop() {
            shared.cached_bytes.sub(spans.span_bytes());
            return Ok(span);
        }
        shared.budget.charge(spans.span_bytes())?;
        let span = self.discarded.pop().expect("there is an empty span");
        // A span that was never given back has its pages already, all but the first time.
        if shared.returns_spans
            && let Err(errno) = spans.write(span).populate()
        {
            self.discard(span, spans, shared);
            return Err(NoSlot::OutOfMemory(errno));
        }
        Ok(span)
    }

    /// Takes in a span that became empty: keeps it if the cache has room, else discards it. Returns the
    /// bytes given back.
    pub(crate) fn retire(&mut self, span: u32, spans: &SpanSet, shared: PoolWide<'_>) -> u64 {
        let bytes = spans.span_bytes();
        if shared.cached_bytes.add_up_to(bytes, shared.cache_bytes) {
            self.cached.push(span);
            return 0;
        }
        self.discard(span, spans, shared)
    }

    /// Discards all spans that were kept. Returns the bytes given back.
    pub(crate) fn drop_cached(&mut self, spans: &SpanSet, shared: PoolWide<'_>) -> u64 {
        let mut released = 0;
        for span in std::mem::take(&mut self.cached) {
            shared.cached_bytes.sub(spans.span_bytes());
            released += self.discard(span, spans, shared);
        }
        released
    }

    /// Gives the pages of an empty span back, to the kernel or in the books alone; the bytes of it.
    fn discard(&mut self, span: u32, spans: &SpanSet, shared: PoolWide<'_>) -> u64 {
        let bytes = spans.span_bytes();
        if shared.returns_spans && spans.write(span).discard().is_err() {
            // The kernel kept the pages (memory locked by mlockall, for one), so they still count.
            self.cached.push(span);
            shared.cached_bytes.add(bytes);
            return 0;
        }
        self.discarded.push(span);
        shared.budget.release(bytes);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_that_are_not_returned_leave_the_books_and_keep_their_bytes() {
        for returns_spans in [true, false] {
            let (budget, spans) = (Budget::new(1 << 30, 100), SpanSet::new(4096));
            let (handles, cached_bytes) = (HandleTable::new(), Counter::default());
            let shared = PoolWide {
                budget: &budget,
                handles: &handles,
                cached_bytes: &cached_bytes,
                cache_bytes: 0,
                returns_spans,
            };
            spans.reach(0, &budget).expect("room");
            let before_bytes = budget.held_bytes();
            let mut empty = EmptySpans::default();
            empty.discarded.push(0);
            let span = empty.take(&spans, shared).expect("room");
            assert_eq!(budget.held_bytes(), before_bytes + 4096);
            spans.write(span).fill(7);
            assert_eq!(empty.retire(span, &spans, shared), 4096);
            assert_eq!(budget.held_bytes(), before_bytes);
            let left = if returns_spans { 0 } else { 7 };
            assert!(spans.write(span).iter().all(|&byte| byte == left));
        }
    }
}
