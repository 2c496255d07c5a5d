//! The hot list of a host that does not see touches of pages in memory.

mod common;

use common::{Event, Host, anon, app, host};
use std::ops::Range;
use warmswap_page::LaunchKind;
use warmswap_policy::PageState;

const PAGES: Range<u64> = 0..16;
const USED: Range<u64> = 0..8;

/// A host with one application, whose first launch touched [`PAGES`].
fn launched(scheme: &str) -> Host {
    let mut h = host(scheme, 128);
    h.engine.presume_unseen_touches();
    h.apply(Event::LaunchBegin(0, LaunchKind::Cold));
    touch(&mut h, 0, PAGES);
    h.apply(Event::LaunchEnd(0));
    h
}

/// Touches pages; the engine hears the faults alone. How many these are.
fn touch(h: &mut Host, app: u16, pages: Range<u64>) -> usize {
    let mut faults = 0;
    for number in pages {
        if h.state(app, anon(number)) != PageState::Resident {
            h.touch(app, anon(number), true);
            faults += 1;
        }
    }
    faults
}

fn relaunch(h: &mut Host) -> usize {
    h.apply(Event::LaunchBegin(0, LaunchKind::Relaunch));
    let faults = touch(h, 0, USED);
    h.apply(Event::LaunchEnd(0));
    h.apply(Event::Idle);
    h.check();
    faults
}

/// Another application needs memory.
fn crowd(h: &mut Host) {
    touch(h, 1, 1000..1200);
    h.apply(Event::Idle);
}

/// The hot pages that a relaunch does not touch.
fn hot(h: &Host) -> Vec<u64> {
    let pages = h.engine.hot_set(app(0));
    let pages = pages.filter(|&page| !h.engine.is_on_probation(page));
    let mut numbers: Vec<u64> = pages
        .map(|page| match h.engine.locate(page).1 {
            warmswap_page::PageAddr::Anon { number } => number,
            other => panic!("{other:?}"),
        })
        .collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn where_no_page_has_to_leave_the_hot_list_stays() {
    let mut h = launched("ariadne");
    // More launches than there are numbers for.
    for _ in 0..600 {
        relaunch(&mut h);
        assert_eq!(hot(&h), PAGES.collect::<Vec<_>>());
    }
    // A host that sees all touches presumes none.
    let mut seeing = host("ariadne", 128);
    seeing.apply(Event::LaunchBegin(0, LaunchKind::Cold));
    touch(&mut seeing, 0, PAGES);
    seeing.apply(Event::LaunchEnd(0));
    relaunch(&mut seeing);
    assert!(hot(&seeing).is_empty());
}

#[test]
fn under_pressure_what_is_not_used_leaves_the_hot_list_and_what_is_used_stays() {
    let mut h = launched("ariadne");
    for _ in 0..16 {
        crowd(&mut h);
        relaunch(&mut h);
    }
    let mut faults = 0;
    for launch in 0..160 {
        let before = hot(&h);
        assert!(before.iter().all(|page| USED.contains(page)), "{before:?}");
        crowd(&mut h);
        faults += relaunch(&mut h);
        assert!(before.len() >= 6, "launch {launch}: {before:?}");
    }
    // A page whose use was seen often costs a fault in 80 launches.
    assert!(faults <= 4 * USED.count(), "{faults}");
}

#[test]
fn what_nobody_uses_any_more_ages_out_of_the_hot_list() {
    let mut h = launched("ariadne");
    for _ in 0..16 {
        crowd(&mut h);
        relaunch(&mut h);
    }
    for _ in 0..100 {
        crowd(&mut h);
        h.apply(Event::LaunchBegin(0, LaunchKind::Relaunch));
        touch(&mut h, 0, 100..104);
        h.apply(Event::LaunchEnd(0));
    }
    assert!(
        hot(&h).iter().all(|page| (100..104).contains(page)),
        "{:?}",
        hot(&h)
    );
}

#[test]
fn what_comes_along_is_hot_unless_it_is_on_probation() {
    let mut h = launched("ariadne-ehl-64k-64k-64k");
    touch(&mut h, 0, 20..24);
    crowd(&mut h);
    assert!((20..24).all(|page| h.state(0, anon(page)) == PageState::Stored));
    h.apply(Event::LaunchBegin(0, LaunchKind::Relaunch));
    touch(&mut h, 0, 20..21);
    assert_eq!(h.state(0, anon(21)), PageState::Resident);
    h.engine.came_along(app(0), anon(21));
    h.apply(Event::LaunchEnd(0));
    h.apply(Event::Idle);
    let of_these = |h: &Host, page: u64| hot(h).contains(&page);
    assert!(of_these(&h, 20) && of_these(&h, 21) && !of_these(&h, 22));
    // Of 18 hot pages 5 are on probation, in one chunk.
    let away: Vec<u64> = PAGES.filter(|&page| !of_these(&h, page)).collect();
    assert_eq!(away.len(), 5);
    h.apply(Event::LaunchBegin(0, LaunchKind::Relaunch));
    touch(&mut h, 0, away[0]..away[0] + 1);
    assert_eq!(h.state(0, anon(away[1])), PageState::Resident);
    h.engine.came_along(app(0), anon(away[1]));
    h.apply(Event::LaunchEnd(0));
    assert!(of_these(&h, away[0]) && !of_these(&h, away[1]));
    h.check();
}
