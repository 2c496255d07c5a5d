//! Pages that hold two or three objects each: the layouts of the kernel's zbud and z3fold.
//!
//! A page is 64 chunks of 64 bytes. The first is a header: where each object begins, and the
//! objects' checksums. An object takes whole chunks of one page. A page that has room for another
//! object is *unbuddied*, on the list of its number of free chunks; a new object goes to the page
//! with the least room that holds it, of those the one that changed last. The others are *buddied*
//! (ezswap section II-C).
//!
//! zbud puts one object behind the header and one at the end, and never moves them. z3fold packs
//! its objects behind the header and closes the gap when one is freed, so that the free chunks are
//! always one run at the end.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::budget::Budget;
use crate::entry::{Location, Placed};
use crate::handle::Handle;
use crate::shared::{EmptySpans, Object, ObjectRef, PoolWide};
use crate::spans::{NoSlot, SpanSet};
use warmswap_page::PAGE_BYTES;

const CHUNK_BYTES: usize = 64;
const CHUNKS: usize = PAGE_BYTES / CHUNK_BYTES;
const HEADER_CHUNKS: usize = 1;
/// Where the checksums stand in the header, behind the first chunks of the objects.
const CHECKSUMS_AT: usize = 4;
/// Objects of a page at most.
const SLOTS: usize = 3;

/// The largest object, in bytes: a page without its header.
pub(crate) const MAX_BYTES: usize = (CHUNKS - HEADER_CHUNKS) * CHUNK_BYTES;

/// Which of the two layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fold {
    /// Two objects a page, as zbud.
    Two,
    /// Three objects a page, as z3fold.
    Three,
}

impl Fold {
    const fn objects(self) -> usize {
        match self {
            Fold::Two => 2,
            Fold::Three => 3,
        }
    }
}

/// All pages of a pool with one of the two layouts.
#[derive(Debug)]
pub(crate) struct Folds {
    fold: Fold,
    /// The memory of the pages, reached without the lock.
    spans: SpanSet,
    pages: Mutex<Pages>,
}

/// End of a list.
const NONE: u32 = u32::MAX;

/// What is in a page.
#[derive(Clone, Copy, Debug)]
struct Page {
    owners: [Option<Handle>; SLOTS],
    /// Chunks of each object; 0 for none.
    chunks: [u8; SLOTS],
    prev: u32,
    next: u32,
}

impl Page {
    const EMPTY: Page = Page {
        owners: [None; SLOTS],
        chunks: [0; SLOTS],
        prev: NONE,
        next: NONE,
    };

    fn free_chunks(&self) -> usize {
        let used: usize = self.chunks.iter().map(|&chunks| usize::from(chunks)).sum();
        CHUNKS - HEADER_CHUNKS - used
    }

    fn objects(&self) -> usize {
        self.owners.iter().flatten().count()
    }
}

/// A page is unbuddied, and on the list of its free chunks; or buddied, and on no list; or in `empty`.
#[derive(Debug)]
struct Pages {
    pages: Vec<Page>,
    /// The first page of each list of unbuddied pages; the index is the number of free chunks.
    unbuddied: [u32; CHUNKS],
    /// A bit for each list that is not empty.
    non_empty: u64,
    empty: EmptySpans,
}

impl Folds {
    pub(crate) fn new(fold: Fold) -> Folds {
        Folds {
            fold,
            spans: SpanSet::new(PAGE_BYTES),
            pages: Mutex::new(Pages {
                pages: Vec::new(),
                unbuddied: [NONE; CHUNKS],
                non_empty: 0,
                empty: EmptySpans::default(),
            }),
        }
    }

    /// Stores `object` (1 to [`MAX_BYTES`] bytes) in a page, and publishes `placed` (with its location
    /// filled in) as the entry of `handle`. Constant time.
    pub(crate) fn store(
        &self,
        shared: PoolWide<'_>,
        handle: Handle,
        mut placed: Placed,
        object: Object<'_>,
    ) -> Result<(), NoSlot> {
        let chunks = object.bytes.len().div_ceil(CHUNK_BYTES);
        let mut pages = self.pages.lock();
        let number = match pages.least_room(chunks) {
            Some(number) => {
                pages.unlink(number);
                number
            }
            None => self.empty_page(&mut pages, shared)?,
        };
        let page = &mut pages.pages[number as usize];
        let slot = (0..self.fold.objects())
            .find(|&slot| page.owners[slot].is_none())
            .expect("an unbuddied page has a free slot");
        let start = match (self.fold, slot) {
            (Fold::Two, 0) => HEADER_CHUNKS,
            (Fold::Two, _) => CHUNKS - chunks,
            (Fold::Three, _) => CHUNKS - page.free_chunks(),
        };
        page.owners[slot] = Some(handle);
        page.chunks[slot] = chunks as u8;
        {
            let mut bytes = self.spans.write(number);
            bytes[slot] = start as u8;
            let checksum = object.checksum.unwrap_or_default();
            bytes[CHECKSUMS_AT + 4 * slot..][..4].copy_from_slice(&checksum.to_ne_bytes());
            bytes[start * CHUNK_BYTES..][..object.bytes.len()].copy_from_slice(object.bytes);
        }
        placed.location = Location {
            span: number,
            slot: slot as u32,
        };
        pages.link(number, self.fold);
        shared.publish(handle, placed);
        Ok(())
    }

    /// Locks the object that `raw`, a value of `entry`, places in a page. `None` when the entry has
    /// changed since, so that the caller starts again.
    #[inline]
    pub(crate) fn lock_object(
        &self,
        entry: &AtomicU64,
        raw: u64,
        placed: Placed,
    ) -> Option<ObjectRef<'_>> {
        let span = self.spans.try_read(placed.location.span)?;
        if entry.load(Ordering::Acquire) != raw {
            return None;
        }
        let slot = placed.location.slot as usize;
        let start = usize::from(span[slot]) * CHUNK_BYTES;
        Some(ObjectRef {
            span,
            range: start..start + placed.length as usize,
            checksum_at: CHECKSUMS_AT + 4 * slot,
        })
    }

    /// Frees the object of `handle`, if its entry still places one of `length` bytes; the entry then
    /// reads as free.
    pub(crate) fn free(&self, shared: PoolWide<'_>, handle: Handle, length: u32) -> Option<Placed> {
        let mut pages = self.pages.lock();
        let placed = shared.unpublish(handle, length)?;
        let (number, slot) = (placed.location.span, placed.location.slot as usize);
        if pages.pages[number as usize].objects() < self.fold.objects() {
            pages.unlink(number);
        }
        let page = &mut pages.pages[number as usize];
        page.owners[slot] = None;
        let freed = std::mem::take(&mut page.chunks[slot]);
        if page.objects() == 0 {
            pages.empty.retire(number, &self.spans, shared);
        } else {
            if self.fold == Fold::Three {
                self.close_gap(number, &pages.pages[number as usize], (slot, freed));
            }
            pages.link(number, self.fold);
        }
        Some(placed)
    }

    /// Moves the objects behind one of `chunks` chunks that was freed to the front by as many.
    fn close_gap(&self, number: u32, page: &Page, (slot, chunks): (usize, u8)) {
        let chunks = usize::from(chunks);
        let mut bytes = self.spans.write(number);
        let gap = usize::from(bytes[slot]);
        let end = CHUNKS - page.free_chunks() + chunks;
        bytes.copy_within(
            (gap + chunks) * CHUNK_BYTES..end * CHUNK_BYTES,
            gap * CHUNK_BYTES,
        );
        for (other, owner) in page.owners.iter().enumerate() {
            if owner.is_some() && usize::from(bytes[other]) > gap {
                bytes[other] -= chunks as u8;
            }
        }
    }

    /// Gives all empty pages that were kept back to the kernel; the bytes of them.
    pub(crate) fn drop_cached(&self, shared: PoolWide<'_>) -> u64 {
        self.pages.lock().empty.drop_cached(&self.spans, shared)
    }

    /// An empty page, on no list.
    fn empty_page(&self, pages: &mut Pages, shared: PoolWide<'_>) -> Result<u32, NoSlot> {
        if pages.empty.are_used_up() {
            self.add_page(pages, shared.budget)?;
        }
        pages.empty.take(&self.spans, shared)
    }

    /// Makes one more empty page, and the mapping that it lies in.
    fn add_page(&self, pages: &mut Pages, budget: &Budget) -> Result<(), NoSlot> {
        let number = pages.pages.len();
        if number == pages.pages.capacity() {
            let more = (number / 8).max(64);
            let bytes = more * (size_of::<Page>() + EmptySpans::STATE_BYTES);
            budget.charge(bytes as u64)?;
            pages.pages.reserve_exact(more);
        }
        self.spans.reach(number, budget)?;
        pages.pages.push(Page::EMPTY);
        pages.empty.discarded.push(number as u32);
        Ok(())
    }

    /// Bytes of the pages that hold memory.
    #[cfg(test)]
    pub(crate) fn held_bytes(&self) -> u64 {
        let pages = self.pages.lock();
        ((pages.pages.len() - pages.empty.discarded.len()) * PAGE_BYTES) as u64
    }

    /// Damages an object.
    #[cfg(test)]
    pub(crate) fn flip_bit(&self, at: Location, byte: usize) {
        let mut bytes = self.spans.write(at.span);
        let start = usize::from(bytes[at.slot as usize]) * CHUNK_BYTES;
        bytes[start + byte] ^= 1;
    }

    /// Checks every invariant of pages and lists.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        let pages = self.pages.lock();
        let mut listed = vec![0; pages.pages.len()];
        for (free, &first) in pages.unbuddied.iter().enumerate() {
            assert_eq!(pages.non_empty >> free & 1 == 1, first != NONE);
            let (mut at, mut before) = (first, NONE);
            while at != NONE {
                let page = &pages.pages[at as usize];
                assert_eq!((page.free_chunks(), page.prev), (free, before));
                assert!((1..self.fold.objects()).contains(&page.objects()));
                listed[at as usize] += 1;
                (before, at) = (at, page.next);
            }
        }
        for &number in pages.empty.cached.iter().chain(&pages.empty.discarded) {
            assert_eq!(pages.pages[number as usize].objects(), 0);
            listed[number as usize] += 1;
        }
        for (number, (page, &times)) in pages.pages.iter().zip(&listed).enumerate() {
            let buddied = page.objects() == self.fold.objects();
            assert_eq!(times, usize::from(!buddied), "page {number}");
            let bytes = self.spans.read(number as u32);
            let mut taken = [false; CHUNKS];
            for (slot, &chunks) in page.chunks.iter().enumerate() {
                assert_eq!(chunks > 0, page.owners[slot].is_some());
                let start = usize::from(bytes[slot]);
                assert!(start >= HEADER_CHUNKS || chunks == 0, "page {number}");
                for taken in &mut taken[start..start + usize::from(chunks)] {
                    assert!(!*taken, "objects of page {number} overlap");
                    *taken = true;
                }
            }
            let gaps = (HEADER_CHUNKS..CHUNKS).filter(|&at| {
                let next_is_taken = taken.get(at + 1).copied().unwrap_or(false);
                !taken[at] && next_is_taken
            });
            let most = if self.fold == Fold::Three { 0 } else { 1 };
            assert!(
                gaps.count() <= most,
                "the free chunks of page {number} are one run"
            );
        }
    }
}

impl Pages {
    /// The unbuddied page with the least room of at least `chunks` chunks.
    fn least_room(&self, chunks: usize) -> Option<u32> {
        let lists = self.non_empty & u64::MAX << chunks;
        (lists != 0).then(|| self.unbuddied[lists.trailing_zeros() as usize])
    }

    /// Puts a page on the list of its free chunks, if it has a free slot.
    fn link(&mut self, number: u32, fold: Fold) {
        let page = &mut self.pages[number as usize];
        if page.objects() == fold.objects() {
            return;
        }
        let free = page.free_chunks();
        let first = std::mem::replace(&mut self.unbuddied[free], number);
        (page.prev, page.next) = (NONE, first);
        if first != NONE {
            self.pages[first as usize].prev = number;
        }
        self.non_empty |= 1 << free;
    }

    /// Takes an unbuddied page off its list, before it changes.
    fn unlink(&mut self, number: u32) {
        let page = self.pages[number as usize];
        let free = page.free_chunks();
        match page.prev {
            NONE => self.unbuddied[free] = page.next,
            prev => self.pages[prev as usize].next = page.next,
        }
        if page.next != NONE {
            self.pages[page.next as usize].prev = page.prev;
        }
        if self.unbuddied[free] == NONE {
            self.non_empty &= !(1 << free);
        }
    }
}
