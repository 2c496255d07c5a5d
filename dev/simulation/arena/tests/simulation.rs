//! Simulations, one a seed.

use warmswap_simulation::{simulate, simulate_pinned, simulate_pool};

/// Simulations of a run of the tests.
const SIMULATIONS: u64 = 120;

/// Simulations after which a long run says how far it is. It can be ended at any moment.
const SAID_EVERY: u64 = 100;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// `WARMSWAP_SEED` is the first seed, `WARMSWAP_SIMULATIONS` how many there are.
#[test]
fn every_page_holds_what_it_should() {
    let first = number("WARMSWAP_SEED").unwrap_or(1);
    let count = number("WARMSWAP_SIMULATIONS").unwrap_or(SIMULATIONS);
    let mut swaps = 0;
    for seed in first..first + count {
        let outcome = simulate(seed);
        if std::env::var_os("WARMSWAP_VERBOSE").is_some() {
            println!("{seed}: {outcome:?}");
        }
        assert_eq!(outcome.machine.late_wakes, 0, "seed {seed}");
        swaps += outcome.swaps;
        let done = seed - first + 1;
        if done.is_multiple_of(SAID_EVERY) {
            println!(
                "{done} simulations, seeds from {first} on: {swaps} verified page swaps so far"
            );
        }
    }
    println!("{count} simulations, seeds from {first} on: {swaps} verified page swaps");
}

#[test]
fn a_seed_replays_exactly() {
    for seed in [3, 4, 5] {
        let outcomes = [simulate(seed), simulate(seed)].map(|outcome| format!("{outcome:?}"));
        assert_eq!(outcomes[0], outcomes[1]);
    }
}

/// Where no page can leave, pauses and launches end, and faults go beyond the budget.
#[test]
fn programs_go_on_where_no_page_can_leave() {
    for seed in 1..=10 {
        simulate_pinned(seed);
    }
}

/// Entries of the pool under loads, stores, moves and frees at once.
#[test]
fn objects_of_the_pool_are_what_was_stored() {
    let (mut loads, mut moved) = (0, 0);
    for seed in 1..=500 {
        let counts = simulate_pool(seed);
        loads += counts.0;
        moved += counts.1;
    }
    assert!(moved > 0, "no object was moved");
    println!("{loads} loads were compared, {moved} objects were moved");
}
