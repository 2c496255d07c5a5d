//! Slots of the staging area: who owns which.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Neighbouring slots of a staging area, owned by whoever has this value: their memory is nobody else's.
///
/// The values are made once, when the staging area is made, and never copied.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "slots that nobody owns are never used again"]
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

/// A bag of slots for any number of threads, without locks and without allocation. Put and take are a few
/// atomic operations.
#[derive(Debug)]
pub struct SlotBag {
    /// One bit for each slot that is in the bag.
    words: Box<[AtomicU64]>,
    count: AtomicUsize,
    /// Where the last search succeeded.
    hint: AtomicUsize,
}

impl SlotBag {
    /// An empty bag for slots below `slots`.
    #[must_use]
    pub fn new(slots: usize) -> Self {
        Self {
            words: (0..slots.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
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

    /// Puts slots into the bag.
    pub fn put(&self, mut slots: Slots) {
        // Counted before they can be taken, so that the count never falls short of the bag.
        self.count.fetch_add(slots.len(), Ordering::AcqRel);
        while !slots.is_empty() {
            let (word, bit) = (slots.first() / 64, slots.first() % 64);
            let part = slots.split_front(64 - bit);
            let mask = ones(part.len()) << bit;
            let before = self.words[word].fetch_or(mask, Ordering::AcqRel);
            debug_assert_eq!(before & mask, 0, "a slot was in the bag already");
        }
    }

    /// Takes 1 to `most` neighbouring slots (at most 64), as many as the first place with enough of them
    /// holds; else what can be had. `None` when the bag is empty.
    pub fn take(&self, most: usize) -> Option<Slots> {
        let most = most.clamp(1, 64);
        let hint = self.hint.load(Ordering::Relaxed);
        let n = self.words.len();
        for want in [most, 1] {
            for word in (0..n).map(|i| (hint + i) % n) {
                let Some((bit, len)) = self.take_in(word, want, most) else {
                    continue;
                };
                self.count.fetch_sub(len, Ordering::AcqRel);
                self.hint.store(word, Ordering::Relaxed);
                return Some(Slots {
                    first: (word * 64 + bit) as u32,
                    len: len as u32,
                });
            }
        }
        None
    }

    /// Takes a run of `want` to `most` slots out of one word.
    fn take_in(&self, word: usize, want: usize, most: usize) -> Option<(usize, usize)> {
        let cell = &self.words[word];
        let mut bits = cell.load(Ordering::Acquire);
        loop {
            let (bit, len) = first_run(bits, want)?;
            let len = len.min(most);
            let left = bits & !(ones(len) << bit);
            match cell.compare_exchange_weak(bits, left, Ordering::AcqRel, Ordering::Acquire) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_in_the_bag_once_and_runs_are_found() {
        let bag = SlotBag::new(200);
        bag.put(Slots::all(200));
        assert_eq!(bag.len(), 200);
        let mut taken = Vec::new();
        let mut runs = 0;
        while let Some(slots) = bag.take(32) {
            runs += 1;
            taken.extend(slots.first()..slots.first() + slots.len());
        }
        taken.sort_unstable();
        assert_eq!(taken, (0..200).collect::<Vec<_>>());
        assert_eq!(runs, 7);
        assert!(bag.is_empty());
    }

    #[test]
    fn a_long_run_is_preferred_and_a_short_one_taken_if_there_is_none() {
        let bag = SlotBag::new(64);
        let mut all = Slots::all(64);
        bag.put(all.split_front(2));
        let gap = all.split_front(1);
        bag.put(all.split_front(5));
        let run = bag.take(4).expect("five in a row");
        assert_eq!((run.first(), run.len()), (3, 4));
        let run = bag.take(4).expect("two in a row");
        assert_eq!((run.first(), run.len()), (0, 2));
        drop(gap);
    }

    #[test]
    fn threads_never_take_the_same_slot() {
        let bag = SlotBag::new(128);
        bag.put(Slots::all(128));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..10_000 {
                        if let Some(slots) = bag.take(1 + round % 7) {
                            // `put` asserts in debug builds that none of them is there twice.
                            bag.put(slots);
                        }
                    }
                });
            }
        });
        assert_eq!(bag.len(), 128);
    }
}
