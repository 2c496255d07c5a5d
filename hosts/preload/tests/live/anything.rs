//! A program that does anything with its addresses, at random, does the same with the library and without.

use crate::SMALL;
use crate::common::{Budget, Case, compile, run};

/// Found a page that was about to be compressed in its place while its protection changed.
const PROTECTS_WHAT_LEAVES: &str = "6101";
/// The first seed; `scripts/soak` sets it.
const SEED_VARIABLE: &str = "WARMSWAP_SEED";
const SEEDS: u64 = 3;
const STEPS: &str = "1500";
const THREADS: &str = "3";

#[test]
fn anything_at_random() {
    let Some((_folder, file)) = compile("anything") else {
        return;
    };
    let file = file.to_str().expect("text");
    let given = std::env::var(SEED_VARIABLE).ok();
    let first: u64 = given.map_or(1, |seed| seed.parse().expect("a number"));
    for seed in first..first + SEEDS {
        for mechanism in ["move", "copy"] {
            let case = Case {
                mechanism,
                ..Case::new(SMALL)
            };
            let Some((plain, paged)) = run(&case, &[file, &seed.to_string(), STEPS, THREADS])
            else {
                continue;
            };
            let what = format!("seed {seed}, {mechanism}: {}", paged.errors);
            assert_eq!(plain.answer, paged.answer, "{what}");
            let stats = paged.stats.expect("a report");
            assert!(
                stats.managed && stats.faults.pool > 1000,
                "{what}: {stats:?}"
            );
        }
    }
}

#[test]
fn pages_that_are_about_to_leave_are_protected() {
    let Some((_folder, file)) = compile("anything") else {
        return;
    };
    let file = file.to_str().expect("text");
    let case = Case {
        mechanism: "copy",
        ..Case::new(Budget { mib: 6 })
    };
    for _ in 0..3 {
        let what = [file, PROTECTS_WHAT_LEAVES, "400", "4"];
        let Some((plain, paged)) = run(&case, &what) else {
            return;
        };
        assert_eq!(plain.answer, paged.answer, "{}", paged.errors);
    }
}
