//! Admission: does this page enter the compressed pool at all?

mod all;
pub mod entropy;
mod nothing;
mod selective;

pub use all::All;
pub use entropy::{estimate_bytes, estimate_for};
pub use nothing::Nothing;
pub use selective::Selective;

use crate::entry::PolicyEntry;
use crate::page::Hotness;
use crate::stored::StoredChunk;

/// The admission policies.
pub const ENTRIES: &[PolicyEntry<dyn Admission>] = &[all::ENTRY, nothing::ENTRY, selective::ENTRY];

/// Bytes at the head of a page that a policy may ask for.
pub const SAMPLE_BYTES: usize = 512;

/// What is known of a chunk that is about to be stored.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// How hot its pages are.
    pub hotness: Hotness,
    /// True for clean pages of a file.
    pub is_file: bool,
}

/// What a policy says of a candidate whose content it has not seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It enters the pool.
    Admit,
    /// It does not.
    Refuse,
    /// The size that the head of its first page lets expect decides: [`Admission::admits`].
    Sample,
}

/// Decides what enters the pool. Anonymous pages that are refused go to the backing file as they are;
/// clean pages of files are dropped.
///
/// The engine guarantees: `entered` once for a chunk that came into the pool, `left` once with the same
/// values when it left it, whichever way. A policy that answers every [`Verdict`] without a sample costs
/// one call a chunk, and no page is read for it.
pub trait Admission: Send + std::fmt::Debug {
    /// What is said without the content.
    fn verdict(&mut self, candidate: Candidate) -> Verdict;

    /// The first page of a chunk for which the verdict was [`Verdict::Sample`] is expected to compress to
    /// `estimated_bytes` ([`estimate_bytes`]): true when the chunk enters the pool, which may hold
    /// `pool_limit_bytes`. A policy that admits a size admits every smaller one.
    fn admits(&self, candidate: Candidate, estimated_bytes: u32, pool_limit_bytes: u64) -> bool {
        let _ = (candidate, estimated_bytes, pool_limit_bytes);
        true
    }

    /// The chunk came into the pool.
    fn entered(&mut self, stored: StoredChunk) {
        let _ = stored;
    }

    /// The chunk left the pool.
    fn left(&mut self, stored: StoredChunk) {
        let _ = stored;
    }

    /// A page was asked for that is not in a frame; true when the pool had it.
    fn page_in(&mut self, from_pool: bool) {
        let _ = from_pool;
    }
}
