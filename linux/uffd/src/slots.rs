//! Slots of the staging area, and which thread owns them.

// In unit tests this file is compiled a second time, over shuttle's atomics (`slots_model.rs`).
use super::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Neighbouring slots of a staging area, owned by the holder of this value: their memory is used by no one else.
///
/// The values are made once, when the staging area is made, and never copied.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "slots without an owner are never used again"]
pub struct Slots {
    first: u32,
    len: u32,
}

impl Slots {
    /// All slots of a new staging area.
    pub(super) fn all(len: u32) -> Self {
        Self { first: 0, len }
    }

    /// Number of the first slot.
    #[must_use]
    pub fn first(&self) -> usize {
        self.first as usize
    }

    /// How many they are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes the first `count` slots (or all, if there are fewer) off the front.
    pub fn split_front(&mut self, count: usize) -> Self {
        let count = self.len.min(count as u32);
        let front = Self {
            first: self.first,
            len: count,
        };
        self.first += count;
        self.len -= count;
        front
    }

    /// Gives one slot up for its number, to be kept where only one thread can take it from.
    ///
    /// # Panics
    /// When it is not exactly one.
    #[must_use]
    pub fn into_number(self) -> u32 {
        assert_eq!(self.len, 1, "only a single slot has a number");
        self.first
    }

    /// The slot of a number that [`Self::into_number`] gave.
    ///
    /// # Safety
    /// The number came from `into_number` of the same staging area, and is used once.
    pub unsafe fn from_number(number: u32) -> Self {
        Self {
            first: number,
            len: 1,
        }
    }
}

/// Places that [`SlotBag::take`] looks at for a long run before it takes what can be had.
const PLACES_FOR_A_RUN: usize = 64;

/// A bag of slots for any number of threads, without locks and without allocation. Put and take are a few
/// atomic operations, however large the bag is.
#[derive(Debug)]
pub struct SlotBag {
    /// One bit for each slot that is in the bag.
    words: Box<[AtomicU64]>,
    /// One bit for each of `words` that may have a bit set; it is set whenever the word has one and no thread is
    /// about to set or clear it.
    summary: Box<[AtomicU64]>,
    count: AtomicUsize,
    /// Where the last search succeeded.
    hint: AtomicUsize,
}

impl SlotBag {
    /// An empty bag for slots below `slots`.
    #[must_use]
    pub fn new(slots: usize) -> Self {
        let zeros = |bits: usize| {
            (0..bits.div_ceil(64).max(1))
                .map(|_| AtomicU64::new(0))
                .collect()
        };
        let words: Box<[AtomicU64]> = zeros(slots);
        Self {
            summary: zeros(words.len()),
            words,
            count: AtomicUsize::new(0),
            hint: AtomicUsize::new(0),
        }
    }

    /// How many slots are in the bag, or a few more while others put some in.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Whether the bag is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the bag's own memory.
    #[must_use]
    pub fn state_bytes(&self) -> usize {
        size_of_val(&*self.words) + size_of_val(&*self.summary)
    }

    /// Puts slots into the bag.
    pub fn put(&self, mut slots: Slots) {
        // Counted before they can be taken, so that the count never falls short of the bag.
        self.count.fetch_add(slots.len(), Ordering::AcqRel);
        while !slots.is_empty() {
            let (word, bit) = (slots.first() / 64, slots.first() % 64);
            let part = slots.split_front(64 - bit);
            let mask = ones(part.len()) << bit;
            let before = self.words[word].fetch_or(mask, Ordering::SeqCst);
            debug_assert_eq!(before & mask, 0, "a slot was in the bag already");
            self.note(word);
        }
    }

    /// Sets the word's bit in the summary. A thread that clears it looks at the word again afterwards.
    fn note(&self, word: usize) {
        let (cell, mask) = (&self.summary[word / 64], 1 << (word % 64));
        if cell.load(Ordering::SeqCst) & mask == 0 {
            cell.fetch_or(mask, Ordering::SeqCst);
        }
    }

    /// Takes 1 to `most` neighbouring slots (at most 64): as many as one of the next places holds in a row,
    /// else what can be had. `None` when the bag is empty.
    pub fn take(&self, most: usize) -> Option<Slots> {
        let most = most.clamp(1, 64);
        self.search(most, most, PLACES_FOR_A_RUN)
            .or_else(|| self.search(1, most, usize::MAX))
    }

    /// Takes exactly `count` neighbouring slots (1 to 64), if one of the next places holds so many in a row.
    pub fn take_run(&self, count: usize) -> Option<Slots> {
        self.search(count, count, PLACES_FOR_A_RUN)
    }

    /// Takes a run of `want` to `most` slots out of one of the next `places` words that hold any.
    fn search(&self, want: usize, most: usize, mut places: usize) -> Option<Slots> {
        if self.is_empty() {
            return None;
        }
        let hint = self.hint.load(Ordering::Relaxed);
        let n = self.summary.len();
        // The hint's own part of the summary is looked at twice: from the hint on, and at last before it.
        for i in 0..=n {
            let at = (hint / 64 + i) % n;
            let from = if i == 0 {
                u64::MAX << (hint % 64)
            } else {
                u64::MAX
            };
            let mut bits = self.summary[at].load(Ordering::SeqCst) & from;
            while bits != 0 {
                let word = at * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if let Some((bit, len)) = self.take_in(word, want, most) {
                    self.count.fetch_sub(len, Ordering::AcqRel);
                    self.hint.store(word, Ordering::Relaxed);
                    return Some(Slots {
                        first: (word * 64 + bit) as u32,
                        len: len as u32,
                    });
                }
                places -= 1;
                if places == 0 {
                    return None;
                }
            }
        }
        None
    }

    /// Takes a run of `want` to `most` slots out of one word.
    fn take_in(&self, word: usize, want: usize, most: usize) -> Option<(usize, usize)> {
        let cell = &self.words[word];
        let mut bits = cell.load(Ordering::SeqCst);
        loop {
            if bits == 0 {
                self.summary[word / 64].fetch_and(!(1 << (word % 64)), Ordering::SeqCst);
                if cell.load(Ordering::SeqCst) != 0 {
                    self.note(word);
                }
                return None;
            }
            let (bit, len) = first_run(bits, want)?;
            let len = len.min(most);
            let left = bits & !(ones(len) << bit);
            match cell.compare_exchange_weak(bits, left, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return Some((bit, len)),
                Err(now) => bits = now,
            }
        }
    }
}

fn ones(len: usize) -> u64 {
    if len >= 64 { u64::MAX } else { (1 << len) - 1 }
}

/// Place and length of the first run of at least `want` set bits.
fn first_run(mut bits: u64, want: usize) -> Option<(usize, usize)> {
    while bits != 0 {
        let bit = bits.trailing_zeros() as usize;
        let len = (bits >> bit).trailing_ones() as usize;
        if len >= want {
            return Some((bit, len));
        }
        bits &= !(ones(len) << bit);
    }
    None
}
