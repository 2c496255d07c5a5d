//! `lru-pages`: the page of the pool that took in no chunk for the longest time, with all its chunks.

use super::groups::{Condemned, End, Groups, List};
use super::{Chosen, Eviction};
use crate::entry::{Entry, no_arguments};
use crate::page::ChunkId;
use crate::stored::Stored;

pub(super) const ENTRY: Entry<dyn Eviction> = Entry {
    name: "lru-pages",
    summary: "all chunks of the page of the pool that took in none for the longest time",
    source: "zswap over zpool up to Linux 6.6; ezswap section II-B",
    build: |arguments| {
        no_arguments(arguments)?;
        Ok(Box::new(LruPages::default()))
    },
};

/// One list of the pages of the pool; a page that takes in a chunk goes to its young end. In a pool of size
/// classes each chunk is a page of its own, which makes it `lru`. Constant time.
#[derive(Debug, Default)]
pub struct LruPages {
    groups: Groups,
    list: List,
    condemned: Condemned,
}

impl Eviction for LruPages {
    fn placed(&mut self, chunk: ChunkId, pool_page: Option<u32>) {
        self.groups.placed(chunk, pool_page);
    }

    fn insert(&mut self, chunk: ChunkId, stored: Stored) {
        if stored.bytes == 0 {
            return;
        }
        if let Some(group) = self.groups.of(chunk) {
            self.groups.unlink(&mut self.list, group);
        }
        let group = self.groups.add(chunk, stored);
        self.groups.link(&mut self.list, group, End::Head);
    }

    fn remove(&mut self, chunk: ChunkId) {
        self.condemned.strike(chunk);
        let Some(group) = self.groups.group_of(chunk) else {
            return;
        };
        // The page keeps its place: losing a chunk makes it no younger.
        if self.groups[group].len() == 1 {
            self.groups.unlink(&mut self.list, group);
            self.groups.take(chunk);
        } else {
            let before = self.groups[group].stamps;
            self.groups.take(chunk);
            self.list.lose(before - self.groups[group].stamps);
        }
    }

    fn victim(&mut self) -> Option<ChunkId> {
        if self.condemned.next().is_none() {
            let group = self.list.tail()?;
            self.condemned.choose(&self.groups[group]);
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
