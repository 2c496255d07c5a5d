//! Whether the entropy of a page's first 512 bytes tells how well it compresses (ezswap Figures 5 and 6).

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmswap_codec::{ChunkPlan, Codec, Scratch, encode_contiguous};
use warmswap_page::PAGE_BYTES;
use warmswap_policy::admission::SAMPLE_BYTES;
use warmswap_policy::admission::entropy::estimate_bytes;
use warmswap_trace::ContentId;

use crate::error::StudyError;
use crate::mean::mean;
use crate::paper::Published;
use crate::run::{OnProgress, Progress};
use crate::subject::Subject;

/// Correlation of the entropy of 512 bytes with the entropy of the whole page.
pub const PAPER_512: Published = Published::new(0.955, "ezswap, Figure 5 and section III-B");
/// Correlation of the entropy of 256 bytes with the entropy of the whole page.
pub const PAPER_256: Published = Published::new(0.938, "ezswap, section III-B");
/// Correlation of the entropy of 512 bytes with the compressed size, by lzo.
pub const PAPER_SIZE: Published = Published::new(0.88, "ezswap, Figure 6 and section III-B");
/// Time of the estimate, lzo's compression of the page being 1.
pub const PAPER_TIME: Published = Published::new(0.14, "ezswap, section III-B");
/// The same by another paper.
pub const ARIADNE_TIME: Published = Published::new(0.167, "Ariadne, section 7");

/// Bins of the estimated size.
pub const BINS: usize = 8;

/// The codecs that are compared: the paper's, and ours.
pub const CODECS: [Codec; 2] = [Codec::Lzo, Codec::Lz4];

/// One codec against the estimate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CodecRow {
    /// The codec.
    #[schemars(with = "String")]
    pub codec: Codec,
    /// Pearson's coefficient of estimated and real size; `None` when one of them does not vary.
    pub correlation: Option<f64>,
    /// Mean of how far the estimate is from the real size, in bytes.
    pub mean_error_bytes: f64,
    /// Nanoseconds of CPU time to compress a page, in the mean.
    pub compress_ns: f64,
}

/// Pages of about the same estimated size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bin {
    /// How many they are.
    pub pages: u64,
    /// Mean entropy of the whole pages, bits a byte.
    pub entropy: Option<f64>,
    /// Mean size by each of [`CODECS`], in bytes.
    pub bytes: [Option<f64>; CODECS.len()],
}

/// The distinct pages of one trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EntropyStudy {
    /// The trace.
    pub trace: String,
    /// Distinct pages, those filled with one byte included.
    pub pages: u64,
    /// Pearson's coefficient of the entropy of the first 512 bytes and of the whole page.
    pub head_512: Option<f64>,
    /// The same of the first 256 bytes.
    pub head_256: Option<f64>,
    /// Nanoseconds of CPU time of an estimate, in the mean.
    pub estimate_ns: f64,
    /// Against codecs.
    pub codecs: Vec<CodecRow>,
    /// By estimated size, in eighths of a page.
    pub bins: Vec<Bin>,
}

/// Bits a byte.
fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    bytes
        .iter()
        .for_each(|&byte| counts[usize::from(byte)] += 1);
    let share = |&count: &u32| f64::from(count) / bytes.len() as f64;
    let present = counts.iter().filter(|&&count| count > 0).map(share);
    -present.map(|p| p * p.log2()).sum::<f64>()
}

/// Pearson's product-moment coefficient of pairs; `None` when one side does not vary.
fn pearson(pairs: impl Iterator<Item = (f64, f64)> + Clone) -> Option<f64> {
    let mean_x = mean(pairs.clone().map(|(x, _)| x))?;
    let mean_y = mean(pairs.clone().map(|(_, y)| y))?;
    let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
    for (x, y) in pairs {
        let (dx, dy) = (x - mean_x, y - mean_y);
        xy += dx * dy;
        xx += dx * dx;
        yy += dy * dy;
    }
    (xx > 0.0 && yy > 0.0).then(|| xy / (xx * yy).sqrt())
}

/// CPU time of this thread.
fn thread_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// What is known of one page.
struct Measured {
    estimate: u32,
    head_512: f64,
    head_256: f64,
    whole: f64,
    bytes: [u32; CODECS.len()],
}

/// Pages that are measured together, so that reading the clock does not count.
const BATCH: usize = 64;

/// Measures up to `max_pages` distinct pages of a trace, evenly spread over it. One thread.
///
/// # Errors
/// [`StudyError::NoContents`], a content that cannot be read, or a codec that fails.
pub fn entropy_study(
    subject: &Subject,
    max_pages: u64,
    on_progress: OnProgress<'_>,
) -> Result<EntropyStudy, StudyError> {
    let contents = subject.contents()?;
    let count = subject.reader.summary().contents;
    let take = count.min(max_pages);
    let mut pages = Vec::with_capacity(take as usize);
    let mut scratch = Scratch::new();
    let (mut estimate_time, mut codec_times) = (Duration::ZERO, [Duration::ZERO; CODECS.len()]);
    let ids: Vec<u64> = (0..take).map(|nth| nth * count / take).collect();
    for ids in ids.chunks(BATCH) {
        subject.reader.check_stop()?;
        let mut batch = vec![[0; PAGE_BYTES]; ids.len()];
        for (&id, page) in ids.iter().zip(&mut batch) {
            let mut room = [0; PAGE_BYTES];
            let read = contents.get(ContentId(id as u32), &mut room);
            *page = *read.map_err(|source| StudyError::Contents {
                trace: subject.name.clone(),
                source: Box::new(source),
            })?;
        }
        let head = |page: &[u8; PAGE_BYTES]| -> [u8; SAMPLE_BYTES] {
            *page.first_chunk().expect("a page is longer")
        };
        let begin = thread_time();
        let estimates: Vec<u32> = batch
            .iter()
            .map(|page| estimate_bytes(&head(page)))
            .collect();
        estimate_time += thread_time() - begin;
        let mut sizes = vec![[0; CODECS.len()]; batch.len()];
        for (at, codec) in CODECS.into_iter().enumerate() {
            let plan = ChunkPlan::page(codec);
            let mut out = vec![0; plan.max_encoded_bytes(1)];
            let begin = thread_time();
            for (page, sizes) in batch.iter().zip(&mut sizes) {
                let encoded = encode_contiguous(&mut scratch, plan, page, &mut out);
                let encoded = encoded.map_err(|error| StudyError::Codec {
                    plan: plan.to_string(),
                    reason: error.to_string(),
                })?;
                sizes[at] = encoded.bytes as u32;
            }
            codec_times[at] += thread_time() - begin;
        }
        for ((page, estimate), bytes) in batch.iter().zip(estimates).zip(sizes) {
            pages.push(Measured {
                estimate,
                head_512: entropy(&page[..512]),
                head_256: entropy(&page[..256]),
                whole: entropy(page),
                bytes,
            });
        }
        on_progress(Progress {
            done: pages.len() as u64,
            total: take,
        });
    }
    let per_page = |time: Duration| time.as_secs_f64() * 1e9 / pages.len().max(1) as f64;
    let codecs = CODECS.into_iter().enumerate().map(|(at, codec)| CodecRow {
        codec,
        correlation: pearson(
            pages
                .iter()
                .map(|p| (p.estimate.into(), p.bytes[at].into())),
        ),
        mean_error_bytes: mean(
            pages
                .iter()
                .map(|p| p.estimate.abs_diff(p.bytes[at]).into()),
        )
        .unwrap_or_default(),
        compress_ns: per_page(codec_times[at]),
    });
    Ok(EntropyStudy {
        trace: subject.name.clone(),
        pages: pages.len() as u64,
        head_512: pearson(pages.iter().map(|page| (page.head_512, page.whole))),
        head_256: pearson(pages.iter().map(|page| (page.head_256, page.whole))),
        estimate_ns: per_page(estimate_time),
        codecs: codecs.collect(),
        bins: (0..BINS).map(|bin| bin_of(&pages, bin)).collect(),
    })
}

fn bin_of(pages: &[Measured], bin: usize) -> Bin {
    let width = PAGE_BYTES / BINS;
    let of_bin = || {
        pages
            .iter()
            .filter(move |page| (page.estimate as usize / width).min(BINS - 1) == bin)
    };
    Bin {
        pages: of_bin().count() as u64,
        entropy: mean(of_bin().map(|page| page.whole)),
        bytes: std::array::from_fn(|at| mean(of_bin().map(|page| page.bytes[at].into()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Script;

    #[test]
    fn correlations_are_those_of_a_textbook() {
        let line = [(1.0, 3.0), (2.0, 5.0), (4.0, 9.0)];
        assert!((pearson(line.into_iter()).unwrap() - 1.0).abs() < 1e-12);
        // The sums are 3, 5 and 2: 3 / sqrt(10).
        let loose = [(0.0, 0.0), (1.0, 2.0), (2.0, 1.0), (3.0, 3.0), (4.0, 4.0)];
        assert!((pearson(loose.into_iter()).unwrap() - 0.9).abs() < 1e-12);
        assert_eq!(pearson([(1.0, 1.0), (1.0, 2.0)].into_iter()), None);
        assert_eq!(pearson(std::iter::empty()), None);
        assert_eq!((entropy(&[0; 64]), entropy(&[1, 2, 3, 4])), (0.0, 2.0));
    }

    #[test]
    fn pages_of_more_and_more_noise_are_estimated_in_their_order() {
        let mut script = Script::new(1);
        let mut state = 1_u64;
        for n in 0..64_u64 {
            let mut page = [0; PAGE_BYTES];
            // Of every 64 bytes, n are noise and the rest zeros.
            for (at, byte) in (0..).zip(&mut page) {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                *byte = if at % 64 < n { (state >> 33) as u8 } else { 0 };
            }
            script.content(0, n, &page);
        }
        let study = entropy_study(&script.subject(), u64::MAX, &|_| {}).unwrap();
        assert_eq!(study.pages, 64);
        assert!(study.head_512.unwrap() > 0.99 && study.head_256.unwrap() > 0.97);
        assert!(
            study
                .codecs
                .iter()
                .all(|row| row.correlation.unwrap() > 0.8)
        );
        assert_eq!(study.bins.iter().map(|bin| bin.pages).sum::<u64>(), 64);
        let last = study.bins[BINS - 1];
        assert!(last.entropy.unwrap() > 7.0 && last.bytes[0].unwrap() > 3500.0);
    }
}
