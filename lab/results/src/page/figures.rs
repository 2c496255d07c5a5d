//! The charts of a page, as a table: what each shows, what it is made of, and the command that makes that.

mod make;

use make::{
    capacity, chunks, coverage, hotness_order, live, made, prepaging, replayed, similarity,
};
use warmswap_columns::Quantity;

use super::Page;
use crate::chart::{Axis, Chart, DotRow, Dots, Ink, Paint};
use crate::claims::{Paper, Unit, findings};
use crate::error::ResultError;
use crate::series;
use crate::stored::Results;

/// What a chart is drawn from, and what is to be said of it.
type Made = (String, Box<dyn Paint>);

/// A chart.
struct Plate {
    title: &'static str,
    /// For screen readers.
    description: &'static str,
    /// What to see in it.
    caption: &'static str,
    /// What makes it.
    command: &'static str,
    make: fn(&Results) -> Option<Made>,
}

/// Charts that belong together.
struct Group {
    id: &'static str,
    title: &'static str,
    plates: &'static [Plate],
}

const LIVE: &str = "warmswap-lab bench relaunch --json live.json";
const FULL: &str = "warmswap-lab compare TRACE --budget 200% --pressure full --json compare.json";
const BUDGET: &str = "warmswap-lab compare TRACE --budget 60% --json budget.json";
const STRIPS: &str = "For each application, a row for each arm: every relaunch is a dot, the middle half a box, the median a line. The axis is logarithmic.";

const GROUPS: &[Group] = &[
    Group {
        id: "latency",
        title: "How long a relaunch takes",
        plates: &[
            Plate {
                title: "Live relaunches by application and arm",
                description: STRIPS,
                caption: "Real programs, switched between in the same total memory, timed to their own answer. The farther left, the better.",
                command: LIVE,
                make: |results| live(results, |of| Some(Box::new(of.strips()))),
            },
            Plate {
                title: "Live relaunches, all applications",
                description: "One rising curve for each arm: the part of all relaunches that is done within a time.",
                caption: "A curve that rises earlier is better; where two curves meet, it makes no difference which arm one has.",
                command: LIVE,
                make: |results| live(results, |of| Some(Box::new(of.cumulative()))),
            },
            Plate {
                title: "What too little memory adds to a live relaunch",
                description: "For each application, a bar for each arm: the mean relaunch with all memory, and what the arm adds to it.",
                caption: "Means: a few long relaunches weigh as much as they cost.",
                command: LIVE,
                make: |results| live(results, |of| Some(Box::new(of.added()?))),
            },
            Plate {
                title: "Replayed relaunches when everything leaves memory",
                description: STRIPS,
                caption: "As the papers evaluate it: an application that leaves gives up all that its scheme lets go. Shown is the part of a relaunch that memory costs; the application’s own work is not in it.",
                command: FULL,
                make: |results| {
                    replayed(results.full_pressure()?, |of| Some(Box::new(of.strips())))
                },
            },
            Plate {
                title: "Replayed relaunches under a budget",
                description: "One rising curve for each scheme: the part of all relaunches that is done within a time.",
                caption: "Pages leave only when memory is short. Schemes that have few pages to bring back lie at the left.",
                command: BUDGET,
                make: |results| {
                    replayed(results.under_budget()?, |of| {
                        Some(Box::new(of.cumulative()))
                    })
                },
            },
        ],
    },
    Group {
        id: "cost",
        title: "Where the time goes",
        plates: &[
            Plate {
                title: "CPU time of live arms by part",
                description: "A bar for each arm, made of the CPU time of programs, kernel, limit, warmswap and prefetch threads.",
                caption: "All blocks, without warm-up. Faults and direct reclaim are the programs’.",
                command: LIVE,
                make: |results| made(series::live_cpu(results.relaunch.first()?)),
            },
            Plate {
                title: "The mean replayed relaunch by part",
                description: "A bar for each scheme, made of what was measured and what was modelled.",
                caption: "Compression and decompression are executed on the recorded contents; faults, frames and flash come from a device model.",
                command: FULL,
                make: |results| made(series::where_time_goes(results.full_pressure()?)),
            },
            Plate {
                title: "CPU time of compression and decompression in replays",
                description: "A bar for each scheme, made of decompression and compression, waited for or not.",
                caption: "Of the whole trace. What is waited for is seen by a person; what is done in the background drains a battery all the same.",
                command: FULL,
                make: |results| made(series::codec_cpu(results.full_pressure()?)),
            },
        ],
    },
    Group {
        id: "flash",
        title: "Flash and capacity",
        plates: &[
            Plate {
                title: "Flash written and read in replays",
                description: "A bar for each scheme, made of bytes written and bytes read.",
                caption: "Writing wears flash out. What is written back compressed counts as it is written.",
                command: FULL,
                make: |results| {
                    let with_flash = results.compare.iter().find_map(series::flash);
                    made(with_flash?)
                },
            },
            Plate {
                title: "Programs of the managed heap that are kept until the first is killed",
                description: "For each sort of programs, a bar for each collector.",
                caption: "Memory and flash of the paper’s phone, scaled as the programs are.",
                command: "warmswap-lab bench fleet --only capacity --json fleet.json",
                make: capacity,
            },
        ],
    },
    Group {
        id: "prediction",
        title: "How well the next launch is foreseen",
        plates: &[
            Plate {
                title: "The hot list as a prediction",
                description: "For each application, full circles for coverage and accuracy here, rings for the paper’s means.",
                caption: "Coverage: of what a relaunch uses, the part that was in the hot list. Accuracy: of the hot list, the part that was used.",
                command: "warmswap-lab study coverage TRACE --json coverage.json",
                make: coverage,
            },
            Plate {
                title: "Footprints as a prediction",
                description: "For each application and kind of memory, full circles for precision and recall here, rings for the paper’s means.",
                caption: "Precision: of what was brought back, the part that was touched. Recall: of what would have faulted, the part that was brought back.",
                command: "warmswap-lab study prepaging TRACE --json prepaging.json",
                make: prepaging,
            },
            Plate {
                title: "How alike consecutive relaunches are",
                description: "For each application, full circles for similarity and reuse here, rings for the paper’s means.",
                caption: "Without this, no scheme could foresee anything.",
                command: "warmswap-lab study similarity TRACE --json similarity.json",
                make: similarity,
            },
            Plate {
                title: "What zram compresses first",
                description: "For each tenth of what is swapped out, in the order in which it left, a bar of hot, warm and cold pages.",
                caption: "All applications. Part 0 left first; a scheme that foresees has cold pages there, and hot ones in part 9.",
                command: "warmswap-lab study hotness-order TRACE --json hotness-order.json",
                make: hotness_order,
            },
        ],
    },
    Group {
        id: "compression",
        title: "What compression costs and saves",
        plates: &[
            Plate {
                title: "Data ratio by chunk size",
                description: "A rising curve for each codec, from chunks of 128 B to chunks of 128 KiB.",
                caption: "Larger chunks compress better, as in the Ariadne paper (1.7 to 3.9).",
                command: "warmswap-lab study chunk-size TRACE --json chunk-size.json",
                make: |results| chunks(results, RATIO, |row| row.data_ratio()),
            },
            Plate {
                title: "Speed of compression by chunk size",
                description: "A curve for each codec, from chunks of 128 B to chunks of 128 KiB.",
                caption: "In the Ariadne paper, chunks of 128 B are 59 times faster (lz4) than chunks of 128 KiB.",
                command: "warmswap-lab study chunk-size TRACE --json chunk-size.json",
                make: |results| chunks(results, SPEED, |row| row.compress_mb_per_s() * 1e6),
            },
        ],
    },
];

const RATIO: Axis = Axis::linear("original by compressed bytes", Quantity::Ratio);

const SPEED: Axis = Axis::linear("bytes compressed each second", series::bytes);

/// Adds every chart that there are results for.
pub(super) fn all(page: &mut Page, results: &Results) -> Result<(), ResultError> {
    for group in GROUPS {
        let made = group
            .plates
            .iter()
            .map(|plate| (plate, (plate.make)(results)));
        let made: Vec<_> = made
            .filter_map(|(plate, made)| Some((plate, made?)))
            .collect();
        if made.is_empty() {
            continue;
        }
        let mut number = page.figures;
        page.section(group.id, group.title, |html| {
            for (plate, (more, what)) in made {
                let chart = Chart::of(plate.title, plate.description, &*what)?;
                let caption = [plate.caption, &more].join(" ");
                super::figure(html, &mut number, &chart, caption.trim());
            }
            Ok(())
        })?;
        page.figures = number;
    }
    Ok(())
}

/// Charts that there are no results for, each with its command.
pub(super) fn missing(results: &Results) -> Vec<(&'static str, &'static str)> {
    let plates = GROUPS.iter().flat_map(|group| group.plates);
    let missing = plates.filter(|plate| (plate.make)(results).is_none());
    missing.map(|plate| (plate.title, plate.command)).collect()
}

/// Ours by the paper's number, claim by claim: where the two stand on one axis.
pub(super) fn beside(paper: Paper, results: &Results) -> Option<Dots> {
    let rows = findings(paper, results).into_iter().filter_map(|finding| {
        let paper = finding.claim.paper.filter(|value| *value > 0.0)?;
        let ours = finding.ours.filter(|ours| ours.value > 0.0)?;
        let is_factor = matches!(finding.claim.unit, Unit::Ratio | Unit::Share | Unit::Number);
        let label = format!("{}: {}", finding.claim.figure, finding.claim.says);
        is_factor.then(|| DotRow {
            label,
            values: vec![Some(ours.value / paper), Some(1.0)],
        })
    });
    let rows: Vec<DotRow> = rows.collect();
    (!rows.is_empty()).then_some(Dots {
        kinds: vec![
            ("ours, by the paper’s number", Ink::Series(0), false),
            ("the paper’s", Ink::Series(1), true),
        ],
        rows,
        unit: Quantity::Ratio,
        is_log: true,
        most: None,
    })
}
