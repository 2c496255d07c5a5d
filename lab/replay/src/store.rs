//! Pool and backing file of a replay.

mod assumed;
pub(crate) mod compressed;
pub(crate) mod encodings;

pub use assumed::{AssumedStore, Assumption};
pub use compressed::CompressedStore;

use crate::error::ReplayError;
use warmswap_codec::ChunkPlan;
use warmswap_engine::{Engine, Place, Refusal};
use warmswap_policy::admission::SAMPLE_BYTES;
use warmswap_policy::{ChunkId, PageId};
use warmswap_trace::ContentId;

/// What storing a chunk took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredObject {
    /// Bytes of the object; 0 for same-filled pages.
    pub bytes: u32,
    /// Nanoseconds of compression and of the pool, measured or assumed.
    pub cpu_ns: u64,
    /// The page of the pool that holds the object, where its layout is one of pages with a few objects.
    pub pool_page: Option<u32>,
}

/// Keeps what the engine stores. One object for each chunk, in the pool or in the backing file.
pub trait Store {
    /// Whether the page is known to hold this.
    fn holds(&self, page: PageId, content: ContentId) -> bool;

    /// The page holds this from now on.
    fn set_content(&mut self, page: PageId, content: ContentId);

    /// The first 512 bytes of a page.
    ///
    /// # Errors
    /// A content cannot be read.
    fn sample(&self, page: PageId) -> Result<[u8; SAMPLE_BYTES], ReplayError>;

    /// Whether contents are known, so that it can be measured what working on them takes.
    fn has_contents(&self) -> bool {
        true
    }

    /// Compresses the pages of a chunk into the pool, unless the pool refuses it.
    ///
    /// # Errors
    /// A content cannot be read.
    fn store(
        &mut self,
        engine: &Engine,
        chunk: ChunkId,
        plan: ChunkPlan,
    ) -> Result<Result<StoredObject, Refusal>, ReplayError>;

    /// Brings back the pages of a chunk for which [`Engine::is_loading`], and compares them with what
    /// they held. Nanoseconds of decompression.
    ///
    /// # Errors
    /// The chunk is not there, cannot be decoded, or holds something else.
    fn load(&mut self, engine: &Engine, chunk: ChunkId, place: Place) -> Result<u64, ReplayError>;

    /// Moves a chunk from the pool to the backing file. Its bytes.
    ///
    /// # Errors
    /// The chunk is not in the pool.
    fn write_back(&mut self, engine: &Engine, chunk: ChunkId) -> Result<u64, ReplayError>;

    /// Writes the one page of a chunk to the backing file as it is.
    fn store_raw(&mut self, engine: &Engine, chunk: ChunkId);

    /// Forgets a chunk of `bytes` bytes.
    ///
    /// # Errors
    /// The chunk is not there.
    fn free(&mut self, chunk: ChunkId, place: Place, bytes: u32) -> Result<(), ReplayError>;

    /// Gives the pool's waste back, where it is worth it.
    fn tidy(&mut self);

    /// Memory that the pool holds.
    fn pool_bytes(&self) -> u64;

    /// Bytes of the backing file in use.
    fn backing_bytes(&self) -> u64;

    /// Pages, and bytes of their objects, that are in the pool now.
    fn pool_load(&self) -> (u64, u64);

    /// Bytes of a chunk where it is; a record of the backing file need not have the size of the object in the pool.
    fn chunk_bytes(&self, engine: &Engine, chunk: ChunkId) -> u64;
}
