//! Numbers that a seed decides (SplitMix64).

/// A stream of numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut random = Self(seed);
        // Seeds that are neighbours begin alike.
        random.next();
        random
    }

    /// The next number.
    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `end`, or 0.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// True so many times in a thousand.
    pub fn per_mille(&mut self, times: u32) -> bool {
        times > 0 && self.below(1000) < u64::from(times)
    }

    /// A number of steps, `mean` on average, mostly fewer.
    pub fn slice(&mut self, mean: u32) -> u32 {
        let most = self.below(4 * u64::from(mean));
        self.below(most + 1) as u32
    }
}
