//! The packed words of all pages, which take memory only where pages differ.
//!
//! A program maps far more than it uses. The pages of a grain, whose words share a page of memory, have one word together as
//! long as all are alike. The grain is split into words of its own by the first change of one of them.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use warmswap_page::PAGE_BYTES;
use warmswap_uffd::AtomicTable;

use super::{State, Word};

/// Pages whose words share a page of memory.
pub const GRAIN_PAGES: usize = AtomicTable::<AtomicU64>::WORDS_PER_PAGE;

/// In the place of the word that the pages of a grain have together: each has its own. PackedWords of pages that are alike name no
/// chunk, so that they do not look like this.
const SPLIT: u64 = 1 << 63;
/// With [`SPLIT`]: the grain's hashes take memory.
const HASHED: u64 = 1 << 62;

/// Bytes of hashes for the pages of a grain.
const HASH_BYTES_PER_GRAIN: usize = GRAIN_PAGES * 2 * size_of::<u64>();

/// The words. See the module.
#[derive(Debug)]
pub struct PackedWords {
    /// For each grain the word of all its pages, or [`SPLIT`].
    grains: AtomicTable<AtomicU64>,
    /// For each page of a split grain its word, else 0.
    own: AtomicTable<AtomicU64>,
    split_grains: AtomicUsize,
    hashed_grains: AtomicUsize,
}

/// A grain whose pages are alike and were never touched, held as a whole. Dropping it lets it go as it was.
#[derive(Debug)]
#[must_use = "dropping it lets the grain go as it was"]
pub struct HeldGrain<'a> {
    cell: &'a AtomicU64,
    before: u64,
}

impl HeldGrain<'_> {
    /// What the word of its pages was.
    pub fn before(&self) -> Word {
        Word::unpack(self.before)
    }

    /// Lets it go; its pages have this word, which names no chunk.
    pub fn release(mut self, word: Word) {
        self.before = word.pack();
    }
}

impl Drop for HeldGrain<'_> {
    fn drop(&mut self) {
        self.cell.store(self.before, Ordering::Release);
    }
}

fn is_split(grain: u64) -> bool {
    grain & SPLIT != 0
}

fn busy() -> u64 {
    Word::of(State::Busy).pack()
}

impl PackedWords {
    /// PackedWords of unmapped pages.
    pub fn new(pages: usize) -> Result<Self, io::Error> {
        Ok(Self {
            grains: AtomicTable::new(pages.div_ceil(GRAIN_PAGES))?,
            own: AtomicTable::new(pages)?,
            split_grains: AtomicUsize::new(0),
            hashed_grains: AtomicUsize::new(0),
        })
    }

    /// Bytes of memory that words and hashes of so many mapped pages take.
    pub fn state_bytes(&self, mapped_pages: usize) -> usize {
        mapped_pages.div_ceil(GRAIN_PAGES) * size_of::<u64>()
            + self.split_grains.load(Ordering::Relaxed) * PAGE_BYTES
            + self.hashed_grains.load(Ordering::Relaxed) * HASH_BYTES_PER_GRAIN
    }

    /// A page's word; a busy one while a thread holds the page. `None` beyond the table.
    pub fn load(&self, page: usize) -> Option<u64> {
        let grain = self.grains.get(page / GRAIN_PAGES)?.load(Ordering::Acquire);
        if is_split(grain) {
            Some(self.own.get(page)?.load(Ordering::Acquire))
        } else {
            Some(grain)
        }
    }

    /// The word of a page's own, where it has one.
    pub fn own(&self, page: usize) -> Option<&AtomicU64> {
        let grain = self.grains.get(page / GRAIN_PAGES)?.load(Ordering::Acquire);
        is_split(grain).then(|| self.own.get(page))?
    }

    /// The word of a page's own, after its grain was split if need be. Waits for the thread that holds the grain.
    pub fn own_or_split(&self, page: usize) -> Option<&AtomicU64> {
        let number = page / GRAIN_PAGES;
        if let Some(held) = self.hold_alike(number)? {
            for page in number * GRAIN_PAGES..(number + 1) * GRAIN_PAGES {
                if let Some(cell) = self.own.get(page) {
                    cell.store(held.before, Ordering::Relaxed);
                }
            }
            self.split_grains.fetch_add(1, Ordering::Relaxed);
            let cell = held.cell;
            std::mem::forget(held);
            cell.store(SPLIT, Ordering::Release);
        }
        self.own.get(page)
    }

    /// Holds a grain whose pages are alike, `Some(None)` if it is split, `None` beyond the table. Waits for its holder.
    fn hold_alike(&self, number: usize) -> Option<Option<HeldGrain<'_>>> {
        let cell = self.grains.get(number)?;
        loop {
            let before = cell.load(Ordering::Acquire);
            if is_split(before) {
                return Some(None);
            }
            let can_hold = before != busy();
            let held = || {
                cell.compare_exchange(before, busy(), Ordering::AcqRel, Ordering::Acquire)
                    .is_ok()
            };
            if can_hold && held() {
                return Some(Some(HeldGrain { cell, before }));
            }
            std::thread::yield_now();
        }
    }

    /// Holds the grains at the start of a range that lie in it whole and whose pages are alike.
    pub fn hold_alike_at(&self, pages: &Range<usize>) -> Vec<HeldGrain<'_>> {
        if !pages.start.is_multiple_of(GRAIN_PAGES) {
            return Vec::new();
        }
        let grains = pages.start / GRAIN_PAGES..pages.end / GRAIN_PAGES;
        grains
            .map_while(|number| self.hold_alike(number).flatten())
            .collect()
    }

    /// The parts of a range whose pages have words of their own; those of others were never touched.
    pub fn touched(&self, pages: Range<usize>) -> impl Iterator<Item = Range<usize>> + '_ {
        let (start, end) = (pages.start, pages.end);
        let grains = start / GRAIN_PAGES..end.div_ceil(GRAIN_PAGES);
        let is_touched = |&number: &usize| {
            let cell = self.grains.get(number);
            cell.is_some_and(|cell| is_split(cell.load(Ordering::Acquire)))
        };
        grains.filter(is_touched).map(move |number| {
            (number * GRAIN_PAGES).max(start)..((number + 1) * GRAIN_PAGES).min(end)
        })
    }

    /// The hashes of a page's grain take memory from now on.
    pub fn has_hashes(&self, page: usize) {
        let cell = self.grains.get(page / GRAIN_PAGES);
        let Some(cell) = cell.filter(|cell| is_split(cell.load(Ordering::Relaxed))) else {
            return;
        };
        if cell.fetch_or(HASHED, Ordering::AcqRel) & HASHED == 0 {
            self.hashed_grains.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The pages of a range are unmapped, and no thread holds one: those of whole grains are alike again.
    pub fn discard(&self, first: usize, pages: usize) -> Result<(), io::Error> {
        for number in first.div_ceil(GRAIN_PAGES)..(first + pages) / GRAIN_PAGES {
            let Some(cell) = self.grains.get(number) else {
                break;
            };
            // Threads that still see the grain split find unmapped pages.
            let grain = cell.swap(0, Ordering::AcqRel);
            if is_split(grain) {
                self.split_grains.fetch_sub(1, Ordering::Relaxed);
                let hashed = usize::from(grain & HASHED != 0);
                self.hashed_grains.fetch_sub(hashed, Ordering::Relaxed);
                self.own.discard(number * GRAIN_PAGES, GRAIN_PAGES)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: usize = 8 * GRAIN_PAGES;

    fn fresh() -> Word {
        Word::of(State::Fresh)
    }

    fn set_alike(words: &PackedWords, pages: Range<usize>, word: Word) -> usize {
        let held = words.hold_alike_at(&pages);
        let count = held.len();
        held.into_iter().for_each(|grain| grain.release(word));
        count
    }

    #[test]
    fn a_grain_takes_memory_once_one_of_its_pages_differs() {
        let words = PackedWords::new(PAGES).expect("address space");
        assert_eq!(set_alike(&words, 0..PAGES, fresh()), 8);
        let alike = words.state_bytes(PAGES);
        assert_eq!(alike, 64);
        assert_eq!(words.load(700), Some(fresh().pack()));
        assert!(words.own(700).is_none());
        let cell = words.own_or_split(700).expect("a page");
        let stored = fresh().stored(warmswap_policy::ChunkId(3), 1).pack();
        cell.store(stored, Ordering::Release);
        let around = [511, 512, 699, 700, 701, 1023, 1024].map(|page| words.load(page));
        for (page, word) in around.into_iter().enumerate() {
            let is_it = page == 3;
            assert_eq!(word, Some(if is_it { stored } else { fresh().pack() }));
        }
        assert_eq!(words.state_bytes(PAGES), alike + PAGE_BYTES);
        words.has_hashes(700);
        words.has_hashes(701);
        words.has_hashes(5000);
        assert_eq!(words.state_bytes(PAGES), alike + 3 * PAGE_BYTES);
        let touched: Vec<_> = words.touched(600..3000).flatten().collect();
        assert_eq!((touched[0], touched.len()), (600, 424));
        assert_eq!(words.hold_alike_at(&(0..PAGES)).len(), 1);
        assert_eq!(words.hold_alike_at(&(1..PAGES)).len(), 0);
        assert_eq!(words.hold_alike_at(&(1024..2047)).len(), 1);
        cell.store(0, Ordering::Release);
        words.discard(512, 512).expect("own memory");
        assert_eq!(words.load(701), Some(0));
        assert_eq!(words.state_bytes(PAGES), alike);
        assert_eq!(words.load(PAGES), None);
    }

    /// Pages are taken and given back by many threads while the grain is opened and closed as a whole.
    #[test]
    fn threads_that_split_a_grain_agree() {
        const ROUNDS: usize = 300;
        let words = PackedWords::new(PAGES).expect("address space");
        let resident = fresh().now(State::Resident).pack();
        for _ in 0..ROUNDS {
            assert_eq!(set_alike(&words, 0..GRAIN_PAGES, fresh()), 1);
            let taken: Vec<usize> = std::thread::scope(|scope| {
                let take = || {
                    let pages = 0..GRAIN_PAGES;
                    let taken = pages.filter(|&page| {
                        let cell = words.own_or_split(page).expect("a page");
                        cell.compare_exchange(
                            fresh().pack(),
                            resident,
                            Ordering::AcqRel,
                            Ordering::Acquire,
                        )
                        .is_ok()
                    });
                    taken.count()
                };
                let threads = [scope.spawn(take), scope.spawn(take), scope.spawn(take)];
                threads.map(|it| it.join().expect("no panic")).into()
            });
            assert_eq!(taken.iter().sum::<usize>(), GRAIN_PAGES, "{taken:?}");
            assert_eq!(words.state_bytes(0), PAGE_BYTES);
            for page in 0..GRAIN_PAGES {
                let cell = words.own(page).expect("it is split");
                assert_eq!(cell.swap(0, Ordering::AcqRel), resident);
            }
            words.discard(0, GRAIN_PAGES).expect("own memory");
        }
    }
}
