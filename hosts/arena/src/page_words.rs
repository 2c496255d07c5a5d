//! One atomic word a page that says where its content is. The truth of the arena.
//!
//! A word changes hands by compare-and-swap: the thread that makes it [`State::Busy`] holds the page, and with it
//! its staging slot and its chunk, until the word is released.
#![allow(unsafe_code)] // One place: a slot's number becomes its owner's again.

mod packed;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use warmswap_engine::chunks::MAX_CHUNK_PAGES;
use warmswap_policy::ChunkId;
use warmswap_policy::reclaim::Arrival;
use warmswap_uffd::{AtomicTable, Slots, is_idle};

use crate::error::say;

pub use packed::HeldGrain;
use packed::PackedWords;

/// Where the content of a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// In no region.
    Unmapped,
    /// Never touched: zeros.
    Fresh,
    /// In its place.
    Resident,
    /// A thread is moving it; wait.
    Busy,
    /// In a staging slot: on its way out, or prefetched.
    Staged,
    /// In its place, but write-protected: on its way out where frames cannot be moved.
    Protected,
    /// In its chunk only.
    Stored,
    /// In its file only.
    InFile,
}

impl State {
    /// Whether the content is in a frame: in its place, or on its way from there or to it.
    pub fn is_in_frame(self) -> bool {
        matches!(self, Self::Resident | Self::Staged | Self::Protected)
    }
}

const STATES: [State; 8] = [
    State::Unmapped,
    State::Fresh,
    State::Resident,
    State::Busy,
    State::Staged,
    State::Protected,
    State::Stored,
    State::InFile,
];

/// A page's word, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// Where the content is.
    pub state: State,
    /// How the page became resident, until the pager has told the engine.
    pub arrival: Option<Arrival>,
    /// It must not leave its place.
    pub pinned: bool,
    /// The staging slot of a staged page.
    slot: u32,
    /// The chunk that holds its content, or held it when it was last stored.
    pub chunk: ChunkId,
    /// Its place among the chunk's pages.
    pub index: u8,
}

const ARRIVAL_SHIFT: u32 = 3;
const PINNED: u64 = 1 << 5;
const INDEX_SHIFT: u32 = 6;
const SLOT_SHIFT: u32 = 11;
const CHUNK_SHIFT: u32 = 32;
/// Staging slots that a word can name.
pub const MAX_SLOTS: usize = 1 << (CHUNK_SHIFT - SLOT_SHIFT);
const _: () = assert!(MAX_CHUNK_PAGES <= 1 << (SLOT_SHIFT - INDEX_SHIFT));

impl Word {
    /// A page of that state without slot or chunk.
    pub const fn of(state: State) -> Self {
        Self {
            state,
            arrival: None,
            pinned: false,
            slot: 0,
            chunk: ChunkId::NONE,
            index: 0,
        }
    }

    /// The same chunk, another state.
    pub const fn now(self, state: State) -> Self {
        Self { state, ..self }
    }

    /// In its place, and the engine is to hear of it.
    pub fn arrived(self, arrival: Arrival) -> Self {
        let arrival = match (self.arrival, arrival) {
            (Some(Arrival::Touched), _) => Arrival::Touched,
            (_, arrival) => arrival,
        };
        Self {
            state: State::Resident,
            arrival: Some(arrival),
            ..self
        }
    }

    /// Pinned or not.
    pub const fn pinned(self, pinned: bool) -> Self {
        Self { pinned, ..self }
    }

    /// In this slot.
    pub fn staged(self, slot: Slots) -> Self {
        Self {
            state: State::Staged,
            slot: slot.into_number(),
            ..self
        }
    }

    /// In this chunk.
    pub const fn stored(self, chunk: ChunkId, index: u8) -> Self {
        Self {
            state: State::Stored,
            chunk,
            index,
            ..self
        }
    }

    fn pack(self) -> u64 {
        let arrival = match self.arrival {
            None => 0,
            Some(Arrival::Untouched) => 1,
            Some(Arrival::Touched) => 2,
        };
        // Chunk numbers are stored plus one, so that a word of zeros is an unmapped page without a chunk.
        let chunk = self.chunk.0.wrapping_add(1);
        self.state as u64
            | arrival << ARRIVAL_SHIFT
            | if self.pinned { PINNED } else { 0 }
            | u64::from(self.index) << INDEX_SHIFT
            | u64::from(self.slot) << SLOT_SHIFT
            | u64::from(chunk) << CHUNK_SHIFT
    }

    fn unpack(raw: u64) -> Self {
        Self {
            state: STATES[(raw & 7) as usize % STATES.len()],
            arrival: match raw >> ARRIVAL_SHIFT & 3 {
                0 => None,
                1 => Some(Arrival::Untouched),
                _ => Some(Arrival::Touched),
            },
            pinned: raw & PINNED != 0,
            index: (raw >> INDEX_SHIFT) as u8 % MAX_CHUNK_PAGES as u8,
            slot: (raw >> SLOT_SHIFT) as u32 % MAX_SLOTS as u32,
            chunk: ChunkId(((raw >> CHUNK_SHIFT) as u32).wrapping_sub(1)),
        }
    }
}

/// A page that this thread holds. Dropping it lets the page go as it was, so that no error leaves a page busy; dropping it
/// after its slot was taken ends the process, since the content would be lost.
#[derive(Debug)]
#[must_use = "dropping the claim lets the page go as it was"]
pub struct Claim<'a> {
    cell: &'a AtomicU64,
    /// The page's number.
    pub page: usize,
    /// What its word was.
    pub before: Word,
}

impl Claim<'_> {
    /// The slot of a page that was staged. Once only.
    pub fn take_slot(&mut self) -> Option<Slots> {
        if self.before.state != State::Staged {
            return None;
        }
        self.before.state = State::Busy;
        // SAFETY: `Word::staged` got the number from `into_number`, and the word was the only place that held
        // it. The compare-and-swap that made this claim took the number out of the word, and the state just
        // set keeps it from being taken twice.
        Some(unsafe { Slots::from_number(self.before.slot) })
    }

    /// Lets the page go, with this word.
    pub fn release(self, word: Word) {
        self.cell.store(word.pack(), Ordering::Release);
        std::mem::forget(self);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if self.before.state == State::Busy {
            say("warmswap: the frame of a page was lost on its way\n");
            std::process::abort();
        }
        self.cell.store(self.before.pack(), Ordering::Release);
    }
}

/// The words of all pages, and for schemes that keep copies a hash of each stored page.
#[derive(Debug)]
pub struct PageWords {
    packed: PackedWords,
    /// Two words a page: a hash of the content that its chunk holds. Used by the pager only.
    hashes: Option<AtomicTable<AtomicU64>>,
}

impl PageWords {
    /// Pages whose words share a page of memory; regions begin at multiples of it.
    pub const GRAIN_PAGES: usize = packed::GRAIN_PAGES;

    /// The words of unmapped pages.
    ///
    /// # Errors
    /// The address space has no room.
    pub fn new(pages: usize, with_hashes: bool) -> Result<Self, std::io::Error> {
        let hashes = with_hashes.then(|| AtomicTable::new(2 * pages));
        Ok(Self {
            packed: PackedWords::new(pages)?,
            hashes: hashes.transpose()?,
        })
    }

    /// Bytes of memory that it takes for so many mapped pages.
    pub fn state_bytes(&self, mapped_pages: usize) -> usize {
        self.packed.state_bytes(mapped_pages)
    }

    /// The page's word; an unmapped one for numbers beyond the last page.
    pub fn word(&self, page: usize) -> Word {
        let raw = self.packed.load(page);
        raw.map_or(Word::of(State::Unmapped), Word::unpack)
    }

    /// The parts of a range whose pages may have been touched.
    pub fn touched(&self, pages: Range<usize>) -> impl Iterator<Item = Range<usize>> + '_ {
        self.packed.touched(pages)
    }

    /// Holds the first grains of a range as long as these lie in it whole and none of their pages was touched since it was
    /// mapped.
    pub fn hold_untouched(&self, pages: &Range<usize>) -> Vec<HeldGrain<'_>> {
        self.packed.hold_alike_at(pages)
    }

    /// Changes the words of a range that only the caller maps and unmaps, as [`Self::update`] does each; the first page that
    /// `change` leaves. `change` keeps chunk and slot.
    pub fn update_all(
        &self,
        pages: Range<usize>,
        change: impl Fn(Word) -> Option<Word>,
    ) -> Option<usize> {
        let mut page = pages.start;
        while page < pages.end {
            let held = self.hold_untouched(&(page..pages.end));
            for grain in held {
                let Some(word) = change(grain.before()) else {
                    return Some(page);
                };
                grain.release(word);
                page += Self::GRAIN_PAGES;
            }
            let end = (page + 1)
                .next_multiple_of(Self::GRAIN_PAGES)
                .min(pages.end);
            for page in page..end {
                if self.update(page, &change).is_none() {
                    return Some(page);
                }
            }
            page = end;
        }
        None
    }

    /// The page's word when no thread holds it; waits for a holder.
    pub fn settled(&self, page: usize) -> Word {
        loop {
            let word = self.word(page);
            if word.state != State::Busy {
                return word;
            }
            std::thread::yield_now();
        }
    }

    /// Takes hold of the page if its word is still `expected`.
    pub fn claim(&self, page: usize, expected: Word) -> Option<Claim<'_>> {
        debug_assert!(expected.state != State::Busy);
        debug_assert!(
            !is_idle(),
            "faults would wait for a thread at idle priority"
        );
        if self.word(page) != expected {
            return None;
        }
        let cell = self.packed.own_or_split(page)?;
        let busy = Word {
            state: State::Busy,
            slot: 0,
            ..expected
        };
        cell.compare_exchange(
            expected.pack(),
            busy.pack(),
            Ordering::AcqRel,
            Ordering::Acquire,
        )
        .ok()
        .map(|_| Claim {
            cell,
            page,
            before: expected,
        })
    }

    /// Changes a word that no thread holds; waits for a holder. `change` gives `None` to leave it.
    pub fn update(&self, page: usize, change: impl Fn(Word) -> Option<Word>) -> Option<Word> {
        let is_alike = self.packed.own(page).is_none();
        if is_alike && self.word(page).state != State::Busy && change(self.word(page)).is_none() {
            return None;
        }
        let cell = self.packed.own_or_split(page)?;
        loop {
            let raw = cell.load(Ordering::Acquire);
            let word = Word::unpack(raw);
            if word.state == State::Busy {
                std::thread::yield_now();
                continue;
            }
            let next = change(word)?;
            let swapped =
                cell.compare_exchange(raw, next.pack(), Ordering::AcqRel, Ordering::Acquire);
            if swapped.is_ok() {
                return Some(word);
            }
        }
    }

    /// Takes the arrival off a page's word. `None` also while a thread holds the page: the thread that
    /// releases a page with an arrival queues it again.
    pub fn take_arrival(&self, page: usize) -> Option<Arrival> {
        let cell = self.packed.own(page)?;
        loop {
            let raw = cell.load(Ordering::Acquire);
            let word = Word::unpack(raw);
            if word.state == State::Busy {
                return None;
            }
            let arrival = word.arrival?;
            let told = Word {
                arrival: None,
                ..word
            }
            .pack();
            let swapped = cell.compare_exchange(raw, told, Ordering::AcqRel, Ordering::Acquire);
            if swapped.is_ok() {
                return Some(arrival);
            }
        }
    }

    /// Notes the hash of the content that the page's chunk holds.
    pub fn set_hash(&self, page: usize, hash: u128) {
        let Some(hashes) = &self.hashes else { return };
        self.packed.has_hashes(page);
        for (i, half) in [hash as u64, (hash >> 64) as u64].into_iter().enumerate() {
            if let Some(cell) = hashes.get(2 * page + i) {
                cell.store(half, Ordering::Relaxed);
            }
        }
    }

    /// The hash that was last noted.
    pub fn hash(&self, page: usize) -> Option<u128> {
        let hashes = self.hashes.as_ref()?;
        let half = |i| hashes.get(2 * page + i).map(|c| c.load(Ordering::Relaxed));
        Some(u128::from(half(0)?) | u128::from(half(1)?) << 64)
    }

    /// Gives back the memory of the words of pages that are unmapped, and that no thread holds.
    pub fn discard(&self, first: usize, pages: usize) -> Result<(), std::io::Error> {
        if let Some(hashes) = &self.hashes {
            hashes.discard(2 * first, 2 * pages)?;
        }
        self.packed.discard(first, pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_packing_and_zero_is_unmapped() {
        assert_eq!(Word::unpack(0), Word::of(State::Unmapped));
        for state in STATES {
            for arrival in [None, Some(Arrival::Touched), Some(Arrival::Untouched)] {
                let word = Word {
                    state,
                    arrival,
                    pinned: arrival.is_none(),
                    slot: MAX_SLOTS as u32 - 1,
                    chunk: ChunkId(u32::MAX - 1),
                    index: MAX_CHUNK_PAGES as u8 - 1,
                };
                assert_eq!(Word::unpack(word.pack()), word);
            }
        }
    }

    #[test]
    fn one_of_many_claims_succeeds_and_an_arrival_is_taken_once() {
        let words = PageWords::new(4096, false).expect("address space");
        let fresh = Word::of(State::Fresh);
        words.update(7, |_| Some(fresh));
        let claim = words.claim(7, fresh).expect("no thread holds it");
        assert!(words.claim(7, fresh).is_none());
        assert_eq!(words.take_arrival(7), None);
        claim.release(fresh.arrived(Arrival::Untouched));
        assert_eq!(words.take_arrival(7), Some(Arrival::Untouched));
        assert_eq!(words.take_arrival(7), None);
        assert_eq!(words.word(7).state, State::Resident);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "idle priority")]
    fn a_thread_at_idle_priority_holds_no_page() {
        let words = PageWords::new(4096, false).expect("address space");
        let fresh = Word::of(State::Fresh);
        words.update(7, |_| Some(fresh));
        if warmswap_uffd::be_idle().is_err() {
            panic!("this kernel has no idle priority");
        }
        let _ = words.claim(7, fresh);
    }
}
