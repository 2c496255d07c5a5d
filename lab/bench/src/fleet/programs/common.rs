//! What the programs share: a checksum, draws from a seed, allocation on a heap that may be full.

use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use rand_distr::{Distribution as _, Zipf};
use warmswap_heap::{AllocError, Kind, Mutator};

use super::super::program::ProgramError;

/// A checksum of what was read, in the order in which it was read.
#[derive(Clone, Copy, Debug)]
pub struct Checksum(u64);

impl Checksum {
    /// Of nothing.
    pub const fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    /// Adds a number.
    pub fn add(&mut self, number: u64) {
        // The step of FxHash; the rotation makes the order count.
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    /// Adds bytes, and how many they are.
    pub fn add_bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.add(u64::from_le_bytes(*word));
        }
        for &byte in rest {
            self.add(byte.into());
        }
        self.add(bytes.len() as u64);
    }

    /// The checksum.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// A hash of bytes.
pub fn hash_of(bytes: &[u8]) -> u64 {
    let mut sum = Checksum::new();
    sum.add_bytes(bytes);
    // The step leaves the low bits poor.
    sum.get() ^ sum.get() >> 32
}

/// Numbers drawn from a seed. The same seed gives the same ones.
#[derive(Clone, Debug)]
pub struct Draw(SmallRng);

impl Draw {
    /// Draws of a seed.
    pub fn new(seed: u64) -> Self {
        Self(SmallRng::seed_from_u64(seed))
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `n`; 0 if there is none.
    pub fn below(&mut self, n: usize) -> usize {
        let wide = u128::from(self.any()) * n as u128;
        (wide >> 64) as usize
    }

    /// True in so many of a hundred draws.
    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// A number below `n`, the first ones most often: Zipf's law with exponent 1.
    pub fn zipf(&mut self, n: usize) -> usize {
        match Zipf::new(n.max(1) as f64, 1.0) {
            Ok(zipf) => (zipf.sample(&mut self.0) as usize).saturating_sub(1),
            Err(_) => 0,
        }
    }
}

/// Runs something that allocates. When the heap is full, collects it and tries once more, from the start: what `run`
/// changes before its last allocation must not matter if it is done twice.
pub fn with_room<R>(
    mutator: &mut Mutator,
    mut run: impl FnMut(&Mutator) -> Result<R, AllocError>,
) -> Result<R, ProgramError> {
    if let Ok(done) = run(mutator) {
        return Ok(done);
    }
    mutator.collect(Kind::Major);
    Ok(run(mutator)?)
}

/// The error of a program that was not started.
pub fn not_started(name: &str) -> ProgramError {
    ProgramError::Data(format!("the program {name} was not started"))
}
