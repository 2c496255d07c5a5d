//! `lru-pages`: the page of the pool that took in no chunk for the longest time, with all its chunks.

use super::Eviction;
use super::by_page::{ByPage, Order};
use super::chunk_groups::{ChunkGroups, End, List};
use crate::entry::{PolicyEntry, no_arguments};
use crate::page::ChunkId;

pub(super) const ENTRY: PolicyEntry<dyn Eviction> = PolicyEntry {
    name: "lru-pages",
    summary: "all chunks of the page of the pool that took in none for the longest time",
    source: "zswap over zpool up to Linux 6.6; ezswap section II-C",
    build: |arguments| {
        no_arguments(arguments)?;
        Ok(Box::new(LruPages::default()))
    },
};

/// One list of the pages of the pool; a page that takes in a chunk goes to its young end. In a pool of size
/// classes each chunk is a page of its own, which makes it `lru`. Constant time.
pub type LruPages = ByPage<ByAge>;

/// The list of [`LruPages`].
#[derive(Debug, Default)]
pub struct ByAge {
    list: List,
}

impl Order for ByAge {
    fn link(&mut self, groups: &mut ChunkGroups, page: u32) {
        groups.link(&mut self.list, page, End::Head);
    }

    fn unlink(&mut self, groups: &mut ChunkGroups, page: u32) {
        groups.unlink(&mut self.list, page);
    }

    /// The page keeps its place: losing a chunk makes it no younger.
    fn take(&mut self, groups: &mut ChunkGroups, page: u32, chunk: ChunkId) {
        if groups[page].len() == 1 {
            groups.unlink(&mut self.list, page);
            groups.take(chunk);
        } else {
            let before = groups[page].stamps;
            groups.take(chunk);
            self.list.lose(before - groups[page].stamps);
        }
    }

    fn next(&mut self) -> Option<u32> {
        self.list.tail()
    }
}
