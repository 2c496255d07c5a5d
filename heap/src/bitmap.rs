//! A bit for each granule, or for each page.
#![allow(unsafe_code)] // Tables of atomics are made of zeroed memory, which costs nothing before it is used.

#[cfg(not(test))]
use std::sync::atomic::AtomicU8;
use std::sync::atomic::{AtomicU64, Ordering};

/// So many zeros. The memory comes from the kernel page by page, when it is used.
#[cfg(not(test))]
pub fn zeroed_bytes(len: usize) -> Box<[AtomicU8]> {
    let zeros = Box::into_raw(vec![0u8; len].into_boxed_slice());
    // SAFETY: the two types have the same size, alignment and bit validity, and the box is this function's alone.
    unsafe { Box::from_raw(zeros as *mut [AtomicU8]) }
}

fn zeroed_words(len: usize) -> Box<[AtomicU64]> {
    let zeros = Box::into_raw(vec![0u64; len].into_boxed_slice());
    // SAFETY: as above.
    unsafe { Box::from_raw(zeros as *mut [AtomicU64]) }
}

/// Bits that any thread sets.
#[derive(Debug)]
pub struct Bitmap(Box<[AtomicU64]>);

impl Bitmap {
    /// So many bits, all clear.
    pub fn new(bits: usize) -> Self {
        Self(zeroed_words(bits.div_ceil(64)))
    }

    /// Sets a bit; whether it was clear.
    #[inline]
    pub fn set(&self, bit: usize) -> bool {
        let (word, mask) = (&self.0[bit / 64], 1 << (bit % 64));
        if word.load(Ordering::Relaxed) & mask != 0 {
            return false;
        }
        word.fetch_or(mask, Ordering::AcqRel) & mask == 0
    }

    /// Whether a bit is set.
    #[inline]
    pub fn get(&self, bit: usize) -> bool {
        self.0[bit / 64].load(Ordering::Acquire) & 1 << (bit % 64) != 0
    }

    /// Clears a bit.
    pub fn unset(&self, bit: usize) {
        self.0[bit / 64].fetch_and(!(1 << (bit % 64)), Ordering::AcqRel);
    }

    /// Clears a range of bits whose ends are multiples of 64.
    pub fn clear(&self, bits: std::ops::Range<usize>) {
        debug_assert!(bits.start.is_multiple_of(64) && bits.end.is_multiple_of(64));
        for word in &self.0[bits.start / 64..bits.end / 64] {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// How many bits are set.
    pub fn count(&self) -> usize {
        let ones = |word: &AtomicU64| word.load(Ordering::Relaxed).count_ones() as usize;
        self.0.iter().map(ones).sum()
    }

    /// Bytes of memory.
    pub fn state_bytes(&self) -> usize {
        self.0.len() * size_of::<u64>()
    }
}
