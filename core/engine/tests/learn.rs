//! What was learned in one run is known in the next.

mod common;

use common::{Event, Host, anon, app, file, host};
use warmswap_engine::Outcome;
use warmswap_page::{FileId, LaunchKind, PageAddr};
use warmswap_policy::Learned;

/// A launch window with time for its footprint.
fn launch(h: &mut Host, kind: LaunchKind, pages: &[PageAddr]) -> Vec<Outcome> {
    h.apply(Event::LaunchBegin(0, kind));
    h.apply(Event::Idle);
    let outcomes = pages.iter().map(|&page| h.touch(0, page, false)).collect();
    h.apply(Event::LaunchEnd(0));
    outcomes
}

fn learned(scheme: &str, pages: &[PageAddr]) -> Learned<FileId> {
    let mut h = host(scheme, 1024);
    launch(&mut h, LaunchKind::Cold, pages);
    for _ in 0..3 {
        h.shrink(0);
        launch(&mut h, LaunchKind::Relaunch, pages);
    }
    h.engine.learned(app(0))
}

#[test]
fn a_footprint_is_known_after_a_restart() {
    let scheme = "zram+prefetch=footprint:profile=1";
    let pages = [anon(4), anon(2), file(7), file(8)];
    let before = learned(scheme, &pages);
    assert_eq!(before.anon_targets, [4, 2]);
    assert!(before.is_profiled && before.files.len() == 1);
    let mut h = host(scheme, 1024);
    h.engine.teach(app(0), &before);
    h.check();
    assert_eq!(h.engine.learned(app(0)), before);
    let expected = pages.iter().all(|&page| h.engine.expects(app(0), page));
    assert!(expected);
    // The pages of files exist already; the others come into being at the first launch.
    let outcomes = launch(&mut h, LaunchKind::Cold, &pages);
    let expected = [
        Outcome::FirstTouch,
        Outcome::FirstTouch,
        Outcome::Prepaged,
        Outcome::Prepaged,
    ];
    assert_eq!(outcomes, expected);
}

#[test]
fn a_hot_list_is_known_after_a_restart() {
    let before = learned("ariadne", &[anon(1), anon(2)]);
    assert_eq!(before.hot, [1, 2]);
    let mut h = host("ariadne", 1024);
    h.engine.teach(app(0), &before);
    launch(&mut h, LaunchKind::Cold, &[anon(2), anon(3)]);
    h.touch(0, anon(1), false);
    assert_eq!(h.engine.learned(app(0)).hot, [1, 2], "3 was not hot before");
    h.check();
}

#[test]
fn schemes_that_learn_nothing_take_and_give_nothing() {
    let before = learned("warmswap+prefetch=both:profile=1", &[anon(1), file(1)]);
    assert!(!before.is_empty());
    let mut h = host("zram", 1024);
    h.engine.teach(app(0), &before);
    assert!(h.engine.learned(app(0)).is_empty());
    h.check();
}
