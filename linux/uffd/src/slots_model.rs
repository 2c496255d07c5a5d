//! Bags of slots under many schedules (shuttle).
//!
//! The file of the bag is compiled again here, over shuttle's atomics. They are sequentially consistent, as those are that
//! the bag's summary relies on.

use std::sync::Arc;

use shuttle::thread;

use slots::{SlotBag, Slots};

#[path = "slots.rs"]
#[allow(dead_code, reason = "the model does not use all of it")]
#[allow(clippy::duplicate_mod, reason = "over other atomics")]
mod slots;

mod atomic {
    pub use shuttle::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
}

const SCHEDULES: usize = 2000;

/// Runs a test under many schedules: uniformly random ones, and ones that put rare orders to the fore.
fn explore(test: impl Fn() + Send + Sync + Copy + 'static) {
    shuttle::check_random(test, SCHEDULES);
    shuttle::check_pct(test, SCHEDULES, 3);
}

/// The numbers of all slots in the bag, which is empty afterwards.
fn drain(bag: &SlotBag) -> Vec<usize> {
    let runs = std::iter::from_fn(|| bag.take(64));
    let mut slots: Vec<_> = runs
        .flat_map(|run| run.first()..run.first() + run.len())
        .collect();
    slots.sort_unstable();
    assert_eq!(bag.len(), 0, "an empty bag counts nothing");
    slots
}

/// Slots on both sides of a word's border.
fn some_slots() -> (SlotBag, usize) {
    let bag = SlotBag::new(68);
    let mut all = Slots::all(68);
    drop(all.split_front(62));
    let len = all.len();
    bag.put(all);
    (bag, len)
}

/// A slot that was put back is found again: no summary loses its word.
#[test]
fn slots_are_found_again_whatever_threads_did() {
    explore(|| {
        let (bag, len) = some_slots();
        let bag = Arc::new(bag);
        let threads: Vec<_> = (0..3)
            .map(|most| {
                let bag = Arc::clone(&bag);
                thread::spawn(move || {
                    for _ in 0..2 {
                        if let Some(slots) = bag.take(1 + 2 * most) {
                            bag.put(slots);
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("it has said why");
        }
        assert_eq!(bag.len(), len);
        assert_eq!(drain(&bag), (62..68).collect::<Vec<_>>());
    });
}

/// Each slot has one owner, and none is lost.
#[test]
fn a_slot_is_taken_once() {
    explore(|| {
        let (bag, _) = some_slots();
        let bag = Arc::new(bag);
        let takers: Vec<_> = (0..2)
            .map(|_| {
                let bag = Arc::clone(&bag);
                thread::spawn(move || {
                    let runs = (0..2).filter_map(|_| bag.take(2));
                    runs.collect::<Vec<_>>()
                })
            })
            .collect();
        let taken = takers
            .into_iter()
            .flat_map(|taker| taker.join().expect("it has said why"));
        let mut slots: Vec<_> = taken
            .flat_map(|run| run.first()..run.first() + run.len())
            .collect();
        slots.extend(drain(&bag));
        slots.sort_unstable();
        assert_eq!(slots, (62..68).collect::<Vec<_>>());
    });
}
