//! Loads that the host was asked for and has not reported yet.

use rustc_hash::FxHashMap;
use warmswap_policy::{ChunkId, PageId};

/// Loads under way, one of a chunk at a time.
///
/// A host that carries decisions out one by one has one load at a time, which takes no look-up; a footprint may be tens of
/// thousands of them, so that each is found by its chunk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loads {
    /// The load that began last, while it is under way.
    newest: Option<(ChunkId, Load)>,
    older: FxHashMap<ChunkId, Load>,
}

/// What is known of one load.
#[derive(Clone, Debug, Default)]
pub(crate) struct Load {
    /// It was begun before any of its pages was asked for.
    pub(crate) is_prefetch: bool,
    /// The pages that are waited for: most often one, so that it takes no block of memory.
    first: Option<PageId>,
    more: Vec<PageId>,
}

impl Loads {
    /// A load that no thread waits for began.
    pub(crate) fn prefetch(&mut self, chunk: ChunkId) {
        self.load(chunk).is_prefetch = true;
    }

    /// A page is waited for, by a load that begins or is under way.
    pub(crate) fn wait_for(&mut self, chunk: ChunkId, page: PageId) {
        let load = self.load(chunk);
        if load.first.is_none() {
            load.first = Some(page);
        } else if !load.is_waited_for(page) {
            load.more.push(page);
        }
    }

    /// Whether a load of this chunk is under way.
    pub(crate) fn is_under_way(&self, chunk: ChunkId) -> bool {
        self.get(chunk).is_some()
    }

    /// Whether a load of this chunk is under way, and this page of it is waited for.
    pub(crate) fn is_waited_for(&self, chunk: ChunkId, page: PageId) -> bool {
        self.get(chunk).is_some_and(|load| load.is_waited_for(page))
    }

    fn get(&self, chunk: ChunkId) -> Option<&Load> {
        match &self.newest {
            Some((newest, load)) if *newest == chunk => Some(load),
            _ => self.older.get(&chunk),
        }
    }

    /// The load is over.
    pub(crate) fn take(&mut self, chunk: ChunkId) -> Load {
        let load = if self.is_newest(chunk) {
            self.newest.take().map(|(_, load)| load)
        } else {
            self.older.remove(&chunk)
        };
        load.unwrap_or_default()
    }

    fn is_newest(&self, chunk: ChunkId) -> bool {
        matches!(self.newest, Some((newest, _)) if newest == chunk)
    }

    /// The load of this chunk, which begins if it is not under way.
    fn load(&mut self, chunk: ChunkId) -> &mut Load {
        if !self.is_under_way(chunk) {
            let before = self.newest.replace((chunk, Load::default()));
            self.older.extend(before);
        }
        match &mut self.newest {
            Some((newest, load)) if *newest == chunk => load,
            _ => self.older.entry(chunk).or_default(),
        }
    }
}

impl Load {
    pub(crate) fn is_waited_for(&self, page: PageId) -> bool {
        self.first == Some(page) || self.more.contains(&page)
    }

    pub(crate) fn is_waited_for_at_all(&self) -> bool {
        self.first.is_some()
    }
}
