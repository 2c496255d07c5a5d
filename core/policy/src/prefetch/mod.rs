//! Prefetch: what comes back before it is asked for?

mod both;
pub mod footprint;
mod next;
mod none;

pub use both::Both;
pub use footprint::Footprint;
pub use next::Next;
pub use none::OnDemand;

use crate::entry::PolicyEntry;
use crate::learned::Learned;
use crate::page::ChunkId;
use footprint::Batch;
use warmswap_page::{AppId, FileId, LaunchKind, PageAddr};

/// The prefetch policies.
pub const ENTRIES: &[PolicyEntry<dyn Prefetch>] =
    &[none::ENTRY, next::ENTRY, footprint::ENTRY, both::ENTRY];

/// How an access within a launch window found its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// In its place, or brought there ahead of time by a footprint.
    InPlace,
    /// It had to be waited for, or would have been but for a prefetch on demand; or it did not exist.
    Fault,
}

/// Predicts what is asked for next: on demand, and at a launch.
///
/// What it names on demand is loaded into the prefetch buffer, a first-in first-out queue of frames: a page
/// that is asked for while it is there costs no load; what falls out unasked goes back to where it was.
///
/// What it names at a launch is brought back in batches, while no thread waits and as far as the budget allows,
/// until the launch window ends; what was not asked for by then is the first to leave again.
pub trait Prefetch: Send + std::fmt::Debug {
    /// A page of the chunk was asked for, by a fault or by a touch of a page that was prefetched on demand.
    /// Appends the chunks to load now; those that are not in the pool are passed over.
    fn on_demand(&mut self, chunk: ChunkId, out: &mut Vec<ChunkId>);

    /// How many pages the buffer of prefetches on demand holds.
    fn buffer_pages(&self) -> usize;

    /// The most pages that one of the chunks named on demand may bring; larger ones are passed over.
    fn chunk_pages(&self) -> u32 {
        u32::MAX
    }

    /// True if it is to hear of launches and of accesses in their windows.
    fn watches_launches(&self) -> bool {
        false
    }

    /// The most pages that a launch may bring back before they are asked for.
    fn footprint_pages(&self) -> usize {
        0
    }

    /// A launch window opens. What is left of the plan of an earlier launch is dropped.
    fn launch_begin(&mut self, app: AppId, kind: LaunchKind) {
        let _ = (app, kind);
    }

    /// The application accessed a page in its launch window. Constant time, or nearly.
    fn window_access(&mut self, app: AppId, addr: PageAddr, access: Access) {
        let _ = (app, addr, access);
    }

    /// Before a launch window closes, by a host that does not see accesses to pages in their places: of the pages
    /// for which `is_unseen`, it is not known whether they were accessed. They neither age nor count. Linear in
    /// the pages of the footprint.
    fn unseen(&mut self, app: AppId, is_unseen: &mut dyn FnMut(PageAddr) -> bool) {
        let _ = (app, is_unseen);
    }

    /// Whether the page belongs to the application's footprint and was not accessed in the last window that
    /// could tell. A host that does not see every access looks at such pages in particular.
    fn doubts(&self, app: AppId, addr: PageAddr) -> bool {
        let _ = (app, addr);
        false
    }

    /// The launch window closes, and with it the plan.
    fn launch_end(&mut self, app: AppId) {
        let _ = app;
    }

    /// What to bring back next for the launch that began last; `None` when nothing is left. Pages that are
    /// in memory already are passed over by the engine.
    fn next_batch(&mut self) -> Option<Batch<FileId>> {
        None
    }

    /// Whether the page is part of the application's footprint.
    fn expects(&self, app: AppId, addr: PageAddr) -> bool {
        let _ = (app, addr);
        false
    }

    /// A page of the plan was not in memory and is brought back now.
    fn fetched(&mut self, app: AppId, addr: PageAddr) {
        let _ = (app, addr);
    }

    /// The application ended; an open window is void.
    fn exit(&mut self, app: AppId) {
        let _ = app;
    }

    /// The application is gone for good, and its number may be another's from now on: nothing that was learned
    /// under it is kept, unlike at [`exit`](Self::exit).
    fn retire(&mut self, app: AppId) {
        let _ = app;
    }

    /// Notes what it learned about an application. Constant time but for what is noted.
    fn learned(&self, app: AppId, learned: &mut Learned<FileId>) {
        let _ = (app, learned);
    }

    /// Takes what was learned earlier in place of what it knows of the application.
    fn teach(&mut self, app: AppId, learned: &Learned<FileId>) {
        let _ = (app, learned);
    }

    /// Bytes of memory held for an application.
    fn state_bytes(&self, app: AppId) -> usize {
        let _ = app;
        0
    }
}
