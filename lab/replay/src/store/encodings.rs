//! What chunks are encoded to, for any number of replays at once.
//!
//! Plan and contents decide what a chunk is encoded to. So each distinct chunk is compressed and decompressed once, however
//! often and under whatever schemes it is stored and loaded, and the time of that once counts each time.

use bytes::Bytes;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use warmswap_codec::ChunkPlan;
use warmswap_pool::Content;
use warmswap_store::Encoded;
use warmswap_trace::ContentId;

/// What is kept of all chunks of a trace, at most. Others are encoded each time.
const MOST_BYTES: usize = 1 << 30;

/// One chunk, encoded.
#[derive(Debug)]
pub struct Encoding {
    /// What its pages hold.
    pub contents: Arc<[ContentId]>,
    /// What the encoder made of them.
    pub encoded: Encoded,
    /// Its bytes.
    pub bytes: Bytes,
    /// Nanoseconds that the encoder took.
    pub encode_ns: u64,
    /// Nanoseconds that it took to decode it and to find the same contents, once that was done.
    pub decode_ns: OnceLock<u64>,
}

impl Encoding {
    /// As the pool holds it.
    pub fn content(&self) -> Content<'_> {
        self.encoded.content(&self.bytes)
    }

    fn weight(&self) -> usize {
        size_of::<Self>() + self.bytes.len() + self.contents.len() * size_of::<ContentId>()
    }
}

/// The encoded chunks of one trace.
#[derive(Debug, Default)]
pub struct Encodings(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    by_plan: FxHashMap<ChunkPlan, FxHashMap<Arc<[ContentId]>, Arc<Encoding>>>,
    bytes: usize,
}

impl Encodings {
    fn lock(&self) -> MutexGuard<'_, Known> {
        // It is consistent at all times.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What pages with these contents are encoded to, if that is known.
    pub fn get(&self, plan: ChunkPlan, contents: &[ContentId]) -> Option<Arc<Encoding>> {
        let known = self.lock();
        known.by_plan.get(&plan)?.get(contents).cloned()
    }

    /// Keeps an encoding for later, as far as there is room.
    pub fn keep(&self, plan: ChunkPlan, encoding: &Arc<Encoding>) {
        let known = &mut *self.lock();
        if known.bytes + encoding.weight() > MOST_BYTES {
            return;
        }
        known.bytes += encoding.weight();
        let of_plan = known.by_plan.entry(plan).or_default();
        of_plan.insert(encoding.contents.clone(), encoding.clone());
    }
}
