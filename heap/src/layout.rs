//! Sizes and addresses: what a region, a card and a granule are.

use std::num::NonZeroU32;

/// Objects are aligned to granules, and addresses count them.
pub const GRANULE_BYTES: usize = 8;

/// Size of a region (Fleet, Table 2).
pub const REGION_BYTES: usize = 256 << 10;

/// Granules of a region.
pub const REGION_GRANULES: u32 = (REGION_BYTES / GRANULE_BYTES) as u32;

/// The write barrier marks this many bytes with one byte of the card table (Fleet, Table 2: `CARD_SHIFT` 10).
pub const CARD_SHIFT: u32 = 10;

/// Granules of a card.
pub const CARD_GRANULES: u32 = (1 << CARD_SHIFT) / GRANULE_BYTES as u32;

/// Cards of a region.
pub const REGION_CARDS: usize = REGION_BYTES >> CARD_SHIFT;

/// Objects above this size get regions of their own and are never moved. A quarter of a region: what a copy leaves
/// unused at the end of a region is less than that, which bounds the space that a collection needs.
pub const LARGE_BYTES: usize = 64 << 10;

/// The same in granules.
pub const LARGE_GRANULES: u32 = (LARGE_BYTES / GRANULE_BYTES) as u32;

/// A page of the memory below.
pub const PAGE_BYTES: usize = 4096;

/// An object's address: the granule of its header, counted from the start of the heap. Region 0 is never used, so
/// that 0 is no object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Addr(pub NonZeroU32);

impl Addr {
    /// The object whose header is at a granule; `None` for 0.
    pub fn new(granule: u32) -> Option<Self> {
        NonZeroU32::new(granule).map(Self)
    }

    /// Granule of the header.
    pub fn granule(self) -> u32 {
        self.0.get()
    }

    /// Number of its region.
    pub fn region(self) -> usize {
        (self.granule() / REGION_GRANULES) as usize
    }

    /// Number of the card that its header lies in.
    pub fn card(self) -> usize {
        (self.granule() / CARD_GRANULES) as usize
    }

    /// Byte of the header within the heap.
    pub fn byte(self) -> usize {
        self.granule() as usize * GRANULE_BYTES
    }
}

/// First granule of a region.
pub fn first_granule(region: usize) -> u32 {
    region as u32 * REGION_GRANULES
}

/// The bytes of a region within the heap.
pub fn region_bytes(region: usize) -> std::ops::Range<usize> {
    region * REGION_BYTES..(region + 1) * REGION_BYTES
}
