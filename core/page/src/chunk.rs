//! A codec's name and a chunk's size: the choices of the slot `sizing`, without the compressors themselves.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::PAGE_BYTES;

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
            // A literal run of n bytes costs up to n/255 + 2 extra, no match grows the output, the end marker takes 3.
            Codec::Lzo => src_bytes + src_bytes / 16 + 67,
            Codec::Zstd => src_bytes + src_bytes / 256 + 512,
            // Half a byte for each line of 64 bytes says how the line is stored.
            Codec::Bdi => src_bytes + (src_bytes / 64).div_ceil(2),
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

/// A codec and the unit of data that it compresses at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Unchecked", into = "Unchecked")]
pub struct ChunkPlan {
    codec: Codec,
    chunk_bytes: u32,
}

/// The stored form of a [`ChunkPlan`], before its size is checked.
#[derive(Serialize, Deserialize)]
struct Unchecked {
    codec: Codec,
    chunk_bytes: u32,
}

impl TryFrom<Unchecked> for ChunkPlan {
    type Error = InvalidChunkSize;

    fn try_from(plan: Unchecked) -> Result<ChunkPlan, InvalidChunkSize> {
        ChunkPlan::new(plan.codec, plan.chunk_bytes)
    }
}

impl From<ChunkPlan> for Unchecked {
    fn from(plan: ChunkPlan) -> Unchecked {
        Unchecked {
            codec: plan.codec,
            chunk_bytes: plan.chunk_bytes,
        }
    }
}

impl fmt::Display for ChunkPlan {
    /// The codec and the chunk size in bytes: `lz4/4096`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.codec, self.chunk_bytes)
    }
}

impl ChunkPlan {
    /// A plan with chunks of `chunk_bytes` bytes.
    ///
    /// # Errors
    ///
    /// [`InvalidChunkSize`] unless `chunk_bytes` is a power of two from
    /// [`MIN_CHUNK_BYTES`] to [`MAX_CHUNK_BYTES`].
    pub const fn new(codec: Codec, chunk_bytes: u32) -> Result<ChunkPlan, InvalidChunkSize> {
        let bytes = chunk_bytes as usize;
        if !chunk_bytes.is_power_of_two() || bytes < MIN_CHUNK_BYTES || bytes > MAX_CHUNK_BYTES {
            return Err(InvalidChunkSize { chunk_bytes });
        }
        Ok(ChunkPlan { codec, chunk_bytes })
    }

    /// The plan of plain zram and zswap: each page on its own.
    pub const fn page(codec: Codec) -> ChunkPlan {
        ChunkPlan {
            codec,
            chunk_bytes: PAGE_BYTES as u32,
        }
    }

    /// The codec.
    pub const fn codec(self) -> Codec {
        self.codec
    }

    /// Bytes of a chunk: a power of two from [`MIN_CHUNK_BYTES`] to [`MAX_CHUNK_BYTES`].
    pub const fn chunk_bytes(self) -> u32 {
        self.chunk_bytes
    }

    /// Whether chunks are smaller than a page.
    pub const fn is_sub_page(self) -> bool {
        (self.chunk_bytes as usize) < PAGE_BYTES
    }

    /// Pages that one object holds at most; 1 for chunks up to a page.
    pub const fn max_pages(self) -> usize {
        if self.is_sub_page() {
            1
        } else {
            self.chunk_bytes as usize / PAGE_BYTES
        }
    }

    /// Pieces that can be decoded on their own in an object; 1 for chunks of a page or more.
    pub const fn pieces(self) -> usize {
        if self.is_sub_page() {
            PAGE_BYTES / self.chunk_bytes as usize
        } else {
            1
        }
    }

    /// Bytes of output room that encoding `n_pages` pages needs.
    ///
    /// It includes work room behind the object: the object itself never takes more than
    /// `n_pages * 4096` bytes.
    pub const fn max_encoded_bytes(self, n_pages: usize) -> usize {
        if self.is_sub_page() {
            let chunk = self.chunk_bytes as usize;
            let all_but_last = PAGE_BYTES - chunk;
            self.length_table_bytes() + all_but_last + self.codec.bound_bytes(chunk)
        } else {
            self.codec.bound_bytes(n_pages * PAGE_BYTES)
        }
    }

    /// Bytes of a length in the table of a sub-page object: one for chunks up to 256 bytes, else two.
    pub const fn length_bytes(self) -> usize {
        if self.chunk_bytes <= 256 { 1 } else { 2 }
    }

    /// Bytes of the table of lengths in front of a sub-page object.
    pub const fn length_table_bytes(self) -> usize {
        self.pieces() * self.length_bytes()
    }
}

/// A chunk size that is not a power of two from [`MIN_CHUNK_BYTES`] to [`MAX_CHUNK_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("chunk size {chunk_bytes} is not a power of two from 128 to 131072")]
pub struct InvalidChunkSize {
    /// The size asked for, in bytes.
    pub chunk_bytes: u32,
}
