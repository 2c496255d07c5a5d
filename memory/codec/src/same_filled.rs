//! Same-filled pages: one 64-bit word repeated over the whole page.

/// The word that fills `page`, or `None` when the page holds more than one word.
///
/// The word is read in native byte order. A slice that is empty or not a multiple of 8 bytes is
/// never same-filled. The cost of the common "no" is one or two loads, because the last word is
/// looked at first; the cost of "yes" is one pass.
pub fn same_filled(page: &[u8]) -> Option<u64> {
    let (words, []) = page.as_chunks::<8>() else {
        return None;
    };
    let (last, rest) = words.split_last()?;
    if rest.first().is_some_and(|first| first != last) {
        return None;
    }
    let word = u64::from_ne_bytes(*last);
    // Whole blocks are folded without a branch, so that the compiler can use vectors.
    let (blocks, tail) = rest.as_chunks::<32>();
    for block in blocks {
        let differing = block
            .iter()
            .fold(0, |acc, w| acc | (u64::from_ne_bytes(*w) ^ word));
        if differing != 0 {
            return None;
        }
    }
    tail.iter().all(|w| w == last).then_some(word)
}

/// Fills `page` with `word` repeated, in native byte order: the inverse of [`same_filled`].
pub fn fill(word: u64, page: &mut [u8]) {
    let bytes = word.to_ne_bytes();
    let (words, tail) = page.as_chunks_mut::<8>();
    words.fill(bytes);
    tail.copy_from_slice(&bytes[..tail.len()]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_and_pattern_pages_are_recognised() {
        for word in [0, u64::MAX, 0x0123_4567_89ab_cdef] {
            let mut page = [0; 4096];
            fill(word, &mut page);
            assert_eq!(same_filled(&page), Some(word));
        }
    }

    #[test]
    fn every_single_changed_byte_is_seen() {
        let mut page = [7; 4096];
        for i in 0..page.len() {
            page[i] ^= 0x40;
            assert_eq!(same_filled(&page), None, "byte {i}");
            page[i] ^= 0x40;
        }
        assert_eq!(same_filled(&page), Some(u64::from_ne_bytes([7; 8])));
    }

    #[test]
    fn odd_lengths_are_never_same_filled() {
        assert_eq!(same_filled(&[]), None);
        assert_eq!(same_filled(&[0; 7]), None);
        assert_eq!(same_filled(&[0; 4095]), None);
        assert_eq!(same_filled(&[0; 8]), Some(0));
        assert_eq!(same_filled(&[0; 16]), Some(0));
    }
}
