//! Fleet: a GC-swap co-design for mobile devices (ASPLOS 2024).

use warmswap_page::PAGE_BYTES;
use warmswap_study::launches::LaunchRow;

use super::{Claim, Ours, Rule, Unit, nothing};
use crate::live::{FleetArm, FleetCollection, FleetDepthRow, FleetLaunches};
use crate::results::Results;

const FLEET: &str = "warmswap bench fleet";
const LAUNCHES: &str = "warmswap bench fleet --only pool,flash";
const CAPACITY: &str = "warmswap bench fleet --only capacity";
const DEPTH: &str = "warmswap bench fleet --only depth";
const WORKING_SET: &str = "warmswap bench fleet --only working-set";
const LIMIT: &str = "warmswap bench fleet --only pool,heap-limit";
/// With more changes than this between two collections, the paper's programs are not comparable.
const FEW_CHANGES: u64 = 1_000;

/// A claim with a number that was or can be measured.
fn claim(
    (figure, section): (&'static str, &'static str),
    says: &'static str,
    (paper, unit): (Option<f64>, Unit),
    command: &'static str,
    ours: fn(&Results) -> Option<Ours>,
    (rule, reason): (Rule, &'static str),
) -> Claim {
    Claim {
        figure,
        section,
        says,
        paper,
        unit,
        command,
        ours,
        rule,
        reason,
    }
}

/// A claim that this hardware cannot show.
fn cannot(place: (&'static str, &'static str), says: &'static str, reason: &'static str) -> Claim {
    claim(
        place,
        says,
        (None, Unit::Ratio),
        "",
        nothing,
        (Rule::Cannot, reason),
    )
}

pub(super) fn claims() -> Vec<Claim> {
    let mut claims = motivation();
    claims.extend(launch_objects());
    claims.extend(capacity());
    claims.extend(hot_launches());
    claims.extend(costs());
    claims
}

fn motivation() -> Vec<Claim> {
    vec![
        claim(
            ("Figure 2", "section 2.1"),
            "A cold launch takes 8.75 times as long as a hot one, for Twitter",
            (Some(8.75), Unit::Ratio),
            "warmswap study launches TRACE",
            |results| {
                Ours::over(
                    results
                        .launches
                        .iter()
                        .flatten()
                        .filter_map(LaunchRow::cold_by_relaunch),
                )
            },
            (Rule::AtLeast(2.0, 1.0), ""),
        ),
        claim(
            ("Figure 3", "section 3.1"),
            "Swap makes the 90th percentile of hot launches 7 times longer, for Instagram",
            (Some(7.0), Unit::Ratio),
            LAUNCHES,
            |results| p90_by(results, "native", "dram"),
            (Rule::AtLeast(3.0, 1.1), ""),
        ),
        claim(
            ("Figure 3", "section 3.1"),
            "Marvin makes it longer still: beside no swap",
            (None, Unit::Ratio),
            LAUNCHES,
            |results| p90_by(results, "marvin", "dram"),
            (Rule::AtLeast(3.0, 1.1), ""),
        ),
        claim(
            ("Figure 4", "section 3.2"),
            "A collection in the background accesses all that lives",
            (None, Unit::Share),
            WORKING_SET,
            |results| {
                Ours::over(
                    few_changes(results)
                        .map(|row| row.native_objects as f64 / row.live_objects as f64),
                )
            },
            (Rule::AtLeast(0.9, 0.5), ""),
        ),
        claim(
            ("Figure 5a", "section 4.1"),
            "More than 40 % of the foreground objects survive 15 collections",
            (Some(0.4), Unit::Share),
            WORKING_SET,
            |results| {
                let lifetimes = results
                    .fleet
                    .iter()
                    .filter_map(|fleet| fleet.working_set.as_ref());
                let last = lifetimes
                    .flat_map(|of| &of.lifetimes)
                    .filter_map(|of| of.foreground_per_mille.last());
                Ours::over(last.map(|&per_mille| per_mille as f64 / 1e3))
            },
            (Rule::AtLeast(0.4, 0.2), ""),
        ),
        claim(
            ("Figure 5b", "section 4.1"),
            "Most background objects die in their first collections: those that survive the first",
            (None, Unit::Share),
            WORKING_SET,
            |results| {
                let lifetimes = results
                    .fleet
                    .iter()
                    .filter_map(|fleet| fleet.working_set.as_ref());
                let first = lifetimes
                    .flat_map(|of| &of.lifetimes)
                    .filter_map(|of| of.background_per_mille.first());
                Ours::over(first.map(|&per_mille| per_mille as f64 / 1e3))
            },
            (Rule::AtMost(0.2, 0.5), ""),
        ),
        cannot(
            ("Figure 5c", "section 4.1"),
            "There are far more foreground objects than background objects",
            "how much a program allocates in the background is given by the benchmark",
        ),
    ]
}

fn launch_objects() -> Vec<Claim> {
    let deep = "what a launch needs lies behind trees and tables, not near the roots";
    vec![
        claim(
            ("Figure 6a", "section 4.2"),
            "Objects near the roots (D = 2) are half of what a launch accesses",
            (Some(0.5), Unit::Share),
            DEPTH,
            |results| at_depth(results, "nro", 2, |row| row.covered_per_mille as f64 / 1e3),
            (Rule::Near(0.2), deep),
        ),
        claim(
            ("Figure 6a", "section 4.2"),
            "Young objects are about 40 %",
            (Some(0.4), Unit::Share),
            DEPTH,
            |results| at_depth(results, "fyo", 0, |row| row.covered_per_mille as f64 / 1e3),
            (
                Rule::Near(0.25),
                "how much is young depends on when the last collection was",
            ),
        ),
        claim(
            ("Figure 6a", "section 4.2"),
            "Both together are 68 %",
            (Some(0.68), Unit::Share),
            DEPTH,
            |results| at_depth(results, "both", 2, |row| row.covered_per_mille as f64 / 1e3),
            (Rule::Near(0.2), deep),
        ),
        claim(
            ("Figure 6a", "section 4.2"),
            "They take 15.5 % of the heap",
            (Some(0.155), Unit::Share),
            DEPTH,
            |results| {
                at_depth(results, "both", 2, |row| {
                    row.footprint_per_mille as f64 / 1e3
                })
            },
            (Rule::AtMost(0.2, 0.35), ""),
        ),
        claim(
            ("Figure 6b", "section 4.2"),
            "Near the roots, coverage grows faster than memory: how many times, at D = 2",
            (None, Unit::Ratio),
            DEPTH,
            |results| {
                at_depth(results, "nro", 2, |row| {
                    row.covered_per_mille as f64 / row.footprint_per_mille as f64
                })
            },
            (Rule::AtLeast(2.0, 1.0), deep),
        ),
        claim(
            ("Figure 7", "section 4.3"),
            "Objects are far smaller than pages: the median, as a part of a page",
            (None, Unit::Share),
            "warmswap study heap DUMP.hprof",
            |results| {
                Ours::over(
                    results
                        .heap
                        .iter()
                        .flatten()
                        .map(|dump| dump.sizes.median_bytes as f64 / PAGE_BYTES as f64),
                )
            },
            (Rule::AtMost(0.1, 0.5), ""),
        ),
    ]
}

fn capacity() -> Vec<Claim> {
    vec![
        claim(
            ("Figure 11a", "section 7.1"),
            "With large objects, Fleet keeps 18 programs where Android keeps 14",
            (Some(18.0 / 14.0), Unit::Ratio),
            CAPACITY,
            |results| cached_by(results, "large objects", "native", 1.1),
            (Rule::AtLeast(1.2, 1.02), ""),
        ),
        claim(
            ("Figure 11a", "section 7.1"),
            "and as many as Marvin",
            (Some(1.0), Unit::Ratio),
            CAPACITY,
            |results| cached_by(results, "large objects", "marvin", 1.1),
            (Rule::AtLeast(0.95, 0.8), ""),
        ),
        claim(
            ("Figure 11b", "section 7.1"),
            "With small objects, Fleet keeps twice as many as Marvin",
            (Some(2.0), Unit::Ratio),
            CAPACITY,
            |results| cached_by(results, "small objects", "marvin", 1.1),
            (Rule::AtLeast(1.5, 1.05), ""),
        ),
        claim(
            ("Figure 11c", "section 7.1"),
            "Of real programs, Fleet keeps 1.21 times as many as Android",
            (Some(1.21), Unit::Ratio),
            CAPACITY,
            |results| cached_by(results, "real", "native", 1.1),
            (Rule::AtLeast(1.2, 1.02), ""),
        ),
        claim(
            ("Figure 12a", "section 7.1"),
            "A background collection accesses 7 times fewer objects than a native one: at least",
            (Some(7.0), Unit::Ratio),
            WORKING_SET,
            |results| {
                let ratio =
                    |row: &FleetCollection| row.native_objects as f64 / row.bgc_objects as f64;
                Ours::least(
                    few_changes(results)
                        .filter(|row| row.bgc_objects > 0)
                        .map(ratio),
                )
            },
            (Rule::AtLeast(7.0, 2.0), ""),
        ),
        cannot(
            ("Figure 12b", "section 7.1"),
            "The same, over time, for Twitch",
            "it is one program of a phone; what it shows is in Figure 12a",
        ),
    ]
}

fn hot_launches() -> Vec<Claim> {
    let near_roots =
        "what launches need is not near the roots; learned launch objects make up for that";
    vec![
        claim(
            ("Figure 13m", "section 7.2"),
            "The median hot launch is 1.59 times faster than Android's",
            (Some(1.59), Unit::Ratio),
            LAUNCHES,
            |results| Ours::one(arm(results, "fleet")?.median_speedup?),
            (Rule::AtLeast(1.5, 1.05), near_roots),
        ),
        claim(
            ("Figure 13m", "section 7.2"),
            "and 2.62 times faster than Marvin's",
            (Some(2.62), Unit::Ratio),
            LAUNCHES,
            |results| {
                Ours::one(
                    arm(results, "fleet")?.median_speedup?
                        / arm(results, "marvin")?.median_speedup?,
                )
            },
            (
                Rule::AtLeast(2.0, 1.05),
                "Marvin's stubs cost less here than in its prototype",
            ),
        ),
        claim(
            ("Figures 13 and 15a", "section 7.2"),
            "The 90th percentile is 2.56 times shorter than Android's",
            (Some(2.56), Unit::Ratio),
            LAUNCHES,
            |results| Ours::one(arm(results, "fleet")?.p90_speedup?),
            (Rule::AtLeast(2.0, 1.05), near_roots),
        ),
        claim(
            ("Figure 15a", "section 7.2"),
            "and 4.45 times shorter than Marvin's",
            (Some(4.45), Unit::Ratio),
            LAUNCHES,
            |results| {
                Ours::one(
                    arm(results, "fleet")?.p90_speedup? / arm(results, "marvin")?.p90_speedup?,
                )
            },
            (
                Rule::AtLeast(2.0, 1.05),
                "Marvin's stubs cost less here than in its prototype",
            ),
        ),
        claim(
            ("Figure 15c", "section A"),
            "The mean is shorter than Android's",
            (None, Unit::Ratio),
            LAUNCHES,
            |results| Ours::one(mean_ns(arm(results, "native")?) / mean_ns(arm(results, "fleet")?)),
            (Rule::AtLeast(1.05, 1.0), ""),
        ),
        cannot(
            ("Figure 13n", "section 7.2"),
            "The more of a program is Java heap, the more it gains",
            "programs of the managed heap are all heap",
        ),
        cannot(
            ("Figure 16", "section A"),
            "Six more programs of the Play store gain, one does not",
            "they run on phones only",
        ),
        claim(
            ("Section 7.4", "section 7.4"),
            "With the tighter heap limit (1.1), Fleet keeps 20 % more programs than Android",
            (Some(1.2), Unit::Ratio),
            CAPACITY,
            |results| cached_by(results, "", "native", 1.1),
            (Rule::AtLeast(1.15, 1.02), ""),
        ),
        claim(
            ("Section 7.4", "section 7.4"),
            "With the wider one (2), as many",
            (Some(1.0), Unit::Ratio),
            CAPACITY,
            |results| cached_by(results, "", "native", 2.0),
            (Rule::Near(0.15), ""),
        ),
        claim(
            ("Section 7.4", "section 7.4"),
            "Fleet's launches hardly depend on the limit: 2 by 1.1",
            (Some(1.0), Unit::Ratio),
            LIMIT,
            |results| by_limit(results, "fleet"),
            (Rule::Near(0.15), ""),
        ),
        claim(
            ("Section 7.4", "section 7.4"),
            "Android's are 31 % faster with the tighter one: 2 by 1.1",
            (Some(1.31), Unit::Ratio),
            LIMIT,
            |results| by_limit(results, "native"),
            (Rule::AtLeast(1.15, 1.0), ""),
        ),
    ]
}

fn costs() -> Vec<Claim> {
    vec![
        claim(
            ("Figure 14a", "section 7.3"),
            "As many frames are late as with Android",
            (Some(1.0), Unit::Ratio),
            LAUNCHES,
            |results| slow_by(results, "native"),
            (
                Rule::AtMost(1.1, 1.5),
                "what was taken out of memory for a launch is missed after it",
            ),
        ),
        claim(
            ("Figure 14a", "section 7.3"),
            "19.9 % fewer are late than with Marvin",
            (Some(0.801), Unit::Ratio),
            LAUNCHES,
            |results| slow_by(results, "marvin"),
            (
                Rule::AtMost(0.9, 1.0),
                "what was taken out of memory for a launch is missed after it",
            ),
        ),
        cannot(
            ("Figure 14b", "section 7.3"),
            "Frames a second are as with Android",
            "nothing is drawn: an action of a program is what is timed",
        ),
        claim(
            ("Section 7.3", "section 7.3"),
            "It takes 0.18 % more CPU time than Android",
            (Some(1.0018), Unit::Ratio),
            LAUNCHES,
            |results| cpu_by(results, "native"),
            (Rule::AtMost(1.01, 1.05), ""),
        ),
        claim(
            ("Section 7.3", "section 7.3"),
            "and 3.21 % less than Marvin",
            (Some(0.9679), Unit::Ratio),
            LAUNCHES,
            |results| cpu_by(results, "marvin"),
            (Rule::AtMost(0.98, 1.0), ""),
        ),
        claim(
            ("Section 7.3", "section 7.3"),
            "Its card table takes 4 MB",
            (Some(4e6), Unit::Bytes),
            FLEET,
            |results| Ours::one(arm(results, "fleet")?.card_bytes as f64),
            (Rule::AtMost(4.2e6, 8.4e6), ""),
        ),
        cannot(
            ("Section 7.3", "section 7.3"),
            "It takes as much power as Android (1851 and 1817 mW)",
            "a virtual machine has no power meter",
        ),
    ]
}

fn all_launches(results: &Results) -> impl Iterator<Item = &FleetLaunches> {
    results.fleet.iter().flat_map(|fleet| &fleet.launches)
}

/// Launches with the paper's heap limit: over flash, as in the paper, if they were measured.
fn launches(results: &Results) -> Option<&FleetLaunches> {
    let tight = |of: &&FleetLaunches| of.background_factor < 1.5;
    let flash = all_launches(results)
        .filter(tight)
        .find(|of| of.swap == "flash");
    flash.or_else(|| all_launches(results).find(tight))
}

fn arm<'a>(results: &'a Results, name: &str) -> Option<&'a FleetArm> {
    find(launches(results)?, name)
}

fn find<'a>(launches: &'a FleetLaunches, name: &str) -> Option<&'a FleetArm> {
    launches.arms.iter().find(|arm| arm.arm == name)
}

fn mean_ns(arm: &FleetArm) -> f64 {
    let all: Vec<u64> = arm.launch_ns.iter().flatten().copied().collect();
    all.iter().sum::<u64>() as f64 / all.len() as f64
}

fn p90_by(results: &Results, of: &str, other: &str) -> Option<Ours> {
    Ours::one(arm(results, of)?.p90_ns as f64 / arm(results, other)?.p90_ns as f64)
}

fn slow_by(results: &Results, other: &str) -> Option<Ours> {
    let slow = |name| {
        let actions = arm(results, name)?.actions;
        Some(actions.slow as f64 / actions.count as f64)
    };
    Ours::one(slow("fleet")? / slow(other)?)
}

fn cpu_by(results: &Results, other: &str) -> Option<Ours> {
    Ours::one(arm(results, "fleet")?.cpu_ns as f64 / arm(results, other)?.cpu_ns as f64)
}

/// The median with the wide heap limit by that with the tight one, over the pool.
fn by_limit(results: &Results, name: &str) -> Option<Ours> {
    let median = |is_wide: bool| {
        let is_wanted =
            |of: &&FleetLaunches| of.swap == "pool" && (of.background_factor > 1.5) == is_wide;
        let found = all_launches(results).find(is_wanted)?;
        Some(find(found, name)?.p50_ns as f64)
    };
    Ours::one(median(true)? / median(false)?)
}

/// Programs that Fleet keeps by those that another keeps; of any sort for an empty name.
fn cached_by(results: &Results, programs: &str, other: &str, factor: f64) -> Option<Ours> {
    let all = results.fleet.iter().flat_map(|fleet| &fleet.capacity);
    let wanted = all.filter(|of| {
        (programs.is_empty() || of.name == programs) && (of.background_factor - factor).abs() < 0.01
    });
    Ours::over(wanted.filter_map(|of| {
        let cached = |name| {
            let arm = of.arms.iter().find(|arm| arm.arm == name)?;
            Some(arm.cached as f64)
        };
        Some(cached("fleet")? / cached(other)?)
    }))
}

fn few_changes(results: &Results) -> impl Iterator<Item = &FleetCollection> {
    let sets = results
        .fleet
        .iter()
        .filter_map(|fleet| fleet.working_set.as_ref());
    sets.flat_map(|set| &set.rows)
        .filter(|row| row.old_changes <= FEW_CHANGES)
}

fn at_depth(
    results: &Results,
    choice: &str,
    depth: u32,
    of: fn(&FleetDepthRow) -> f64,
) -> Option<Ours> {
    let reports = results
        .fleet
        .iter()
        .filter_map(|fleet| fleet.depth.as_ref());
    let rows = reports.flat_map(|report| &report.rows);
    let wanted = rows.filter(|row| row.choice == choice && row.depth == depth);
    Ours::over(wanted.map(of))
}
