//! Admission: does this page enter the compressed pool at all?

mod all;
mod nothing;

pub use all::All;
pub use nothing::Nothing;

use crate::entry::Entry;
use crate::page::Hotness;

/// The admission policies.
pub const ENTRIES: &[Entry<dyn Admission>] = &[all::ENTRY, nothing::ENTRY];

/// What is known of a chunk that is about to be stored.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// How hot its pages are.
    pub hotness: Hotness,
    /// True for pages of a file.
    pub is_file: bool,
    /// How many pages it joins.
    pub pages: u32,
}

/// Decides what enters the pool. What is refused goes to the backing file as it is.
pub trait Admission: Send + std::fmt::Debug {
    /// True: the chunk is compressed into the pool.
    fn admits(&mut self, candidate: Candidate) -> bool;
}
