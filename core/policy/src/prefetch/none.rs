//! `none`: pages come back when they are touched.

use super::Prefetch;
use crate::entry::{PolicyEntry, no_arguments};
use crate::page::ChunkId;

pub(super) const ENTRY: PolicyEntry<dyn Prefetch> = PolicyEntry {
    name: "none",
    summary: "pages come back when they are touched",
    source: "the kernel's zram (a RAM disk without seek cost, so without swap readahead)",
    build: |arguments| {
        no_arguments(arguments)?;
        Ok(Box::new(OnDemand))
    },
};

/// Predicts nothing.
#[derive(Debug)]
pub struct OnDemand;

impl Prefetch for OnDemand {
    fn on_demand(&mut self, _: ChunkId, _: &mut Vec<ChunkId>) {}
    fn buffer_pages(&self) -> usize {
        0
    }
}
