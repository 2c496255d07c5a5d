//! The gate that work goes through, so that a `fork` can wait until none is under way.
//!
//! A thread that works on the arena's memory or tables is inside. A closing gate lets the work that is inside come to its
//! end, and lets the pager and the fault handlers in, since that work may wait for them; no other thread. A closed gate
//! has no thread inside: all tables are whole, and no lock is held.
//!
//! Threads that entered by [`Gate::enter`] are known by number. They may hold the engine's lock and fault all the same,
//! where a stack or thread-local storage is paged memory: such a fault must wait neither for the pager, which needs that
//! lock, nor for the end of a fork, which waits for the thread.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

// In unit tests this file is compiled a second time, over shuttle's atomics (`model.rs`).
use super::sync::Word;

/// Only the pager and fault handlers enter.
const CLOSING: u32 = 1 << 30;
/// No thread enters.
const CLOSED: u32 = 1 << 31;
const COUNT: u32 = CLOSING - 1;

/// Threads that can be inside, or wait to be, by [`Gate::enter`] at a time; others wait for one of them to leave.
const SEATS: usize = 64;

/// Counts the threads inside, in one word, and knows those that may hold the engine's lock.
#[derive(Debug)]
pub struct Gate {
    word: Word,
    /// Numbers of threads that are inside by [`Gate::enter`], that close the gate, or are about to; 0 for none.
    seats: [AtomicU32; SEATS],
    /// The seat of the thread that closed the gate.
    closer: AtomicUsize,
}

/// The thread is inside. Dropping it leaves the gate.
#[derive(Debug)]
#[must_use = "dropping the guard leaves the gate immediately"]
pub struct Inside<'a> {
    gate: &'a Gate,
    seat: Option<usize>,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            word: Word::default(),
            seats: [const { AtomicU32::new(0) }; SEATS],
            closer: AtomicUsize::new(0),
        }
    }
}

impl Gate {
    /// Goes inside; waits while the gate is closing or closed.
    pub fn enter(&self) -> Inside<'_> {
        debug_assert!(
            !warmswap_uffd::is_idle(),
            "forks would wait for a thread at idle priority"
        );
        // Before it is inside, so that no fault of a thread inside is one of an unknown thread.
        let seat = self.take_seat();
        let mut inside = self.enter_unless(CLOSING | CLOSED);
        inside.seat = Some(seat);
        inside
    }

    fn take_seat(&self) -> usize {
        let own = thread_number();
        loop {
            let taken = self.seats.iter().position(|seat| {
                seat.compare_exchange(0, own, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
            });
            match taken {
                Some(seat) => return seat,
                None => std::thread::yield_now(),
            }
        }
    }

    /// Goes inside as the pager, for whose work others inside may wait.
    pub fn enter_as_pager(&self) -> Inside<'_> {
        self.enter_unless(CLOSED)
    }

    /// Goes inside as a fault handler, unless the gate is closed; and whether it is closing: then only faults of threads
    /// for which [`Self::holds_up`] are to be resolved.
    pub fn enter_as_handler(&self) -> Option<(Inside<'_>, bool)> {
        let enter = |word| (word & CLOSED == 0).then_some(word + 1);
        let before = self.word.update(enter).ok()?;
        let inside = Inside {
            gate: self,
            seat: None,
        };
        Some((inside, before & CLOSING != 0))
    }

    /// Whether the engine's lock or the closing of the gate may wait for this thread.
    pub fn holds_up(&self, thread: u32) -> bool {
        let is_it = |number: &AtomicU32| number.load(Ordering::Acquire) == thread;
        thread != 0 && self.seats.iter().any(is_it)
    }

    /// Whether there is a thread that the engine's lock or the closing of the gate may wait for.
    pub fn is_held_up(&self) -> bool {
        let is_taken = |seat: &AtomicU32| seat.load(Ordering::Acquire) != 0;
        self.seats.iter().any(is_taken)
    }

    /// Whether no thread is inside, and none enters.
    pub fn is_closed(&self) -> bool {
        self.word.load() & CLOSED != 0
    }

    fn enter_unless(&self, shut: u32) -> Inside<'_> {
        loop {
            match self.try_enter(shut) {
                Ok(inside) => return inside,
                Err(word) => self.word.wait(word),
            }
        }
    }

    /// Goes inside unless the word has one of the bits `shut`; else the word.
    fn try_enter(&self, shut: u32) -> Result<Inside<'_>, u32> {
        let enter = |word| (word & shut == 0).then_some(word + 1);
        self.word.update(enter).map(|_| Inside {
            gate: self,
            seat: None,
        })
    }

    /// Closes the gate and waits until no thread is inside. One thread at a time closes it; others wait for their
    /// turn. Not to be called from inside.
    pub fn close(&self) {
        let seat = self.take_seat();
        loop {
            let begin = |word| (word & (CLOSING | CLOSED) == 0).then_some(word | CLOSING);
            match self.word.update(begin) {
                Ok(_) => break,
                Err(word) => self.word.wait(word),
            }
        }
        loop {
            let word = self.word.load();
            if word & COUNT > 0 {
                self.word.wait(word);
                continue;
            }
            let close = |found| (found == word).then_some(CLOSED);
            if self.word.update(close).is_ok() {
                self.closer.store(seat, Ordering::Relaxed);
                // The threads that wait can do without now.
                self.word.wake();
                return;
            }
        }
    }

    /// Opens a closed gate.
    pub fn open(&self) {
        self.leave_seat();
        self.word.store(0);
        self.word.wake();
    }

    /// Opens a closed gate and is inside, before anybody can close it again.
    pub fn open_and_stay(&self) -> Inside<'_> {
        self.leave_seat();
        self.word.store(1);
        self.word.wake();
        Inside {
            gate: self,
            seat: None,
        }
    }

    fn leave_seat(&self) {
        self.seats[self.closer.load(Ordering::Relaxed)].store(0, Ordering::Release);
    }

    /// In the child of a `fork`, where the gate is closed: the threads that waited for it are the parent's.
    pub fn forget_waiting(&self) {
        for seat in &self.seats {
            seat.store(0, Ordering::Relaxed);
        }
    }
}

fn thread_number() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let before = self.gate.word.decrement();
        if let Some(seat) = self.seat {
            self.gate.seats[seat].store(0, Ordering::Release);
        }
        if before & CLOSING != 0 && before & COUNT == 1 {
            self.gate.word.wake();
        }
    }
}
