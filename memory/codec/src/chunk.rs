//! Chunks: how pages become the objects that a compressed pool stores.
//!
//! A chunk smaller than a page (Ariadne, sections 3 and 4.3: data that is needed soon) cuts each
//! page in pieces that are compressed one by one. The object of a page is then a table of the
//! pieces' lengths followed by the pieces. A table entry is one byte for chunks up to 256 bytes
//! and two (little-endian) above; 0 stands for a piece that is stored as it is.
//!
//! A chunk of one page or more joins up to `chunk_bytes / 4096` pages in one compressed block,
//! which is the object.
//!
//! An object that would not be smaller than its pages is the pages themselves. No header says so:
//! the length does.

use warmswap_page::{ChunkPlan, Codec, InvalidChunkSize, PAGE_BYTES};

use crate::{CodecError, Scratch};

/// Checks that `bytes` are whole pages, and as many as one object may hold.
fn check_pages(plan: ChunkPlan, bytes: usize) -> Result<(), ChunkError> {
    let max_bytes = plan.max_pages() * PAGE_BYTES;
    if bytes == 0 || !bytes.is_multiple_of(PAGE_BYTES) || bytes > max_bytes {
        return Err(ChunkError::PageCount { bytes, max_bytes });
    }
    Ok(())
}

/// Entry `piece` of a length table: the stored bytes of that piece.
fn stored_bytes(plan: ChunkPlan, table: &[u8], piece: usize) -> usize {
    let stored = match plan.length_bytes() {
        1 => usize::from(table[piece]),
        _ => usize::from(u16::from_le_bytes([table[2 * piece], table[2 * piece + 1]])),
    };
    if stored == 0 {
        plan.chunk_bytes() as usize
    } else {
        stored
    }
}

fn set_stored_bytes(plan: ChunkPlan, table: &mut [u8], piece: usize, stored: usize) {
    let entry = if stored == plan.chunk_bytes() as usize {
        0
    } else {
        stored as u16
    };
    let at = piece * plan.length_bytes();
    let bytes = entry.to_le_bytes();
    table[at..at + plan.length_bytes()].copy_from_slice(&bytes[..plan.length_bytes()]);
}

/// Whether an object is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodedKind {
    /// The object is smaller than its pages.
    Compressed,
    /// The pages did not shrink: the object is the pages themselves.
    Raw,
}

/// What [`encode`] wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// Whether the object is compressed.
    pub kind: EncodedKind,
    /// Bytes of the object, at the front of the output.
    pub bytes: usize,
}

/// Why a chunk could not be encoded or decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChunkError {
    /// The chunk size is not a power of two from 128 bytes to 128 KiB.
    #[error(transparent)]
    ChunkSize(#[from] InvalidChunkSize),
    /// The data is not whole pages, none at all, or more than one chunk.
    #[error("{bytes} bytes are not whole pages or more than a chunk of {max_bytes}")]
    PageCount {
        /// Bytes given.
        bytes: usize,
        /// Bytes that one object holds at most.
        max_bytes: usize,
    },
    /// The output is shorter than [`ChunkPlan::max_encoded_bytes`].
    #[error("output has {have_bytes} bytes, encoding needs {need_bytes}")]
    OutputTooSmall {
        /// Bytes given.
        have_bytes: usize,
        /// Bytes needed.
        need_bytes: usize,
    },
    /// The lengths in the table do not add up to the object.
    #[error("length table does not match the object of {encoded_bytes} bytes")]
    Table {
        /// Bytes of the object.
        encoded_bytes: usize,
    },
    /// A codec refused its input.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// Encodes `pages` as one object at the front of `out`.
///
/// Several pages are joined in the scratch first, at the cost of a copy; data that already lies
/// in one piece is better given to [`encode_contiguous`].
///
/// # Errors
///
/// [`ChunkError::PageCount`] for no page or more than [`ChunkPlan::max_pages`], and
/// [`ChunkError::OutputTooSmall`] when `out` is shorter than [`ChunkPlan::max_encoded_bytes`].
pub fn encode(
    scratch: &mut Scratch,
    plan: ChunkPlan,
    pages: &[&[u8; PAGE_BYTES]],
    out: &mut [u8],
) -> Result<Encoded, ChunkError> {
    if let [page] = pages {
        return encode_contiguous(scratch, plan, *page, out);
    }
    let bytes = pages.len() * PAGE_BYTES;
    check_pages(plan, bytes)?;
    // The staging area is taken out for as long as the scratch compresses it.
    let mut staging = std::mem::take(&mut scratch.staging);
    for (page, room) in pages.iter().zip(staging.as_chunks_mut().0) {
        *room = **page;
    }
    let result = encode_contiguous(scratch, plan, &staging[..bytes], out);
    scratch.staging = staging;
    result
}

/// Encodes the pages that lie one after the other in `bytes` as one object at the front of `out`.
///
/// # Errors
///
/// As [`encode`]; [`ChunkError::PageCount`] also when `bytes` is not a multiple of the page size.
pub fn encode_contiguous(
    scratch: &mut Scratch,
    plan: ChunkPlan,
    bytes: &[u8],
    out: &mut [u8],
) -> Result<Encoded, ChunkError> {
    check_pages(plan, bytes.len())?;
    let need_bytes = plan.max_encoded_bytes(bytes.len() / PAGE_BYTES);
    if out.len() < need_bytes {
        return Err(ChunkError::OutputTooSmall {
            have_bytes: out.len(),
            need_bytes,
        });
    }
    let encoded = if plan.is_sub_page() {
        encode_pieces(scratch, plan, bytes, out)
    } else {
        scratch.compress(plan.codec(), bytes, out)
    };
    match encoded {
        Some(len) if len < bytes.len() => Ok(Encoded {
            kind: EncodedKind::Compressed,
            bytes: len,
        }),
        _ => {
            out[..bytes.len()].copy_from_slice(bytes);
            Ok(Encoded {
                kind: EncodedKind::Raw,
                bytes: bytes.len(),
            })
        }
    }
}

/// Encodes one page piece by piece; the length of table and pieces, or `None` as soon as that
/// reaches the page size.
fn encode_pieces(
    scratch: &mut Scratch,
    plan: ChunkPlan,
    page: &[u8],
    out: &mut [u8],
) -> Option<usize> {
    let (table, payload) = out.split_at_mut(plan.length_table_bytes());
    let mut at = 0;
    for (i, piece) in page.chunks_exact(plan.chunk_bytes() as usize).enumerate() {
        let stored = match scratch.compress(plan.codec(), piece, &mut payload[at..]) {
            Some(len) if len < piece.len() => len,
            _ => {
                payload[at..at + piece.len()].copy_from_slice(piece);
                piece.len()
            }
        };
        set_stored_bytes(plan, table, i, stored);
        at += stored;
        if table.len() + at >= page.len() {
            return None;
        }
    }
    Some(table.len() + at)
}

/// Decodes an object into `out`, whose length says how many pages it holds.
///
/// # Errors
///
/// [`ChunkError::PageCount`] when `out` cannot be what the object was made from; otherwise
/// [`ChunkError::Table`] or [`ChunkError::Codec`] when the object is malformed. `out` is
/// unspecified after an error.
pub fn decode(
    scratch: &mut Scratch,
    plan: ChunkPlan,
    object: &[u8],
    out: &mut [u8],
) -> Result<(), ChunkError> {
    check_pages(plan, out.len())?;
    if object.len() == out.len() {
        out.copy_from_slice(object);
        return Ok(());
    }
    if !plan.is_sub_page() {
        return Ok(scratch.decompress(plan.codec(), object, out)?);
    }
    let malformed = ChunkError::Table {
        encoded_bytes: object.len(),
    };
    let (table, mut payload) = object
        .split_at_checked(plan.length_table_bytes())
        .ok_or(malformed)?;
    for (i, piece) in out
        .chunks_exact_mut(plan.chunk_bytes() as usize)
        .enumerate()
    {
        let stored = stored_bytes(plan, table, i);
        let encoded = payload.split_off(..stored).ok_or(malformed)?;
        decode_stored(scratch, plan.codec(), encoded, piece)?;
    }
    if payload.is_empty() {
        Ok(())
    } else {
        Err(malformed)
    }
}

/// Decodes one piece as stored: raw when it has the size of the output.
fn decode_stored(
    scratch: &mut Scratch,
    codec: Codec,
    encoded: &[u8],
    out: &mut [u8],
) -> Result<(), ChunkError> {
    if encoded.len() == out.len() {
        out.copy_from_slice(encoded);
        return Ok(());
    }
    Ok(scratch.decompress(codec, encoded, out)?)
}
