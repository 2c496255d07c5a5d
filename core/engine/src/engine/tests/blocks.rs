//! Parts of an address space that end, and whose place in the tables others take.

use std::ops::Range;

use super::common::{anon, app, file, host, pages};
use super::{decisions, engine, kinds};
use crate::{Action, Engine, Place};
use warmswap_page::LaunchKind;
use warmswap_policy::page::BLOCK_PAGES;
use warmswap_policy::reclaim::Arrival;
use warmswap_policy::{ChunkId, Learned, PageState};

const BLOCK: u64 = BLOCK_PAGES as u64;

/// The part of one of several processes.
fn part(process: u64) -> Range<u64> {
    process << 20..(process + 1) << 20
}

fn free(engine: &mut Engine, process: u64) {
    engine.free_blocks(app(0), |first| part(process).contains(&first));
    engine.check().unwrap();
}

fn state(engine: &mut Engine, number: u64) -> PageState {
    let page = engine.page(app(0), anon(number));
    engine.page_state(page)
}

fn chunks_to_store(actions: &[Action]) -> Vec<ChunkId> {
    let store = |action: &Action| match action {
        Action::Store { chunk, .. } => Some(*chunk),
        _ => None,
    };
    actions.iter().filter_map(store).collect()
}

#[test]
fn short_lived_parts_leave_no_blocks_behind() {
    for scheme in [
        "zram",
        "warmswap",
        "asap+reclaim=hotness",
        "asap+reclaim=adaptive",
        "zram+reclaim=lru-k",
    ] {
        let mut h = host(scheme, 400);
        h.engine.presume_unseen_touches();
        // Another part stays.
        h.touch(0, anon(0), true);
        let mut bytes = Vec::new();
        for process in 1..200 {
            h.apply(super::common::Event::LaunchBegin(0, LaunchKind::Relaunch));
            let first = part(process).start;
            for number in first..first + 5 * BLOCK {
                h.touch(0, anon(number), true);
                if number == first + 3 * BLOCK {
                    h.shrink(0);
                }
            }
            // What is freed before its process ends leaves no block behind either.
            h.free(0, anon(first), BLOCK as u32);
            h.apply(super::common::Event::LaunchEnd(0));
            h.free_blocks(0, part(process).start / BLOCK..part(process).end / BLOCK);
            h.check();
            assert!(
                h.memory.chunks.len() <= 1,
                "{scheme}: chunks of pages that are gone"
            );
            bytes.push(h.engine.state_bytes());
        }
        let (begin, end) = (bytes[20], bytes[198]);
        assert!(
            end <= begin + begin / 2,
            "{scheme}: {begin} and then {end} bytes"
        );
        assert_eq!(
            h.engine.learned(app(0)).hot.len() as u64,
            h.engine.hot_pages(app(0))
        );
    }
}

#[test]
fn pages_on_their_way_are_forgotten_and_late_reports_find_nothing_of_them() {
    let mut e = engine("zram+sizing=adaptive:4k-16k-16k", pages(256, 100, 0));
    for process in [1, 2] {
        for n in 0..2 {
            e.touch(app(0), anon(part(process).start + n), true);
        }
    }
    // Chunks of pages of both.
    e.shrink(app(0));
    let leaving = chunks_to_store(&decisions(&mut e));
    let mixed = leaving.clone();
    free(&mut e, 1);
    assert_eq!(state(&mut e, part(2).start), PageState::Leaving);
    // Others take the place of the block, and leave in their turn.
    let next = part(3).start;
    for n in 0..4 {
        e.touch(app(0), anon(next + n), true);
    }
    e.shrink(app(0));
    let later = chunks_to_store(&decisions(&mut e));
    for chunk in leaving.into_iter().chain(later) {
        e.stored(chunk, Place::Pool, 1000);
        e.check().unwrap();
    }
    assert_eq!(e.stored_only_pages(), 6);
    // A load of the mixed chunk is under way when the rest of it ends.
    e.touch(app(0), anon(part(2).start), false);
    assert_eq!(kinds(&decisions(&mut e)), ["load"]);
    free(&mut e, 2);
    for n in 0..4 {
        assert_eq!(state(&mut e, next + n), PageState::Stored);
    }
    mixed.into_iter().for_each(|chunk| e.loaded(chunk));
    e.check().unwrap();
    assert_eq!(kinds(&decisions(&mut e)), ["free"]);
    assert_eq!((e.stored_only_pages(), e.usage().frames), (4, 0));
}

#[test]
fn prefetched_pages_and_those_in_their_frames_are_forgotten_with_their_copies() {
    let mut e = engine("warmswap+prefetch=next", pages(256, 100, 0));
    for n in 0..4 {
        e.touch(app(0), anon(part(1).start + n), true);
    }
    e.touch(app(0), file(3), false);
    e.shrink(app(0));
    let store = decisions(&mut e);
    for chunk in chunks_to_store(&store) {
        e.stored(chunk, Place::Pool, 1000);
    }
    e.touch(app(0), anon(part(1).start), false);
    while let Some(decision) = e.next_decision() {
        if let Action::Load { chunk, .. } = decision.action {
            e.loaded(chunk);
        }
    }
    let states = [0, 1, 3].map(|n| state(&mut e, part(1).start + n));
    let [kept, ahead, out] = states;
    assert_eq!((kept, out), (PageState::Resident, PageState::Stored));
    assert_eq!(ahead, PageState::Buffered);
    let files = e.page(app(0), file(3));
    let before = e.page_state(files);

    free(&mut e, 1);

    assert!(kinds(&decisions(&mut e)).iter().all(|&kind| kind == "free"));
    assert_eq!(e.page_state(files), before, "pages of files stay");
    assert_eq!(e.stored_only_pages(), 0);
    assert_eq!(state(&mut e, part(1).start), PageState::Absent);
}

#[test]
fn what_was_known_of_a_page_is_not_known_of_the_next_one_with_its_number() {
    for scheme in ["asap+reclaim=hotness", "asap+reclaim=adaptive"] {
        let mut e = engine(scheme, pages(256, 100, 0));
        let hot: Vec<u64> = (part(1).start..part(1).start + 8).collect();
        let learned = Learned {
            hot: hot.clone(),
            ..Learned::default()
        };
        e.presume_unseen_touches();
        e.teach(app(0), &learned);
        // Half of what was taught comes; the others are known only to have been hot.
        let half = &hot[..4];
        for &number in half {
            e.served(app(0), anon(number), Arrival::Untouched);
        }
        assert!(half.iter().all(|&number| e.is_hot(app(0), anon(number))));
        assert!(!e.is_hot(app(0), anon(hot[5])), "it does not exist");
        let places: Vec<_> = hot
            .iter()
            .map(|&number| e.page(app(0), anon(number)))
            .collect();

        free(&mut e, 1);

        assert_eq!(e.hot_pages(app(0)), 0, "{scheme}");
        assert!(hot.iter().all(|&number| !e.is_hot(app(0), anon(number))));
        let again = part(2).start;
        for number in again..again + 8 {
            e.served(app(0), anon(number), Arrival::Untouched);
            let page = e.page(app(0), anon(number));
            assert!(places.contains(&page), "{scheme}: another place");
            assert!(!e.is_hot(app(0), anon(number)), "{scheme}");
        }
        e.check().unwrap();
    }
}
