//! How much of each application was compressed, and to what: a replay counts that for all together.

use std::cell::RefCell;
use std::rc::Rc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmswap_codec::ChunkPlan;
use warmswap_engine::{Engine, Place, Refusal};
use warmswap_page::PAGE_BYTES;
use warmswap_policy::admission::SAMPLE_BYTES;
use warmswap_policy::{ChunkId, PageId};
use warmswap_replay::ReplayError;
use warmswap_replay::store::{Store, StoredObject};
use warmswap_trace::ContentId;

/// What was compressed of one application, over a whole replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Volume {
    /// Bytes of the pages.
    pub original_bytes: u64,
    /// Bytes that they were compressed to.
    pub compressed_bytes: u64,
}

impl Volume {
    /// Original bytes for each compressed byte; `None` when nothing was compressed to any bytes.
    pub fn data_ratio(self) -> Option<f64> {
        (self.compressed_bytes > 0)
            .then(|| self.original_bytes as f64 / self.compressed_bytes as f64)
    }
}

/// A store that counts what is compressed, by application, and leaves the rest to another.
#[derive(Debug)]
pub(crate) struct Metered<S> {
    inner: S,
    volumes: Rc<RefCell<Vec<Volume>>>,
}

impl<S> Metered<S> {
    pub(crate) fn new(inner: S, volumes: Rc<RefCell<Vec<Volume>>>) -> Self {
        Self { inner, volumes }
    }
}

impl<S: Store> Store for Metered<S> {
    fn store(
        &mut self,
        engine: &Engine,
        chunk: ChunkId,
        plan: ChunkPlan,
    ) -> Result<Result<StoredObject, Refusal>, ReplayError> {
        let stored = self.inner.store(engine, chunk, plan)?;
        if let Ok(stored) = stored {
            let pages = engine.chunk_pages(chunk);
            // A chunk holds pages of one application.
            let app = usize::from(engine.locate(pages[0]).0.0);
            let mut volumes = self.volumes.borrow_mut();
            if volumes.len() <= app {
                volumes.resize(app + 1, Volume::default());
            }
            volumes[app].original_bytes += (pages.len() * PAGE_BYTES) as u64;
            volumes[app].compressed_bytes += u64::from(stored.bytes);
        }
        Ok(stored)
    }

    fn has_contents(&self) -> bool {
        self.inner.has_contents()
    }

    fn sample(&self, page: PageId) -> Result<[u8; SAMPLE_BYTES], ReplayError> {
        self.inner.sample(page)
    }

    fn holds(&self, page: PageId, content: ContentId) -> bool {
        self.inner.holds(page, content)
    }

    fn set_content(&mut self, page: PageId, content: ContentId) {
        self.inner.set_content(page, content);
    }

    fn load(&mut self, engine: &Engine, chunk: ChunkId, place: Place) -> Result<u64, ReplayError> {
        self.inner.load(engine, chunk, place)
    }

    fn write_back(&mut self, engine: &Engine, chunk: ChunkId) -> Result<u64, ReplayError> {
        self.inner.write_back(engine, chunk)
    }

    fn store_raw(&mut self, engine: &Engine, chunk: ChunkId) {
        self.inner.store_raw(engine, chunk);
    }

    fn free(&mut self, chunk: ChunkId, place: Place, bytes: u32) -> Result<(), ReplayError> {
        self.inner.free(chunk, place, bytes)
    }

    fn tidy(&mut self) {
        self.inner.tidy();
    }

    fn pool_bytes(&self) -> u64 {
        self.inner.pool_bytes()
    }

    fn backing_bytes(&self) -> u64 {
        self.inner.backing_bytes()
    }

    fn pool_load(&self) -> (u64, u64) {
        self.inner.pool_load()
    }

    fn chunk_bytes(&self, engine: &Engine, chunk: ChunkId) -> u64 {
        self.inner.chunk_bytes(engine, chunk)
    }
}
