use warmswap_engine::calls::{Answer, Call};
use warmswap_engine::{Outcome, Place};
use warmswap_page::{AppId, PageAddr};
use warmswap_policy::reclaim::Arrival;
use warmswap_uffd::Mechanism;

use super::super::testing::arena;
use crate::fault::Wanted;
use crate::page_words::{State, Word};
use crate::{Arena, Region};

type Say = fn(AppId, PageAddr) -> Call;
const AWAY: Say = Call::SendAway;
const BACK: Say = |app, addr| Call::Served(app, addr, Arrival::Touched);

/// A page in its frame, with a copy in the pool. None where userfaultfd does not work.
fn page_with_a_copy(test: &str) -> Option<(Arena, Region)> {
    let arena = arena(test, "zram+keep-copies=on")?;
    let app = arena.application("a page").expect("an application");
    let region = app.region(4096).expect("a region");
    arena.shared.bring(region.first, Wanted::Demand);
    say(&arena, &region, &[AWAY]);
    assert_eq!(word(&arena, &region), State::Stored);
    arena.shared.bring(region.first, Wanted::Demand);
    assert_eq!(word(&arena, &region), State::Resident);
    Some((arena, region))
}

/// Says all of this to the engine, and only then has carried out what it decided.
fn say(arena: &Arena, region: &Region, calls: &[Say]) {
    let shared = &arena.shared;
    let mut pager = shared.pager();
    pager.drain_arrivals(&shared.core);
    let (app, addr) = pager.locate(region.first);
    for call in calls {
        pager.engine.call(call(app, addr));
    }
    shared.settle(&mut pager);
    pager.engine.check().expect("invariants");
}

fn word(arena: &Arena, region: &Region) -> State {
    arena.shared.core.words.word(region.first).state
}

/// Where the engine has the page: its answer to a touch.
fn touch(arena: &Arena, region: &Region) -> Answer {
    let mut pager = arena.shared.pager();
    let (app, addr) = pager.locate(region.first);
    pager.engine.call(BACK(app, addr))
}

#[test]
fn a_page_that_is_dropped_twice_is_stored() {
    let Some((arena, region)) = page_with_a_copy("a page that is dropped twice") else {
        return;
    };
    say(&arena, &region, &[AWAY, BACK, AWAY]);
    assert_eq!(word(&arena, &region), State::Stored);
    let fault = Outcome::Fault(Place::Pool);
    assert_eq!(touch(&arena, &region), Answer::Outcome(fault));
}

/// The first of two decisions of a batch could not carry it out, and the second could.
#[test]
fn a_page_that_stayed_at_first_and_left_then_is_stored() {
    let Some((arena, region)) = page_with_a_copy("a page that stayed at first") else {
        return;
    };
    arena.shared.pager().stayed.push(region.first);
    say(&arena, &region, &[AWAY]);
    assert_eq!(word(&arena, &region), State::Stored);
    let fault = Outcome::Fault(Place::Pool);
    assert_eq!(touch(&arena, &region), Answer::Outcome(fault));
}

#[test]
fn a_page_that_came_back_before_it_was_dropped_stays() {
    let Some((arena, region)) = page_with_a_copy("a page that came back") else {
        return;
    };
    say(&arena, &region, &[AWAY, BACK]);
    assert_eq!(word(&arena, &region), State::Resident);
    assert_eq!(touch(&arena, &region), Answer::Outcome(Outcome::Hit));
}

/// The second of two pages, with a copy, is to be dropped; a touch of the first predicts it, and it is touched itself
/// before any of that is carried out.
#[test]
fn a_page_that_was_predicted_and_touched_before_it_was_dropped_stays() {
    let name = "a page that was predicted and touched";
    let Some(arena) = arena(name, "zram+prefetch=next+keep-copies=on") else {
        return;
    };
    let app = arena.application("two pages").expect("an application");
    let region = app.region(2 * 4096).expect("a region");
    let (shared, first, second) = (&arena.shared, region.first, region.first + 1);
    let core = &shared.core;
    for page in [first, second] {
        shared.bring(page, Wanted::Demand);
    }
    let mut pager = shared.pager();
    pager.drain_arrivals(core);
    for page in [first, second] {
        let (app, addr) = pager.locate(page);
        pager.engine.call(AWAY(app, addr));
    }
    shared.settle(&mut pager);
    shared.bring(second, Wanted::Demand);
    pager.drain_arrivals(core);
    shared.settle(&mut pager);

    let (app, addr) = pager.locate(second);
    pager.engine.call(AWAY(app, addr));
    shared.bring(first, Wanted::Demand);
    pager.drain_arrivals(core);
    pager.engine.call(BACK(app, addr));
    shared.settle(&mut pager);

    assert_eq!(core.words.word(second).state, State::Resident);
    pager.engine.check().expect("invariants");
}

#[test]
fn a_page_that_was_freed_before_it_was_dropped_is_no_more() {
    let Some((arena, region)) = page_with_a_copy("a page that was freed") else {
        return;
    };
    let shared = &arena.shared;
    let mut pager = shared.pager();
    pager.drain_arrivals(&shared.core);
    let (app, addr) = pager.locate(region.first);
    pager.engine.call(AWAY(app, addr));
    let fresh = Word::of(State::Fresh);
    let pages = region.first..region.first + 1;
    pager
        .empty(&shared.core, app, pages, fresh)
        .expect("memory");
    shared.settle(&mut pager);
    drop(pager);
    assert_eq!(word(&arena, &region), State::Fresh);
    assert_eq!(touch(&arena, &region), Answer::Outcome(Outcome::FirstTouch));
}

#[test]
fn a_slot_with_a_frame_of_nobody_is_not_used() {
    let Some((arena, region)) = page_with_a_copy("a slot with a frame of no page") else {
        return;
    };
    let core = &arena.shared.core;
    let mut stray = core.frames.take_empty(1).expect("an empty slot");
    if core.memory.mechanism() == Mechanism::Copy {
        return;
    }
    core.memory.fill_slots(&mut stray).expect("a frame");
    core.frames.put_empty(stray);
    for (lost, state) in [(1, State::Resident), (1, State::Stored)] {
        say(&arena, &region, &[AWAY]);
        assert_eq!(
            (arena.stats().lost_slots, word(&arena, &region)),
            (lost, state)
        );
    }
}
