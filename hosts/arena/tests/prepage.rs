//! The footprint of a launch comes back ahead of use, and forgets what is no longer used.

mod common;

use common::*;
use std::ops::Range;
use warmswap_arena::{Application, Arena, ArenaConfig, Mechanism, Region};

const PAGES: usize = 512;
const USED: Range<usize> = 64..192;

/// An application whose relaunches use a part of its memory, and another that takes its room in between.
struct Switches {
    arena: Arena,
    app: Application,
    region: Region,
    other: Region,
}

impl Switches {
    fn new(scheme: &str, mechanism: Mechanism) -> Self {
        let arena = Arena::new(ArenaConfig {
            mechanism,
            ..config(4 * MIB, scheme)
        })
        .expect("an arena");
        let app = arena.application("app").expect("room");
        let region = app.region(PAGES * PAGE).expect("a region");
        let other = arena.application("other").expect("room");
        let other = other.region(6 * MIB).expect("a region");
        app.foreground();
        app.launch_done();
        (0..PAGES).for_each(|page| write_page(words(&region), page, 1));
        Self {
            arena,
            app,
            region,
            other,
        }
    }

    /// The application goes to the background, and another one needs all the memory. What is left of it in
    /// its place afterwards is sent away.
    fn leave(&self, round: u64) {
        self.app.background();
        let pages = self.other.len() / PAGE;
        (0..pages).for_each(|page| write_page(words(&self.other), page, round));
        leave(&self.region);
        leave(&self.other);
    }

    /// The application comes back, and its footprint with it. How many pages that were.
    fn launch(&self) -> u64 {
        let before = self.arena.stats().engine.prepaged;
        self.app.foreground();
        let mut stats = self.arena.stats();
        for _ in 0..10_000 {
            if !stats.is_prepaging {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
            stats = self.arena.stats();
        }
        assert!(!stats.is_prepaging, "{stats:#?}");
        stats.engine.prepaged - before
    }

    fn relaunch(&self, round: u64, used: Range<usize>) -> u64 {
        self.leave(round);
        let prepaged = self.launch();
        used.for_each(|page| check_page(words(&self.region), page, 1));
        self.app.launch_done();
        prepaged
    }
}

fn mechanisms(test: &str) -> impl Iterator<Item = Mechanism> {
    let both = [Mechanism::Move, Mechanism::Copy].into_iter();
    both.filter(move |&mechanism| can_run(test, mechanism))
}

#[test]
fn the_footprint_comes_back_and_its_pages_are_touched_without_decompression() {
    for mechanism in mechanisms("the_footprint_comes_back") {
        for scheme in ["asap", "warmswap+reclaim=lru+prefetch=both"] {
            let switches = Switches::new(scheme, mechanism);
            // The first makes candidates of what is touched, the second targets.
            assert_eq!(switches.relaunch(1, USED), 0, "{scheme}");
            assert_eq!(switches.relaunch(2, USED), 0, "{scheme}");
            switches.leave(3);
            let used = USED.len() as u64;
            // Chunks of several pages come as a whole.
            let prepaged = switches.launch();
            assert!(prepaged >= used, "{scheme}: {prepaged}");
            let before = switches.arena.stats();
            let bytes = USED.start * PAGE..USED.end * PAGE;
            let in_place = switches
                .region
                .resident_pages(bytes)
                .expect("in the region");
            USED.for_each(|page| check_page(words(&switches.region), page, 1));
            let after = switches.arena.stats();
            assert_eq!(
                after.chunks_read, before.chunks_read,
                "{scheme} {mechanism:?}"
            );
            // What is watched waits in staging.
            let faults = after.faults - before.faults;
            let staged = after.staged_faults - before.staged_faults;
            assert_eq!(
                (faults, staged),
                (used - in_place as u64, faults),
                "{scheme}"
            );
            if scheme == "asap" {
                assert_eq!(faults, used / 8, "{mechanism:?}");
            }
            switches.app.launch_done();
            (0..PAGES).for_each(|page| check_page(words(&switches.region), page, 1));
            check_account(&switches.arena);
        }
    }
}

#[test]
fn what_launches_no_longer_use_is_forgotten_and_the_rest_is_not() {
    for mechanism in mechanisms("what_launches_no_longer_use") {
        let switches = Switches::new("asap", mechanism);
        (1..3).for_each(|round| {
            switches.relaunch(round, USED);
        });
        assert_eq!(switches.relaunch(3, USED), USED.len() as u64);
        let half = USED.start..USED.start + USED.len() / 2;
        let prepaged: Vec<_> = (4..20)
            .map(|round| switches.relaunch(round, half.clone()))
            .collect();
        assert_eq!(prepaged.last(), Some(&(half.len() as u64)), "{mechanism:?}");
        check_account(&switches.arena);
    }
}

#[test]
fn launches_under_no_pressure_forget_nothing() {
    for mechanism in mechanisms("launches_under_no_pressure") {
        let switches = Switches::new("asap", mechanism);
        (1..3).for_each(|round| {
            switches.relaunch(round, USED);
        });
        for _ in 0..12 {
            switches.app.background();
            assert_eq!(switches.launch(), 0, "everything is in its place");
            switches.app.launch_done();
        }
        assert_eq!(
            switches.relaunch(3, USED),
            USED.len() as u64,
            "{mechanism:?}"
        );
    }
}

#[test]
fn a_footprint_that_is_not_awaited_is_given_up_and_nothing_is_lost() {
    for mechanism in mechanisms("a_footprint_that_is_not_awaited") {
        let switches = Switches::new("asap", mechanism);
        for round in 1..12 {
            switches.leave(round);
            switches.app.foreground();
            USED.for_each(|page| check_page(words(&switches.region), page, 1));
            switches.app.launch_done();
        }
        (0..PAGES).for_each(|page| check_page(words(&switches.region), page, 1));
        check_account(&switches.arena);
    }
}
