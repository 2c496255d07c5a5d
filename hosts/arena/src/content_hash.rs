//! Whether a page is as it was when its copy was stored.

use std::hash::{BuildHasher as _, RandomState};

use warmswap_page::PAGE_BYTES;
use xxhash_rust::xxh3::xxh3_128_with_secret;

/// Bytes of a secret of XXH3.
const SECRET_BYTES: usize = 192;

/// A hash of pages with a secret of this process. Without one, pages that differ and have the same hash can be made, by
/// chance of what a program computes even: a write to such a page would be lost.
#[derive(Debug)]
pub struct ContentHash {
    secret: [u8; SECRET_BYTES],
}

impl ContentHash {
    /// With a new secret.
    pub fn new() -> Self {
        // Its keys are random, from the operating system.
        let random = RandomState::new();
        let mut secret = [0; SECRET_BYTES];
        for (i, word) in secret.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            *word = random.hash_one(i).to_le_bytes();
        }
        Self { secret }
    }

    /// The hash of a page.
    pub fn of(&self, page: &[u8; PAGE_BYTES]) -> u128 {
        xxh3_128_with_secret(page, &self.secret)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xxhash_rust::xxh3::xxh3_128;

    /// A page with two counters, between which 1 is moved: with what is in front of them they cancel each other out in
    /// a hash whose secret everybody knows.
    fn counters(from: u32, to: u32) -> [u8; PAGE_BYTES] {
        let mut page = [7; PAGE_BYTES];
        page[0..4].copy_from_slice(&[0xb8, 0xfe, 0x6c, 0x39]);
        page[4..8].copy_from_slice(&from.to_le_bytes());
        page[64..68].copy_from_slice(&[0x7c, 0x01, 0x81, 0x2c]);
        page[68..72].copy_from_slice(&to.to_le_bytes());
        page
    }

    #[test]
    fn pages_that_were_made_to_collide_are_told_apart() {
        let (before, after) = (counters(1000, 2000), counters(999, 2001));
        assert_eq!(
            xxh3_128(&before),
            xxh3_128(&after),
            "what has to be avoided"
        );
        let hash = ContentHash::new();
        assert_ne!(hash.of(&before), hash.of(&after));
        assert_eq!(hash.of(&before), hash.of(&counters(1000, 2000)));
        assert_ne!(hash.of(&before), ContentHash::new().of(&before));
    }
}
