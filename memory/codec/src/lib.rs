//! Compressors for chunks of 128 bytes to 128 KiB: lz4, lzo, zstd, base-delta-immediate, same-filled.
//!
//! Two layers:
//!
//! - [`Codec`] names a compressor, and a [`Scratch`] (one per thread) runs it on byte slices.
//! - [`ChunkPlan`] says how pages become the objects that a compressed pool stores: cut into
//!   pieces smaller than a page, one by one, or several pages joined.
//!
//! Once a [`Scratch`] exists, compressing and decompressing allocate no memory, so both can run
//! while a page fault is being served. All errors are typed; malformed input never panics and
//! never writes outside the destination.

#![forbid(unsafe_code)]

mod bdi;
mod chunk;
mod lz4;
mod lzo;
mod same_filled;
mod scratch;
mod zstd;

pub use chunk::{ChunkError, Encoded, EncodedKind, decode, encode, encode_contiguous};
pub use same_filled::{fill, same_filled};
pub use scratch::{DEFAULT_ZSTD_LEVEL, Scratch};
pub use warmswap_page::{
    ChunkPlan, Codec, InvalidChunkSize, MAX_CHUNK_BYTES, MIN_CHUNK_BYTES, UnknownCodec,
};

/// Why decompression failed.
///
/// After any error the content of the destination is unspecified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The input is not something that this codec produced.
    #[error("{codec}: malformed input of {encoded_bytes} bytes, expected {expected_bytes} decoded")]
    Malformed {
        /// The codec that was asked.
        codec: Codec,
        /// Bytes of the encoded input.
        encoded_bytes: usize,
        /// Bytes that the caller expected to get.
        expected_bytes: usize,
    },
    /// The input decodes to fewer bytes than the caller expected.
    #[error("{codec}: decoded {decoded_bytes} bytes, expected {expected_bytes}")]
    WrongLength {
        /// The codec that was asked.
        codec: Codec,
        /// Bytes that the input decodes to.
        decoded_bytes: usize,
        /// Bytes that the caller expected to get.
        expected_bytes: usize,
    },
    /// The destination is longer than [`MAX_CHUNK_BYTES`].
    #[error("{expected_bytes} bytes are more than the largest chunk")]
    TooLong {
        /// Bytes that the caller expected to get.
        expected_bytes: usize,
    },
}
