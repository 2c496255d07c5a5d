//! What the backing store counts.

use serde::{Deserialize, Serialize};

/// A snapshot of a store's counters. Bytes include the trailer of 36 bytes a record.
///
/// Levels go up and down; totals only go up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackingStats {
    /// Level: records that can be read. Up on a successful append, down on a free.
    pub live_records: u64,
    /// Level: bytes of those records.
    pub live_bytes: u64,
    /// Level: bytes of segments in use that hold no live record and cannot be appended to before
    /// the segment is cleaned. Up on a free, a failed write, and when a segment is closed with
    /// room left; down when a segment becomes free.
    pub dead_bytes: u64,
    /// Level: segments that hold nothing.
    pub free_segments: u64,
    /// Level: the size that the file has grown to, in bytes. Never beyond the capacity.
    pub file_bytes: u64,
    /// Whole segments that the store may use, in bytes; constant.
    pub capacity_bytes: u64,
    /// Total: bytes that successful appends have written.
    pub written_bytes: u64,
    /// Total: bytes that successful reads have read, those of the cleaner not counted.
    pub read_bytes: u64,
    /// Total: bytes that cleaning has copied.
    pub cleaned_bytes: u64,
    /// Total: segments that cleaning has emptied.
    pub cleaned_segments: u64,
    /// Total: operations tried again after EIO, and successful in the end.
    pub io_retries: u64,
    /// Total: appends that failed in writing.
    pub failed_appends: u64,
    /// Total: reads that failed in reading.
    pub failed_reads: u64,
    /// Total: reads that found damage, those of the cleaner included.
    pub corrupt_reads: u64,
}
