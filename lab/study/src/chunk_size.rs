//! What chunk size does to ratio and speed (Ariadne Figure 6).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmswap_codec::{ChunkPlan, Codec, MAX_CHUNK_BYTES, MIN_CHUNK_BYTES};

use crate::codec_bench::CodecBench;
use crate::error::StudyError;
use crate::paper::Published;
use crate::run::OnProgress;
use crate::sample::Sample;
use warmswap_columns::Described;

/// Data ratio at the smallest chunk size, 128 B.
pub const PAPER_RATIO_128B: Published = Published::new(1.7, "Ariadne, Figure 6 and section 3");

/// Data ratio at the largest chunk size, 128 KiB.
pub const PAPER_RATIO_128K: Published = Published::new(3.9, "Ariadne, Figure 6 and section 3");

/// How many times faster compression is at 128 B than at 128 KiB, with LZ4.
pub const PAPER_SPEEDUP_LZ4: Published = Published::new(59.2, "Ariadne, Figure 6 and section 3");

/// How many times faster compression is at 128 B than at 128 KiB, with LZO.
pub const PAPER_SPEEDUP_LZO: Published = Published::new(41.8, "Ariadne, Figure 6 and section 3");

/// One codec at one chunk size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Described)]
#[column(data_ratio = self.data_ratio(), ratio, measured, paper = self.paper())]
#[column(compress_ns = self.compress_ns as f64 * self.per_mib(), "compression of a MiB", measured)]
#[column(decompress_ns = self.decompress_ns as f64 * self.per_mib(), "decompression of a MiB", measured)]
#[column(compress_bytes_per_s = self.compress_mb_per_s() * 1e6, bytes, "compressed in a second", measured)]
#[column(decompress_bytes_per_s = self.decompress_mb_per_s() * 1e6, bytes, "decompressed in a second", measured)]
pub struct ChunkSizeRow {
    /// The codec.
    #[schemars(with = "String")]
    #[column(text, with = named)]
    pub codec: Codec,
    /// Bytes that are compressed at once.
    #[column]
    pub chunk_bytes: u32,
    /// Bytes of the pages.
    pub original_bytes: u64,
    /// Bytes that they were compressed to, with the length tables of chunks smaller than a page.
    pub compressed_bytes: u64,
    /// Nanoseconds to compress them: the median pass.
    pub compress_ns: u64,
    /// Nanoseconds to decompress them: the median pass.
    pub decompress_ns: u64,
}

fn named(codec: &Codec) -> &'static str {
    codec.name()
}

impl ChunkSizeRow {
    fn per_mib(&self) -> f64 {
        (1 << 20) as f64 / self.original_bytes as f64
    }

    fn paper(&self) -> Option<Published> {
        let is_of_paper = matches!(self.codec, Codec::Lz4 | Codec::Lzo);
        match self.chunk_bytes {
            128 if is_of_paper => Some(PAPER_RATIO_128B),
            131_072 if is_of_paper => Some(PAPER_RATIO_128K),
            _ => None,
        }
    }

    /// Original bytes for each compressed byte.
    pub fn data_ratio(&self) -> f64 {
        self.original_bytes as f64 / self.compressed_bytes as f64
    }

    /// 10^6 bytes of pages that are compressed in a second.
    pub fn compress_mb_per_s(&self) -> f64 {
        self.original_bytes as f64 * 1e3 / self.compress_ns as f64
    }

    /// 10^6 bytes of pages that are decompressed in a second.
    pub fn decompress_mb_per_s(&self) -> f64 {
        self.original_bytes as f64 * 1e3 / self.decompress_ns as f64
    }
}

/// All codecs at all chunk sizes, on the same pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChunkSizes {
    /// Passes; their median counts.
    pub passes: u32,
    /// By codec, then by size.
    pub rows: Vec<ChunkSizeRow>,
}

impl ChunkSizes {
    /// How many times faster a codec compresses at 128 B than at 128 KiB; `None` when it was not measured.
    pub fn speedup_of_small(&self, codec: Codec) -> Option<f64> {
        let at = |bytes: usize| {
            let mut rows = self.rows.iter();
            rows.find(|row| row.codec == codec && row.chunk_bytes as usize == bytes)
        };
        let (small, large) = (at(MIN_CHUNK_BYTES)?, at(MAX_CHUNK_BYTES)?);
        Some(large.compress_ns as f64 / small.compress_ns as f64)
    }
}

/// The plans of `codecs` at every chunk size from `min_chunk_bytes` to 128 KiB.
pub(crate) fn plans(codecs: &[Codec], min_chunk_bytes: usize) -> Vec<ChunkPlan> {
    let sizes = || {
        let doubled = |bytes: &u32| (*bytes < MAX_CHUNK_BYTES as u32).then_some(bytes * 2);
        std::iter::successors(Some(min_chunk_bytes as u32), doubled)
    };
    let plans = codecs
        .iter()
        .flat_map(|&codec| sizes().filter_map(move |bytes| ChunkPlan::new(codec, bytes).ok()));
    plans.collect()
}

/// Measures `codecs` at 128 B to 128 KiB on one thread. Pages filled with one word are compressed like
/// any other. `on_progress` counts passes of plans.
///
/// # Errors
/// [`StudyError::Codec`], when a codec does not give back what it was given.
pub fn chunk_sizes(
    sample: &Sample,
    codecs: &[Codec],
    passes: u32,
    on_progress: OnProgress<'_>,
) -> Result<ChunkSizes, StudyError> {
    let plans = plans(codecs, MIN_CHUNK_BYTES);
    let costs = CodecBench::new(sample, false).measure(&plans, passes, on_progress)?;
    let rows = costs.into_iter().map(|cost| ChunkSizeRow {
        codec: cost.plan.codec(),
        chunk_bytes: cost.plan.chunk_bytes(),
        original_bytes: sample.bytes(),
        compressed_bytes: cost.compressed_bytes,
        compress_ns: cost.compress_ns,
        decompress_ns: cost.decompress_ns,
    });
    Ok(ChunkSizes {
        passes: passes.max(1),
        rows: rows.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::synthetic;

    #[test]
    fn every_size_is_measured_and_larger_chunks_take_fewer_bytes() {
        let sample = Sample::of(&synthetic(1000), 1 << 20).unwrap();
        let sizes = chunk_sizes(&sample, &[Codec::Lz4, Codec::Bdi], 1, &|_| {}).unwrap();
        let bytes: Vec<_> = sizes.rows[..11].iter().map(|row| row.chunk_bytes).collect();
        assert_eq!(
            bytes,
            [
                128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072
            ]
        );
        assert_eq!(sizes.rows.len(), 22);
        assert!(sizes.rows[10].data_ratio() > sizes.rows[0].data_ratio());
        assert!(sizes.speedup_of_small(Codec::Lz4).is_some());
        assert_eq!(sizes.speedup_of_small(Codec::Zstd), None);
    }
}
