//! The life of single pages and chunks.

use super::common::{anon, file, host};
use super::kinds;
use crate::{Action, Outcome, Place};
use warmswap_policy::PageState;

#[test]
fn the_life_of_a_page_under_zram() {
    let mut h = host("zram", 256);
    assert_eq!(h.touch(0, anon(7), true), Outcome::FirstTouch);
    assert_eq!(h.touch(0, anon(7), false), Outcome::Hit);
    assert_eq!(h.take_log(), []);

    h.shrink(0);
    assert_eq!(kinds(&h.take_log()), ["store"]);
    assert_eq!(h.state(0, anon(7)), PageState::Stored);
    assert_eq!(h.engine.usage().frames, 0);

    assert_eq!(h.touch(0, anon(7), false), Outcome::Fault(Place::Pool));
    assert_eq!(kinds(&h.take_log()), ["load", "free"], "zram keeps no copy");
    assert_eq!(h.state(0, anon(7)), PageState::Resident);

    h.shrink(0);
    assert_eq!(
        kinds(&h.take_log()),
        ["store"],
        "so that it is compressed again"
    );
    let counters = h.engine.counters();
    assert_eq!(
        (
            counters.first_touches,
            counters.hits,
            counters.pool_faults,
            counters.stored
        ),
        (1, 1, 1, 2)
    );
}

#[test]
fn under_warmswap_a_clean_page_leaves_at_no_cost_and_a_write_ends_its_copy() {
    let mut h = host("warmswap+prefetch=none", 256);
    h.touch(0, anon(7), true);
    h.shrink(0);
    h.take_log();

    h.touch(0, anon(7), false);
    assert_eq!(kinds(&h.take_log()), ["load"], "the copy is kept");
    h.shrink(0);
    assert_eq!(kinds(&h.take_log()), ["drop"]);
    assert_eq!(h.state(0, anon(7)), PageState::Stored);

    h.touch(0, anon(7), false);
    h.take_log();
    h.touch(0, anon(7), true);
    assert_eq!(
        kinds(&h.take_log()),
        ["free"],
        "written: the copy is worth nothing"
    );
    h.shrink(0);
    assert_eq!(kinds(&h.take_log()), ["store"]);

    h.touch(0, anon(7), true);
    assert_eq!(
        kinds(&h.take_log()),
        ["load", "free"],
        "asked for in order to be written"
    );
    assert_eq!(h.engine.counters().dropped, 1);
}

#[test]
fn a_write_that_nobody_saw_ends_the_copy_too() {
    let mut h = host("warmswap+prefetch=none", 256);
    h.touch(0, anon(7), true);
    h.shrink(0);
    h.touch(0, anon(7), false);
    h.take_log();
    h.changed(0, anon(7));
    assert_eq!(kinds(&h.take_log()), ["free"]);
}

#[test]
fn a_chunk_of_several_pages_comes_back_whole() {
    let mut h = host("zram+sizing=adaptive:4k-16k-16k", 256);
    (0..4).for_each(|n| {
        h.touch(0, anon(n), true);
    });
    h.shrink(0);
    assert_eq!(kinds(&h.take_log()), ["store"]);

    h.touch(0, anon(2), false);
    assert_eq!(kinds(&h.take_log()), ["load", "free"]);
    assert_eq!(h.engine.counters().neighbours_loaded, 3);
    h.touch(0, anon(3), false);
    h.touch(0, anon(3), false);
    assert_eq!(h.engine.counters().neighbours_used, 1);
    assert_eq!(h.engine.counters().pool_faults, 1);
}

#[test]
fn a_page_that_is_written_leaves_its_neighbours_copies_in_the_chunk() {
    let mut h = host("zram+sizing=adaptive:4k-16k-16k+keep-copies=on", 256);
    (0..4).for_each(|n| {
        h.touch(0, anon(n), true);
    });
    h.shrink(0);
    h.touch(0, anon(0), true);
    h.take_log();
    h.shrink(0);
    let mut left = kinds(&h.take_log());
    left.sort_unstable();
    assert_eq!(left, ["drop", "drop", "drop", "store"]);
    h.touch(0, anon(1), false);
    assert_eq!(
        h.state(0, anon(0)),
        PageState::Stored,
        "it is in a chunk of its own"
    );
    h.check();
}

#[test]
fn pages_of_files_go_to_their_file_and_only_dirty_ones_are_written() {
    let mut h = host("zram", 256);
    assert_eq!(h.touch(0, file(0), true), Outcome::FileRead);
    assert_eq!(h.touch(0, file(1), false), Outcome::FileRead);
    h.shrink(0);
    let dirty: Vec<_> = h
        .take_log()
        .iter()
        .map(|action| match action {
            Action::Discard { dirty, .. } => *dirty,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(dirty, [true, false]);
    assert_eq!(h.state(0, file(0)), PageState::Discarded);
    assert_eq!(
        h.touch(1, file(0), false),
        Outcome::FileRead,
        "files are shared"
    );
    h.shrink(0);
    let counters = h.engine.counters();
    assert_eq!(
        (
            counters.discarded,
            counters.discarded_dirty,
            counters.file_reads
        ),
        (3, 1, 3)
    );
}

#[test]
fn a_page_of_a_file_that_is_written_unseen_is_read_first() {
    let mut h = host("zram", 256);
    h.changed(0, file(3));
    assert_eq!(h.engine.counters().file_reads, 1);
    assert_eq!(h.engine.counters().first_touches, 0);
    h.shrink(0);
    assert_eq!(h.engine.counters().discarded_dirty, 1);
}

#[test]
fn freed_pages_and_ended_applications_leave_nothing_behind() {
    let mut h = host("warmswap+prefetch=none", 256);
    for app in 0..2 {
        (0..20).for_each(|n| {
            h.touch(app, anon(n), true);
        });
    }
    h.shrink(0);
    h.touch(0, anon(3), false);
    h.free(0, anon(0), 10);
    assert_eq!(
        h.touch(0, anon(3), false),
        Outcome::FirstTouch,
        "a new page"
    );
    h.exit(super::common::app(0));
    assert!(h.memory.chunks.is_empty());
    assert_eq!(h.engine.usage().frames, 20);
    h.check();
}

#[test]
fn the_next_chunk_is_loaded_ahead_and_a_hit_asks_for_the_one_behind_it() {
    let mut h = host("zram+prefetch=next:buffer=2", 256);
    (0..10).for_each(|n| {
        h.touch(0, anon(n), true);
    });
    h.shrink(0);
    h.take_log();

    h.touch(0, anon(0), false);
    assert_eq!(h.state(0, anon(1)), PageState::Buffered);
    assert_eq!(
        h.state(0, anon(2)),
        PageState::Stored,
        "one chunk ahead, no more"
    );
    assert_eq!(h.touch(0, anon(1), false), Outcome::BufferHit);
    assert_eq!(h.state(0, anon(2)), PageState::Buffered);
    assert_eq!(h.engine.counters().buffer_hits, 1);
    h.check();
}

/// Three pages prefetched into a buffer of two.
fn overflow(scheme: &str) -> Vec<&'static str> {
    let mut h = host(scheme, 256);
    (0..10).for_each(|n| {
        h.touch(0, anon(n), true);
    });
    h.shrink(0);
    h.touch(0, anon(0), false);
    h.touch(0, anon(3), false);
    assert_eq!(h.engine.counters().prefetch_wasted, 0);
    h.take_log();
    h.touch(0, anon(6), false);
    let buffered = [1, 4, 7].map(|n| h.state(0, anon(n)));
    let (out, held) = (PageState::Stored, PageState::Buffered);
    assert_eq!(buffered, [out, held, held], "first in, first out");
    let counters = h.engine.counters();
    assert_eq!((counters.prefetched, counters.prefetch_wasted), (3, 1));
    kinds(&h.take_log())
}

#[test]
fn what_does_not_fit_in_the_buffer_is_compressed_again_unless_its_copy_was_kept() {
    let log = overflow("zram+prefetch=next:buffer=2");
    assert_eq!(log, ["load", "free", "load", "free", "store"]);
    let log = overflow("zram+prefetch=next:buffer=2+keep-copies=on");
    assert_eq!(log, ["load", "load", "drop"]);
}

/// Blocks of 64 unknown pages are stepped over as a whole.
#[test]
fn a_range_with_holes_is_freed_from_its_first_page_to_its_last() {
    for page in [anon, file] {
        let mut h = host("zram", 4096);
        let touched = [0, 1, 63, 64, 200, 255, 256, 500, 640, 641, 703, 704];
        for number in touched {
            h.touch(0, page(number), true);
        }
        h.free(0, page(1), 640);
        let left = touched.map(|number| h.state(0, page(number)) == PageState::Resident);
        let expected = touched.map(|number| !(1..641).contains(&number));
        assert_eq!(left, expected);
        assert_eq!(h.engine.usage().frames, 4);
        // From within a block that is not known.
        h.free(0, page(400), 303);
        assert_eq!(h.engine.usage().frames, 3);
    }
}
