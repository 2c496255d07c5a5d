//! Eviction of whole pages of the pool: what `lottery` and `lru-pages` have in common.

use std::fmt::Debug;

use super::chunk_groups::{ChunkGroups, Condemned};
use super::{Chosen, Eviction};
use crate::page::ChunkId;
use crate::stored::StoredChunk;

/// The order in which pages of the pool go. The groups that it is given are the pages.
pub trait Order: Send + Debug {
    /// Puts a page on a list.
    fn link(&mut self, groups: &mut ChunkGroups, page: u32);

    /// Takes a page off its list, before it changes.
    fn unlink(&mut self, groups: &mut ChunkGroups, page: u32);

    /// Takes a chunk out of a page that is on a list, and stays on one if it has another chunk.
    fn take(&mut self, groups: &mut ChunkGroups, page: u32, chunk: ChunkId) {
        self.unlink(groups, page);
        if let Some(page) = groups.take(chunk) {
            self.link(groups, page);
        }
    }

    /// The page that goes next.
    fn next(&mut self) -> Option<u32>;
}

/// Evicts page by page of the pool, each with all its chunks. Same-filled chunks take no room and are never
/// evicted.
#[derive(Debug, Default)]
pub struct ByPage<O> {
    pub(super) groups: ChunkGroups,
    condemned: Condemned,
    pub(super) order: O,
}

impl<O> ByPage<O> {
    /// Of no pages, in this order.
    pub(super) fn in_order(order: O) -> Self {
        Self {
            groups: ChunkGroups::default(),
            condemned: Condemned::default(),
            order,
        }
    }
}

impl<O: Order> Eviction for ByPage<O> {
    fn placed(&mut self, chunk: ChunkId, pool_page: Option<u32>) {
        self.groups.placed(chunk, pool_page);
    }

    fn insert(&mut self, chunk: ChunkId, stored: StoredChunk) {
        if stored.bytes == 0 {
            return;
        }
        if let Some(page) = self.groups.of(chunk) {
            self.order.unlink(&mut self.groups, page);
        }
        let page = self.groups.add(chunk, stored);
        self.order.link(&mut self.groups, page);
    }

    fn remove(&mut self, chunk: ChunkId) {
        self.condemned.strike(chunk);
        if let Some(page) = self.groups.group_of(chunk) {
            self.order.take(&mut self.groups, page, chunk);
        }
    }

    fn victim(&mut self) -> Option<ChunkId> {
        if self.condemned.next().is_none() {
            let page = self.order.next()?;
            self.condemned.choose(&self.groups[page]);
        }
        self.condemned.next()
    }

    fn chosen(&self) -> Option<Chosen> {
        Some(self.condemned.chosen())
    }

    fn state_bytes(&self) -> usize {
        self.groups.state_bytes()
    }
}
