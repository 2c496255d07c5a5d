//! Prefetch: what comes back before it is asked for?

mod next;
mod none;

pub use next::Next;
pub use none::OnDemand;

use crate::entry::Entry;
use crate::page::ChunkId;

/// The prefetch policies.
pub const ENTRIES: &[Entry<dyn Prefetch>] = &[none::ENTRY, next::ENTRY];

/// Predicts what is asked for next.
///
/// What it names is loaded into the prefetch buffer, a first-in first-out queue of frames: a page that
/// is asked for while it is there costs no load; what falls out unasked goes back to where it was.
pub trait Prefetch: Send + std::fmt::Debug {
    /// A page of the chunk was asked for, by a fault or by a touch of a prefetched page. Appends the
    /// chunks to load now; those that are not in the pool are passed over.
    fn on_demand(&mut self, chunk: ChunkId, out: &mut Vec<ChunkId>);

    /// How many pages the buffer holds.
    fn buffer_pages(&self) -> usize;

    /// The most pages that one of the named chunks may bring; larger ones are passed over.
    fn chunk_pages(&self) -> u32 {
        u32::MAX
    }
}
