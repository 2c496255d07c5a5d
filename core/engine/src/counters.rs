//! What happened so far. Every counter says exactly when it moves.

use serde::{Deserialize, Serialize};

/// Counters of an engine since it was made; all in pages unless they say otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Touches that found their page resident.
    pub hits: u64,
    /// Touches of anonymous pages that did not exist before.
    pub first_touches: u64,
    /// Touches of pages of files that were not in memory: each is a read of the file.
    pub file_reads: u64,
    /// Touches that found their page stored in the pool: each waits for a load.
    pub pool_faults: u64,
    /// Touches that found their page in the backing file: each waits for a load.
    pub backing_faults: u64,
    /// Touches that found their page prefetched.
    pub buffer_hits: u64,
    /// Pages that came back together with the one that was asked for, out of its chunk.
    pub neighbours_loaded: u64,
    /// Of them, those that were touched before they left again.
    pub neighbours_used: u64,
    /// Pages that were brought back before they were asked for, on demand or for a launch.
    pub prefetched: u64,
    /// Of them, those that left the buffer, or whose launch window closed, without having been touched.
    pub prefetch_wasted: u64,
    /// Of the prefetched pages, those that belonged to the footprint of a launch.
    pub prepaged: u64,
    /// Of them, those that were touched in its window.
    pub prepaged_used: u64,
    /// Pages whose store in the pool was reported.
    pub stored: u64,
    /// Pages whose store in the backing file, as they are, was reported.
    pub stored_raw: u64,
    /// Pages that left at no cost, since their kept copy was valid.
    pub dropped: u64,
    /// Of the pages stored in the pool, those of files.
    pub stored_files: u64,
    /// Pages of files that the pool gave up for room.
    pub evicted_files: u64,
    /// Chunks whose sample the admission policy has seen.
    pub sampled_chunks: u64,
    /// Pages that it did not admit.
    pub not_admitted: u64,
    /// Pages that made objects too large for the pool.
    pub too_large: u64,
    /// Pages of files that left and did not enter the pool; dirty ones are written first.
    pub discarded: u64,
    /// Of them, dirty ones.
    pub discarded_dirty: u64,
    /// Pages that came back from their way out because neither pool nor backing file took them.
    pub refused: u64,
    /// Chunks that were written back.
    pub written_back_chunks: u64,
    /// Bytes of them.
    pub written_back_bytes: u64,
    /// Chunks whose write-back failed; they stayed in the pool.
    pub write_back_failures: u64,
    /// Kept copies (chunks) that were given up for room.
    pub kept_copies_dropped: u64,
    /// Times that a fault waited because free frames were below the reserve.
    pub direct_reclaims: u64,
    /// Applications that were killed because nothing else could be given up.
    pub kills: u64,
    /// Times that the budget could not be held at all.
    pub budget_exceeded: u64,
}
