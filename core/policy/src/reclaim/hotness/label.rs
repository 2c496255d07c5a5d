//! What the label of a page holds: its class, and how long it stays.

use crate::page::{Hotness, Page};
use crate::reclaim::refault::Stay;

/// Classes as labels have them: 1 + the hotness.
pub(super) const fn label(hotness: Hotness) -> u8 {
    hotness as u8 + 1
}

pub(super) const HOT: u8 = label(Hotness::Hot);
pub(super) const WARM: u8 = label(Hotness::Warm);
pub(super) const COLD: u8 = label(Hotness::Cold);

/// Of a page's label, the two bits that are its class; the others are its [`Stay`].
const CLASS: u8 = 3;
const STAY_SHIFT: u32 = CLASS.count_ones();
const _: () = assert!(STAY_SHIFT + Stay::BITS <= u8::BITS);

pub(super) fn class_of(page: &Page) -> u8 {
    page.label & CLASS
}

pub(super) fn set_class(page: &mut Page, class: u8) {
    page.label = page.label & !CLASS | class;
}

pub(super) fn stay_of(page: &Page) -> Stay {
    Stay::from_bits(page.label >> STAY_SHIFT)
}

pub(super) fn set_stay(page: &mut Page, stay: Stay) {
    page.label = page.label & CLASS | stay.bits() << STAY_SHIFT;
}
