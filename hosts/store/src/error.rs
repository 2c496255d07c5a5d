//! Why a chunk cannot be stored or read.

use warmswap_backing::BackingError;
use warmswap_codec::ChunkError;
use warmswap_pool::LoadError;

/// Why a chunk cannot be read or moved.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The pool's copy is damaged, or gone.
    #[error(transparent)]
    Pool(#[from] LoadError),
    /// The record is damaged, or the file cannot be read or written.
    #[error(transparent)]
    Backing(#[from] BackingError),
    /// There is no such chunk, or it is not where this can be done with it.
    #[error("chunk {0} is not stored")]
    NotStored(u32),
    /// What is stored is shorter than the numbers of the chunk's pages.
    #[error("chunk {chunk} is damaged: {bytes} bytes are no chunk")]
    Short {
        /// The chunk.
        chunk: u32,
        /// Bytes that are stored.
        bytes: usize,
    },
    /// The object cannot be decoded.
    #[error("chunk {chunk} cannot be decoded: {source}")]
    Decode {
        /// The chunk.
        chunk: u32,
        /// What the codec says.
        source: ChunkError,
    },
}
