//! Events that come while decisions are under way.

use super::common::{anon, app, pages};
use super::{decisions, engine, kind, kinds};
use crate::{Action, Engine, Outcome, Place};
use warmswap_policy::{ChunkId, PageState};

/// An engine whose application 0 has `n` stored pages, and their chunks.
fn with_stored(scheme: &str, n: u64) -> (Engine, Vec<ChunkId>) {
    let mut e = engine(scheme, pages(256, 100, 100));
    (0..n).for_each(|n| {
        e.touch(app(0), anon(n), true);
    });
    e.shrink(app(0));
    let chunks: Vec<_> = decisions(&mut e).iter().map(store).collect();
    chunks
        .iter()
        .for_each(|&chunk| e.stored(chunk, Place::Pool, 1000));
    (e, chunks)
}

/// Application 1 takes so many frames that half of the reserve is gone: a load brings no neighbours.
fn fill(e: &mut Engine) {
    (0..e.limits().budget_bytes / 4096 - 10).for_each(|n| {
        e.touch(app(1), anon(n), true);
    });
}

fn store(action: &Action) -> ChunkId {
    match action {
        Action::Store { chunk, .. } => *chunk,
        other => panic!("{other:?} is no store"),
    }
}

#[test]
fn a_leaving_page_that_is_touched_stays_and_its_chunk_has_a_hole() {
    for keep_copies in ["on", "off"] {
        let mut e = engine(
            &format!("zram+keep-copies={keep_copies}"),
            pages(256, 100, 0),
        );
        let page = e.touch(app(0), anon(0), true).page;
        e.shrink(app(0));
        let chunk = store(&decisions(&mut e)[0]);
        assert_eq!(e.touch(app(0), anon(0), false).outcome, Outcome::Hit);
        assert!(!e.is_leaving(chunk, page));

        e.stored(chunk, Place::Pool, 0);
        assert_eq!(e.page_state(page), PageState::Resident);
        assert_eq!(kinds(&decisions(&mut e)), ["free"], "nothing is in it");
        e.shrink(app(0));
        assert_eq!(
            kinds(&decisions(&mut e)),
            ["store"],
            "never dropped to a copy that is not there"
        );
        e.check().unwrap();
    }
}

#[test]
fn a_page_that_is_chosen_twice_before_it_is_packed_is_stored_once() {
    let mut e = engine("zram+sizing=adaptive:4k-16k-16k", pages(256, 100, 0));
    let page = e.touch(app(0), anon(0), true).page;
    e.shrink(app(0));
    e.touch(app(0), anon(0), false);
    e.shrink(app(0));
    let log = decisions(&mut e);
    assert_eq!(kinds(&log), ["store"]);
    assert_eq!(*e.chunk_pages(store(&log[0])), [page]);
    e.check().unwrap();
}

#[test]
fn a_page_can_be_freed_while_it_is_loaded() {
    let (mut e, chunks) = with_stored("zram", 1);
    e.touch(app(0), anon(0), false);
    assert_eq!(kinds(&decisions(&mut e)), ["load"]);
    e.free(app(0), anon(0), 1);
    assert_eq!(decisions(&mut e), [], "the load still reads the chunk");
    assert_eq!(e.touch(app(0), anon(0), false).outcome, Outcome::FirstTouch);
    e.loaded(chunks[0]);
    assert_eq!(kinds(&decisions(&mut e)), ["free"]);
    assert_eq!(e.usage().frames, 1);
    e.check().unwrap();
}

#[test]
fn an_application_can_end_while_its_pages_are_stored_loaded_and_written_back() {
    let (mut e, chunks) = with_stored("zswap", 3);
    e.touch(app(0), anon(0), false);
    e.touch(app(0), anon(9), true);
    e.shrink(app(0));
    let log = decisions(&mut e);
    assert_eq!(kinds(&log), ["load", "store"]);
    e.set_pool_bytes(100 * 4096);
    e.touch(app(0), anon(10), true);
    e.shrink(app(0));
    let Some(Action::WriteBack { chunk: written }) = e.next_decision().map(|d| d.action) else {
        panic!("the pool is full");
    };

    e.exit(app(0));
    e.check().unwrap();
    e.touch(app(1), anon(0), true);
    e.loaded(chunks[0]);
    e.stored(store(&log[1]), Place::Pool, 0);
    e.written_back(written);
    while let Some(decision) = e.next_decision() {
        assert!(
            ["free", "write back"].contains(&kind(&decision.action)),
            "{decision:?}"
        );
        if let Action::WriteBack { chunk } = decision.action {
            e.written_back(chunk);
        }
    }
    assert_eq!(e.usage().frames, 1);
    e.check().unwrap();
}

#[test]
fn a_neighbour_that_a_load_does_not_bring_waits_for_a_load_of_its_own() {
    let (mut e, chunks) = with_stored("zram+sizing=adaptive:4k-16k-16k", 4);
    fill(&mut e);
    let first = e.touch(app(0), anon(0), false).page;
    let second = e.touch(app(0), anon(1), false);
    assert_eq!(second.outcome, Outcome::Fault(Place::Pool));
    assert!(e.is_loading(chunks[0], first));
    assert!(
        !e.is_loading(chunks[0], second.page),
        "the load may have begun"
    );
    assert_eq!(e.touch(app(0), anon(1), false).outcome, Outcome::InFlight);
    let loads = |e: &mut Engine| {
        let all = decisions(e);
        kinds(&all).iter().filter(|&&kind| kind == "load").count()
    };
    assert_eq!(loads(&mut e), 1);

    e.loaded(chunks[0]);
    assert_eq!(e.page_state(first), PageState::Resident);
    assert_eq!(e.page_state(second.page), PageState::Loading);
    assert!(e.is_loading(chunks[0], second.page));
    assert_eq!(loads(&mut e), 1);
    e.loaded(chunks[0]);
    assert_eq!(e.page_state(second.page), PageState::Resident);
    e.check().unwrap();
}

#[test]
fn everybody_who_waits_for_a_page_is_served_by_one_load() {
    let (mut e, chunks) = with_stored("zram", 1);
    assert_eq!(
        e.touch(app(0), anon(0), false).outcome,
        Outcome::Fault(Place::Pool)
    );
    let again = e.touch(app(0), anon(0), true);
    assert_eq!(again.outcome, Outcome::InFlight);
    assert_eq!(kinds(&decisions(&mut e)), ["load"]);
    e.loaded(chunks[0]);
    assert_eq!(e.page_state(again.page), PageState::Resident);
    e.check().unwrap();
}

#[test]
fn a_page_that_waits_for_its_own_load_can_be_freed() {
    let (mut e, chunks) = with_stored("zram+sizing=adaptive:4k-16k-16k", 4);
    fill(&mut e);
    e.touch(app(0), anon(0), false);
    e.touch(app(0), anon(1), false);
    decisions(&mut e);
    e.free(app(0), anon(1), 1);
    e.loaded(chunks[0]);
    assert!(!kinds(&decisions(&mut e)).contains(&"load"));
    e.check().unwrap();
}

#[test]
fn a_chunk_that_is_being_loaded_is_not_given_up() {
    let (mut e, chunks) = with_stored("zram+sizing=adaptive:4k-16k-16k+keep-copies=on", 2);
    fill(&mut e);
    e.touch(app(0), anon(0), false);
    decisions(&mut e);
    e.loaded(chunks[0]);
    // One page is resident and has its copy; the other is freed while it is loaded.
    e.free(app(1), anon(0), 1000);
    e.touch(app(0), anon(1), false);
    e.free(app(0), anon(1), 1);
    decisions(&mut e);
    let gives_up = |e: &mut Engine| {
        e.set_pool_bytes(100 * 4096);
        e.touch(app(2), anon(0), true);
        e.shrink(app(2));
        let place = Place::Pool;
        decisions(e).contains(&Action::Free {
            chunk: chunks[0],
            place,
            bytes: 1000,
        })
    };
    assert!(!gives_up(&mut e), "a load of it is under way");
    e.loaded(chunks[0]);
    assert!(gives_up(&mut e));
    e.check().unwrap();
}

#[test]
fn nobody_is_killed_while_stores_are_under_way_that_free_enough() {
    let mut e = engine("swap", pages(64, 0, 100));
    e.touch(app(1), anon(0), true);
    (0..56).for_each(|n| {
        e.touch(app(0), anon(n), true);
    });
    let log = decisions(&mut e);
    assert_eq!(kinds(&log), vec!["store raw"; 32]);
    let Some(&Action::StoreRaw { chunk }) = log.last() else {
        panic!("32 of them");
    };
    e.refused(chunk, crate::Refusal::BackingFailed);
    assert_eq!(decisions(&mut e), []);
    e.check().unwrap();
}

#[test]
fn what_is_being_written_back_counts_as_room_so_that_not_the_whole_pool_goes() {
    let (mut e, _) = with_stored("zswap", 40);
    // The resume mark is 40,960 bytes below the limit; each chunk has 1000.
    e.set_pool_bytes(100 * 4096 - 37_000);
    e.touch(app(0), anon(100), true);
    e.shrink(app(0));
    let chunk = store(&decisions(&mut e)[0]);
    e.refused(chunk, crate::Refusal::PoolFull);
    let some = decisions(&mut e);
    assert_eq!(
        kinds(&some),
        vec!["write back"; 4],
        "enough to reach the resume mark"
    );
    for action in some {
        let Action::WriteBack { chunk } = action else {
            panic!()
        };
        e.written_back(chunk);
    }
    e.set_pool_bytes(100 * 4096 - 41_000);
    assert_eq!(kinds(&decisions(&mut e)), ["store"]);
    e.check().unwrap();
}
