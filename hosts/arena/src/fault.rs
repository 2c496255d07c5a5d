//! The fault path: brings a page to its place, from whatever thread.
//!
//! Order, and why no threads wait in a circle:
//! 1. scratch buffers are taken (given back in any case);
//! 2. a frame is taken, which may wait for the pager;
//! 3. the page is claimed. From here on nothing waits for the pager or the engine: what follows are locks of
//!    the pool that are held for one copy at most, input from the backing file, and system calls.
//!
//! The pager waits for a claimed page nowhere but in the freeing of a region, so it always gets on, and with
//! it threads that wait in step 2.
#![allow(unsafe_code)] // The promise that the fault path keeps the rules of a signal handler.

mod file;
mod fresh;
mod install;
mod stored;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};
use warmswap_codec::Scratch;
use warmswap_engine::chunks::MAX_CHUNK_PAGES;
use warmswap_page::PAGE_BYTES;
use warmswap_page::latency::LatencyHistogram;
use warmswap_policy::reclaim::Arrival;
use warmswap_store::{ChunkStore, MEMBER_BYTES};
use warmswap_uffd::sigbus::FaultService;
use warmswap_uffd::{Mechanism, PagedMemory};

use crate::arrivals::ArrivalQueue;
use crate::error::{FaultError, die};
use crate::files::Files;
use crate::frames::{Frame, Frames};
use crate::gate::Gate;
use crate::hooks::FaultHooks;
use crate::page_words::{Claim, PageWords, State, Word};

/// What the fault path and the pager share. Everything here is used without the engine's lock.
#[derive(Debug)]
pub struct Core {
    /// Addresses and staging.
    pub memory: PagedMemory,
    /// Where each page's content is.
    pub words: PageWords,
    /// Frames, used and free.
    pub frames: Frames,
    /// Compressed chunks.
    pub store: ChunkStore,
    /// What is mapped of files.
    pub files: Files,
    /// Pages that came to their places, for the engine.
    pub arrivals: ArrivalQueue,
    /// What was done.
    pub counts: FaultCounts,
    /// What threads of the arena go through.
    pub gate: Gate,
    /// What the host adds around faults.
    pub hooks: Arc<dyn FaultHooks>,
    slots: Box<[Mutex<FaultScratch>]>,
    next_slot: AtomicUsize,
    /// Frames that neighbours of a fault leave to faults.
    pub neighbour_reserve: usize,
}

/// What the fault path counts.
#[derive(Debug, Default)]
pub struct FaultCounts {
    /// Faults that found work to do.
    pub faults: AtomicU64,
    /// Of them, first touches.
    pub first_touches: AtomicU64,
    /// Of them, pages that were in staging.
    pub staged: AtomicU64,
    /// Of them, pages that were read from their files.
    pub file_faults: AtomicU64,
    /// Chunks that were decompressed, by faults and by restoring.
    pub chunks_read: AtomicU64,
    /// Pages that were read from their files.
    pub file_reads: AtomicU64,
    /// Pages that came along with another, or together ahead of use.
    pub neighbours: AtomicU64,
    /// Pages that came out of their chunks although no thread waited for them: neighbours of a fault, hot sets,
    /// footprints.
    pub restored: AtomicU64,
    /// Of them, those of hot sets and footprints.
    pub restored_ahead: AtomicU64,
    /// Frames that could not be moved, so that the page was copied.
    pub copied: AtomicU64,
    /// Pages whose content is in chunks and nowhere else, as the engine had it when it was last asked.
    pub stored_only: AtomicU64,
    /// Time that a fault took, from its arrival at a handler thread to its page in place.
    pub latency: LatencyHistogram,
}

/// Scratch memory for one fault at a time.
#[derive(Debug)]
pub struct FaultScratch {
    scratch: Scratch,
    plain: Box<[u8]>,
    record: Vec<u8>,
}

impl FaultScratch {
    fn new() -> Self {
        let plain_bytes = MAX_CHUNK_PAGES * PAGE_BYTES;
        Self {
            scratch: Scratch::lean(),
            plain: vec![0; plain_bytes].into(),
            // A record is a chunk that did not shrink, with its members, at worst; and its trailer.
            record: Vec::with_capacity(plain_bytes + MAX_CHUNK_PAGES * MEMBER_BYTES + PAGE_BYTES),
        }
    }

    /// Scratch of the codecs, room for a chunk, room for a record.
    pub fn parts(&mut self) -> (&mut Scratch, &mut [u8], &mut Vec<u8>) {
        (&mut self.scratch, &mut self.plain, &mut self.record)
    }

    /// Bytes of scratch memory, about.
    pub const BYTES: usize = 1 << 20;
}

/// Why a page is brought back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A thread waits: frames are waited for.
    Demand,
    /// A thread waits that the pager may be waiting for: a frame beyond the limit, if need be.
    DemandAtOnce,
    /// Ahead of use, told to the engine as this: only while frames can be spared.
    Prefetch(Arrival),
}

impl Wanted {
    fn arrival(self) -> Arrival {
        match self {
            Self::Demand | Self::DemandAtOnce => Arrival::Touched,
            Self::Prefetch(arrival) => arrival,
        }
    }

    /// Whether a thread waits.
    fn is_awaited(self) -> bool {
        matches!(self, Self::Demand | Self::DemandAtOnce)
    }
}

/// What became of a page that was wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// It was brought to its place; threads that waited for it are awake.
    Brought,
    /// It was in its place already.
    AlreadyResident,
    /// No frame can be spared.
    NoFrame,
}

/// Places of the arrival queue: one a page, in arenas of neither few pages nor many. What has to be looked at where the queue
/// has forgotten something is in proportion to the arena then.
const LEAST_ARRIVALS: usize = 1 << 8;
const MOST_ARRIVALS: usize = 1 << 16;

/// Waits for a frame in a row that freed none, after which the pager may itself be waiting for a fault to be resolved.
const WAITS_IN_VAIN: u32 = 3;

/// Pages that the kernel is asked about before a page that should be there counts as vanished.
const VANISHED_AFTER: u32 = 1000;

// SAFETY: `serve` touches no page of the range: it works on staging slots, its own tables and the service
// slots, all outside. It does not unwind (what can fail is a typed error, which ends the process), and it waits
// only as the module's documentation says. The locks that it may wait for are held by the arena's own code,
// which never touches the range while it holds them.
unsafe impl FaultService for Core {
    fn serve(&self, address: usize) {
        self.resolve_fault(address);
    }
}

impl Core {
    /// A core without service slots ([`Self::set_slots`]).
    pub(crate) fn new(
        memory: PagedMemory,
        frames: Frames,
        words: PageWords,
        store: ChunkStore,
        hooks: Arc<dyn FaultHooks>,
    ) -> Self {
        let arrivals = (memory.range().len() / PAGE_BYTES).clamp(LEAST_ARRIVALS, MOST_ARRIVALS);
        Self {
            memory,
            words,
            frames,
            store,
            files: Files::default(),
            arrivals: ArrivalQueue::new(arrivals),
            counts: FaultCounts::default(),
            gate: Gate::default(),
            hooks,
            slots: Box::default(),
            next_slot: AtomicUsize::new(0),
            neighbour_reserve: 0,
        }
    }

    /// Makes scratch memory for so many faults at a time, at least one.
    pub(crate) fn set_slots(&mut self, count: usize) {
        let slots = (0..count.max(1)).map(|_| Mutex::new(FaultScratch::new()));
        self.slots = slots.collect();
    }

    /// Brings the page at an address back, or ends the process.
    pub fn resolve_fault(&self, address: usize) {
        let result = match self.memory.page_of(address) {
            Some(page) => self.fault_in(page, Wanted::Demand).map(drop),
            None => Err(FaultError::NotMapped),
        };
        if let Err(error) = result {
            die(address, &error);
        }
    }

    /// Brings a page to its place.
    ///
    /// # Errors
    /// The page is lost, or not mapped.
    pub fn fault_in(&self, page: usize, wanted: Wanted) -> Result<Served, FaultError> {
        let mut looks = 0;
        loop {
            let word = self.words.word(page);
            let served = match word.state {
                State::Unmapped => return Err(FaultError::NotMapped),
                State::Busy => {
                    std::thread::yield_now();
                    None
                }
                // The kernel's tables are looked at for accesses that failed only.
                State::Resident if !wanted.is_awaited() => Some(Served::AlreadyResident),
                State::Resident if self.is_accessible(page, word)? => Some(Served::AlreadyResident),
                State::Resident if looks == VANISHED_AFTER => return Err(FaultError::Vanished),
                State::Resident => {
                    looks += 1;
                    None
                }
                State::Protected => self.unprotect(page, word, wanted)?,
                State::Staged => self.fault_in_staged(page, word, wanted)?,
                State::Fresh | State::Stored | State::InFile => {
                    self.fault_in_away(page, word, wanted)?
                }
            };
            if let Some(served) = served {
                return Ok(served);
            }
        }
    }

    /// Brings a page that has no frame to its place, with others that come along. `None` if it is not as `word` says any
    /// more.
    fn fault_in_away(
        &self,
        page: usize,
        word: Word,
        wanted: Wanted,
    ) -> Result<Option<Served>, FaultError> {
        let Some(frame) = self.frame_for(page, word, wanted) else {
            let is_unchanged = self.words.word(page) == word;
            return Ok(is_unchanged.then_some(Served::NoFrame));
        };
        let Some(claim) = self.words.claim(page, word) else {
            self.frames.give_back(frame);
            return Ok(None);
        };
        match word.state {
            State::Fresh => self.fault_in_fresh(claim, frame, wanted.arrival())?,
            State::InFile => self.fault_in_from_file(claim, frame, wanted.arrival())?,
            _ => self.fault_in_stored(claim, frame, wanted)?,
        }
        Ok(Some(Served::Brought))
    }

    /// Brings the pages of a list to their places ahead of use, those in front first; how many of them are dealt
    /// with. The rest is left when no frames can be spared. Pages that are not mapped are passed over.
    ///
    /// # Errors
    /// A page is lost.
    pub fn restore(&self, pages: &[u32], arrival: Arrival) -> Result<usize, FaultError> {
        let mut done = 0;
        while let Some(&page) = pages.get(done) {
            if self.words.word(page as usize).state == State::Stored {
                let together = self.restore_together(&pages[done..], arrival)?;
                done += together;
                if together > 0 {
                    continue;
                }
            }
            match self.fault_in(page as usize, Wanted::Prefetch(arrival)) {
                Ok(Served::NoFrame) => break,
                // Its region was dropped.
                Ok(Served::Brought | Served::AlreadyResident) | Err(FaultError::NotMapped) => {
                    done += 1
                }
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Whether the access can be tried again: a page that is in its place may still be write-protected, and
    /// one that the kernel does not have was discarded by other means.
    fn is_accessible(&self, page: usize, word: Word) -> Result<bool, FaultError> {
        if !self.memory.has_frame(page) {
            return Ok(false);
        }
        if self.memory.can_protect() {
            // Only while the page is held: else the pager could have protected it anew for a reason.
            let Some(claim) = self.words.claim(page, word) else {
                return Ok(false);
            };
            let result = self.memory.write_protect(page, 1, false);
            self.release(claim, |before| before);
            result?;
        }
        Ok(true)
    }

    /// A page on its way out in its place stays. `None` if it is not as `word` says any more.
    fn unprotect(
        &self,
        page: usize,
        word: Word,
        wanted: Wanted,
    ) -> Result<Option<Served>, FaultError> {
        let Some(claim) = self.words.claim(page, word) else {
            return Ok(None);
        };
        self.counts.staged.fetch_add(1, Ordering::Relaxed);
        self.memory.write_protect(page, 1, false)?;
        self.release(claim, |before| before.arrived(wanted.arrival()));
        Ok(Some(Served::Brought))
    }

    /// A page in staging goes straight back. `None` if it is not as `word` says any more.
    fn fault_in_staged(
        &self,
        page: usize,
        word: Word,
        wanted: Wanted,
    ) -> Result<Option<Served>, FaultError> {
        let Some(mut claim) = self.words.claim(page, word) else {
            return Ok(None);
        };
        self.counts.faults.fetch_add(1, Ordering::Relaxed);
        self.counts.staged.fetch_add(1, Ordering::Relaxed);
        if let Some(slot) = claim.take_slot() {
            self.install_or_die(page, slot);
        }
        self.release(claim, |before| before.arrived(wanted.arrival()));
        Ok(Some(Served::Brought))
    }

    /// Lets a page go, and says so if the engine is to hear of it.
    pub fn release(&self, claim: Claim<'_>, word: impl FnOnce(Word) -> Word) {
        let (page, word) = (claim.page, word(claim.before));
        claim.release(word);
        if word.arrival.is_some() && self.arrivals.push(page) {
            self.frames.call_pager();
        }
    }

    /// A frame for a page of that word, or frames for those that may come along, as far as they can be spared.
    /// `None` when the word changed while waiting, or when none can be spared for a prefetch.
    fn frame_for(&self, page: usize, word: Word, wanted: Wanted) -> Option<Frame<'_>> {
        let along = match word.state {
            State::Fresh | State::InFile => self.fresh_window(page),
            _ if self.mechanism_at(page) == Mechanism::Move => self.store.pages(word.chunk),
            _ => 1,
        };
        if along > 1 {
            if let Some(run) = self.frames.take_run(along, self.neighbour_reserve) {
                return Some(Frame::Free(run));
            }
            if word.state != State::Stored
                && let Some(frames) = self.frames.try_new(along)
            {
                return Some(Frame::New(frames));
            }
        }
        let mut waits_in_vain = 0;
        loop {
            let generation = self.frames.generation();
            let spare = wanted.is_awaited() || self.frames.available() > self.neighbour_reserve;
            if spare && let Some(frame) = self.frames.try_take() {
                return Some(frame);
            }
            if !wanted.is_awaited() || self.words.word(page) != word {
                return None;
            }
            // All handlers may be here, while a thread that holds the engine's lock waits for one of them.
            let is_stuck = waits_in_vain >= WAITS_IN_VAIN && self.gate.is_held_up();
            if wanted == Wanted::DemandAtOnce || is_stuck {
                return Some(Frame::New(self.frames.force_new()));
            }
            // The faults of other threads are not to wait along.
            self.hooks.before_wait();
            self.frames.wait(generation);
            let is_in_vain = self.frames.generation() == generation;
            waits_in_vain = if is_in_vain { waits_in_vain + 1 } else { 0 };
        }
    }

    /// Scratch buffers that no other thread uses. A thread that holds them never blocks on a thread without.
    pub fn scratch(&self) -> MutexGuard<'_, FaultScratch> {
        loop {
            let start = self.next_slot.fetch_add(1, Ordering::Relaxed);
            let n = self.slots.len();
            let free = (0..n).find_map(|i| self.slots[(start + i) % n].try_lock());
            match free {
                Some(scratch) => return scratch,
                None => std::thread::yield_now(),
            }
        }
    }

    /// Bytes of scratch memory that the budget does not count, about.
    pub fn scratch_bytes(&self) -> usize {
        self.slots.len() * FaultScratch::BYTES
    }
}

impl Core {
    /// A page whose way out failed goes back to its place, if its word is still `word`; the engine takes it
    /// back too, so that there is no arrival to queue.
    pub fn bring_back(&self, page: usize, word: Word) -> Result<(), FaultError> {
        let Some(mut claim) = self.words.claim(page, word) else {
            return Ok(());
        };
        match claim.take_slot() {
            Some(slot) => self.install_or_die(page, slot),
            None => self.memory.write_protect(page, 1, false)?,
        }
        self.release(claim, |before| before.now(State::Resident));
        Ok(())
    }
}
