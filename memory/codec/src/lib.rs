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

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use chunk::{
    ChunkError, ChunkPlan, Encoded, EncodedKind, decode, decode_piece, encode, encode_contiguous,
};
pub use same_filled::{fill, same_filled};
pub use scratch::{DEFAULT_ZSTD_LEVEL, Scratch};

/// The smallest chunk, in bytes (Ariadne, Fig. 6, starts here).
pub const MIN_CHUNK_BYTES: usize = 128;

/// The largest chunk, in bytes: 32 pages (Ariadne, Fig. 6, ends here).
pub const MAX_CHUNK_BYTES: usize = 128 * 1024;

/// A compression algorithm.
///
/// The discriminants are stable: they may be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Codec {
    /// LZ4 block format, by the C library, acceleration 1 as in the kernel's `lz4`.
    Lz4 = 0,
    /// LZO1X stream format, as the kernel's `lzo` reads and writes it.
    Lzo = 1,
    /// Zstandard frames without checksum.
    Zstd = 2,
    /// Base-delta-immediate on lines of 64 bytes.
    Bdi = 3,
}

impl Codec {
    /// Every codec, in the order of the discriminants.
    pub const ALL: [Codec; 4] = [Codec::Lz4, Codec::Lzo, Codec::Zstd, Codec::Bdi];

    /// The name in lower case, as [`Codec::from_str`] reads it.
    pub const fn name(self) -> &'static str {
        match self {
            Codec::Lz4 => "lz4",
            Codec::Lzo => "lzo",
            Codec::Zstd => "zstd",
            Codec::Bdi => "bdi",
        }
    }

    /// The codec with this discriminant.
    pub const fn from_u8(value: u8) -> Option<Codec> {
        match value {
            0 => Some(Codec::Lz4),
            1 => Some(Codec::Lzo),
            2 => Some(Codec::Zstd),
            3 => Some(Codec::Bdi),
            _ => None,
        }
    }

    /// Bytes of destination with which this codec never fails on `src_bytes` bytes.
    ///
    /// A smaller destination is allowed everywhere, and then means "give up beyond that".
    pub const fn bound_bytes(self, src_bytes: usize) -> usize {
        match self {
            Codec::Lz4 => src_bytes + src_bytes / 255 + 16,
            Codec::Lzo => lzo::bound_bytes(src_bytes),
            Codec::Zstd => src_bytes + src_bytes / 256 + 512,
            Codec::Bdi => bdi::bound_bytes(src_bytes),
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Codec {
    type Err = UnknownCodec;

    fn from_str(name: &str) -> Result<Codec, UnknownCodec> {
        Codec::ALL
            .into_iter()
            .find(|codec| codec.name() == name)
            .ok_or_else(|| UnknownCodec(name.to_owned()))
    }
}

/// A codec name that is none of [`Codec::ALL`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown codec {0:?}; known are lz4, lzo, zstd, bdi")]
pub struct UnknownCodec(pub String);

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
