//! A bag of slots by itself, and with real threads.

use super::slots::{SlotBag, Slots};

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
fn a_large_bag_finds_its_only_slots_wherever_the_last_search_was() {
    let slots = 64 * 64 * 3 + 5;
    let bag = SlotBag::new(slots);
    let mut all = Slots::all(slots as u32);
    drop(all.split_front(70));
    let early = all.split_front(3);
    drop(all.split_front(64 * 64 * 2));
    let late = all.split_front(2);
    let firsts = [early.first(), late.first()];
    for slots in [late, early] {
        bag.put(slots);
    }
    for _ in 0..3 {
        let mut found = [bag.take(8), bag.take(8)].map(|slots| slots.expect("two places"));
        found.sort_by_key(Slots::first);
        assert_eq!(found.each_ref().map(Slots::first), firsts);
        assert_eq!(bag.take(1), None);
        found.into_iter().for_each(|slots| bag.put(slots));
    }
    assert_eq!(bag.take_run(4), None);
    assert_eq!(bag.take_run(3).map(|run| run.first()), Some(firsts[0]));
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
