//! The hot list of a live host, beside the pages that relaunches really touch.

mod common;

use common::*;
use std::ops::Range;
use warmswap_arena::{Application, Arena, Mechanism, Region};

const PAGES: usize = 512;
/// What the first launch touches, and what relaunches touch of it.
const FIRST: Range<usize> = 0..192;
const USED: Range<usize> = 64..128;

/// An application that was launched, and another that can take its room.
struct Launched {
    arena: Arena,
    app: Application,
    region: Region,
    other: Region,
}

impl Launched {
    fn new(scheme: &str) -> Self {
        let arena = Arena::new(config(4 * MIB, scheme)).expect("an arena");
        let app = arena.application("app").expect("room");
        let region = app.region(PAGES * PAGE).expect("a region");
        let other = arena.application("other").expect("room");
        let other = other.region(6 * MIB).expect("a region");
        app.foreground();
        FIRST.for_each(|page| write_page(words(&region), page, 1));
        app.launch_done();
        (FIRST.end..PAGES).for_each(|page| write_page(words(&region), page, 1));
        app.background();
        Self {
            arena,
            app,
            region,
            other,
        }
    }

    fn relaunch(&self, used: Range<usize>) {
        self.app.foreground();
        used.for_each(|page| check_page(words(&self.region), page, 1));
        self.app.launch_done();
        self.app.background();
    }

    /// Another application needs more memory than there is.
    fn crowd(&self, round: u64) {
        let pages = self.other.len() / PAGE;
        (0..pages).for_each(|page| write_page(words(&self.other), page, round));
    }

    fn hot(&self, pages: Range<usize>) -> usize {
        let bytes = pages.start * PAGE..pages.end * PAGE;
        self.region.hot_pages(bytes).expect("in the region")
    }

    /// Hot pages that a relaunch touches: of the hot list, and of what it touches.
    fn accuracy_and_coverage(&self, used: Range<usize>) -> (f64, f64) {
        let (used_pages, hit) = (used.len(), self.hot(used));
        let all = self.hot(0..PAGES);
        (hit as f64 / all as f64, hit as f64 / used_pages as f64)
    }
}

#[test]
fn a_hot_list_that_stays_in_memory_stays_hot() {
    if !can_run("a_hot_list_that_stays_in_memory_stays_hot", Mechanism::Auto) {
        return;
    }
    for scheme in ["ariadne-ehl-1k-2k-16k", "warmswap"] {
        let launched = Launched::new(scheme);
        assert_eq!(launched.hot(0..PAGES), FIRST.len(), "{scheme}");
        for relaunch in 1..=30 {
            launched.relaunch(USED);
            let hot = launched.hot(USED);
            assert_eq!(hot, USED.len(), "{scheme}, relaunch {relaunch}");
        }
        let engine = launched.arena.stats().engine;
        assert_eq!((engine.stored, engine.pool_faults), (0, 0), "{scheme}");
    }
}

#[test]
fn under_pressure_the_hot_list_comes_to_hold_what_relaunches_touch() {
    let name = "under_pressure_the_hot_list_comes_to_hold_what_relaunches_touch";
    if !can_run(name, Mechanism::Auto) {
        return;
    }
    for scheme in ["ariadne-ehl-1k-2k-16k", "warmswap"] {
        let launched = Launched::new(scheme);
        let mut report = Vec::new();
        for round in 1..=40 {
            launched.crowd(round);
            launched.relaunch(USED);
            report.push(launched.accuracy_and_coverage(USED));
        }
        for &(accuracy, coverage) in &report[12..] {
            assert!(accuracy > 0.9, "{scheme}: {report:.2?}");
            assert!(coverage > 0.7, "{scheme}: {report:.2?}");
        }
        check_account(&launched.arena);
    }
}

#[test]
fn the_first_return_of_an_application_that_ran_before_is_a_relaunch() {
    let name = "the_first_return_of_an_application_that_ran_before_is_a_relaunch";
    if !can_run(name, Mechanism::Auto) {
        return;
    }
    // Of a first launch nothing is hot.
    let scheme = "warmswap+reclaim=hotness:hot=keep,initial-hot=0";
    for ran_before in [false, true] {
        let arena = Arena::new(config(4 * MIB, scheme)).expect("an arena");
        let app = arena.application("app").expect("room");
        let region = app.region(PAGES * PAGE).expect("a region");
        if ran_before {
            app.background();
        }
        app.foreground();
        USED.for_each(|page| write_page(words(&region), page, 1));
        app.launch_done();
        let hot = if ran_before { USED.len() as u64 } else { 0 };
        assert_eq!(app.hot_pages(), hot);
    }
}
