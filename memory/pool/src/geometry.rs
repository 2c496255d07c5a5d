//! Which size class an object belongs to, and how the spans of each class are cut.
//!
//! Up to 32 KiB, classes are 1/16 of a power of two apart, so that an object wastes 6 % at worst
//! and 3 % on average. Above, a class is a whole number of pages, and a span is one object.

use warmswap_page::PAGE_BYTES;

/// The smallest slot, in bytes: a page of them just fits the 64 bits of a span's map.
const MIN_SLOT_BYTES: usize = 64;
/// Classes per doubling of the size.
const STEPS: usize = 16;
/// Sizes that are multiples of this, at least.
const GRAIN_BYTES: usize = 8;
/// Above this, a span is one object.
const LARGE_BYTES: usize = 32 * 1024;
/// The largest slot, in bytes.
pub(crate) const MAX_SLOT_BYTES: usize = 33 * PAGE_BYTES;
/// Slots that a span has at most.
pub(crate) const MAX_SLOTS: usize = 1 << crate::entry::SLOT_BITS;

/// The sizes of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Bytes of a slot: the largest object of the class.
    pub(crate) slot_bytes: usize,
    /// Slots of a span, at most [`MAX_SLOTS`].
    pub(crate) slots: usize,
    /// Bytes of a span, a multiple of the page size.
    pub(crate) span_bytes: usize,
}

impl Geometry {
    /// Chooses the span for slots of `slot_bytes` bytes: about 16 slots (fewer for slots of more
    /// than a page), of the lengths up to twice that the one that wastes least at its end, as
    /// zsmalloc chooses its chain lengths.
    fn new(slot_bytes: usize) -> Geometry {
        if slot_bytes > LARGE_BYTES {
            return Geometry {
                slot_bytes,
                slots: 1,
                span_bytes: slot_bytes,
            };
        }
        let least_slots = if slot_bytes <= PAGE_BYTES { 16 } else { 4 };
        let least_pages = (least_slots * slot_bytes).div_ceil(PAGE_BYTES);
        let candidates = (least_pages..=2 * least_pages).map(|pages| {
            let span_bytes = pages * PAGE_BYTES;
            Geometry {
                slot_bytes,
                slots: (span_bytes / slot_bytes).min(MAX_SLOTS),
                span_bytes,
            }
        });
        // Per mille, so that a much longer span does not win by a hair.
        let waste = |g: &Geometry| (g.span_bytes - g.slots * g.slot_bytes) * 200 / g.span_bytes;
        candidates
            .min_by_key(waste)
            .expect("the range of lengths is not empty")
    }
}

/// Every class, from the smallest slots to the largest.
pub(crate) fn all() -> Vec<Geometry> {
    let mut classes = Vec::new();
    let mut slot_bytes = MIN_SLOT_BYTES;
    while slot_bytes <= MAX_SLOT_BYTES {
        classes.push(Geometry::new(slot_bytes));
        slot_bytes += if slot_bytes < LARGE_BYTES {
            step(slot_bytes)
        } else {
            PAGE_BYTES
        };
    }
    classes
}

/// The distance from slots of `slot_bytes` (below [`LARGE_BYTES`]) to the next class.
const fn step(slot_bytes: usize) -> usize {
    let step = (1 << slot_bytes.ilog2()) / STEPS;
    if step < GRAIN_BYTES {
        GRAIN_BYTES
    } else {
        step
    }
}

/// The number of the smallest class whose slots hold `bytes` (1 to [`MAX_SLOT_BYTES`]).
pub(crate) fn class_of(bytes: usize) -> usize {
    /// Classes below the size where the grain stops to matter.
    const FINE_BYTES: usize = GRAIN_BYTES * STEPS;
    const FINE_CLASSES: usize = (FINE_BYTES - MIN_SLOT_BYTES) / GRAIN_BYTES;
    const SMALL_CLASSES: usize =
        FINE_CLASSES + (LARGE_BYTES.ilog2() - FINE_BYTES.ilog2()) as usize * STEPS;
    if bytes <= FINE_BYTES {
        bytes.saturating_sub(MIN_SLOT_BYTES).div_ceil(GRAIN_BYTES)
    } else if bytes <= LARGE_BYTES {
        // The last byte decides, so that a size of exactly 2^n is the top of its doubling.
        let doubling = (bytes - 1).ilog2();
        let step = (1 << doubling) / STEPS;
        let in_doubling = (bytes - (1 << doubling)).div_ceil(step);
        FINE_CLASSES + (doubling - FINE_BYTES.ilog2()) as usize * STEPS + in_doubling
    } else {
        SMALL_CLASSES + (bytes - LARGE_BYTES).div_ceil(PAGE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_gets_the_smallest_class_that_holds_it() {
        let classes = all();
        for bytes in 1..=MAX_SLOT_BYTES {
            let class = class_of(bytes);
            assert!(classes[class].slot_bytes >= bytes, "{bytes}");
            assert!(
                class == 0 || classes[class - 1].slot_bytes < bytes,
                "{bytes}"
            );
        }
        assert_eq!(class_of(MAX_SLOT_BYTES), classes.len() - 1);
    }

    #[test]
    fn spans_are_whole_pages_with_little_waste() {
        for g in all() {
            assert_eq!(g.span_bytes % PAGE_BYTES, 0);
            assert!((1..=MAX_SLOTS).contains(&g.slots));
            let tail = g.span_bytes - g.slots * g.slot_bytes;
            assert!(tail * 20 <= g.span_bytes, "{g:?} wastes {tail} bytes");
        }
    }

    #[test]
    fn a_page_as_it_is_wastes_nothing() {
        let page = all()[class_of(PAGE_BYTES)];
        assert_eq!(
            (page.slot_bytes, page.slots * PAGE_BYTES),
            (PAGE_BYTES, page.span_bytes)
        );
    }
}
