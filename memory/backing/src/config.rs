//! The configuration of a backing store.

use serde::{Deserialize, Serialize};

use crate::BackingError;
use crate::record::TRAILER_BYTES;

/// Segments that a store has at least: two open ones, one spare for cleaning, one of data.
const MIN_SEGMENTS: u64 = 4;
/// The smallest and the largest segment, in bytes.
const SEGMENT_BYTES: std::ops::RangeInclusive<u32> = 4096..=1 << 30;

/// The configuration of a [`Backing`](crate::Backing).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BackingConfig {
    /// The file never grows beyond this many bytes (rounded down to whole segments).
    pub capacity_bytes: u64,
    /// Bytes of a segment, the unit of reclaim: 4 KiB to 1 GiB, and at most a quarter of the
    /// capacity. The largest record is this less 36 bytes.
    pub segment_bytes: u32,
    /// How often an operation that fails with EIO is tried again.
    pub io_retries: u32,
    /// Whether the file is removed when the store is dropped.
    pub delete_on_drop: bool,
}

impl Default for BackingConfig {
    /// 4 GiB in segments of 1 MiB, 3 retries, removed on drop.
    fn default() -> BackingConfig {
        BackingConfig {
            capacity_bytes: 4 << 30,
            segment_bytes: 1 << 20,
            io_retries: 3,
            delete_on_drop: true,
        }
    }
}

impl BackingConfig {
    /// The number of segments.
    ///
    /// # Errors
    ///
    /// [`BackingError::Config`] when sizes are out of range.
    pub(crate) fn segments(&self) -> Result<u32, BackingError> {
        let refuse = |reason| {
            Err(BackingError::Config {
                capacity_bytes: self.capacity_bytes,
                segment_bytes: self.segment_bytes,
                reason,
            })
        };
        if !SEGMENT_BYTES.contains(&self.segment_bytes) {
            return refuse("segments have 4 KiB to 1 GiB");
        }
        let segments = self.capacity_bytes / u64::from(self.segment_bytes);
        if segments < MIN_SEGMENTS {
            return refuse("the capacity holds fewer than 4 segments");
        }
        u32::try_from(segments).or_else(|_| refuse("more than 2^32 segments"))
    }

    /// Bytes of the largest record.
    pub(crate) fn max_record_bytes(&self) -> usize {
        self.segment_bytes as usize - TRAILER_BYTES
    }
}
