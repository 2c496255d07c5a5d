//! Of assumed size: for traces without contents, and to measure the engine alone.

use super::{Store, StoredObject};
use crate::error::ReplayError;
use warmswap_codec::ChunkPlan;
use warmswap_engine::{Engine, Place, Refusal};
use warmswap_page::PAGE_BYTES;
use warmswap_policy::admission::SAMPLE_BYTES;
use warmswap_policy::{ChunkId, PageId};
use warmswap_trace::ContentId;

/// Bytes, time and ratio that are assumed of every page: lz4 on 4 KiB of real anonymous memory, as
/// measured on the machine of BENCHMARKS.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assumption {
    /// Bytes that a page takes in the pool, not 0.
    pub bytes_per_page: u32,
    /// Nanoseconds to compress a page.
    pub compress_ns: u64,
    /// Nanoseconds to decompress one.
    pub decompress_ns: u64,
}

impl Default for Assumption {
    fn default() -> Self {
        Self {
            bytes_per_page: 1_230,
            compress_ns: 5_900,
            decompress_ns: 1_500,
        }
    }
}

/// Counts what would be stored, and keeps nothing: the engine knows the sizes.
#[derive(Debug, Default)]
pub struct AssumedStore {
    assumption: Assumption,
    pool_limit_bytes: u64,
    pool_bytes: u64,
    pool_pages: u64,
    backing_bytes: u64,
}

impl AssumedStore {
    /// An empty store whose pool holds at most `pool_limit_bytes`.
    pub fn new(assumption: Assumption, pool_limit_bytes: u64) -> Self {
        Self {
            assumption,
            pool_limit_bytes,
            ..Self::default()
        }
    }

    /// An object of so many bytes leaves the pool.
    fn leaves_pool(&mut self, bytes: u32) {
        self.pool_bytes -= u64::from(bytes);
        self.pool_pages -= u64::from(bytes / self.assumption.bytes_per_page);
    }
}

impl Store for AssumedStore {
    /// Contents are not known: only what the trace calls a write is one.
    fn holds(&self, _: PageId, _: ContentId) -> bool {
        true
    }

    fn set_content(&mut self, _: PageId, _: ContentId) {}

    /// As many values as give the assumed size by their entropy.
    fn has_contents(&self) -> bool {
        false
    }

    fn sample(&self, _: PageId) -> Result<[u8; SAMPLE_BYTES], ReplayError> {
        let bits = f64::from(self.assumption.bytes_per_page) * 8.0 / PAGE_BYTES as f64;
        let values = bits.exp2().round().clamp(1.0, 256.0) as usize;
        Ok(std::array::from_fn(|at| (at % values) as u8))
    }

    fn store(
        &mut self,
        engine: &Engine,
        chunk: ChunkId,
        _: ChunkPlan,
    ) -> Result<Result<StoredObject, Refusal>, ReplayError> {
        let pages = engine.chunk_pages(chunk).len();
        let bytes = self.assumption.bytes_per_page * pages as u32;
        if self.pool_bytes + u64::from(bytes) > self.pool_limit_bytes {
            return Ok(Err(Refusal::PoolFull));
        }
        self.pool_bytes += u64::from(bytes);
        self.pool_pages += pages as u64;
        Ok(Ok(StoredObject {
            bytes,
            cpu_ns: self.assumption.compress_ns * pages as u64,
            pool_page: None,
        }))
    }

    fn load(&mut self, engine: &Engine, chunk: ChunkId, _: Place) -> Result<u64, ReplayError> {
        Ok(self.assumption.decompress_ns * engine.chunk_pages(chunk).len() as u64)
    }

    fn write_back(&mut self, engine: &Engine, chunk: ChunkId) -> Result<u64, ReplayError> {
        let bytes = engine.chunk_bytes(chunk);
        self.leaves_pool(bytes);
        self.backing_bytes += u64::from(bytes);
        Ok(bytes.into())
    }

    fn store_raw(&mut self, _: &Engine, _: ChunkId) {
        self.backing_bytes += PAGE_BYTES as u64;
    }

    fn free(&mut self, _: ChunkId, place: Place, bytes: u32) -> Result<(), ReplayError> {
        if place == Place::Backing {
            self.backing_bytes -= u64::from(bytes);
        } else {
            self.leaves_pool(bytes);
        }
        Ok(())
    }

    fn tidy(&mut self) {}

    fn pool_bytes(&self) -> u64 {
        self.pool_bytes
    }

    fn backing_bytes(&self) -> u64 {
        self.backing_bytes
    }

    fn pool_load(&self) -> (u64, u64) {
        (self.pool_pages, self.pool_bytes)
    }

    fn chunk_bytes(&self, engine: &Engine, chunk: ChunkId) -> u64 {
        engine.chunk_bytes(chunk).into()
    }
}
