//! LZ4 block format, by the C library.
//!
//! The C compressor keeps its 16 KiB of work memory on the stack, and the decompressor needs none.

use ::lz4::block::{CompressionMode, compress_to_buffer, decompress_to_buffer};

use crate::Codec;

/// As the kernel's `lz4` (`LZ4_ACCELERATION_DEFAULT`).
const ACCELERATION: i32 = 1;

/// Compresses `src` into `dst`, going through `bounce` when `dst` is shorter than the bound.
///
/// The library reports a full destination by an error that allocates, so it always gets one that
/// cannot become full.
pub(crate) fn compress(src: &[u8], dst: &mut [u8], bounce: &mut [u8]) -> Option<usize> {
    let mode = Some(CompressionMode::FAST(ACCELERATION));
    if dst.len() >= Codec::Lz4.bound_bytes(src.len()) {
        return compress_to_buffer(src, mode, false, dst).ok();
    }
    let len = compress_to_buffer(src, mode, false, bounce).ok()?;
    dst.get_mut(..len)?.copy_from_slice(&bounce[..len]);
    Some(len)
}

/// Decompresses `src` into `dst`; the decoded length, or `None` when the input is malformed.
pub(crate) fn decompress(src: &[u8], dst: &mut [u8]) -> Option<usize> {
    let len = i32::try_from(dst.len()).ok()?;
    i32::try_from(src.len()).ok()?;
    decompress_to_buffer(src, Some(len), dst).ok()
}
