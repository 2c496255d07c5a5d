//! What the engine tells its policies about a chunk in the pool.

use crate::page::Hotness;

/// A chunk in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredChunk {
    /// How hot its pages were when they left.
    pub hotness: Hotness,
    /// True for clean pages of files: they can be dropped, since their file has them.
    pub is_file: bool,
    /// Pages that it stands for.
    pub pages: u32,
    /// Bytes of its object; 0 for same-filled pages.
    pub bytes: u32,
}

/// What it costs to have given a page up, in reads of a page from flash (ezswap section III-B): one
/// read for a clean page of a file; for an anonymous page a read and a write, which is taken for three.
pub const fn cost(is_file: bool) -> u64 {
    if is_file { 1 } else { 4 }
}
