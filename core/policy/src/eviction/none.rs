//! `none`: nothing is written back; a full pool refuses, as zram does.

use super::Eviction;
use crate::entry::{PolicyEntry, no_arguments};
use crate::page::ChunkId;
use crate::stored::StoredChunk;

pub(super) const ENTRY: PolicyEntry<dyn Eviction> = PolicyEntry {
    name: "none",
    summary: "nothing is written back; a full pool refuses",
    source: "the kernel's zram without a backing device",
    build: |arguments| {
        no_arguments(arguments)?;
        Ok(Box::new(Refuse))
    },
};

/// Keeps no order, since nothing is evicted.
#[derive(Debug)]
pub struct Refuse;

impl Eviction for Refuse {
    fn insert(&mut self, _: ChunkId, _: StoredChunk) {}
    fn remove(&mut self, _: ChunkId) {}
    fn victim(&mut self) -> Option<ChunkId> {
        None
    }
    fn state_bytes(&self) -> usize {
        0
    }
}
