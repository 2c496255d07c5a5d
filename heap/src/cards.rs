//! The card table (section 5.2): which kilobytes of old objects were written to.

use std::sync::atomic::Ordering;

use crate::layout::{Addr, CARD_GRANULES, REGION_CARDS, REGION_GRANULES};
use crate::sync::{AtomicU8, zeroed_bytes};

/// The region's objects are young: whether they were written to is of no interest.
pub const UNTRACKED: u8 = 0;
/// No reference was written here since the card was cleaned.
pub const CLEAN: u8 = 1;
/// A reference was written here.
pub const DIRTY: u8 = 2;

/// No object begins in the card. Others are noted as their granule in the card, plus one.
const NONE: u8 = 0;

/// One byte for each card, as in the paper, and another for where the first object in it begins: 2 bytes a KiB, twice
/// the paper's table (section 7.3: 4 MB for 4 GB).
///
/// Cards are cleaned only while all mutators are stopped, so that the write barrier may look before it marks: what
/// it finds dirty is still to be scanned.
#[derive(Debug)]
pub struct CardTable {
    marks: Box<[AtomicU8]>,
    /// Granule, within its card, of the first header. Written by the thread that copies objects into the region.
    starts: Box<[AtomicU8]>,
}

impl CardTable {
    /// A table for so many regions, all untracked.
    pub fn new(regions: usize) -> Self {
        Self {
            marks: zeroed_bytes(regions * REGION_CARDS),
            starts: zeroed_bytes(regions * REGION_CARDS),
        }
    }

    /// The write barrier's half: the field at this byte of the heap was written to.
    ///
    /// Relaxed is enough: the mark is read as dirty with all mutators stopped, which orders it after
    /// the write.
    #[inline]
    pub fn mark(&self, byte: usize) {
        if let Some(card) = self.marks.get(byte >> crate::layout::CARD_SHIFT)
            && card.load(Ordering::Relaxed) == CLEAN
        {
            card.store(DIRTY, Ordering::Relaxed);
        }
    }

    /// The mark of a card.
    pub fn get(&self, card: usize) -> u8 {
        self.marks[card].load(Ordering::Relaxed)
    }

    /// Sets all marks of a region.
    pub fn set_region(&self, region: usize, mark: u8) {
        for card in &self.marks[region * REGION_CARDS..][..REGION_CARDS] {
            card.store(mark, Ordering::Relaxed);
        }
    }

    /// A new region: nothing begins in it yet.
    pub fn reset_region(&self, region: usize, mark: u8) {
        self.set_region(region, mark);
        for start in &self.starts[region * REGION_CARDS..][..REGION_CARDS] {
            start.store(NONE, Ordering::Relaxed);
        }
    }

    /// Adds the dirty cards of a region to a list and makes them clean. With all mutators stopped.
    pub fn take_dirty(&self, region: usize, into: &mut Vec<u32>) {
        let first = region * REGION_CARDS;
        for (i, card) in self.marks[first..][..REGION_CARDS].iter().enumerate() {
            if card.load(Ordering::Relaxed) == DIRTY {
                card.store(CLEAN, Ordering::Relaxed);
                into.push((first + i) as u32);
            }
        }
    }

    /// An object begins here.
    #[inline]
    pub fn note_start(&self, object: Addr) {
        let start = &self.starts[object.card()];
        let granule = (object.granule() % CARD_GRANULES) as u8 + 1;
        let noted = start.load(Ordering::Relaxed);
        if noted == NONE || noted > granule {
            start.store(granule, Ordering::Relaxed);
        }
    }

    /// An object takes the first `granules` of a gap of `room`: where dead objects began, nothing does any more. What
    /// begins behind the object, and behind the gap, is noted where it is the first of its card.
    pub fn replace_starts(&self, object: Addr, granules: u32, room: u32) {
        let at = object.granule();
        let end = at + room;
        let region_end = (at / REGION_GRANULES + 1) * REGION_GRANULES;
        for card in at / CARD_GRANULES..=end.min(region_end - 1) / CARD_GRANULES {
            let first = card * CARD_GRANULES;
            let start = &self.starts[card as usize];
            let noted = start.load(Ordering::Relaxed);
            if noted == NONE || !(at..end).contains(&(first + u32::from(noted) - 1)) {
                continue;
            }
            let begins = [at, at + granules, end].into_iter();
            let now = begins
                .filter(|&begin| begin < region_end)
                .find_map(|begin| {
                    let granule = begin.checked_sub(first)?;
                    (granule < CARD_GRANULES).then(|| granule as u8 + 1)
                });
            start.store(now.unwrap_or(NONE), Ordering::Relaxed);
        }
    }

    /// Where to begin walking to find what lies at `granule`: the first object of the last card, not after this one and
    /// in the same region, whose first object begins at `granule` or before.
    pub fn object_before(&self, granule: u32) -> Option<u32> {
        let region_first = granule / REGION_GRANULES * REGION_GRANULES;
        let first_card = region_first / CARD_GRANULES;
        let card = granule / CARD_GRANULES;
        (first_card..=card).rev().find_map(|card| {
            let start = self.starts[card as usize].load(Ordering::Relaxed);
            let at = (card * CARD_GRANULES + u32::from(start)).checked_sub(1)?;
            (start != NONE && at <= granule).then_some(at)
        })
    }

    /// Bytes of both tables.
    pub fn state_bytes(&self) -> usize {
        self.marks.len() + self.starts.len()
    }
}

const _: () = assert!(CARD_GRANULES <= u8::MAX as u32);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::REGION_BYTES;

    #[test]
    fn the_table_takes_two_bytes_a_kibibyte() {
        let bytes = CardTable::new(64).state_bytes();
        assert_eq!(bytes, 64 * REGION_BYTES / 1024 * 2);
    }
}
