//! Pages of files in the pool, and what is not admitted to it (ezswap).

use super::common::{anon, app, file, pages};
use super::{decisions, engine, kinds};
use crate::{Action, Cause, Engine, Outcome, Place, Refusal};
use warmswap_page::PageAddr;
use warmswap_policy::{ChunkId, PageState};

/// A page that is not expected to shrink.
const NOISE: u32 = 4096;

/// A page that is expected to shrink to nothing.
const ZEROS: u32 = 0;

/// The chunk that is to be stored now, which must be the only decision.
fn to_store(engine: &mut Engine) -> ChunkId {
    match decisions(engine)[..] {
        [Action::Store { chunk, .. }] => chunk,
        ref other => panic!("{other:?}"),
    }
}

/// Touches a page, sends it away, and gives the chunk that it is to be stored in.
fn send(engine: &mut Engine, addr: PageAddr) -> ChunkId {
    engine.touch(app(0), addr, false);
    assert!(engine.send_away(app(0), addr));
    to_store(engine)
}

fn state(engine: &mut Engine, addr: PageAddr) -> PageState {
    let page = engine.page(app(0), addr);
    engine.page_state(page)
}

/// A pool that holds one page of 100 bytes and was hit 256 times, so that it has a standard.
fn with_standard(scheme: &str) -> Engine {
    let mut e = engine(scheme, pages(256, 1, 100));
    for _ in 0..256 {
        let chunk = send(&mut e, anon(0));
        assert!(!e.wants_sample(chunk) || e.admit(chunk, ZEROS, Cause::Background));
        e.stored(chunk, Place::Pool, 100);
        assert_eq!(
            e.touch(app(0), anon(0), false).outcome,
            Outcome::Fault(Place::Pool)
        );
        assert_eq!(kinds(&decisions(&mut e)), ["load"]);
        e.loaded(chunk);
        assert_eq!(kinds(&decisions(&mut e)), ["free"]);
    }
    let chunk = send(&mut e, anon(0));
    assert!(!e.wants_sample(chunk) || e.admit(chunk, ZEROS, Cause::Background));
    e.stored(chunk, Place::Pool, 2000);
    e
}

#[test]
fn a_clean_page_of_a_file_comes_back_from_the_pool_and_a_dirty_one_never_enters_it() {
    let mut e = engine("ezswap-apa", pages(256, 100, 100));
    let chunk = send(&mut e, file(1));
    e.stored(chunk, Place::Pool, 500);
    assert_eq!(state(&mut e, file(1)), PageState::Stored);
    let touch = e.touch(app(0), file(1), true);
    assert_eq!(touch.outcome, Outcome::Fault(Place::Pool));
    assert_eq!(kinds(&decisions(&mut e)), ["load"]);
    e.loaded(chunk);
    assert_eq!(kinds(&decisions(&mut e)), ["free"]);
    assert!(e.send_away(app(0), file(1)));
    let page = touch.page;
    assert_eq!(decisions(&mut e), [Action::Discard { page, dirty: true }]);
    assert_eq!(e.counters().file_reads, 1);
    e.check().expect("invariants");
}

#[test]
fn a_stored_page_leaves_the_pool_when_its_file_is_written() {
    let mut e = engine("ezswap-apa", pages(256, 100, 100));
    let chunk = send(&mut e, file(1));
    e.stored(chunk, Place::Pool, 500);
    e.file_written(app(0), file(1));
    let page = e.page(app(0), file(1));
    let place = Place::Pool;
    let expected = [
        Action::Forget { page, chunk },
        Action::Free {
            chunk,
            place,
            bytes: 500,
        },
    ];
    assert_eq!(decisions(&mut e), expected);
    assert_eq!(e.touch(app(0), file(1), false).outcome, Outcome::FileRead);
    e.check().expect("invariants");
}

#[test]
fn a_page_that_is_being_stored_when_its_file_is_written_stays_and_its_store_is_void() {
    let mut e = engine("ezswap-apa", pages(256, 100, 100));
    let chunk = send(&mut e, file(1));
    e.file_written(app(0), file(1));
    e.stored(chunk, Place::Pool, 500);
    assert_eq!(kinds(&decisions(&mut e)), ["free"]);
    assert_eq!(state(&mut e, file(1)), PageState::Resident);
    e.check().expect("invariants");
}

#[test]
fn a_page_on_its_way_in_when_its_file_is_written_keeps_no_copy() {
    let mut e = engine("ezswap-apa+keep-copies=on", pages(256, 100, 100));
    let chunk = send(&mut e, file(1));
    e.stored(chunk, Place::Pool, 500);
    e.touch(app(0), file(1), false);
    assert_eq!(kinds(&decisions(&mut e)), ["load"]);
    e.file_written(app(0), file(1));
    e.loaded(chunk);
    assert_eq!(kinds(&decisions(&mut e)), ["free"]);
    e.check().expect("invariants");
}

#[test]
fn what_is_not_admitted_goes_to_the_backing_file_or_back_to_its_own() {
    let mut e = with_standard("ezswap");
    let chunk = send(&mut e, anon(1));
    assert!(!e.admit(chunk, NOISE, Cause::Background));
    let raw = decisions(&mut e);
    let [Action::StoreRaw { chunk }] = raw[..] else {
        panic!("{raw:?}");
    };
    e.stored(chunk, Place::Backing, 4096);
    assert_eq!(state(&mut e, anon(1)), PageState::Stored);
    let chunk = send(&mut e, file(1));
    assert!(!e.admit(chunk, NOISE, Cause::Background));
    assert_eq!(kinds(&decisions(&mut e)), ["discard"]);
    assert_eq!(state(&mut e, file(1)), PageState::Discarded);
    let counters = e.counters();
    assert_eq!((counters.not_admitted, counters.stored_raw), (2, 1));
    e.check().expect("invariants");
}

#[test]
fn a_page_that_can_go_nowhere_else_is_admitted_unseen() {
    let mut e = engine("ezswap", pages(256, 100, 0));
    let chunk = send(&mut e, anon(1));
    assert!(!e.wants_sample(chunk));
    let mut e = engine("zram", pages(256, 100, 100));
    let chunk = send(&mut e, anon(1));
    assert!(!e.wants_sample(chunk), "`all` asks for nothing");
}

#[test]
fn what_is_admitted_to_a_full_pool_waits_for_room_and_is_not_asked_again() {
    let mut e = with_standard("ezswap");
    e.set_pool_bytes(4096);
    let chunk = send(&mut e, anon(1));
    assert!(
        !e.admit(chunk, ZEROS, Cause::Background),
        "the pool is full"
    );
    let back = decisions(&mut e);
    let [Action::WriteBack { chunk }] = back[..] else {
        panic!("{back:?}");
    };
    e.written_back(chunk);
    e.set_pool_bytes(0);
    let chunk = to_store(&mut e);
    assert!(!e.wants_sample(chunk));
    e.stored(chunk, Place::Pool, 100);
    assert_eq!(e.counters().not_admitted, 0);
    e.check().expect("invariants");
}

#[test]
fn a_full_pool_gives_up_pages_of_files_without_writing_them() {
    let mut e = engine("ezswap-apa", pages(256, 2, 100));
    let chunk = send(&mut e, file(1));
    e.stored(chunk, Place::Pool, 500);
    e.set_pool_bytes(2 * 4096);
    e.touch(app(0), anon(1), true);
    assert!(e.send_away(app(0), anon(1)));
    let mut next = || e.next_decision().map(|decision| decision.action);
    let forget = next();
    assert!(matches!(forget, Some(Action::Forget { chunk: it, .. }) if it == chunk));
    let place = Place::Pool;
    assert_eq!(
        next(),
        Some(Action::Free {
            chunk,
            place,
            bytes: 500
        })
    );
    e.set_pool_bytes(0);
    assert_eq!(kinds(&decisions(&mut e)), ["store"]);
    assert_eq!(state(&mut e, file(1)), PageState::Discarded);
    assert_eq!(e.counters().evicted_files, 1);
    e.check().expect("invariants");
}

#[test]
fn without_a_backing_file_all_pages_of_files_can_go_whatever_else_the_pool_holds() {
    for scheme in ["ezswap-apa", "zswap+file-pages=on"] {
        let mut e = engine(scheme, pages(256, 2, 0));
        for n in 0..30 {
            for addr in [anon(n), file(n)] {
                let chunk = send(&mut e, addr);
                e.stored(chunk, Place::Pool, 500);
            }
        }
        for n in 0..30 {
            e.set_pool_bytes(2 * 4096);
            e.touch(app(0), anon(100 + n), true);
            assert!(e.send_away(app(0), anon(100 + n)));
            let first = e.next_decision().map(|decision| decision.action);
            let forget = matches!(first, Some(Action::Forget { .. }));
            assert!(forget, "{scheme}, {n} evicted: {first:?}");
            e.set_pool_bytes(0);
            let rest = decisions(&mut e);
            assert_eq!(kinds(&rest), ["free", "store"], "{scheme}");
            if let Action::Store { chunk, .. } = rest[1] {
                e.stored(chunk, Place::Pool, 500);
            }
            e.check().expect("invariants");
        }
        assert_eq!(e.counters().evicted_files, 30);
        // None is left: the next page stays where it is.
        e.set_pool_bytes(2 * 4096);
        e.touch(app(0), anon(200), true);
        assert!(e.send_away(app(0), anon(200)));
        assert_eq!(decisions(&mut e), []);
        assert_eq!(state(&mut e, anon(200)), PageState::Resident);
    }
}

#[test]
fn what_the_pool_holds_to_be_too_large_passes_by_it() {
    let mut e = engine("ezswap-apa", pages(256, 100, 100));
    let chunk = send(&mut e, file(1));
    e.refused(chunk, Refusal::TooLarge);
    assert_eq!(kinds(&decisions(&mut e)), ["discard"]);
    let chunk = send(&mut e, anon(1));
    e.refused(chunk, Refusal::TooLarge);
    assert_eq!(kinds(&decisions(&mut e)), ["store raw"]);
    assert_eq!(e.counters().too_large, 2);
    e.check().expect("invariants");
}

#[test]
fn a_host_that_does_not_ask_admits() {
    let mut e = with_standard("ezswap");
    e.set_pool_bytes(4096);
    let chunk = send(&mut e, anon(1));
    assert!(e.wants_sample(chunk));
    e.refused(chunk, Refusal::PoolFull);
    assert_eq!(kinds(&decisions(&mut e)), ["write back"]);
    e.check().expect("invariants");
}

#[test]
fn while_the_backing_file_takes_nothing_pages_of_files_leave_in_place_of_others() {
    for scheme in ["ezswap-apa", "ezswap-apa-ca", "zswap+file-pages=on"] {
        for has_failed in [true, false] {
            let mut e = engine(scheme, pages(256, 2, 100));
            for n in 0..30 {
                for addr in [anon(n), file(n)] {
                    let chunk = send(&mut e, addr);
                    e.stored(chunk, Place::Pool, 500);
                }
            }
            if !has_failed {
                e.set_backing_bytes(100 * 4096);
            }
            let mut evicted = 0;
            let mut n = 100;
            while e.counters().evicted_files < 30 {
                e.set_pool_bytes(2 * 4096);
                e.touch(app(0), anon(n), true);
                assert!(e.send_away(app(0), anon(n)));
                while let Some(decision) = e.next_decision() {
                    match decision.action {
                        Action::WriteBack { chunk } => {
                            assert!(has_failed, "{scheme}: there is no room");
                            e.write_back_failed(chunk);
                        }
                        Action::Free { .. } => e.set_pool_bytes(0),
                        Action::Store { chunk, .. } => e.stored(chunk, Place::Pool, 500),
                        _ => {}
                    }
                }
                e.check().expect("invariants");
                n += 1;
                let now = e.counters().evicted_files;
                assert!(now > evicted, "{scheme}, failed: {has_failed}, {now}");
                evicted = now;
            }
            // Something left the backing file: others have their turn again.
            e.set_backing_bytes(100 * 4096);
            e.set_backing_bytes(50 * 4096);
            e.set_pool_bytes(2 * 4096);
            e.touch(app(0), anon(n), true);
            assert!(e.send_away(app(0), anon(n)));
            let first = e.next_decision().map(|decision| decision.action);
            let is_write_back = matches!(first, Some(Action::WriteBack { .. }));
            assert!(is_write_back, "{scheme}, failed: {has_failed}: {first:?}");
            e.check().expect("invariants");
        }
    }
}
