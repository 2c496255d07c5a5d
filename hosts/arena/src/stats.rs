//! What an arena holds and has done.

use serde::Serialize;
use warmswap_backing::BackingStats;
use warmswap_engine::Counters;
use warmswap_page::PAGE_BYTES;
use warmswap_pool::PoolStats;

use crate::pager::PagerCounts;

/// A look at an arena. The frames add up: `resident_frames + staged_frames + free_frames == held_frames`, exact
/// while no fault is under way.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ArenaStats {
    /// What all of it together may hold.
    pub budget_bytes: u64,
    /// Frames of the arena, wherever they are.
    pub held_frames: u64,
    /// Frames in the places of pages.
    pub resident_frames: u64,
    /// Frames in staging with the content of a page: on their way out, or prefetched.
    pub staged_frames: u64,
    /// Frames in staging that are free.
    pub free_frames: u64,
    /// Pages whose content is in the pool or the backing file only.
    pub stored_pages: u64,
    /// Memory that the pool holds.
    pub pool_bytes: u64,
    /// Memory of the engine's state.
    pub engine_bytes: u64,
    /// Memory of the page words and of the table of chunks.
    pub page_words_bytes: u64,
    /// Scratch memory, about; constant, and not counted against the budget.
    pub scratch_bytes: u64,
    /// Faults that found work to do.
    pub faults: u64,
    /// Of them, first touches.
    pub first_touches: u64,
    /// Of them, pages that were found in staging, or on their way out in their place.
    pub staged_faults: u64,
    /// Of them, pages that were read from their files.
    pub file_faults: u64,
    /// Chunks that were decompressed by faults and by restoring.
    pub chunks_read: u64,
    /// Pages that were read from their files.
    pub file_reads: u64,
    /// Pages that came along with another, or together ahead of use.
    pub neighbours: u64,
    /// Pages that came out of their chunks although no thread waited for them: neighbours of a fault, hot sets,
    /// footprints.
    pub restored: u64,
    /// Of them, those of hot sets and footprints. Others of a footprint are prefetched into staging
    /// ([`PagerCounts::prefetched_pages`]).
    pub restored_ahead: u64,
    /// Pages that were copied in because their frame could not be moved.
    pub copied: u64,
    /// Times that a fault waited for a frame.
    pub frame_waits: u64,
    /// Staging slots that are not used any more, since they held frames that are not accounted for. 0 unless the kernel
    /// or this library is at fault.
    pub lost_slots: u64,
    /// Whether a footprint is on its way back.
    pub is_prepaging: bool,
    /// What the pager did.
    pub pager: PagerCounts,
    /// What the engine counted.
    pub engine: Counters,
    /// What the pool counted.
    pub pool: PoolStats,
    /// What the backing file counted, if there is one.
    pub backing: Option<BackingStats>,
}

impl ArenaStats {
    /// All that counts against the budget.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.held_frames * PAGE_BYTES as u64
            + self.pool_bytes
            + self.engine_bytes
            + self.page_words_bytes
    }
}
