//! What gives way when memory is short.

use super::common::{Host, Pace, Shape, anon, app, host, host_with, pages};
use super::{decisions, engine, kinds};
use crate::{Action, Outcome, Place, Refusal};
use warmswap_page::LaunchKind;
use warmswap_policy::{PageState, SchemeSpec};

#[test]
fn a_touch_is_served_from_the_reserve_which_is_filled_again() {
    let mut h = host("zram", 64);
    (0..56).for_each(|n| {
        h.touch(0, anon(n), true);
    });
    assert_eq!(h.take_log(), [], "8 of 64 frames are left: the reserve");
    h.touch(0, anon(56), true);
    assert_eq!(kinds(&h.take_log()), vec!["store"; 32], "a batch leaves");
    assert_eq!(h.state(0, anon(0)), PageState::Stored, "the oldest first");
    assert_eq!(h.engine.counters().direct_reclaims, 1);
}

#[test]
fn nobody_waiting_frames_are_freed_between_the_watermarks() {
    let mut h = host("zram", 64);
    (0..49).for_each(|n| {
        h.touch(0, anon(n), true);
    });
    assert_eq!(h.take_log(), []);
    h.idle();
    assert_eq!(
        kinds(&h.take_log()),
        vec!["store"; 32],
        "15 of 64 are below the low mark"
    );
    h.idle();
    assert_eq!(h.take_log(), []);
}

/// What the budget lost is not what reclaim failed to gain: nothing is killed, and pages go on leaving.
#[test]
fn a_budget_that_shrinks_during_reclaim_is_reached_by_reclaim() {
    let mut e = engine("zram", pages(256, 256, 0));
    (0..220).for_each(|n| {
        e.touch(app(0), anon(n), true);
    });
    e.background(app(0));
    e.set_budget_bytes(176 * 4096);
    let mut stores = 0;
    while let Some(decision) = e.next_background_decision() {
        let Action::Store { chunk, .. } = decision.action else {
            panic!("{decision:?}");
        };
        e.stored(chunk, Place::Pool, 100);
        stores += 1;
        if stores == 1 {
            // By more than a batch gains.
            e.set_budget_bytes(136 * 4096);
        }
    }
    assert!(stores >= 220 - 136 && e.exceeded_bytes() == 0, "{stores}");
}

#[test]
fn with_few_free_frames_only_the_page_that_is_waited_for_comes_back() {
    let mut e = engine("zram+sizing=adaptive:4k-16k-16k", pages(64, 64, 0));
    let stored = (0..4)
        .map(|n| e.touch(app(0), anon(n), true).page)
        .collect::<Vec<_>>();
    e.shrink(app(0));
    let log = decisions(&mut e);
    let [Action::Store { chunk, .. }] = log[..] else {
        panic!("{log:?}")
    };
    e.stored(chunk, Place::Pool, 4000);
    (0..60).for_each(|n| {
        e.touch(app(1), anon(n), true);
    });
    assert_eq!(
        e.touch(app(0), anon(2), false).outcome,
        Outcome::Fault(Place::Pool)
    );
    let loading: Vec<_> = stored
        .into_iter()
        .filter(|&page| e.is_loading(chunk, page))
        .collect();
    let (_, addr) = e.locate(loading[0]);
    assert_eq!((loading.len(), addr), (1, anon(2)));
}

/// Four hot pages and many cold ones of one application, all sent out, into a pool of 40 pages.
fn full_pool(scheme: &str) -> Host {
    let mut h = host_with(scheme, pages(512, 40, 400));
    h.launch_begin(0, LaunchKind::Cold);
    (0..4).for_each(|n| {
        h.touch(0, anon(n), true);
    });
    h.engine.launch_end(app(0));
    h.shrink(0);
    (10..210).for_each(|n| {
        h.touch(0, anon(n), true);
    });
    h.shrink(0);
    h
}

#[test]
fn a_full_pool_writes_back_its_coldest_chunks() {
    let mut h = full_pool("ariadne-al-1k-2k-16k+prefetch=none");
    let written_back = h.engine.counters().written_back_chunks;
    assert!(written_back > 0);
    assert_eq!(
        h.touch(0, anon(0), false),
        Outcome::Fault(Place::Pool),
        "hot, though it went first"
    );
    assert_eq!(
        h.touch(0, anon(10), false),
        Outcome::Fault(Place::Backing),
        "cold, and the oldest"
    );
    assert_eq!(h.engine.counters().backing_faults, 1);
    h.check();
}

#[test]
fn a_full_pool_writes_back_its_oldest_chunks_under_zswap() {
    let mut h = full_pool("zswap");
    assert_eq!(h.touch(0, anon(0), false), Outcome::Fault(Place::Backing));
    h.check();
}

#[test]
fn a_full_pool_accepts_again_at_its_resume_mark() {
    let mut e = engine("zswap", pages(256, 100, 200));
    let limit = 100 * 4096;
    (0..40).for_each(|n| {
        e.touch(app(0), anon(n), true);
    });
    e.shrink(app(0));
    for _ in 0..20 {
        let Some(Action::Store { chunk, .. }) = e.next_decision().map(|d| d.action) else {
            panic!("the pool is empty");
        };
        e.stored(chunk, Place::Pool, 2000);
    }
    for (bytes, expected) in [
        (limit, "write back"),
        (limit / 100 * 91, "write back"),
        (limit / 100 * 90, "store"),
    ] {
        e.set_pool_bytes(bytes);
        let action = e.next_decision().expect("pages wait").action;
        assert_eq!(super::kind(&action), expected, "at {bytes} bytes");
        if let Action::WriteBack { chunk } = action {
            e.written_back(chunk);
        }
    }
}

#[test]
fn zram_with_a_full_pool_kills_the_application_used_least_recently_and_never_the_foreground() {
    let limits = pages(128, 32, 0);
    let spec = SchemeSpec::named("zram").unwrap();
    let mut h = Host::new(&spec, limits, Shape::Even { bytes: 4096 }, Pace::AtOnce);
    for n in 0..3 {
        h.launch_begin(n, LaunchKind::Cold);
        (0..30).for_each(|page| {
            h.touch(n, anon(page), true);
        });
        h.engine.launch_end(app(n));
        if n < 2 {
            h.background(n);
        }
    }
    // Used again, so that application 0 is the next to go.
    h.touch(1, anon(0), false);
    h.touch(2, anon(0), false);
    (30..120).for_each(|page| {
        h.touch(2, anon(page), true);
    });
    let killed: Vec<_> = h
        .take_log()
        .into_iter()
        .filter_map(|action| match action {
            Action::Kill { app } => Some(app.0),
            _ => None,
        })
        .collect();
    assert_eq!(killed, [0, 1]);
    assert_eq!(h.engine.counters().kills, 2);
    h.check();
}

#[test]
fn the_foreground_alone_exceeds_the_budget_rather_than_being_killed() {
    let mut h = host_with("zram", pages(64, 0, 0));
    h.launch_begin(0, LaunchKind::Cold);
    (0..80).for_each(|n| {
        h.touch(0, anon(n), true);
    });
    let counters = h.engine.counters();
    assert_eq!(counters.kills, 0);
    assert!(counters.budget_exceeded > 0);
    assert_eq!(h.engine.exceeded_bytes(), 16 * 4096);
    h.check();
}

#[test]
fn an_application_that_leaves_the_foreground_can_be_killed_at_once() {
    let mut e = engine("zram", pages(64, 0, 0));
    e.set_pool_bytes(0);
    for n in 0..2 {
        e.launch_begin(app(n), LaunchKind::Cold);
        (0..30).for_each(|page| {
            e.touch(app(n), anon(page), true);
        });
    }
    assert_eq!(decisions(&mut e), []);
    assert!(e.counters().budget_exceeded > 0);
    e.background(app(0));
    assert_eq!(decisions(&mut e), [Action::Kill { app: app(0) }]);
}

#[test]
fn excluded_hot_pages_stay_when_their_application_shrinks() {
    for (scheme, stay) in [
        ("ariadne-ehl-1k-2k-16k", true),
        ("ariadne-al-1k-2k-16k", false),
    ] {
        let mut h = host(scheme, 256);
        h.launch_begin(0, LaunchKind::Cold);
        h.touch(0, anon(0), true);
        h.engine.launch_end(app(0));
        h.touch(0, anon(1), true);
        h.shrink(0);
        assert_eq!(h.state(0, anon(0)) == PageState::Resident, stay, "{scheme}");
        assert_eq!(h.state(0, anon(1)), PageState::Stored);
    }
}

#[test]
fn background_reclaim_spares_excluded_hot_pages_until_somebody_waits() {
    let mut h = host("ariadne-ehl-1k-2k-16k", 64);
    h.launch_begin(0, LaunchKind::Cold);
    (0..50).for_each(|n| {
        h.touch(0, anon(n), true);
    });
    h.idle();
    assert_eq!(
        h.take_log(),
        [],
        "below the low mark, and all pages are hot"
    );
    (50..57).for_each(|n| {
        h.touch(0, anon(n), true);
    });
    assert!(kinds(&h.take_log()).contains(&"store"), "below the reserve");
}

#[test]
fn swap_stores_pages_as_they_are() {
    let mut h = host_with("swap", pages(64, 0, 100));
    h.touch(0, anon(0), true);
    h.shrink(0);
    assert_eq!(kinds(&h.take_log()), ["store raw"]);
    assert_eq!(h.engine.usage().backing_bytes, 4096);
    assert_eq!(h.touch(0, anon(0), false), Outcome::Fault(Place::Backing));
    assert_eq!(kinds(&h.take_log()), ["load"], "the copy on flash is kept");
    h.shrink(0);
    assert_eq!(kinds(&h.take_log()), ["drop"]);
}

#[test]
fn a_backing_file_that_fails_keeps_the_pages_and_is_not_tried_again_and_again() {
    let mut h = host_with("swap", pages(256, 0, 100));
    h.memory.fail_every = 1;
    (0..40).for_each(|n| {
        h.touch(0, anon(n), true);
    });
    h.shrink(0);
    assert_eq!(kinds(&h.take_log()), ["store raw"], "one try");
    assert_eq!(h.engine.counters().refused, 40);
    h.shrink(0);
    assert_eq!(h.take_log(), []);
    assert_eq!(h.engine.usage().frames, 40);
    h.check();
}

/// Only then is it vain to wait for a page to leave.
#[test]
fn stores_are_full_where_a_full_pool_has_nowhere_to_write_to() {
    for (backing_pages, expected) in [(0, true), (200, false)] {
        let mut e = engine("zswap", pages(256, 100, backing_pages));
        e.set_pool_bytes(99 * 4096);
        assert!(!e.stores_are_full());
        e.set_pool_bytes(100 * 4096);
        assert_eq!(e.stores_are_full(), expected, "{backing_pages} pages");
        e.set_backing_bytes(backing_pages * 4096);
        assert!(e.stores_are_full());
    }
}

#[test]
fn a_failed_write_back_leaves_the_chunk_in_the_pool() {
    let mut e = engine("zswap", pages(256, 100, 200));
    (0..2).for_each(|n| {
        e.touch(app(0), anon(n), true);
    });
    e.shrink(app(0));
    let Some(Action::Store { chunk, .. }) = e.next_decision().map(|d| d.action) else {
        panic!()
    };
    e.stored(chunk, Place::Pool, 2000);
    e.set_pool_bytes(100 * 4096);
    let Some(Action::WriteBack { chunk: written }) = e.next_decision().map(|d| d.action) else {
        panic!()
    };
    assert_eq!(written, chunk);
    e.write_back_failed(chunk);
    assert_eq!(decisions(&mut e), [], "the other page stays in its frame");
    assert_eq!(
        e.touch(app(0), anon(0), false).outcome,
        Outcome::Fault(Place::Pool)
    );
    assert_eq!(e.counters().write_back_failures, 1);
    e.check().unwrap();
}

#[test]
fn a_pool_that_refuses_is_not_tried_again_before_something_left_it() {
    let mut e = engine("zram", pages(256, 100, 0));
    (0..3).for_each(|n| {
        e.touch(app(0), anon(n), true);
    });
    e.shrink(app(0));
    let Some(Action::Store { chunk, .. }) = e.next_decision().map(|d| d.action) else {
        panic!()
    };
    e.refused(chunk, Refusal::PoolFull);
    assert_eq!(decisions(&mut e), []);
    assert_eq!(e.counters().refused, 3);
    e.check().unwrap();
}

#[test]
fn kept_copies_give_way_before_anything_is_written_back_or_killed() {
    let mut h = host_with("warmswap+prefetch=none", pages(256, 20, 200));
    (0..36).for_each(|n| {
        h.touch(0, anon(n), true);
    });
    h.shrink(0);
    (0..36).for_each(|n| {
        h.touch(0, anon(n), false);
    });
    (100..160).for_each(|n| {
        h.touch(1, anon(n), true);
    });
    h.take_log();
    h.shrink(1);
    assert!(h.engine.counters().kept_copies_dropped > 0);
    let log = h.take_log();
    let first = |name| kinds(&log).iter().position(|&kind| kind == name);
    assert!(
        first("free") < first("write back").or(Some(usize::MAX)),
        "{log:?}"
    );
}

#[test]
fn prefetched_pages_give_way_before_an_application_is_killed() {
    let mut e = engine("zram+prefetch=next", pages(64, 64, 0));
    (0..8).for_each(|n| {
        e.touch(app(1), anon(n), true);
    });
    e.shrink(app(1));
    for action in decisions(&mut e) {
        if let Action::Store { chunk, .. } = action {
            e.stored(chunk, Place::Pool, 1000);
        }
    }
    e.touch(app(1), anon(0), false);
    while let Some(decision) = e.next_decision() {
        if let Action::Load { chunk, .. } = decision.action {
            e.loaded(chunk);
        }
    }
    assert_eq!(e.counters().prefetched, 1);
    e.free(app(1), anon(0), 1);
    e.touch(app(0), anon(0), true);
    e.free(app(0), anon(0), 1);
    // Nothing is resident, and the pool takes all.
    e.set_pool_bytes(60 * 4096);
    let first = e.next_decision().expect("frames are short").action;
    assert_eq!(super::kind(&first), "store", "{first:?}");
    assert_eq!(e.counters().prefetch_wasted, 1);
}
