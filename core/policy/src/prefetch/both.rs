//! `both`: the footprint of a launch, and the next chunk behind what the footprint missed.

use super::footprint::{Batch, Footprint};
use super::{Access, Next, Prefetch};
use crate::entry::PolicyEntry;
use crate::learned::Learned;
use crate::page::ChunkId;
use warmswap_page::{AppId, FileId, LaunchKind, PageAddr};

pub(super) const ENTRY: PolicyEntry<dyn Prefetch> = PolicyEntry {
    name: "both",
    summary: "footprint, and next behind what it missed; takes the arguments of footprint",
    source: "ASAP sections 4 and 5, then Ariadne section 4.4",
    build: |text| {
        let footprint = Footprint::parse(text)?;
        let next = Next::default();
        Ok(Box::new(Both { footprint, next }))
    },
};

/// [`Footprint`] for launches, [`Next`] on demand.
#[derive(Debug)]
pub struct Both {
    /// What comes back at a launch.
    pub footprint: Footprint,
    /// What comes along with a fault.
    pub next: Next,
}

impl Prefetch for Both {
    fn on_demand(&mut self, chunk: ChunkId, out: &mut Vec<ChunkId>) {
        self.next.on_demand(chunk, out);
    }
    fn buffer_pages(&self) -> usize {
        self.next.buffer_pages()
    }
    fn chunk_pages(&self) -> u32 {
        self.next.chunk_pages()
    }
    fn watches_launches(&self) -> bool {
        true
    }
    fn footprint_pages(&self) -> usize {
        self.footprint.footprint_pages()
    }
    fn launch_begin(&mut self, app: AppId, kind: LaunchKind) {
        self.footprint.launch_begin(app, kind);
    }
    fn window_access(&mut self, app: AppId, addr: PageAddr, access: Access) {
        self.footprint.window_access(app, addr, access);
    }
    fn unseen(&mut self, app: AppId, is_unseen: &mut dyn FnMut(PageAddr) -> bool) {
        self.footprint.unseen(app, is_unseen);
    }
    fn doubts(&self, app: AppId, addr: PageAddr) -> bool {
        self.footprint.doubts(app, addr)
    }
    fn launch_end(&mut self, app: AppId) {
        self.footprint.launch_end(app);
    }
    fn next_batch(&mut self) -> Option<Batch<FileId>> {
        self.footprint.next_batch()
    }
    fn expects(&self, app: AppId, addr: PageAddr) -> bool {
        self.footprint.expects(app, addr)
    }
    fn fetched(&mut self, app: AppId, addr: PageAddr) {
        self.footprint.fetched(app, addr);
    }
    fn exit(&mut self, app: AppId) {
        self.footprint.exit(app);
    }
    fn retire(&mut self, app: AppId) {
        self.footprint.retire(app);
    }
    fn learned(&self, app: AppId, learned: &mut Learned<FileId>) {
        self.footprint.learned(app, learned);
    }
    fn teach(&mut self, app: AppId, learned: &Learned<FileId>) {
        self.footprint.teach(app, learned);
    }
    fn state_bytes(&self, app: AppId) -> usize {
        self.footprint.state_bytes(app)
    }
}
