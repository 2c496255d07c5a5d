//! ASAP: fast mobile application switch via adaptive prepaging (USENIX ATC 2021).

use warmswap_page::PAGE_BYTES;
use warmswap_study::compare::Comparison;
use warmswap_study::launches::LaunchRow;
use warmswap_study::prepaging::{
    PAPER_ANON_PRECISION, PAPER_ANON_RECALL, PAPER_FILE_PRECISION, PAPER_FILE_RECALL,
    PAPER_TABLE_BYTES, Prediction, PrepagingRow,
};
use warmswap_study::switches::{
    Memory, PAPER_ANON_INVARIANT, PAPER_FILE_INVARIANT, SwitchFootprint,
};

use super::{Claim, Ours, Rule, Unit, nothing};
use crate::live::{LiveArm, LiveSwitches};
use crate::results::Results;

const SWITCHES: &str = "warmswap study switches TRACE";
const PREPAGING: &str = "warmswap study prepaging TRACE";
const COMPARE: &str = "warmswap compare TRACE --budget 200% --pressure full --files --schemes \
    dram,zram,asap,asap-anon,asap-file";
const SAMPLED: &str = "warmswap bench relaunch --arms dram,zram,kernel --sample-ms 10";
const NO_FILES: &str = "a recording sees a page of a file only where it is mapped anew";

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
    claims.extend(footprints());
    claims.extend(evaluation());
    claims
}

fn motivation() -> Vec<Claim> {
    vec![
        claim(
            ("Figure 1", "section 2.2"),
            "Under pressure, a switch takes 4 times as long as with all memory",
            (Some(4.0), Unit::Ratio),
            "warmswap bench relaunch --arms dram,zram",
            |results| results.live_by("zram", "dram"),
            (
                Rule::AtLeast(2.0, 1.05),
                "the paper drops files from memory, too",
            ),
        ),
        claim(
            ("Figure 1", "section 2.2"),
            "A launch takes longer than a switch",
            (None, Unit::Ratio),
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
            (Rule::AtLeast(1.5, 1.0), ""),
        ),
        claim(
            ("Figure 2a", "section 2.3"),
            "Processors are less than half in use in a switch",
            (None, Unit::Share),
            SAMPLED,
            |results| Ours::one(switches(results, "zram")?.cpu),
            (
                Rule::AtMost(0.5, 0.8),
                "there are 2 processors here and 8 there",
            ),
        ),
        cannot(
            ("Figure 2b", "section 2.3"),
            "The disk's bandwidth is far from used up in a switch",
            "the disk of a virtual machine has no bandwidth of its own",
        ),
        cannot(
            ("Figure 3", "section 2.3"),
            "The same holds of a slower phone, less so",
            "it takes a second, slower machine; its own result can be given to this page",
        ),
    ]
}

fn footprints() -> Vec<Claim> {
    vec![
        claim(
            ("Figure 5", "section 4.1"),
            "75 % of the pages of files in a switch are touched by 9 or 10 of 10 switches",
            (Some(PAPER_FILE_INVARIANT.value), Unit::Share),
            SWITCHES,
            |results| Ours::over(of(results, Memory::File).map(|row| row.invariant)),
            (Rule::Near(0.15), NO_FILES),
        ),
        claim(
            ("Figure 5", "section 4.1"),
            "10 % of them are touched by fewer than 5",
            (Some(0.10), Unit::Share),
            SWITCHES,
            |results| Ours::over(of(results, Memory::File).map(|row| row.rare)),
            (Rule::AtMost(0.15, 0.3), NO_FILES),
        ),
        claim(
            ("Figure 6", "section 4.1"),
            "44 % of the anonymous pages are touched by 9 or 10",
            (Some(PAPER_ANON_INVARIANT.value), Unit::Share),
            SWITCHES,
            |results| Ours::over(of(results, Memory::Anonymous).map(|row| row.invariant)),
            (
                Rule::Near(0.3),
                "collectors move objects, and allocators hand out other pages",
            ),
        ),
        claim(
            ("Figure 7", "section 4.1"),
            "A switch touches more pages of files than anonymous pages",
            (None, Unit::Ratio),
            SWITCHES,
            |results| {
                let pages = |memory| of(results, memory).map(|row| row.pages).sum::<f64>();
                Ours::one(pages(Memory::File) / pages(Memory::Anonymous))
                    .filter(|_| has_switches(results))
            },
            (Rule::AtLeast(1.0, 0.8), NO_FILES),
        ),
        cannot(
            ("Figure 10", "section 5.2"),
            "90 % of the accesses to files are to the largest 15 % of them",
            "a recording sees too few accesses to files to tell",
        ),
    ]
}

fn evaluation() -> Vec<Claim> {
    let figure_11 = ("Figure 11", "section 6.2");
    let figure_12 = ("Figure 12", "section 6.3");
    let memory_only = "ours is the part that memory costs, as a replay models it";
    vec![
        claim(
            figure_11,
            "Switches take 22.2 % less on the fast phone, 28.3 % on the slower one",
            (Some(0.778), Unit::Ratio),
            COMPARE,
            |results| speedup(results, "asap"),
            (Rule::AtMost(0.85, 1.0), memory_only),
        ),
        claim(
            figure_11,
            "With anonymous pages only, they take 6.8 % and 14.6 % less",
            (Some(0.932), Unit::Ratio),
            COMPARE,
            |results| speedup(results, "asap-anon"),
            (Rule::AtMost(0.95, 1.0), memory_only),
        ),
        claim(
            figure_11,
            "With pages of files only, they take 18.3 % and 14.4 % less",
            (Some(0.817), Unit::Ratio),
            COMPARE,
            |results| speedup(results, "asap-file"),
            (
                Rule::AtMost(0.9, 1.0),
                "a profile takes ten relaunches, and few pages of files are recorded",
            ),
        ),
        claim(
            figure_12,
            "68.4 % of the anonymous pages that are brought back are touched",
            (Some(PAPER_ANON_PRECISION.value), Unit::Share),
            PREPAGING,
            |results| predicted(results, |row| row.anon.precision()),
            (Rule::AtLeast(0.6, 0.5), ""),
        ),
        claim(
            figure_12,
            "60.4 % of the anonymous pages that fault are brought back",
            (Some(PAPER_ANON_RECALL.value), Unit::Share),
            PREPAGING,
            |results| predicted(results, |row| row.anon.recall()),
            (Rule::AtLeast(0.55, 0.4), ""),
        ),
        claim(
            figure_12,
            "79.3 % of the pages of files that are brought back are touched",
            (Some(PAPER_FILE_PRECISION.value), Unit::Share),
            PREPAGING,
            |results| predicted(results, |row| row.file.precision()),
            (Rule::AtLeast(0.7, 0.5), NO_FILES),
        ),
        claim(
            figure_12,
            "52.2 % of the pages of files that fault are brought back",
            (Some(PAPER_FILE_RECALL.value), Unit::Share),
            PREPAGING,
            |results| {
                predicted(results, |row| {
                    row.file.recall().filter(|_| row.file.pages > 0)
                })
            },
            (Rule::AtLeast(0.45, 0.3), NO_FILES),
        ),
        claim(
            ("Figure 13", "section 6.4"),
            "Processors are in use 1.18 times as much as without prepaging",
            (Some(1.18), Unit::Ratio),
            SAMPLED,
            |results| {
                let cpu = |arm: &LiveArm| Some(arm.switches?.cpu);
                Ours::one(results.live_ratio(cpu, "kernel", "zram")?)
            },
            (
                Rule::Near(0.15),
                "the kernel host keeps the hot list in memory, so that less is to be brought back",
            ),
        ),
        claim(
            ("Figure 14", "section 6.4"),
            "25.2 % more is read each second",
            (Some(1.252), Unit::Ratio),
            SAMPLED,
            |results| {
                let read = |arm: &LiveArm| {
                    let found = arm.switches?;
                    Some(found.in_bytes_per_second + found.read_bytes_per_second)
                };
                Ours::one(results.live_ratio(read, "kernel", "zram")?)
            },
            (
                Rule::AtLeast(1.1, 1.0),
                "the kernel host keeps the hot list in memory, so that less is to be read",
            ),
        ),
        cannot(
            ("Figure 15", "section 6.5"),
            "Fixed choices of cores are 2 to 6 % slower than ASAP's",
            "it takes big and little cores; those here are alike",
        ),
        claim(
            ("Section 6.6", "section 6.6"),
            "Its tables take 800 KB for an application",
            (Some(PAPER_TABLE_BYTES.value), Unit::Bytes),
            PREPAGING,
            |results| Ours::over(prepaging(results).map(|row| row.table_peak_bytes as f64)),
            (Rule::AtMost(PAPER_TABLE_BYTES.value, 1.6e6), ""),
        ),
        claim(
            ("Section 6.6", "section 6.6"),
            "A switch brings 10 MB of each kind in vain",
            (Some(10e6), Unit::Bytes),
            PREPAGING,
            |results| {
                let wasted = |part: Prediction| {
                    (part.pages - part.used) as f64 / part.launches.max(1) as f64
                };
                Ours::over(prepaging(results).map(|row| wasted(row.anon) * PAGE_BYTES as f64))
            },
            (Rule::AtMost(10e6, 20e6), ""),
        ),
        cannot(
            ("Section 6.6", "section 6.6"),
            "Logging access bits takes up to 14 ms of a switch, managing targets 40 ms of CPU time after it",
            "nothing here reads access bits: a fault, or a page that came back, is what is seen",
        ),
    ]
}

fn switches(results: &Results, arm: &str) -> Option<LiveSwitches> {
    let mut arms = results.relaunch.iter().flat_map(|run| &run.arms);
    arms.find(|found| found.arm == arm)?.switches
}

fn has_switches(results: &Results) -> bool {
    results.switches.iter().any(|rows| !rows.is_empty())
}

fn of(results: &Results, memory: Memory) -> impl Iterator<Item = &SwitchFootprint> {
    let rows = results.switches.iter().flatten();
    rows.filter(move |row| row.memory == memory)
}

fn prepaging(results: &Results) -> impl Iterator<Item = &PrepagingRow> {
    let rows = results.prepaging.iter().flatten();
    rows.filter(|row| row.scheme.starts_with("asap"))
}

fn predicted(results: &Results, of: fn(&PrepagingRow) -> Option<f64>) -> Option<Ours> {
    Ours::over(prepaging(results).filter_map(of))
}

/// Latency by zram's: the mean over the applications of the ratio of medians.
fn speedup(results: &Results, scheme: &str) -> Option<Ours> {
    let found: &Comparison = results.with_files()?;
    let row = found.schemes.iter().find(|row| row.scheme == scheme)?;
    Ours::one(row.latency_vs_zram?)
}
