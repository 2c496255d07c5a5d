use super::*;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

/// A group with members that were used one after the other: their shares, what of these is not hot, and whether they are
/// in the background.
fn group(budget_bytes: u64, members: &[(u64, u64, bool)]) -> Shares {
    let mut shares = Shares::new(budget_bytes);
    for (place, &(share_bytes, cool_bytes, is_background)) in members.iter().enumerate() {
        assert_eq!(
            shares.join(100 + place as u32, 10 + place as u64),
            Some(place)
        );
        shares.members[place].share_bytes = share_bytes;
        shares.members[place].cool_bytes = cool_bytes;
        shares.members[place].is_background = is_background;
    }
    shares
}

fn owed(shares: &Shares) -> Vec<u64> {
    let owed = |place: usize| shares.members[place].owed_bytes;
    shares.places().map(owed).collect()
}

#[test]
fn a_group_of_one_has_all_of_the_budget() {
    let mut shares = group(100 * MIB, &[(0, 0, false)]);
    assert_eq!(shares.ceiling_bytes(0), 100 * MIB);
    assert_eq!(shares.take(0, 70 * MIB), 70 * MIB);
    assert_eq!(shares.take(0, 70 * MIB), 30 * MIB);
    assert_eq!(shares.ask(0, MIB, 0), [] as [usize; 0]);
    assert_eq!(shares.floor_bytes(), LEAST_SHARE_BYTES);
}

#[test]
fn cool_pages_of_all_go_before_hot_ones_least_recently_used_first() {
    let members = [
        (40 * MIB, 10 * MIB, true),
        (40 * MIB, 20 * MIB, true),
        (20 * MIB, 0, false),
    ];
    let ask = |wanted_mib: u64| {
        let mut shares = group(100 * MIB, &members);
        shares.ask(2, wanted_mib * MIB, 50);
        owed(&shares)
            .iter()
            .map(|owed| owed / MIB)
            .collect::<Vec<_>>()
    };
    assert_eq!(ask(8), [8, 0, 0]);
    assert_eq!(ask(25), [10, 15, 0]);
    assert_eq!(ask(35), [15, 20, 0]);
    assert_eq!(ask(60), [32, 28, 0]);
    assert_eq!(ask(90), [32, 32, 0], "the floor is theirs");

    let mut shares = group(100 * MIB, &members);
    shares.members[0].least_bytes = 25 * MIB;
    shares.ask(2, 90 * MIB, 50);
    assert_eq!(
        owed(&shares),
        [15 * MIB, 32 * MIB, 0],
        "compressed it takes so much"
    );
}

#[test]
fn members_in_the_foreground_are_asked_down_to_an_equal_part() {
    let mut shares = group(90 * MIB, &[(60 * MIB, 0, false), (30 * MIB, 0, false)]);
    assert_eq!(shares.ask(1, 40 * MIB, 50), [0]);
    assert_eq!(owed(&shares), [15 * MIB, 0]);
    assert_eq!(
        shares.ask(0, 40 * MIB, 50),
        [] as [usize; 0],
        "it has more than the other"
    );
}

#[test]
fn a_background_member_asks_those_that_were_used_before_it() {
    let of = |share| (share, 0, true);
    let mut shares = group(90 * MIB, &[of(30 * MIB), of(30 * MIB), of(30 * MIB)]);
    assert_eq!(shares.ask(1, 40 * MIB, 50), [0]);
    assert_eq!(owed(&shares), [22 * MIB, 0, 0]);
    assert_eq!(shares.ask(0, 5 * MIB, 50), [] as [usize; 0]);
    // Up to the floor it asks all.
    let mut shares = group(90 * MIB, &[of(2 * MIB), of(44 * MIB), (44 * MIB, 0, false)]);
    assert_eq!(shares.ask(0, 40 * MIB, 50), [1]);
    assert_eq!(owed(&shares), [0, 6 * MIB, 0]);
}

#[test]
fn what_is_asked_of_others_already_is_not_asked_again_unless_they_are_late() {
    let members = [
        (40 * MIB, 0, true),
        (40 * MIB, 0, true),
        (20 * MIB, 0, false),
    ];
    let mut shares = group(100 * MIB, &members);
    assert_eq!(shares.ask(2, 10 * MIB, 100), [0]);
    assert_eq!(shares.ask(2, 10 * MIB, 110), [] as [usize; 0]);
    assert_eq!(shares.ask(2, 12 * MIB, 110), [0]);
    assert_eq!(shares.ask(2, 12 * MIB, 151), [1], "the first is late");
    assert_eq!(owed(&shares), [12 * MIB, 12 * MIB, 0]);

    // One that gives is not late, and one that is used again owes nothing.
    shares.give(0, 2 * MIB, 152);
    assert_eq!(shares.take(2, 12 * MIB), 2 * MIB);
    assert_eq!(owed(&shares), [10 * MIB, 12 * MIB, 0]);
    shares.used(1, false, 153);
    assert_eq!(owed(&shares), [10 * MIB, 0, 0]);
}

#[test]
fn the_reserve_is_for_the_foreground_and_for_the_floor() {
    let members = [
        (20 * MIB, 0, true),
        (40 * MIB, 0, true),
        (20 * MIB, 0, false),
    ];
    let mut shares = group(100 * MIB, &members);
    shares.launch_took(50 * MIB);
    assert_eq!(shares.reserve_bytes, 100 * MIB / 8);
    assert_eq!(shares.ask_for_reserve(0), [] as [usize; 0], "it is there");
    assert_eq!(shares.take(0, 20 * MIB), 20 * MIB - shares.reserve_bytes);
    assert_eq!(shares.take(2, 20 * MIB), shares.reserve_bytes);
    assert_eq!(shares.ask_for_reserve(0), [0]);
    assert_eq!(shares.members[0].owed_bytes, shares.reserve_bytes);
    shares.launch_took(0);
    assert_eq!(shares.reserve_bytes, (100 * MIB / 8).div_ceil(8) * 7);

    let mut shares = group(100 * MIB, &[(2 * MIB, 0, true), (90 * MIB, 0, false)]);
    shares.reserve_bytes = 8 * MIB;
    assert_eq!(shares.take(0, 20 * MIB), 6 * MIB);
}

#[test]
fn what_a_member_had_is_nobodys_when_it_ends() {
    let mut shares = group(100 * MIB, &[(60 * MIB, 0, true), (40 * MIB, 0, false)]);
    assert_eq!(shares.take(1, MIB), 0);
    shares.leave(0);
    assert_eq!(shares.take(1, 100 * MIB), 60 * MIB);
    assert_eq!(shares.join(7, 0), Some(0));
}

/// What each member should owe, a byte at a time: each is owed by the first that can, in the order that the module gives.
fn slow_ask(shares: &Shares, place: usize, wanted: u64) -> Vec<u64> {
    let mut owed: Vec<u64> = shares.members.iter().map(|m| m.owed_bytes).collect();
    let asking = &shares.members[place];
    let floor = shares.floor_bytes();
    let is_needy = asking.is_background && asking.share_bytes < floor;
    let is_urgent = !asking.is_background || is_needy;
    let wanted = if is_needy {
        wanted.min(floor - asking.share_bytes)
    } else {
        wanted
    };
    let count = |is_background: bool| {
        let members = shares.members.iter();
        members
            .filter(|m| m.pid != 0 && m.is_background == is_background)
            .count() as u64
    };
    let equal = (shares.budget_bytes - count(true) * floor) / count(false).max(1);
    // Ranks: 0 cool of the background, 1 hot of the background, 2 the foreground.
    let can = |owed: &[u64], p: usize, rank: u8| {
        let m = &shares.members[p];
        let kept = floor
            .max(m.least_bytes)
            .max(if rank == 2 { equal } else { 0 });
        let may = match rank {
            2 => is_urgent && !m.is_background,
            _ => m.is_background && (is_urgent || m.last_used_ms < asking.last_used_ms),
        };
        m.pid != 0
            && p != place
            && may
            && owed[p] + kept < m.share_bytes
            && (rank != 0 || owed[p] < m.cool_bytes)
    };
    let lacking = wanted.saturating_sub(shares.takeable_bytes(place));
    while owed.iter().sum::<u64>() < lacking {
        let ranked = (0..3u8).flat_map(|rank| (0..MOST_MEMBERS).map(move |p| (rank, p)));
        let able = ranked.filter(|&(rank, p)| can(&owed, p, rank));
        let first = able.min_by_key(|&(rank, p)| (rank, shares.members[p].last_used_ms));
        let Some((_, p)) = first else { break };
        owed[p] += 1;
    }
    owed
}

/// What happens to a group.
#[derive(Clone, Debug)]
enum Event {
    Join,
    Leave(usize),
    Used(usize, bool),
    Take(usize, u64),
    Give(usize, u64),
    Ask(usize, u64),
    Launched(u64),
    Cool(usize, u64, u64),
}

fn event() -> impl Strategy<Value = Event> {
    let place = || 0..6usize;
    let bytes = || 0..60u64;
    prop_oneof![
        Just(Event::Join),
        place().prop_map(Event::Leave),
        (place(), any::<bool>()).prop_map(|(p, is_background)| Event::Used(p, is_background)),
        (place(), bytes()).prop_map(|(p, b)| Event::Take(p, b)),
        (place(), bytes()).prop_map(|(p, b)| Event::Give(p, b)),
        (place(), bytes()).prop_map(|(p, b)| Event::Ask(p, b)),
        bytes().prop_map(Event::Launched),
        (place(), bytes(), bytes()).prop_map(|(p, cool, least)| Event::Cool(p, cool, least)),
    ]
}

fn check(shares: &Shares) {
    let total: u64 = shares.members.iter().map(|m| m.share_bytes).sum();
    assert!(total <= shares.budget_bytes, "{shares:?}");
    for member in &shares.members {
        assert!(member.owed_bytes <= member.share_bytes, "{member:?}");
        assert!(
            member.pid != 0 || *member == Member::default(),
            "{member:?}"
        );
    }
    assert!(shares.reserve_bytes <= shares.budget_bytes / RESERVE_DIVISOR);
}

proptest! {
    #[test]
    fn shares_never_exceed_the_budget_and_asks_are_as_a_slow_model_has_them(
        budget in 1..200u64,
        events in proptest::collection::vec(event(), 1..80),
    ) {
        let mut shares = Shares::new(budget);
        // No member is late; that has a test of its own.
        for (at, event) in events.into_iter().enumerate() {
            let is_member = |place: usize| shares.members[place].pid != 0;
            match event {
                Event::Join => {
                    let members = shares.places().count();
                    if members < 6 {
                        // The first free place is below the sixth.
                        prop_assert!(shares.join(1 + at as u32, at as u64).is_some());
                    }
                }
                Event::Leave(p) if is_member(p) => shares.leave(p),
                Event::Used(p, is_background) if is_member(p) => {
                    shares.used(p, is_background, at as u64);
                }
                Event::Take(p, bytes) if is_member(p) => {
                    let before = shares.unassigned_bytes();
                    let taken = shares.take(p, bytes);
                    prop_assert!(taken <= bytes.min(before));
                    let is_all = shares.members[p].is_background;
                    prop_assert!(is_all || taken == bytes.min(before));
                }
                Event::Give(p, bytes) if is_member(p) => shares.give(p, bytes, 0),
                Event::Ask(p, bytes) if is_member(p) => {
                    let expected = slow_ask(&shares, p, bytes);
                    let before = shares.clone();
                    let called = shares.ask(p, bytes, 0);
                    let owed: Vec<_> = shares.members.iter().map(|m| m.owed_bytes).collect();
                    prop_assert_eq!(owed, expected);
                    let owes_more = |&place: &usize| {
                        shares.members[place].owed_bytes > before.members[place].owed_bytes
                    };
                    prop_assert_eq!(called, (0..MOST_MEMBERS).filter(owes_more).collect::<Vec<_>>());
                }
                Event::Launched(bytes) => shares.launch_took(bytes),
                Event::Cool(p, cool, least) if is_member(p) => {
                    shares.members[p].cool_bytes = cool;
                    shares.members[p].least_bytes = least;
                }
                _ => {}
            }
            check(&shares);
        }
    }

    /// Where all that are asked give, a round brings a member to the floor at least, and in the foreground to all that
    /// others need not keep.
    #[test]
    fn one_round_is_enough(
        budget in 1..1000u64,
        members in proptest::collection::vec((0..400u64, any::<bool>()), 1..6),
    ) {
        let mut shares = Shares::new(budget);
        for (at, &(wanted, is_background)) in members.iter().enumerate() {
            let place = shares.join(1 + at as u32, at as u64).unwrap();
            shares.take(place, wanted);
            shares.used(place, is_background, at as u64);
        }
        let floor = shares.floor_bytes();
        for place in 0..members.len() {
            let mut shares = shares.clone();
            let wanted = budget;
            shares.ask(place, wanted, 0);
            for other in shares.places().collect::<Vec<_>>() {
                let owed = shares.members[other].owed_bytes;
                shares.give(other, owed, 0);
            }
            shares.take(place, wanted);
            check(&shares);
            prop_assert!(shares.members[place].share_bytes >= floor.min(budget / members.len() as u64));
            let in_background = |other: &usize| shares.members[*other].is_background;
            let background = shares.places().filter(in_background);
            if !shares.members[place].is_background {
                for other in background {
                    prop_assert!(shares.members[other].share_bytes <= floor);
                }
            }
        }
    }
}
