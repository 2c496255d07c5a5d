//! The arrival queue: what the fault path brought to its place, for the engine to hear of.

// In unit tests this file is compiled a second time, over shuttle's atomics (`arrivals_model.rs`).
use super::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// A lock-free queue of page numbers that says where the engine has to look. It may forget: then it says
/// that everything has to be looked at.
#[derive(Debug)]
pub struct ArrivalQueue {
    /// Page number plus one; 0 where there is none.
    ring: Box<[AtomicU32]>,
    tail: AtomicU64,
    head: AtomicU64,
    has_overflown: AtomicBool,
}

impl ArrivalQueue {
    /// A queue of `capacity` places.
    pub fn new(capacity: usize) -> Self {
        Self {
            ring: (0..capacity).map(|_| AtomicU32::new(0)).collect(),
            tail: AtomicU64::new(0),
            head: AtomicU64::new(0),
            has_overflown: AtomicBool::new(false),
        }
    }

    fn place(&self, position: u64) -> &AtomicU32 {
        &self.ring[(position % self.ring.len() as u64) as usize]
    }

    /// Queues a page that has an arrival. Any thread; never waits. True when the queue has become half full.
    pub fn push(&self, page: usize) -> bool {
        let position = self.tail.fetch_add(1, Ordering::SeqCst);
        let put = self.place(position).compare_exchange(
            0,
            page as u32 + 1,
            Ordering::SeqCst,
            Ordering::Relaxed,
        );
        let head = self.head.load(Ordering::SeqCst);
        if put.is_err() || head > position {
            // There was no room, or the reader has passed this place by.
            self.has_overflown.store(true, Ordering::SeqCst);
            return true;
        }
        position - head >= self.ring.len() as u64 / 2
    }

    /// The next page that has an arrival. One thread only.
    ///
    /// A place that was taken and not yet filled is passed by, so that the reader never waits for a thread that was
    /// interrupted there. The place is looked at once more after the head has moved: either that finds the
    /// page, or the writer finds the head beyond its place and reports an overflow.
    pub fn pop(&self) -> Option<usize> {
        let mut head = self.head.load(Ordering::SeqCst);
        while head < self.tail.load(Ordering::SeqCst) {
            let place = self.place(head);
            head += 1;
            let mut page = place.swap(0, Ordering::SeqCst);
            self.head.store(head, Ordering::SeqCst);
            if page == 0 {
                page = place.swap(0, Ordering::SeqCst);
            }
            if page != 0 {
                return Some(page as usize - 1);
            }
        }
        None
    }

    /// Whether arrivals were dropped since the last call: then every page is to be looked at. One thread only.
    pub fn take_overflow(&self) -> bool {
        if !self.has_overflown.swap(false, Ordering::SeqCst) {
            return false;
        }
        // What is put into a place before the new head while this runs had its arrival in its word before,
        // where the caller finds them.
        self.ring
            .iter()
            .for_each(|place| place.store(0, Ordering::SeqCst));
        let tail = self.tail.load(Ordering::SeqCst);
        self.head.store(tail, Ordering::SeqCst);
        true
    }
}
