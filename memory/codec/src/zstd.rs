//! Zstandard, by the C library, with contexts that are kept from call to call.
//!
//! A compression context frees and reallocates its work memory after some calls that need less
//! than a third of it. One context for each range of source sizes keeps every context's need
//! within that factor, so none of them allocates after its first use. A context is made when it is
//! first used, or when it is asked for: a user that only decompresses, or of another codec, has none.

use ::zstd::zstd_safe::{CCtx, CParameter, DCtx};

use crate::MAX_CHUNK_BYTES;

/// The largest source, in bytes, of each compression context.
const RANGES: [usize; 3] = [4 * 1024, 16 * 1024, MAX_CHUNK_BYTES];

/// The contexts of one thread.
pub(crate) struct Contexts {
    level: i32,
    compress: [Option<CCtx<'static>>; RANGES.len()],
    decompress: DCtx<'static>,
}

/// A context for sources of up to `max_bytes`, with the memory that it needs for them.
fn compressor(level: i32, max_bytes: usize) -> CCtx<'static> {
    let sample = vec![0; max_bytes];
    let mut sink = vec![0; crate::Codec::Zstd.bound_bytes(max_bytes)];
    let mut context = CCtx::create();
    // Levels out of range are clamped by the library, so this cannot fail; if it did, the
    // context would keep the library's default level.
    let _ = context.set_parameter(CParameter::CompressionLevel(level));
    let _ = context.compress2(&mut sink[..], &sample[..]);
    context
}

impl Contexts {
    /// Contexts that compress at this level, once they are needed.
    pub(crate) fn new(level: i32) -> Contexts {
        Contexts {
            level,
            compress: [const { None }; RANGES.len()],
            decompress: DCtx::create(),
        }
    }

    /// Makes those that compress now, so that no call allocates.
    pub(crate) fn prepare(&mut self) {
        self.compress = RANGES.map(|max_bytes| Some(compressor(self.level, max_bytes)));
    }

    /// Compresses `src` into `dst`; `None` when it does not fit. What was not prepared is made by the
    /// first call for each range of sizes.
    pub(crate) fn compress(&mut self, src: &[u8], dst: &mut [u8]) -> Option<usize> {
        let range = RANGES.iter().position(|&max| src.len() <= max)?;
        self.compress[range]
            .get_or_insert_with(|| compressor(self.level, RANGES[range]))
            .compress2(dst, src)
            .ok()
    }

    /// Decompresses `src` into `dst`; the decoded length, or `None` when the input is malformed.
    pub(crate) fn decompress(&mut self, src: &[u8], dst: &mut [u8]) -> Option<usize> {
        self.decompress.decompress(dst, src).ok()
    }
}
