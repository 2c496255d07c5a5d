//! Where a chunk is and how it is encoded: one word.

use warmswap_codec::{ChunkPlan, Codec};
use warmswap_engine::chunks::MAX_CHUNK_PAGES;

/// Where a chunk is, and how it is encoded. As a word:
///
/// | bits | |
/// |---|---|
/// | 0 | there is a chunk |
/// | 1 | in the backing file |
/// | 2 | filled with one word |
/// | 3–5 | codec |
/// | 6–10 | logarithm of the chunk size |
/// | 11–15 | pages − 1 |
/// | 16 | the numbers of its pages were told; those of more than one are in front |
/// | 17–31 | the last bits of its first page's number, if it was told |
/// | 32–63 | the pool's handle, or 0 |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkWord {
    pub is_backing: bool,
    pub is_filled: bool,
    pub plan: ChunkPlan,
    pub pages: usize,
    pub has_members: bool,
    /// As [`mark_of`] its first page.
    pub mark: u16,
    /// The pool's handle, or 0.
    pub handle: u32,
}

const STORED: u64 = 1;
const BACKING: u64 = 1 << 1;
const FILLED: u64 = 1 << 2;
const CODEC_SHIFT: u32 = 3;
const SIZE_SHIFT: u32 = 6;
const PAGES_SHIFT: u32 = 11;
const MEMBERS: u64 = 1 << 16;
const MARK_SHIFT: u32 = 17;
const MARK_BITS: u32 = HANDLE_SHIFT - MARK_SHIFT;
const HANDLE_SHIFT: u32 = 32;

const _: () = assert!(MAX_CHUNK_PAGES <= 1 << (16 - PAGES_SHIFT));

impl ChunkWord {
    /// The word. Never 0, which is no chunk.
    pub fn pack(self) -> u64 {
        let flag = |is_set, bit| if is_set { bit } else { 0 };
        STORED
            | flag(self.is_backing, BACKING)
            | flag(self.is_filled, FILLED)
            | flag(self.has_members, MEMBERS)
            | (self.plan.codec() as u64) << CODEC_SHIFT
            | u64::from(self.plan.chunk_bytes().trailing_zeros()) << SIZE_SHIFT
            | (self.pages as u64 - 1) << PAGES_SHIFT
            | u64::from(self.mark) << MARK_SHIFT
            | u64::from(self.handle) << HANDLE_SHIFT
    }

    /// What a word says; `None` where there is no chunk.
    pub fn unpack(word: u64) -> Option<Self> {
        if word & STORED == 0 {
            return None;
        }
        let codec = Codec::from_u8((word >> CODEC_SHIFT & 7) as u8)?;
        Some(Self {
            is_backing: word & BACKING != 0,
            is_filled: word & FILLED != 0,
            plan: ChunkPlan::new(codec, 1 << (word >> SIZE_SHIFT & 31)).ok()?,
            pages: pages_of(word),
            has_members: word & MEMBERS != 0,
            mark: mark_of((word >> MARK_SHIFT) as u32),
            handle: (word >> HANDLE_SHIFT) as u32,
        })
    }
}

/// What a chunk's word tells of a page's number.
pub(crate) const fn mark_of(page: u32) -> u16 {
    (page & ((1 << MARK_BITS) - 1)) as u16
}

/// How many pages the chunk of a word has; 1 where there is none.
pub(crate) const fn pages_of(word: u64) -> usize {
    (word >> PAGES_SHIFT & 31) as usize + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chunk_comes_back_from_its_word() {
        for codec in Codec::ALL {
            for size in 7..=17 {
                for pages in [1, 2, MAX_CHUNK_PAGES] {
                    for flags in 0..8 {
                        let word = ChunkWord {
                            is_backing: flags & 1 != 0,
                            is_filled: flags & 2 != 0,
                            plan: ChunkPlan::new(codec, 1 << size).unwrap(),
                            pages,
                            has_members: flags & 4 != 0,
                            mark: mark_of(!flags),
                            handle: u32::MAX - flags,
                        };
                        assert_eq!(ChunkWord::unpack(word.pack()), Some(word));
                        assert_eq!(pages_of(word.pack()), pages);
                    }
                }
            }
        }
        assert_eq!(ChunkWord::unpack(0), None);
        assert_eq!(pages_of(0), 1);
    }
}
