//! Which application comes to the foreground when.

/// The order of the applications in one round of relaunches: each once.
pub(crate) fn round(apps: usize, seed: u64, round: u32) -> Vec<usize> {
    let mut turns: Vec<usize> = (0..apps).collect();
    let mut random = SplitMix(seed ^ u64::from(round).wrapping_mul(0xd134_2543_de82_ef95));
    for last in (1..apps).rev() {
        turns.swap(last, (random.next() % (last as u64 + 1)) as usize);
    }
    turns
}

/// The seed of one request: the same recording asks the same, and no two requests ask alike.
pub(crate) fn request_seed(seed: u64, app: usize, number: u64) -> u64 {
    // Drivers read it as a positive 31-bit number.
    SplitMix(seed ^ (app as u64) << 40 ^ number << 8).next() >> 33
}

/// Steele, Lea and Flood's SplitMix64.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_has_everybody_once_and_shuffling_follows_the_seed() {
        let rounds: Vec<Vec<usize>> = (0..20).map(|r| round(6, 1, r)).collect();

        for turns in &rounds {
            let mut sorted = turns.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4, 5]);
        }
        assert!(rounds.windows(2).any(|w| w[0] != w[1]));
        assert_eq!(rounds[3], round(6, 1, 3));
        assert!(round(0, 1, 0).is_empty());
    }

    #[test]
    fn request_seeds_fit_31_bits_and_differ() {
        let mut seeds: Vec<u64> = (0..6)
            .flat_map(|a| (0..50).map(move |n| request_seed(9, a, n)))
            .collect();
        assert!(seeds.iter().all(|s| *s < 1 << 31));
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 300);
    }
}
