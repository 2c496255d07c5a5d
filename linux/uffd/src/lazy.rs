//! Large tables of atomic words that take memory only where they are used.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::io::Errno;

use super::reserve::Reserve;
use warmswap_page::PAGE_BYTES;

/// An atomic integer that is valid when all its bytes are zero.
///
/// # Safety
/// All bytes zero is a valid value, and every access through a shared reference is atomic.
pub unsafe trait Word: Sync + Send {}

// SAFETY: an integer in an atomic cell.
unsafe impl Word for AtomicU32 {}
// SAFETY: an integer in an atomic cell.
unsafe impl Word for AtomicU64 {}

/// A table of atomic words, all 0 at first. Memory is taken by the page of words that is first written; a
/// look-up takes no lock and never allocates.
#[derive(Debug)]
pub struct AtomicTable<A> {
    reserve: Reserve,
    words: NonNull<A>,
    len: usize,
    _words: PhantomData<A>,
}

// SAFETY: the table owns its mapping, and hands out only shared references to atomic words.
unsafe impl<A: Word> Send for AtomicTable<A> {}
// SAFETY: as above.
unsafe impl<A: Word> Sync for AtomicTable<A> {}

impl<A: Word> AtomicTable<A> {
    /// Words on a page: what is taken and given back at a time.
    pub const WORDS_PER_PAGE: usize = PAGE_BYTES / size_of::<A>();

    /// A table of `len` words.
    ///
    /// # Errors
    /// The address space has no room for it.
    pub fn new(len: usize) -> Result<Self, std::io::Error> {
        let bytes = len
            .checked_mul(size_of::<A>())
            .ok_or(Errno::NOMEM)?
            .next_multiple_of(PAGE_BYTES)
            .max(PAGE_BYTES);
        let reserve = Reserve::new(bytes, PAGE_BYTES)?;
        // SAFETY: the reserve is new, so nothing refers to it.
        unsafe { reserve.map(0, bytes, true)? };
        let words = NonNull::new(std::ptr::with_exposed_provenance_mut(reserve.address()));
        Ok(Self {
            words: words.ok_or(Errno::NOMEM)?,
            reserve,
            len,
            _words: PhantomData,
        })
    }

    /// How many words there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The word, if there is one of that number.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&A> {
        // SAFETY: the index is within the table, whose memory is mapped as long as `self` lives, aligned to a
        // page, and zero (a valid word) where it was never written.
        (index < self.len).then(|| unsafe { self.words.add(index).as_ref() })
    }

    /// Makes the words of whole pages within `first..first + count` 0 and gives their memory back.
    ///
    /// # Errors
    /// The range is not within the table.
    pub fn discard(&self, first: usize, count: usize) -> Result<(), std::io::Error> {
        if first.checked_add(count).is_none_or(|end| end > self.len) {
            return Err(Errno::INVAL.into());
        }
        let start = first.next_multiple_of(Self::WORDS_PER_PAGE);
        let end = (first + count) / Self::WORDS_PER_PAGE * Self::WORDS_PER_PAGE;
        if start < end {
            let (offset, len) = (start * size_of::<A>(), (end - start) * size_of::<A>());
            // SAFETY: through references to these words they become 0, as by a store.
            unsafe { self.reserve.discard(offset, len)? };
        }
        Ok(())
    }
}

impl<A> AtomicTable<A> {
    /// First address, for messages.
    #[must_use]
    pub fn address(&self) -> usize {
        self.reserve.address()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn words_are_zero_keep_values_and_are_zero_again_after_a_discard() {
        let table = AtomicTable::<AtomicU64>::new(1 << 30).expect("address space");
        let word = |index| table.get(index).expect("in the table");
        assert_eq!(word((1 << 30) - 1).load(Relaxed), 0);
        for index in [511, 512, 1023, 1024] {
            word(index).store(7, Relaxed);
        }
        table.discard(511, 513).expect("own memory");
        let values = [511, 512, 1023, 1024].map(|index| word(index).load(Relaxed));
        assert_eq!(values, [7, 0, 0, 7]);
        assert!(table.get(1 << 30).is_none());
        assert!(table.discard(1 << 30, 1).is_err());
    }
}
