//! A program whose memory fits: what an arena costs where it has nothing to do.

use crate::memory::Touch;

/// How often the program goes over its memory.
const PASSES: u64 = 12;

/// Fills a table in order, counts in it at random places, and sums it up, several times; a number that depends on
/// all of it. Its first touches are part of it.
pub fn program(memory: &impl Touch) -> u64 {
    let memory = memory.words();
    let words = memory.len();
    for word in 0..words {
        memory.store(word, word as u64);
    }
    let mut random = 1u64;
    let mut sum = 0u64;
    for pass in 0..PASSES {
        for _ in 0..words / 4 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(pass | 1);
            let word = (random >> 24) as usize % words;
            memory.store(word, memory.load(word).wrapping_add(random));
        }
        for word in 0..words {
            sum = sum.rotate_left(1) ^ memory.load(word);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Plain;

    #[test]
    fn the_program_answers_the_same_twice() {
        let run = || program(&Plain::new(16).expect("memory"));
        assert_eq!(run(), run());
    }
}
