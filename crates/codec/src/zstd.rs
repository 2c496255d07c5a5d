//! Zstandard, by the C library, with contexts that are kept from call to call.
//!
//! A compression context frees and reallocates its work memory after some calls that need less
//! than a third of it. One context for each range of source sizes keeps every context's need
//! within that factor, so none of them allocates after its first use.

use ::zstd::zstd_safe::{CCtx, CParameter, DCtx};

use crate::MAX_CHUNK_BYTES;

/// The largest source, in bytes, of each compression context.
const RANGES: [usize; 3] = [4 * 1024, 16 * 1024, MAX_CHUNK_BYTES];

/// The contexts of one thread.
pub(crate) struct Contexts {
    compress: [CCtx<'static>; RANGES.len()],
    decompress: DCtx<'static>,
}

impl Contexts {
    /// Creates the contexts and lets each allocate what the largest source of its range needs.
    pub(crate) fn new(level: i32) -> Contexts {
        let sample = vec![0; MAX_CHUNK_BYTES];
        let mut sink = vec![0; crate::Codec::Zstd.bound_bytes(MAX_CHUNK_BYTES)];
        let compress = RANGES.map(|max_bytes| {
            let mut context = CCtx::create();
            // Levels out of range are clamped by the library, so this cannot fail; if it did, the
            // context would keep the library's default level.
            let _ = context.set_parameter(CParameter::CompressionLevel(level));
            let _ = context.compress2(&mut sink[..], &sample[..max_bytes]);
            context
        });
        Contexts {
            compress,
            decompress: DCtx::create(),
        }
    }

    /// Compresses `src` into `dst`; `None` when it does not fit.
    pub(crate) fn compress(&mut self, src: &[u8], dst: &mut [u8]) -> Option<usize> {
        let range = RANGES.iter().position(|&max| src.len() <= max)?;
        self.compress[range].compress2(dst, src).ok()
    }

    /// Decompresses `src` into `dst`; the decoded length, or `None` when the input is malformed.
    pub(crate) fn decompress(&mut self, src: &[u8], dst: &mut [u8]) -> Option<usize> {
        self.decompress.decompress(dst, src).ok()
    }
}
