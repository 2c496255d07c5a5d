//! `selective`: a page enters when that is expected to be worth more than what is in the pool (ezswap
//! section III-B).

use super::{Admission, Candidate, Verdict};
use crate::entry::{PolicyEntry, no_arguments};
use crate::stored::{StoredChunk, cost};

pub(super) const ENTRY: PolicyEntry<dyn Admission> = PolicyEntry {
    name: "selective",
    summary: "a page enters if its benefit, by the entropy of its first 512 bytes, reaches the pool's average",
    source: "ezswap section III-B, Eq. 1 to 3",
    build: |arguments| {
        no_arguments(arguments)?;
        Ok(Box::new(Selective::default()))
    },
};

/// Page-ins that the hit rate is taken over.
const WINDOW: u32 = 256;

/// Bytes that a pool's room is counted in, as z3fold does.
const CHUNK_BYTES: u64 = 64;

/// Admits what reaches the average benefit.
///
/// Expected benefit (Eq. 1): cost / ratio, with the ratio estimated from the entropy. Average benefit
/// (Eq. 2): capacity * average cost * hit rate / average ratio, where capacity is the share of the pool's
/// 64-byte chunks that hold data, the averages are over the pages in the pool, and the hit rate covers
/// the last 256 page-ins. Both sides are compared as products of integers: no division.
///
/// An empty pool, and one that was never hit, admit everything.
#[derive(Debug, Default)]
pub struct Selective {
    hits: HitWindow,
    /// Sums over the pages in the pool: their costs, the bytes of their objects, and these in whole chunks.
    cost: u64,
    bytes: u64,
    chunk_bytes: u64,
}

impl Selective {
    /// Whether a page that makes `estimated_bytes` reaches the average.
    fn reaches_average(&self, is_file: bool, estimated_bytes: u32, limit_bytes: u64) -> bool {
        // cost / estimate >= chunk_bytes / limit * (sum of costs) * hits / WINDOW / (sum of bytes)
        let product = |factors: [u64; 4]| factors.into_iter().map(u128::from).product::<u128>();
        let expected = product([cost(is_file), limit_bytes, WINDOW.into(), self.bytes]);
        let hits = self.hits.count().into();
        expected >= product([estimated_bytes.into(), self.chunk_bytes, hits, self.cost])
    }

    fn sums_of(stored: StoredChunk) -> [u64; 3] {
        let bytes = u64::from(stored.bytes);
        [
            cost(stored.is_file) * u64::from(stored.pages),
            bytes,
            bytes.next_multiple_of(CHUNK_BYTES),
        ]
    }
}

impl Admission for Selective {
    fn verdict(&mut self, _: Candidate) -> Verdict {
        Verdict::Sample
    }

    fn admits(&self, candidate: Candidate, estimated_bytes: u32, pool_limit_bytes: u64) -> bool {
        self.reaches_average(candidate.is_file, estimated_bytes, pool_limit_bytes)
    }

    fn entered(&mut self, stored: StoredChunk) {
        let [cost, bytes, chunk_bytes] = Self::sums_of(stored);
        self.cost += cost;
        self.bytes += bytes;
        self.chunk_bytes += chunk_bytes;
    }

    fn left(&mut self, stored: StoredChunk) {
        let [cost, bytes, chunk_bytes] = Self::sums_of(stored);
        self.cost -= cost;
        self.bytes -= bytes;
        self.chunk_bytes -= chunk_bytes;
    }

    fn page_in(&mut self, from_pool: bool) {
        self.hits.push(from_pool);
    }
}

/// The last 256 page-ins, a bit each.
#[derive(Debug, Default)]
struct HitWindow {
    bits: [u128; 2],
}

impl HitWindow {
    fn push(&mut self, hit: bool) {
        let [newer, older] = &mut self.bits;
        *older = *older >> 1 | *newer << 127;
        *newer = *newer >> 1 | u128::from(hit) << 127;
    }

    fn count(&self) -> u32 {
        self.bits.iter().map(|bits| bits.count_ones()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Hotness;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn stored((is_file, pages, bytes): (bool, u32, u32)) -> StoredChunk {
        StoredChunk {
            hotness: Hotness::Cold,
            is_file,
            pages,
            bytes,
        }
    }

    /// Eq. 1 and Eq. 2 as they stand. `None` where they divide by nothing.
    fn benefits(
        pool: &[(bool, u32, u32)],
        hits: &VecDeque<bool>,
        (is_file, estimate): (bool, u32),
        limit_bytes: u64,
    ) -> Option<(f64, f64)> {
        let sum = |of: fn(&(bool, u32, u32)) -> f64| pool.iter().map(of).sum::<f64>();
        let pages = sum(|&(_, pages, _)| f64::from(pages));
        let chunks = sum(|&(.., bytes)| f64::from(bytes.div_ceil(64)));
        let average_cost =
            sum(|&(file, pages, _)| if file { 1.0 } else { 4.0 } * f64::from(pages)) / pages;
        let average_ratio = sum(|&(.., bytes)| f64::from(bytes)) / (pages * 4096.0);
        let capacity = chunks / (limit_bytes as f64 / 64.0);
        let hit_rate = hits.iter().filter(|&&hit| hit).count() as f64 / 256.0;
        let ratio = f64::from(estimate) / 4096.0;
        let expected = if is_file { 1.0 } else { 4.0 } / ratio;
        let average = capacity * average_cost * hit_rate / average_ratio;
        (pages > 0.0 && average_ratio > 0.0 && estimate > 0).then_some((expected, average))
    }

    proptest! {
        #[test]
        fn decisions_are_those_of_the_equations(
            pool in prop::collection::vec((any::<bool>(), 1..4_u32, 0..4097_u32), 0..40),
            page_ins in prop::collection::vec(any::<bool>(), 0..600),
            candidate in (any::<bool>(), 0..4097_u32),
            leaving in 0..40_usize,
            limit_bytes in 1000..1_000_000_u64,
        ) {
            let mut policy = Selective::default();
            pool.iter().for_each(|&chunk| policy.entered(stored(chunk)));
            let leaving = leaving.min(pool.len());
            pool[..leaving].iter().for_each(|&chunk| policy.left(stored(chunk)));
            page_ins.iter().for_each(|&hit| policy.page_in(hit));
            let window = page_ins.iter().rev().take(256).copied().collect();
            let admitted = policy.reaches_average(candidate.0, candidate.1, limit_bytes);
            match benefits(&pool[leaving..], &window, candidate, limit_bytes) {
                Some((expected, average)) if (expected - average).abs() > 1e-9 * average => {
                    prop_assert_eq!(admitted, expected >= average);
                }
                Some(_) => {}
                None => prop_assert!(admitted || candidate.1 > 0),
            }
        }
    }

    #[test]
    fn files_are_held_to_a_higher_standard_and_a_useless_pool_admits_all() {
        let mut policy = Selective::default();
        for _ in 0..1000 {
            policy.entered(stored((false, 1, 1024)));
        }
        let admits =
            |policy: &Selective, is_file, bytes| policy.reaches_average(is_file, bytes, 1 << 20);
        assert!(
            admits(&policy, true, 4096),
            "nothing was ever found in the pool"
        );
        (0..256).for_each(|_| policy.page_in(true));
        // The average: 1000 * 1024 of 2^20 bytes used, cost 4, ratio 1/4: 15.6.
        assert!(admits(&policy, false, 1048) && !admits(&policy, false, 1050));
        assert!(admits(&policy, true, 262) && !admits(&policy, true, 263));
        (0..128).for_each(|_| policy.page_in(false));
        assert!(
            admits(&policy, true, 524),
            "half of the page-ins miss: half of the standard"
        );
    }
}
