//! The footprint of a launch: learned, brought back while no thread waits, bounded, and interruptible.

mod common;

use common::{Event, Host, anon, app, file, host, host_with, pages};
use warmswap_engine::{Action, Cause, Decision, Outcome};
use warmswap_page::{LaunchKind, PageAddr};
use warmswap_policy::PageState;
use warmswap_policy::reclaim::Arrival;

const SCHEME: &str = "zram+prefetch=footprint:cold=learn,profile=1";

/// A launch window that touches these pages, after `idle` decided what it could.
fn launch(h: &mut Host, kind: LaunchKind, idle: bool, touched: &[PageAddr]) -> Vec<Outcome> {
    h.apply(Event::LaunchBegin(0, kind));
    if idle {
        h.apply(Event::Idle);
    }
    let touch = |&page: &PageAddr| h.touch(0, page, false);
    let outcomes = touched.iter().map(touch).collect();
    h.apply(Event::LaunchEnd(0));
    outcomes
}

/// Two launches that touch the pages, so that they are targets, and nothing of the application in memory.
fn learned(scheme: &str, touched: &[PageAddr]) -> Host {
    let mut h = host(scheme, 1024);
    launch(&mut h, LaunchKind::Cold, false, touched);
    h.shrink(0);
    launch(&mut h, LaunchKind::Relaunch, true, touched);
    h.shrink(0);
    h.log.clear();
    h
}

fn is_prepaged(outcome: &Outcome) -> bool {
    *outcome == Outcome::Prepaged
}

fn anons(numbers: std::ops::Range<u64>) -> Vec<PageAddr> {
    numbers.map(anon).collect()
}

#[test]
fn what_two_launches_touched_is_in_memory_at_the_third() {
    let wanted = anons(0..40);
    let mut h = learned(SCHEME, &wanted);
    let outcomes = launch(&mut h, LaunchKind::Relaunch, true, &wanted);
    assert!(outcomes.iter().all(is_prepaged), "{outcomes:?}");
    let counters = h.engine.counters();
    assert_eq!((counters.prepaged, counters.prepaged_used), (40, 40));
    assert_eq!(counters.prefetch_wasted, 0);
    let load = |decision: &&Decision| matches!(decision.action, Action::Load { .. });
    let loads: Vec<_> = h.log.iter().filter(load).collect();
    assert!(
        loads
            .iter()
            .all(|decision| decision.cause == Cause::Prepage)
    );
    assert_eq!(loads.len(), 40);
}

#[test]
fn what_was_brought_back_in_vain_is_resident_after_the_window_and_counted() {
    let wanted = anons(0..40);
    let mut h = learned(SCHEME, &wanted);
    launch(&mut h, LaunchKind::Relaunch, true, &wanted[..30]);
    let counters = h.engine.counters();
    assert_eq!((counters.prepaged_used, counters.prefetch_wasted), (30, 10));
    let unused = h.engine.page(app(0), anon(35));
    assert_eq!(h.engine.page_state(unused), PageState::Resident);
    h.check();
}

#[test]
fn pages_of_files_are_read_ahead_in_runs() {
    let wanted: Vec<_> = (10..20).chain(30..34).map(file).collect();
    let mut h = learned(SCHEME, &wanted);
    // The first launch was the profile; the second faulted.
    let outcomes = launch(&mut h, LaunchKind::Relaunch, true, &wanted);
    assert!(outcomes.iter().all(is_prepaged), "{outcomes:?}");
    let reads: Vec<_> = h
        .take_log()
        .iter()
        .filter_map(|action| match *action {
            Action::ReadFile {
                first,
                pages,
                is_metadata,
                ..
            } => Some((first, pages, is_metadata)),
            _ => None,
        })
        .collect();
    // One page for the metadata, then the rest of one extent: the two are 10 pages apart.
    assert_eq!(reads, [(10, 1, true), (11, 23, false)]);
    assert_eq!(h.engine.counters().prefetch_wasted, 10, "the gap");
}

#[test]
fn a_fault_goes_before_the_rest_of_the_footprint_and_the_end_of_the_window_ends_it() {
    let wanted = anons(0..64);
    let mut h = learned(SCHEME, &wanted);
    h.apply(Event::LaunchBegin(0, LaunchKind::Relaunch));
    let first = h.engine.next_background_decision().expect("a batch");
    assert_eq!(first.cause, Cause::Prepage);
    let Action::Load { chunk, .. } = first.action else {
        panic!("{first:?}");
    };
    h.engine.load_abandoned(chunk);
    h.apply(Event::LaunchEnd(0));
    let rest: Vec<_> = std::iter::from_fn(|| h.engine.next_background_decision()).collect();
    assert!(
        rest.len() < 16,
        "only what is left of the batch: {}",
        rest.len()
    );
    for decision in rest {
        if let Action::Load { chunk, .. } = decision.action {
            h.engine.load_abandoned(chunk);
        }
    }
    assert!(matches!(h.touch(0, anon(3), false), Outcome::Fault(_)));
    h.check();
}

#[test]
fn a_launch_makes_room_for_its_footprint_but_takes_half_of_the_frames_at_most() {
    let wanted = anons(0..400);
    let mut h = host_with(SCHEME, pages(600, 600, 0));
    for kind in [LaunchKind::Cold, LaunchKind::Relaunch] {
        launch(&mut h, kind, true, &wanted);
        // Others take the memory.
        (0..500).for_each(|n| {
            h.touch(1, anon(n), true);
        });
        h.apply(Event::Idle);
    }
    let before = h.engine.counters();
    h.apply(Event::LaunchBegin(0, LaunchKind::Relaunch));
    h.apply(Event::Idle);
    let brought = h.engine.counters().prepaged - before.prepaged;
    assert!((200..=300).contains(&brought), "{brought} pages");
    assert_eq!(h.engine.counters().kills, 0);
    h.check();
}

#[test]
fn another_launch_takes_over() {
    let wanted = anons(0..40);
    let mut h = learned(SCHEME, &wanted);
    h.apply(Event::LaunchBegin(0, LaunchKind::Relaunch));
    h.apply(Event::LaunchBegin(1, LaunchKind::Relaunch));
    h.apply(Event::Idle);
    assert_eq!(h.engine.counters().prepaged, 0);
    assert!(matches!(h.touch(0, anon(0), false), Outcome::Fault(_)));
}

#[test]
fn next_works_behind_the_footprint() {
    let wanted = anons(0..20);
    let mut h = learned("zram+prefetch=both:cold=learn", &wanted);
    // There was no time for the footprint: every other page is a fault, and the next one comes along.
    let outcomes = launch(&mut h, LaunchKind::Relaunch, false, &wanted);
    assert!(outcomes.contains(&Outcome::BufferHit), "{outcomes:?}");
    assert_eq!(h.engine.counters().prepaged, 0);
}

#[test]
fn what_is_not_seen_says_nothing_against_pages_in_their_places() {
    for (is_unseen, is_target, is_doubted) in [(false, false, true), (true, true, false)] {
        let mut h = learned(SCHEME, &[file(0), anon(0)]);
        if is_unseen {
            h.engine.touches_are_unseen();
        }
        h.apply(Event::LaunchBegin(0, LaunchKind::Relaunch));
        h.apply(Event::Idle);
        // Both are in their places, and no touch of them was seen.
        h.engine.served(app(0), file(0), Arrival::Untouched);
        h.engine.served(app(0), anon(0), Arrival::Untouched);
        h.apply(Event::LaunchEnd(0));
        assert_eq!(h.engine.expects(app(0), file(0)), is_target, "{is_unseen}");
        assert_eq!(h.engine.doubts(app(0), anon(0)), is_doubted, "{is_unseen}");
    }
}
