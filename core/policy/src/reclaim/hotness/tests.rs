use super::stay::MOST_CHANCES;
use super::*;
use crate::page::PageState;
use warmswap_page::PageAddr;

struct World {
    table: PageTable,
    policy: HotnessOrg,
}

const A: AppId = AppId(0);
const B: AppId = AppId(1);

impl World {
    fn new() -> Self {
        Self {
            table: PageTable::default(),
            policy: HotnessOrg::default(),
        }
    }

    /// Touches pages as the engine does: inserted when new or away, else touched.
    fn touch(&mut self, app: AppId, numbers: impl IntoIterator<Item = u64>) {
        for number in numbers {
            let page = self.table.find_or_insert(app, PageAddr::Anon { number });
            if self.table[page].state == PageState::Resident {
                self.policy.touch(&mut self.table, page);
            } else {
                self.table[page].state = PageState::Resident;
                self.policy.insert(&mut self.table, page, Arrival::Touched);
            }
        }
    }

    fn launch(&mut self, app: AppId, kind: LaunchKind, numbers: impl IntoIterator<Item = u64>) {
        self.policy.launch_begin(&mut self.table, app, kind);
        self.touch(app, numbers);
        self.policy.launch_end(app);
    }

    fn class(&mut self, app: AppId, number: u64) -> Hotness {
        let page = self.table.find(app, PageAddr::Anon { number }).unwrap();
        self.policy.hotness(&self.table, page)
    }

    fn swap_out(&mut self, want: usize, urgency: Urgency) -> Vec<(AppId, u64)> {
        let mut out = Vec::new();
        self.policy
            .victims(&mut self.table, want, urgency, &mut out);
        out.into_iter()
            .map(|page| {
                self.table[page].state = PageState::Stored;
                let PageAddr::Anon { number } = self.table.addr(page) else {
                    unreachable!()
                };
                (self.table.owner(page), number)
            })
            .collect()
    }
}

#[test]
fn the_first_launch_makes_the_hot_list_and_execution_the_cold_one() {
    let mut w = World::new();
    w.launch(A, LaunchKind::Cold, 0..4);
    w.touch(A, 4..6);
    assert_eq!(w.class(A, 0), Hotness::Hot);
    assert_eq!(w.class(A, 4), Hotness::Cold);
    w.touch(A, [4]);
    assert_eq!(w.class(A, 4), Hotness::Warm, "cold -> warm on access");
    assert_eq!(w.policy.hot_pages(A), 4);
}

#[test]
fn the_initial_hot_list_can_be_limited() {
    let mut w = World::new();
    w.policy.initial_hot_pages = 2;
    w.launch(A, LaunchKind::Cold, 0..4);
    assert_eq!(
        [w.class(A, 0), w.class(A, 1), w.class(A, 2)],
        [Hotness::Hot, Hotness::Hot, Hotness::Cold]
    );
    w.launch(A, LaunchKind::Relaunch, 0..4);
    assert_eq!(w.policy.hot_pages(A), 4, "a relaunch is not limited");
}

#[test]
fn a_relaunch_turns_old_hot_to_warm_and_its_own_pages_to_hot() {
    let mut w = World::new();
    w.launch(A, LaunchKind::Cold, 0..4);
    w.launch(A, LaunchKind::Relaunch, [2, 3, 9]);
    assert_eq!([w.class(A, 0), w.class(A, 1)], [Hotness::Warm; 2]);
    assert_eq!(
        [w.class(A, 2), w.class(A, 3), w.class(A, 9)],
        [Hotness::Hot; 3]
    );
    assert_eq!(w.policy.hot_pages(A), 3);
}

#[test]
fn cold_of_all_leaves_first_then_warm_then_hot_applications_in_lru_order() {
    let mut w = World::new();
    w.launch(A, LaunchKind::Cold, [0, 1]);
    w.touch(A, [10, 11, 20, 20]);
    w.launch(B, LaunchKind::Cold, [0]);
    w.touch(B, [10, 20, 20]);
    let order = w.swap_out(9, Urgency::Direct);
    assert_eq!(
        order,
        [
            (A, 10),
            (A, 11),
            (B, 10),
            (A, 20),
            (B, 20),
            (A, 0),
            (A, 1),
            (B, 0)
        ]
    );
}

#[test]
fn excluded_hot_pages_leave_only_when_somebody_waits() {
    let mut w = World::new();
    w.policy.hot_pages = HotPages::Keep;
    w.launch(A, LaunchKind::Cold, [0]);
    w.touch(A, [1]);
    assert_eq!(w.swap_out(2, Urgency::Background), [(A, 1)]);
    assert_eq!(w.swap_out(1, Urgency::Direct), [(A, 0)]);
}

#[test]
fn hotness_survives_swap_out_and_ages_with_the_next_launch() {
    let mut w = World::new();
    w.launch(A, LaunchKind::Cold, [0, 1]);
    w.swap_out(2, Urgency::Direct);
    assert_eq!(w.class(A, 0), Hotness::Hot);
    w.launch(A, LaunchKind::Relaunch, [1]);
    assert_eq!(
        [w.class(A, 0), w.class(A, 1)],
        [Hotness::Warm, Hotness::Hot]
    );
    w.touch(A, [0]);
    assert_eq!(w.class(A, 0), Hotness::Warm);
}

#[test]
fn labels_do_not_come_back_when_the_launch_counter_wraps() {
    let mut w = World::new();
    w.launch(A, LaunchKind::Cold, [0, 1]);
    w.swap_out(1, Urgency::Direct);
    for _ in 0..255 {
        w.launch(A, LaunchKind::Relaunch, [5]);
    }
    assert_ne!(w.class(A, 0), Hotness::Hot);
    assert_eq!(w.policy.hot_pages(A), 1);
}

#[test]
fn hot_pages_leave_in_the_order_in_which_the_relaunch_touched_them() {
    let mut w = World::new();
    w.launch(A, LaunchKind::Cold, 0..6);
    w.launch(A, LaunchKind::Relaunch, [5, 1, 3, 1, 5]);
    let order: Vec<_> = w
        .swap_out(6, Urgency::Direct)
        .into_iter()
        .map(|(_, number)| number)
        .collect();
    assert_eq!(order, [0, 2, 4, 5, 1, 3]);
}

#[test]
fn a_learned_hot_list_takes_the_place_of_the_first_launch() {
    let mut world = World::new();
    world.policy.teach(&mut world.table, A, &[1, 2, 9]);
    assert_eq!(world.policy.hot_pages(A), 3);
    let hotness = |world: &mut World, number| {
        let page = world.table.find_or_insert(A, PageAddr::Anon { number });
        world.policy.hotness(&world.table, page)
    };
    world
        .policy
        .launch_begin(&mut world.table, A, LaunchKind::Cold);
    world.touch(A, [1, 5]);
    world.policy.launch_end(A);
    world.touch(A, [2]);
    let classes = [1, 5, 2].map(|number| hotness(&mut world, number));
    assert_eq!(classes, [Hotness::Hot, Hotness::Cold, Hotness::Hot]);
    assert_eq!(world.policy.dump(&world.table).len(), 3);
    // The next launch makes a list of its own, and the learned pages age as others do.
    world
        .policy
        .launch_begin(&mut world.table, A, LaunchKind::Relaunch);
    assert_eq!(hotness(&mut world, 9), Hotness::Warm);
    assert_eq!(world.policy.hot_pages(A), 0);
}

#[test]
fn the_foreground_keeps_its_pages_until_the_others_have_only_hot_ones() {
    let mut world = World::new();
    world.policy.spares_foreground = true;
    for app in [A, B] {
        world.launch(app, LaunchKind::Cold, [1]);
        world.touch(app, [2, 3]);
        world.touch(app, [3]);
    }

    let order = world.swap_out(6, Urgency::Direct);

    let expected = [(A, 2), (A, 3), (B, 2), (B, 3), (A, 1), (B, 1)];
    assert_eq!(order, expected);
}

#[test]
fn while_it_is_launched_others_give_way_to_the_foreground_with_their_hot_pages_too() {
    let mut world = World::new();
    world.policy.spares_foreground = true;
    world.policy.hot_pages = HotPages::Keep;
    for app in [A, B] {
        world.launch(app, LaunchKind::Cold, [1]);
        world.touch(app, [2, 3]);
        world.touch(app, [3]);
    }
    world
        .policy
        .launch_begin(&mut world.table, B, LaunchKind::Relaunch);
    world.touch(B, [4]);

    // No thread waits: hot pages stay, and the launch keeps what it has.
    assert_eq!(
        world.swap_out(9, Urgency::Background),
        [(A, 2), (A, 3)],
        "others' cold and warm pages"
    );
    // A thread waits.
    let order = world.swap_out(9, Urgency::Direct);
    assert_eq!(order[..2], [(A, 1), (B, 2)]);
    assert_eq!(order.last(), Some(&(B, 4)), "what the launch touched");
    assert_eq!(order.len(), 5);
}

#[test]
fn who_was_launched_last_is_in_the_foreground_whoever_works() {
    let mut world = World::new();
    world.policy.spares_foreground = true;
    world.launch(B, LaunchKind::Cold, []);
    world.launch(A, LaunchKind::Cold, []);
    world.touch(A, [1]);
    world.touch(B, [1]);

    assert_eq!(world.swap_out(1, Urgency::Direct), [(B, 1)]);
}

impl World {
    /// Where pages that come back soon stay, hot pages are spared, and resident pages are touched unseen.
    fn with_refaults() -> Self {
        let mut world = Self::new();
        world.policy.hot_pages = HotPages::Keep;
        world.policy.departures = Some(Departures::default());
        world
    }

    /// Faults on pages that are away, in turn; as many others leave as there is no room for. How many faults on each
    /// page.
    fn fault_in_turn(
        &mut self,
        frames: usize,
        touches: impl IntoIterator<Item = u64>,
    ) -> std::collections::HashMap<u64, u32> {
        let mut faults = std::collections::HashMap::new();
        for number in touches {
            let page = self.table.find_or_insert(A, PageAddr::Anon { number });
            if self.table[page].state == PageState::Resident {
                continue;
            }
            self.touch(A, [number]);
            *faults.entry(number).or_default() += 1;
            let resident = self.policy.dump(&self.table).len();
            self.swap_out(resident.saturating_sub(frames), Urgency::Background);
        }
        faults
    }
}

/// A few pages that are used again and again, among many that are used once in a long while.
fn busy_and_rare() -> impl Iterator<Item = u64> {
    (0..4000).flat_map(|at| [at % 10, 1000 + at % 400])
}

#[test]
fn what_comes_back_soon_stays_although_its_touches_are_not_seen() {
    let faults_on_busy = |mut world: World| -> u32 {
        world.touch(A, 0..1500);
        world.swap_out(1500, Urgency::Direct);
        let faults = world.fault_in_turn(50, busy_and_rare());
        (0..10).filter_map(|page| faults.get(&page)).sum()
    };
    let alike = faults_on_busy(World::new());
    let stay = faults_on_busy(World::with_refaults());
    assert!(alike > 5 * stay && stay > 0, "{alike} against {stay}");
}

#[test]
fn what_was_hot_at_a_launch_makes_room_for_what_is_used_now() {
    let mut w = World::with_refaults();
    w.launch(A, LaunchKind::Cold, 2000..2040);
    w.touch(A, 0..1500);
    let left = w.swap_out(usize::MAX, Urgency::Background);
    assert_eq!(left.len(), 1540, "no other application needs room");
    w.launch(A, LaunchKind::Relaunch, 2000..2040);
    assert_eq!(w.policy.hot_pages(A), 40);
    w.fault_in_turn(50, busy_and_rare());
    assert!(w.policy.hot_pages(A) < 10, "{}", w.policy.hot_pages(A));
    for page in 0..10 {
        assert_eq!(w.class(A, page), Hotness::Warm);
    }
}

#[test]
fn hot_pages_of_others_are_spared_whatever_comes_back() {
    let mut w = World::with_refaults();
    w.launch(B, LaunchKind::Cold, 0..40);
    w.launch(A, LaunchKind::Cold, 2000..2010);
    w.touch(A, 0..1500);
    let left = w.swap_out(usize::MAX, Urgency::Background);
    assert_eq!(left.len(), 1500);
    w.fault_in_turn(100, busy_and_rare());
    assert_eq!(w.policy.hot_pages(B), 40);
    let resident = w.policy.dump(&w.table);
    let of_b = resident
        .iter()
        .filter(|&&page| w.table.owner(page) == B)
        .count();
    assert_eq!(of_b, 40);
}

#[test]
fn counts_of_hot_pages_hold_when_they_age_leave_and_are_freed() {
    let mut w = World::with_refaults();
    w.launch(A, LaunchKind::Cold, 0..100);
    w.swap_out(50, Urgency::Background);
    // Away, hot, and missed when the launch is over.
    w.touch(A, 0..10);
    assert_eq!(w.policy.hot_pages(A), 90);
    assert_eq!(w.class(A, 0), Hotness::Warm);
    for number in 10..100 {
        let page = w.table.find(A, PageAddr::Anon { number }).unwrap();
        if w.table[page].state == PageState::Resident {
            w.policy.remove(&mut w.table, page);
        }
        w.policy.forget(&w.table, page);
        w.table[page].reset();
    }
    assert_eq!(w.policy.hot_pages(A), 0);
}

#[test]
fn a_call_looks_at_so_many_pages_and_the_next_one_goes_on_there() {
    let mut w = World::new();
    let most = MOST_CHANCES as u64;
    w.touch(A, 0..most + 100);
    // They are warm, and touched since.
    w.touch(A, 0..most + 100);
    w.touch(A, 0..most + 100);
    let first = [(A, most), (A, most + 1)];
    assert_eq!(w.swap_out(2, Urgency::Background), first);
    // Those before them are at the back, and untouched since.
    let left = w.swap_out(99, Urgency::Background);
    assert_eq!(left[..2], [(A, 0), (A, 1)]);
}
