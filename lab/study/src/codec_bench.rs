//! What codecs cost on a sample of pages: the one measuring loop of the studies.
//!
//! One thread. Every pass runs all plans one after the other, so that what disturbs the machine disturbs
//! all of them; of the passes the median counts.

use std::time::Instant;

use warmswap_codec::{
    ChunkPlan, MAX_CHUNK_BYTES, Scratch, decode, encode_contiguous, fill, same_filled,
};
use warmswap_page::PAGE_BYTES;
use warmswap_page::quantile::Sorted;

use crate::error::StudyError;
use crate::run::{OnProgress, Progress};
use crate::sample::Sample;

/// What one plan took for the whole sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlanCost {
    pub plan: ChunkPlan,
    /// Median over the passes.
    pub compress_ns: u64,
    /// Median over the passes.
    pub decompress_ns: u64,
    /// Bytes of all objects.
    pub compressed_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Bytes of the object.
    Bytes(usize),
    Filled(u64),
}

/// A sample, and room for its objects and for what they are decompressed to.
pub(crate) struct CodecBench<'a> {
    sample: &'a Sample,
    /// Whether chunks filled with one word are kept as that word, as zram does.
    same_filled: bool,
    scratch: Scratch,
    encoded: Vec<u8>,
    objects: Vec<Kind>,
    decoded: Vec<u8>,
}

impl<'a> CodecBench<'a> {
    pub(crate) fn new(sample: &'a Sample, same_filled: bool) -> Self {
        let bytes = sample.bytes() as usize;
        Self {
            sample,
            same_filled,
            scratch: Scratch::new(),
            // No object is larger than its pages; behind the last one an encoder needs work room. All
            // is written once, so that no pass pays for first touches.
            encoded: vec![0xff; bytes + 2 * MAX_CHUNK_BYTES],
            objects: Vec::with_capacity(bytes / PAGE_BYTES),
            decoded: vec![0xff; MAX_CHUNK_BYTES],
        }
    }

    /// Runs all plans `passes` times, and checks once that each gives back what it was given.
    ///
    /// # Errors
    /// [`StudyError::Codec`].
    pub(crate) fn measure(
        &mut self,
        plans: &[ChunkPlan],
        passes: u32,
        on_progress: OnProgress<'_>,
    ) -> Result<Vec<PlanCost>, StudyError> {
        let mut times = vec![(Vec::new(), Vec::new()); plans.len()];
        let mut compressed_bytes = vec![0; plans.len()];
        let total = u64::from(passes.max(1)) * plans.len() as u64;
        let mut done = 0;
        for pass in 0..passes.max(1) {
            for (index, &plan) in plans.iter().enumerate() {
                self.sample.check_stop()?;
                times[index].0.push(self.compress(plan)?);
                times[index].1.push(self.decompress(plan)?);
                if pass == 0 {
                    self.check(plan)?;
                    compressed_bytes[index] = self.compressed_bytes();
                }
                done += 1;
                on_progress(Progress { done, total });
            }
        }
        let median = |times| Sorted::by(times, u64::cmp).median().unwrap_or_default();
        let costs = plans.iter().zip(times).zip(compressed_bytes);
        Ok(costs
            .map(|((&plan, times), compressed_bytes)| PlanCost {
                plan,
                compress_ns: median(times.0),
                decompress_ns: median(times.1),
                compressed_bytes,
            })
            .collect())
    }

    /// Compresses the sample; nanoseconds.
    pub(crate) fn compress(&mut self, plan: ChunkPlan) -> Result<u64, StudyError> {
        self.objects.clear();
        let mut at = 0;
        let begin = Instant::now();
        for chunk in self.sample.chunks(plan.max_pages()) {
            if self.same_filled
                && let Some(word) = same_filled(chunk)
            {
                self.objects.push(Kind::Filled(word));
                continue;
            }
            let room = &mut self.encoded[at..];
            let encoded = encode_contiguous(&mut self.scratch, plan, chunk, room)
                .map_err(|error| failed(plan, error))?;
            self.objects.push(Kind::Bytes(encoded.bytes));
            at += encoded.bytes;
        }
        Ok(begin.elapsed().as_nanos() as u64)
    }

    /// Decompresses what the last [`Self::compress`], with the same plan, made; nanoseconds.
    fn decompress(&mut self, plan: ChunkPlan) -> Result<u64, StudyError> {
        let begin = Instant::now();
        self.decode_all(plan, |_, _| true)?;
        Ok(begin.elapsed().as_nanos() as u64)
    }

    fn check(&mut self, plan: ChunkPlan) -> Result<(), StudyError> {
        self.decode_all(plan, |chunk, decoded| chunk == decoded)
    }

    fn decode_all(
        &mut self,
        plan: ChunkPlan,
        is_right: impl Fn(&[u8], &[u8]) -> bool,
    ) -> Result<(), StudyError> {
        let mut at = 0;
        let chunks = self.sample.chunks(plan.max_pages());
        for (chunk, &object) in chunks.zip(&self.objects) {
            let out = &mut self.decoded[..chunk.len()];
            match object {
                Kind::Filled(word) => fill(word, out),
                Kind::Bytes(bytes) => {
                    let object = &self.encoded[at..at + bytes];
                    decode(&mut self.scratch, plan, object, out)
                        .map_err(|error| failed(plan, error))?;
                    at += bytes;
                }
            }
            if !is_right(chunk, out) {
                return Err(failed(plan, "other bytes came back"));
            }
        }
        Ok(())
    }

    fn compressed_bytes(&self) -> u64 {
        let bytes = self.objects.iter().map(|object| match object {
            Kind::Bytes(bytes) => *bytes as u64,
            Kind::Filled(_) => 0,
        });
        bytes.sum()
    }
}

fn failed(plan: ChunkPlan, reason: impl ToString) -> StudyError {
    StudyError::Codec {
        plan: plan.to_string(),
        reason: reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Script, page};
    use warmswap_codec::Codec;

    #[test]
    fn objects_are_what_the_codec_makes_and_filled_chunks_take_no_bytes() {
        let mut script = Script::new(1);
        script.content(0, 0, &[7; PAGE_BYTES]);
        (1..40).for_each(|n| {
            script.content(0, n, &page(n));
        });
        let sample = Sample::of(&script.subject(), u64::MAX).unwrap();
        let plan = ChunkPlan::page(Codec::Lz4);
        let mut with = CodecBench::new(&sample, true);
        let costs = with.measure(&[plan], 2, &|_| {}).unwrap();
        let mut without = CodecBench::new(&sample, false);
        let all = without.measure(&[plan], 1, &|_| {}).unwrap();
        assert!(costs[0].compressed_bytes < all[0].compressed_bytes);
        assert_eq!(with.objects.len(), 40);
        assert!(matches!(
            with.objects[0],
            Kind::Filled(0x0707_0707_0707_0707)
        ));
    }
}
