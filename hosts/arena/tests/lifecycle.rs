//! Regions come and go, applications go to the background and come back, copies are kept.

mod common;

use common::*;
use warmswap_arena::{Arena, ArenaConfig, Mechanism};

#[test]
fn a_relaunch_brings_the_hot_set_back() {
    for mechanism in [Mechanism::Move, Mechanism::Copy] {
        if !can_run("a_relaunch_brings_the_hot_set_back", mechanism) {
            continue;
        }
        let arena = Arena::new(ArenaConfig {
            mechanism,
            ..config(4 * MIB, "ariadne-al-1k-2k-16k")
        })
        .expect("an arena");
        let app = arena.application("app").expect("room");
        let region = app.region(2 * MIB).expect("a region");
        let memory = words(&region);
        let hot = 64..192;
        app.foreground();
        app.launch_done();
        (0..512).for_each(|page| write_page(memory, page, 1));
        leave(&region);
        for _ in 0..2 {
            app.foreground();
            hot.clone().for_each(|page| check_page(memory, page, 1));
            app.launch_done();
            app.background();
            leave(&region);
        }
        let bytes = hot.start * PAGE..hot.end * PAGE;
        // What comes along with a hot page counts as hot.
        assert!(app.hot_pages() >= hot.len() as u64);
        app.foreground();
        app.launch_done();
        let faults = arena.stats().faults;
        hot.clone().for_each(|page| check_page(memory, page, 1));
        assert_eq!(arena.stats().faults, faults, "{mechanism:?}");
        assert_eq!(
            region.resident_pages(bytes).expect("in the region"),
            hot.len()
        );
        (0..512).for_each(|page| check_page(memory, page, 1));
        check_account(&arena);
    }
}

#[test]
fn a_clean_page_leaves_again_without_compression() {
    for mechanism in [Mechanism::Move, Mechanism::Copy] {
        if !can_run("a_clean_page_leaves_again", mechanism) {
            continue;
        }
        let arena = Arena::new(ArenaConfig {
            mechanism,
            ..config(8 * MIB, "zram+keep-copies=on")
        })
        .expect("an arena");
        let app = arena.application("app").expect("room");
        let region = app.region(64 * PAGE).expect("a region");
        let memory = words(&region);
        let send_away = || {
            leave(&region);
            // The pager holds its lock until it is done with what it took.
            arena.stats().pager
        };
        (0..64).for_each(|page| write_page(memory, page, 1));
        let first = send_away();
        assert_eq!((first.compressed, first.left_clean), (64, 0));
        (0..64).for_each(|page| check_page(memory, page, 1));
        // Some are written to: with something else, and with what they hold anyway.
        (0..8).for_each(|page| write_page(memory, page, 2));
        (8..16).for_each(|page| write_page(memory, page, 1));
        let second = send_away();
        assert_eq!(
            (second.compressed, second.left_clean),
            (72, 56),
            "{second:?}"
        );
        assert_eq!(second.found_dirty, 8);
        for page in 0..64 {
            check_page(memory, page, if page < 8 { 2 } else { 1 });
        }
        check_account(&arena);
    }
}

#[test]
fn regions_come_and_go_while_others_run() {
    if !can_run("regions_come_and_go", Mechanism::Auto) {
        return;
    }
    let arena = Arena::new(config(4 * MIB, "ariadne")).expect("an arena");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let arena = &arena;
            scope.spawn(move || {
                let mut random = Random(thread);
                let app = arena.application("app").expect("room");
                // Two regions of one application share chunks.
                let stays = app.region(2 * MIB).expect("a region");
                for round in 0..6 {
                    let goes = app.region(MIB + random.below(MIB)).expect("a region");
                    let pages = goes.len() / PAGE;
                    for page in 0..pages {
                        write_page(words(&goes), page, round);
                        write_page(words(&stays), page, round);
                    }
                    for _ in 0..200 {
                        let page = random.below(pages);
                        check_page(words(&goes), page, round);
                        check_page(words(&stays), page, round);
                    }
                }
            });
        }
    });
    let stats = arena.stats();
    assert_eq!(stats.resident_frames + stats.staged_frames, 0, "{stats:#?}");
    check_account(&arena);
}

#[test]
fn a_tiny_budget_makes_progress() {
    for mechanism in [Mechanism::Move, Mechanism::Copy] {
        if !can_run("a_tiny_budget_makes_progress", mechanism) {
            continue;
        }
        let arena = Arena::new(ArenaConfig {
            mechanism,
            ..config(3 * MIB / 2, "zram")
        })
        .expect("an arena");
        let app = arena.application("app").expect("room");
        let region = app.region(8 * MIB).expect("a region");
        let pages = 8 * MIB / PAGE;
        (0..pages).for_each(|page| write_page(words(&region), page, 1));
        (0..pages)
            .rev()
            .for_each(|page| check_page(words(&region), page, 1));
        arena.check().expect("the engine's invariants");
    }
}

#[test]
fn what_does_not_fit_is_served_beyond_the_budget_and_counted() {
    if !can_run("what_does_not_fit", Mechanism::Auto) {
        return;
    }
    let arena = Arena::new(config(2 * MIB, "zram")).expect("an arena");
    let app = arena.application("app").expect("room");
    let region = app.region(6 * MIB).expect("a region");
    // Nothing of this shrinks.
    let mut random = Random(1);
    words(&region)
        .iter()
        .for_each(|word| word.store(random.next(), std::sync::atomic::Ordering::Relaxed));
    let mut random = Random(1);
    for word in words(&region) {
        assert_eq!(
            word.load(std::sync::atomic::Ordering::Relaxed),
            random.next()
        );
    }
    let stats = arena.stats();
    assert!(stats.pager.overcommits > 0, "{stats:#?}");
}

#[test]
fn what_does_not_fit_even_compressed_is_compressed_all_the_same() {
    if !can_run("what_does_not_fit_even_compressed", Mechanism::Auto) {
        return;
    }
    let arena = Arena::new(config(6 * MIB, "zram")).expect("an arena");
    let app = arena.application("app").expect("room");
    let region = app.region(16 * MIB).expect("a region");
    let pages = 16 * MIB / PAGE;
    // Half of each page shrinks to nothing, the other half not at all.
    let mut random = Random(1);
    for page in 0..pages {
        for word in &words(&region)[page * 512..][..256] {
            word.store(random.next(), std::sync::atomic::Ordering::Relaxed);
        }
    }
    for _ in 0..3 {
        let mut random = Random(1);
        for page in 0..pages {
            for word in &words(&region)[page * 512..][..256] {
                let found = word.load(std::sync::atomic::Ordering::Relaxed);
                assert_eq!(found, random.next());
            }
        }
    }
    let stats = arena.stats();
    assert!(stats.pager.overcommits > 0, "{stats:#?}");
    let used = stats.used_bytes();
    assert!(used < 12 * MIB as u64, "{used}: {stats:#?}");
}

#[test]
fn memory_that_is_filled_in_order_comes_in_larger_and_larger_pieces() {
    for way in ALL_WAYS {
        if !can_run("memory_that_is_filled_in_order", way.0) {
            continue;
        }
        let arena = Arena::new(ArenaConfig {
            mechanism: way.0,
            fault_mode: way.1,
            ..config(16 * MIB, "zram")
        })
        .expect("an arena");
        let app = arena.application("app").expect("room");
        let filled = app.region(4 * MIB).expect("a region");
        let memory = words(&filled);
        let pages = filled.len() / PAGE;
        (0..pages).for_each(|page| write_page(memory, page, 1));
        let in_order = arena.stats().first_touches;
        assert!(in_order < pages as u64 / 8, "{way:?}: {in_order} faults");
        (0..pages).for_each(|page| check_page(memory, page, 1));
        // Alone, a page brings nothing along.
        let scattered = app.region(4 * MIB).expect("a region");
        for page in (0..pages).step_by(2) {
            let word = words(&scattered)[page * 512].load(std::sync::atomic::Ordering::Relaxed);
            assert_eq!(word, 0);
        }
        let alone = arena.stats().first_touches - in_order;
        assert_eq!(alone, pages as u64 / 2, "{way:?}");
        // Waits until the last page that was touched is let go.
        check_account(&arena);
        let resident = scattered.resident_pages(0..scattered.len());
        assert_eq!(resident.expect("in the region"), pages / 2, "{way:?}");
    }
}
