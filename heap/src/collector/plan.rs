//! Which regions a collection looks at, and how.

use crate::layout::REGION_GRANULES;
use crate::regions::{Flags, RegionState, RegionTable};

use super::Kind;

/// Old regions with at least this part of them live, in per cent, are not evacuated by a major collection (ART:
/// `kEvacuateLivePercentThreshold`).
const EVACUATED_BELOW_PERCENT: u32 = 75;

/// What becomes of a region that is in use.
pub fn state(kind: Kind, regions: &RegionTable, region: usize) -> RegionState {
    let info = regions.info(region);
    let flags = info.flags();
    let moved = if flags.has(Flags::LARGE) || flags.has(Flags::SWAPPABLE) {
        RegionState::InPlace
    } else {
        RegionState::Evacuated
    };
    match kind {
        Kind::Minor | Kind::Separating if flags.has(Flags::YOUNG) => moved,
        Kind::Minor | Kind::Separating => RegionState::Kept,
        Kind::Background if flags.has(Flags::FOREGROUND) => RegionState::Kept,
        Kind::Background | Kind::Grouping => moved,
        Kind::Major => {
            // Of the region, not of what is used of it: a region with a single object is worth to be freed.
            let is_dense = info.live() >= REGION_GRANULES / 100 * EVACUATED_BELOW_PERCENT;
            if is_dense && !flags.has(Flags::YOUNG) {
                RegionState::InPlace
            } else {
                moved
            }
        }
    }
}

/// Whether the dirty cards of kept regions are roots.
pub fn uses_cards(kind: Kind) -> bool {
    !matches!(kind, Kind::Major | Kind::Grouping)
}
