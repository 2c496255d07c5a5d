//! Fleet: a GC-swap co-design for mobile devices (ASPLOS 2024).

use warmswap_bench::fleet::depth::{Choice, DepthRow};
use warmswap_bench::fleet::launches::{ArmLaunches, LaunchesReport};
use warmswap_bench::fleet::working_set::{Lifetimes, WorkingSetReport, WorkingSetRow};
use warmswap_bench::fleet::{Arm, FleetReport, SwapTarget};
use warmswap_page::PAGE_BYTES;
use warmswap_page::quantile::Sorted;
use warmswap_study::launches::LaunchRow;

use super::{Claim, Ours, Rule, Unit, cannot, claim};
use crate::stored::Results;

const FLEET: &str = "warmswap-lab bench fleet";
const LAUNCHES: &str = "warmswap-lab bench fleet --only pool,flash";
const CAPACITY: &str = "warmswap-lab bench fleet --only capacity";
const DEPTH: &str = "warmswap-lab bench fleet --only depth";
const WORKING_SET: &str = "warmswap-lab bench fleet --only working-set";
const HEAP: &str = "warmswap-lab study heap DUMP.hprof";
const LIMIT: &str = "warmswap-lab bench fleet --only heap-limit";

/// What the names of programs begin with whose objects near the roots were given the paper's shares.
const SYNTHETIC: &str = "synthetic-";

/// A figure of an arm.
type Part = fn(&ArmLaunches) -> Option<f64>;

const P90: Part = |arm| Some(arm.p90_ns as f64);
const SLOW: Part = |arm| Some(arm.actions.slow as f64 / arm.actions.count as f64);
const CPU: Part = |arm| Some(arm.cpu_ns as f64);

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
            "warmswap-lab study launches TRACE",
        )
        .says("Of all programs a cold launch takes longer than a hot one, 8.75 times for Twitter: at least")
        .paper(Some(8.75), Unit::Ratio)
        .ours(|results| {
            let rows = results.launches.iter().flatten();
            Ours::least(rows.filter_map(LaunchRow::cold_by_relaunch))
        })
        .rule(Rule::AtLeast(2.0, 1.0)),
        claim(("Figure 3", "section 3.1"), LAUNCHES)
            .says("Swap makes the 90th percentile of hot launches 7 times longer, for Instagram")
            .paper(Some(7.0), Unit::Ratio)
            .ours(|results| by(results, P90, Arm::Native, Arm::Dram))
            .rule(Rule::AtLeast(3.0, 1.1)),
        claim(("Figure 3", "section 3.1"), LAUNCHES)
            .says("Marvin makes it longer still: beside no swap")
            .paper(None, Unit::Ratio)
            .ours(|results| by(results, P90, Arm::Marvin, Arm::Dram))
            .rule(Rule::AtLeast(3.0, 1.1)),
        claim(("Figure 4", "section 3.2"), WORKING_SET)
            .says("A collection in the background accesses all that lives")
            .paper(None, Unit::Share)
            .ours(|results| {
                Ours::over(
                    working_set_rows(results)
                        .map(|row| row.native_objects as f64 / row.live_objects as f64),
                )
            })
            .rule(Rule::AtLeast(0.9, 0.5)),
        claim(("Figure 5a", "section 4.1"), WORKING_SET)
            .says("More than 40 % of the foreground objects survive 15 collections")
            .paper(Some(0.4), Unit::Share)
            .ours(|results| surviving(results, |of| of.foreground_per_mille.last()))
            .rule(Rule::AtLeast(0.4, 0.2))
            .vacuous(|results| {
                let mut all = working_sets(results).flat_map(|set| &set.lifetimes);
                let drops = all.any(|of| of.foreground_per_mille.last() < Some(&1000));
                (!drops).then_some("the programs drop no foreground object")
            }),
        claim(("Figure 5b", "section 4.1"), WORKING_SET)
            .says(
                "Most background objects die in their first collections: \
                those that survive the first",
            )
            .paper(None, Unit::Share)
            .ours(|results| surviving(results, |of| of.background_per_mille.first()))
            .rule(Rule::AtMost(0.2, 0.5)),
        cannot(("Figure 5c", "section 4.1"))
            .says("There are far more foreground objects than background objects")
            .reason("how much a program allocates in the background is given by the benchmark"),
    ]
}

fn launch_objects() -> Vec<Claim> {
    let deep = "what a launch needs lies behind trees and tables, not near the roots";
    vec![
        claim(("Figure 6a", "section 4.2"), DEPTH)
            .says("Objects near the roots (D = 2) are half of what a launch accesses")
            .paper(Some(0.5), Unit::Share)
            .ours(|results| at_depth(results, Choice::Nro, 2, |row| row.covered_per_mille as f64 / 1e3))
            .rule(Rule::Near(0.2))
            .reason(deep),
        claim(("Figure 6a", "section 4.2"), DEPTH)
            .says("Young objects are about 40 %")
            .paper(Some(0.4), Unit::Share)
            .ours(|results| at_depth(results, Choice::Fyo, 0, |row| row.covered_per_mille as f64 / 1e3))
            .rule(Rule::Near(0.25))
            .reason("how much is young depends on when the last collection was"),
        claim(("Figure 6a", "section 4.2"), DEPTH)
            .says("Both together are 68 %")
            .paper(Some(0.68), Unit::Share)
            .ours(|results| at_depth(results, Choice::Both, 2, |row| row.covered_per_mille as f64 / 1e3))
            .rule(Rule::Near(0.2))
            .reason(deep),
        claim(("Figure 6a", "section 4.2"), DEPTH)
            .says("They take 15.5 % of the heap")
            .paper(Some(0.155), Unit::Share)
            .ours(|results| {
                at_depth(results, Choice::Both, 2, |row| {
                    row.footprint_per_mille as f64 / 1e3
                })
            })
            .rule(Rule::AtMost(0.2, 0.35)),
        claim(("Figure 6b", "section 4.2"), DEPTH)
            .says("Near the roots, coverage grows faster than memory: how many times at least, at D = 2")
            .paper(None, Unit::Ratio)
            .ours(|results| {
                let rows = depth_rows(results, Choice::Nro, 2);
                Ours::least(rows.filter_map(DepthRow::covered_by_footprint))
            })
            .rule(Rule::AtLeast(2.0, 1.0))
            .reason(deep),
        claim(("Figure 7", "section 4.3"), HEAP)
            .says("Objects are far smaller than pages: the median, as a part of a page")
            .paper(None, Unit::Share)
            .ours(|results| {
                let medians = results
                    .heap
                    .iter()
                    .flatten()
                    .map(|dump| dump.sizes.median_bytes);
                Ours::over(medians.map(|bytes| bytes as f64 / PAGE_BYTES as f64))
            })
            .rule(Rule::AtMost(0.1, 0.5)),
    ]
}

fn capacity() -> Vec<Claim> {
    vec![
        claim(("Figure 11a", "section 7.1"), CAPACITY)
            .says("With large objects, Fleet keeps 18 programs where Android keeps 14")
            .paper(Some(18.0 / 14.0), Unit::Ratio)
            .ours(|results| cached_by(results, "large objects", Arm::Native, 1.1))
            .rule(Rule::AtLeast(1.2, 1.02)),
        claim(("Figure 11a", "section 7.1"), CAPACITY)
            .says("and as many as Marvin")
            .paper(Some(1.0), Unit::Ratio)
            .ours(|results| cached_by(results, "large objects", Arm::Marvin, 1.1))
            .rule(Rule::AtLeast(0.95, 0.8)),
        claim(("Figure 11b", "section 7.1"), CAPACITY)
            .says("With small objects, Fleet keeps twice as many as Marvin")
            .paper(Some(2.0), Unit::Ratio)
            .ours(|results| cached_by(results, "small objects", Arm::Marvin, 1.1))
            .rule(Rule::AtLeast(1.5, 1.05)),
        claim(("Figure 11c", "section 7.1"), CAPACITY)
            .says("Of real programs, Fleet keeps 1.21 times as many as Android")
            .paper(Some(1.21), Unit::Ratio)
            .ours(|results| cached_by(results, "real", Arm::Native, 1.1))
            .rule(Rule::AtLeast(1.2, 1.02)),
        claim(("Figure 12a", "section 7.1"), WORKING_SET)
            .says(
                "A background collection accesses 7 times fewer objects than a native one: \
                at least, however many old objects were changed",
            )
            .paper(Some(7.0), Unit::Ratio)
            .ours(|results| {
                let ratio =
                    |row: &WorkingSetRow| row.native_objects as f64 / row.bgc_objects as f64;
                Ours::least(
                    working_set_rows(results)
                        .filter(|row| row.bgc_objects > 0)
                        .map(ratio),
                )
            })
            .rule(Rule::AtLeast(7.0, 2.0)),
        cannot(("Figure 12b", "section 7.1"))
            .says("The same, over time, for Twitch")
            .reason("it is one program of a phone; what it shows is in Figure 12a"),
    ]
}

fn hot_launches() -> Vec<Claim> {
    let near_roots =
        "what launches need is not near the roots; learned launch objects make up for that";
    vec![
        claim(("Figure 13m", "section 7.2"), LAUNCHES)
            .says("The median hot launch is 1.59 times faster than Android's")
            .paper(Some(1.59), Unit::Ratio)
            .ours(|results| Ours::one(arm(results, Arm::Fleet)?.median_speedup?))
            .rule(Rule::AtLeast(1.5, 1.05))
            .reason(near_roots),
        claim(("Figure 13m", "section 7.2"), LAUNCHES)
            .says("and 2.62 times faster than Marvin's")
            .paper(Some(2.62), Unit::Ratio)
            .ours(|results| by(results, |arm| arm.median_speedup, Arm::Fleet, Arm::Marvin))
            .rule(Rule::AtLeast(2.0, 1.05))
            .reason("Marvin's stubs cost less here than in its prototype"),
        claim(("Figures 13 and 15a", "section 7.2"), LAUNCHES)
            .says("The 90th percentile is 2.56 times shorter than Android's")
            .paper(Some(2.56), Unit::Ratio)
            .ours(|results| Ours::one(arm(results, Arm::Fleet)?.p90_speedup?))
            .rule(Rule::AtLeast(2.0, 1.05))
            .reason(near_roots),
        claim(("Figure 15a", "section 7.2"), LAUNCHES)
            .says("and 4.45 times shorter than Marvin's")
            .paper(Some(4.45), Unit::Ratio)
            .ours(|results| by(results, |arm| arm.p90_speedup, Arm::Fleet, Arm::Marvin))
            .rule(Rule::AtLeast(2.0, 1.05))
            .reason("Marvin's stubs cost less here than in its prototype"),
        claim(("Figure 15b", "section A"), LAUNCHES)
            .says("The 10th percentile is shorter than Android's")
            .paper(None, Unit::Ratio)
            .ours(|results| by(results, mean_p10_ns, Arm::Native, Arm::Fleet))
            .rule(Rule::AtLeast(1.05, 1.0))
            .reason(near_roots),
        claim(("Figure 15c", "section A"), LAUNCHES)
            .says("The mean is shorter than Android's")
            .paper(None, Unit::Ratio)
            .ours(|results| by(results, mean_ns, Arm::Native, Arm::Fleet))
            .rule(Rule::AtLeast(1.05, 1.0)),
        cannot(("Figure 13n", "section 7.2"))
            .says("The more of a program is Java heap, the more it gains")
            .reason("programs of the managed heap are all heap"),
        cannot(("Figure 16", "section A"))
            .says("Six more programs of the Play store gain, one does not")
            .reason("they run on phones only"),
        claim(("Section 7.4", "section 7.4"), CAPACITY)
            .says("With the tighter heap limit (1.1), Fleet keeps 20 % more programs than Android")
            .paper(Some(1.2), Unit::Ratio)
            .ours(|results| cached_by(results, "", Arm::Native, 1.1))
            .rule(Rule::AtLeast(1.15, 1.02)),
        claim(("Section 7.4", "section 7.4"), CAPACITY)
            .says("With the wider one (2), as many")
            .paper(Some(1.0), Unit::Ratio)
            .ours(|results| cached_by(results, "", Arm::Native, 2.0))
            .rule(Rule::Near(0.15)),
        claim(("Section 7.4", "section 7.4"), LIMIT)
            .says("Fleet's launches hardly depend on the limit: 2 by 1.1")
            .paper(Some(1.0), Unit::Ratio)
            .ours(|results| by_limit(results, Arm::Fleet))
            .rule(Rule::Near(0.15))
            .reason("heaps hold more garbage with the wider limit, and more of them has to leave"),
        claim(("Section 7.4", "section 7.4"), LIMIT)
            .says("Android's are 31 % faster with the tighter one: 2 by 1.1")
            .paper(Some(1.31), Unit::Ratio)
            .ours(|results| by_limit(results, Arm::Native))
            .rule(Rule::AtLeast(1.15, 1.0)),
    ]
}

fn costs() -> Vec<Claim> {
    vec![
        claim(("Figure 14a", "section 7.3"), LAUNCHES)
            .says("As many frames are late as with Android")
            .paper(Some(1.0), Unit::Ratio)
            .ours(|results| by(results, SLOW, Arm::Fleet, Arm::Native))
            .rule(Rule::AtMost(1.1, 1.5))
            .reason("what was taken out of memory for a launch is missed after it"),
        claim(("Figure 14a", "section 7.3"), LAUNCHES)
            .says("19.9 % fewer are late than with Marvin")
            .paper(Some(0.801), Unit::Ratio)
            .ours(|results| by(results, SLOW, Arm::Fleet, Arm::Marvin))
            .rule(Rule::AtMost(0.9, 1.0))
            .reason("what was taken out of memory for a launch is missed after it"),
        cannot(("Figure 14b", "section 7.3"))
            .says("Frames a second are as with Android")
            .reason("nothing is drawn: an action of a program is what is timed"),
        claim(("Section 7.3", "section 7.3"), LAUNCHES)
            .says("It takes 0.18 % more CPU time than Android")
            .paper(Some(1.0018), Unit::Ratio)
            .ours(|results| by(results, CPU, Arm::Fleet, Arm::Native))
            .rule(Rule::AtMost(1.01, 1.05)),
        claim(("Section 7.3", "section 7.3"), LAUNCHES)
            .says("and 3.21 % less than Marvin")
            .paper(Some(0.9679), Unit::Ratio)
            .ours(|results| by(results, CPU, Arm::Fleet, Arm::Marvin))
            .rule(Rule::AtMost(0.98, 1.0))
            .reason("grouping after each switch is a collection of the whole heap"),
        claim(("Section 7.3", "section 7.3"), FLEET)
            .says("Its card table takes a 1024th of the addresses (4 MB of 4 GB)")
            .paper(Some(1.0 / 1024.0), Unit::Share)
            .ours(|results| {
                let arm = arm(results, Arm::Fleet)?;
                Ours::one(arm.card_bytes as f64 / arm.address_bytes as f64)
            })
            .rule(Rule::AtMost(1.0 / 1024.0, 2.0 / 1024.0))
            .reason("a second byte for each card says where the first object begins"),
        cannot(("Section 7.3", "section 7.3"))
            .says("It takes as much power as Android (1851 and 1817 mW)")
            .reason("a virtual machine has no power meter"),
    ]
}

fn all_launches(results: &Results) -> impl Iterator<Item = &LaunchesReport> {
    results.fleet.iter().flat_map(|fleet| &fleet.launches)
}

/// Launches with the paper's heap limit: over flash, as in the paper, if they were measured.
fn launches(results: &Results) -> Option<&LaunchesReport> {
    let tight = |of: &&LaunchesReport| of.background_factor < 1.5;
    let flash = all_launches(results)
        .filter(tight)
        .find(|of| of.swap == SwapTarget::Flash);
    flash.or_else(|| all_launches(results).find(tight))
}

fn arm(results: &Results, name: Arm) -> Option<&ArmLaunches> {
    find(launches(results)?, name)
}

fn find(launches: &LaunchesReport, name: Arm) -> Option<&ArmLaunches> {
    launches.arms.iter().find(|arm| arm.arm == name)
}

fn mean_ns(arm: &ArmLaunches) -> Option<f64> {
    let all: Vec<u64> = arm.launch_ns.iter().flatten().copied().collect();
    Some(all.iter().sum::<u64>() as f64 / all.len() as f64)
}

/// The mean over the programs of their 10th percentiles.
fn mean_p10_ns(arm: &ArmLaunches) -> Option<f64> {
    let p10 = |launches: &Vec<u64>| {
        let sorted = Sorted::by(launches.iter().map(|&ns| ns as f64), f64::total_cmp);
        sorted.per_mille(100)
    };
    let all: Vec<f64> = arm.launch_ns.iter().filter_map(p10).collect();
    Some(all.iter().sum::<f64>() / all.len() as f64)
}

/// A figure of an arm, divided by another's.
fn by(results: &Results, part: Part, of: Arm, other: Arm) -> Option<Ours> {
    Ours::one(part(arm(results, of)?)? / part(arm(results, other)?)?)
}

/// The median with the wide heap limit by that with the tight one, over the pool, in one run.
fn by_limit(results: &Results, name: Arm) -> Option<Ours> {
    let median = |run: &FleetReport, is_wide: bool| {
        let is_wanted = |of: &&LaunchesReport| {
            of.swap == SwapTarget::Pool && (of.background_factor > 1.5) == is_wide
        };
        let found = run.launches.iter().find(is_wanted)?;
        Some(find(found, name)?.p50_ns as f64)
    };
    let ratio = |run| Some(median(run, true)? / median(run, false)?);
    Ours::one(results.fleet.iter().find_map(ratio)?)
}

/// Programs that Fleet keeps by those that another keeps; of any sort for an empty name.
fn cached_by(results: &Results, programs: &str, other: Arm, factor: f64) -> Option<Ours> {
    let all = results.fleet.iter().flat_map(|fleet| &fleet.capacity);
    let wanted = all.filter(|of| {
        (programs.is_empty() || of.name == programs) && (of.background_factor - factor).abs() < 0.01
    });
    Ours::over(wanted.filter_map(|of| {
        let cached = |name: Arm| {
            let arm = of.arms.iter().find(|arm| arm.arm == name)?;
            Some(arm.cached as f64)
        };
        Some(cached(Arm::Fleet)? / cached(other)?)
    }))
}

fn working_sets(results: &Results) -> impl Iterator<Item = &WorkingSetReport> {
    let fleets = results.fleet.iter();
    fleets.filter_map(|fleet| fleet.working_set.as_ref())
}

/// The part of the objects that `of` gives in per mille, over the programs.
fn surviving(results: &Results, of: fn(&Lifetimes) -> Option<&u64>) -> Option<Ours> {
    let lifetimes = working_sets(results).flat_map(|set| &set.lifetimes);
    let parts = lifetimes.filter_map(of);
    Ours::over(parts.map(|&per_mille| per_mille as f64 / 1e3))
}

fn working_set_rows(results: &Results) -> impl Iterator<Item = &WorkingSetRow> {
    working_sets(results).flat_map(|set| &set.rows)
}

/// Those of programs that were not made to the paper's shares.
fn depth_rows(results: &Results, choice: Choice, depth: u32) -> impl Iterator<Item = &DepthRow> {
    let reports = results
        .fleet
        .iter()
        .filter_map(|fleet| fleet.depth.as_ref());
    let rows = reports.flat_map(|report| &report.rows);
    rows.filter(move |row| row.choice == choice && row.depth == depth)
        .filter(|row| !row.program.starts_with(SYNTHETIC))
}

fn at_depth(
    results: &Results,
    choice: Choice,
    depth: u32,
    of: fn(&DepthRow) -> f64,
) -> Option<Ours> {
    Ours::over(depth_rows(results, choice, depth).map(of))
}

#[cfg(test)]
mod tests;
