//! ASAP: fast mobile application switch via adaptive prepaging (USENIX ATC 2021).

use warmswap_bench::relaunch::{Arm, ArmResult, SwitchUse};
use warmswap_page::PAGE_BYTES;
use warmswap_study::compare::Comparison;
use warmswap_study::launches::LaunchRow;
use warmswap_study::prepaging::{
    PAPER_ANON_PRECISION, PAPER_ANON_RECALL, PAPER_FILE_PRECISION, PAPER_FILE_RECALL,
    PAPER_TABLE_BYTES, Prediction, PrepagingRow,
};
use warmswap_study::switches::{
    PAPER_ANON_INVARIANT, PAPER_FILE_INVARIANT, PAPER_OF_LARGEST, PageOrigin, SwitchFootprint,
};

use super::{Claim, Ours, Rule, Unit, cannot, claim, over_launches};
use crate::stored::Results;

const LIVE: &str = "warmswap-lab bench relaunch --arms dram,zram";
const SWITCHES: &str = "warmswap-lab study switches TRACE";
const PREPAGING: &str = "warmswap-lab study prepaging TRACE";
const COMPARE: &str = "warmswap-lab compare TRACE --budget 200% --pressure full --files --schemes \
    dram,zram,asap,asap-anon,asap-file";
const SAMPLED: &str = "warmswap-lab bench relaunch --arms dram,zram,kernel --sample-ms 10";
const READ_FILES: &str = "files that are read by system calls are not in a recording";
const NO_FILES: &str =
    "this recording was made without --cold-files, so that few accesses to files are in it";

pub(super) fn claims() -> Vec<Claim> {
    let mut claims = motivation();
    claims.extend(footprints());
    claims.extend(evaluation());
    claims
}

fn motivation() -> Vec<Claim> {
    vec![
        claim(("Figure 1", "section 2.2"), LIVE)
            .says("Under pressure, a switch takes 4 times as long as with all memory")
            .paper(Some(4.0), Unit::Ratio)
            .ours(|results| results.live_by(Arm::Zram, Arm::Dram))
            .rule(Rule::AtLeast(2.0, 1.05))
            .reason("the paper drops files from memory, too"),
        claim(
            ("Figure 1", "section 2.2"),
            "warmswap-lab study launches TRACE",
        )
        .says("A launch takes longer than a switch")
        .paper(None, Unit::Ratio)
        .ours(|results| over_launches(results, LaunchRow::cold_by_relaunch))
        .rule(Rule::AtLeast(1.5, 1.0)),
        claim(("Figure 2a", "section 2.3"), SAMPLED)
            .says("Processors are less than half in use in a switch")
            .paper(None, Unit::Share)
            .ours(|results| Ours::one(switches(results, Arm::Zram)?.cpu))
            .rule(Rule::AtMost(0.5, 0.8))
            .reason("there are 2 processors here and 8 there"),
        cannot(("Figure 2b", "section 2.3"))
            .says("The disk's bandwidth is far from used up in a switch")
            .reason("the disk of a virtual machine has no bandwidth of its own"),
        cannot(("Figure 3", "section 2.3"))
            .says("The same holds of a slower phone, less so")
            .reason("it takes a second, slower machine; its own result can be given to `report`"),
    ]
}

fn footprints() -> Vec<Claim> {
    vec![
        claim(("Figure 5", "section 4.1"), SWITCHES)
            .says("75 % of the pages of files in a switch are touched by 9 or 10 of 10 switches")
            .paper(Some(PAPER_FILE_INVARIANT.value), Unit::Share)
            .ours(|results| Ours::over(of(results, PageOrigin::File).map(|row| row.invariant)))
            .rule(Rule::Near(0.15))
            .reason(READ_FILES)
            .lacks(no_switched_files),
        claim(("Figure 5", "section 4.1"), SWITCHES)
            .says("10 % of them are touched by fewer than 5")
            .paper(Some(0.10), Unit::Share)
            .ours(|results| Ours::over(of(results, PageOrigin::File).map(|row| row.rare)))
            .rule(Rule::AtMost(0.15, 0.3))
            .reason(READ_FILES)
            .lacks(no_switched_files),
        claim(("Figure 6", "section 4.1"), SWITCHES)
            .says("44 % of the anonymous pages are touched by 9 or 10")
            .paper(Some(PAPER_ANON_INVARIANT.value), Unit::Share)
            .ours(|results| Ours::over(of(results, PageOrigin::Anonymous).map(|row| row.invariant)))
            .rule(Rule::Near(0.3))
            .reason("collectors move objects, and allocators hand out other pages"),
        claim(("Figure 7", "section 4.1"), SWITCHES)
            .says("A switch touches more pages of files than anonymous pages")
            .paper(None, Unit::Ratio)
            .ours(|results| {
                let pages = |memory| of(results, memory).map(|row| row.pages).sum::<f64>();
                Ours::one(pages(PageOrigin::File) / pages(PageOrigin::Anonymous))
                    .filter(|_| has_switches(results))
            })
            .rule(Rule::AtLeast(1.0, 0.8))
            .reason(READ_FILES)
            .lacks(no_switched_files),
        claim(("Figure 10", "section 5.2"), SWITCHES)
            .says("90 % of the accesses to files are to the largest 15 % of them")
            .paper(Some(PAPER_OF_LARGEST.value), Unit::Share)
            .ours(|results| {
                Ours::over(of(results, PageOrigin::File).filter_map(|row| row.of_largest))
            })
            .rule(Rule::AtLeast(0.8, 0.5))
            .reason(READ_FILES)
            .lacks(no_switched_files),
    ]
}

fn evaluation() -> Vec<Claim> {
    let figure_11 = ("Figure 11", "section 6.2");
    let figure_12 = ("Figure 12", "section 6.3");
    let memory_only = "ours is the part that memory costs, as a replay models it";
    vec![
        claim(figure_11, COMPARE)
            .says("Switches take 22.2 % less on the fast phone, 28.3 % on the slower one")
            .paper(Some(0.778), Unit::Ratio)
            .ours(|results| speedup(results, "asap"))
            .rule(Rule::AtMost(0.85, 1.0))
            .reason(memory_only),
        claim(figure_11, COMPARE)
            .says("With anonymous pages only, they take 6.8 % and 14.6 % less")
            .paper(Some(0.932), Unit::Ratio)
            .ours(|results| speedup(results, "asap-anon"))
            .rule(Rule::AtMost(0.95, 1.0))
            .reason(memory_only),
        claim(figure_11, COMPARE)
            .says("With pages of files only, they take 18.3 % and 14.4 % less")
            .paper(Some(0.817), Unit::Ratio)
            .ours(|results| speedup(results, "asap-file"))
            .rule(Rule::AtMost(0.9, 1.0))
            .reason(READ_FILES)
            .lacks(no_compared_files),
        claim(figure_12, PREPAGING)
            .says("68.4 % of the anonymous pages that are brought back are touched")
            .paper(Some(PAPER_ANON_PRECISION.value), Unit::Share)
            .ours(|results| predicted(results, |row| row.anon.precision()))
            .rule(Rule::AtLeast(0.6, 0.5)),
        claim(figure_12, PREPAGING)
            .says("60.4 % of the anonymous pages that fault are brought back")
            .paper(Some(PAPER_ANON_RECALL.value), Unit::Share)
            .ours(|results| predicted(results, |row| row.anon.recall()))
            .rule(Rule::AtLeast(0.55, 0.4)),
        claim(figure_12, PREPAGING)
            .says("79.3 % of the pages of files that are brought back are touched")
            .paper(Some(PAPER_FILE_PRECISION.value), Unit::Share)
            .ours(|results| predicted(results, |row| row.file.precision()))
            .rule(Rule::AtLeast(0.7, 0.5))
            .reason(READ_FILES)
            .lacks(no_prepaged_files),
        claim(figure_12, PREPAGING)
            .says("52.2 % of the pages of files that fault are brought back")
            .paper(Some(PAPER_FILE_RECALL.value), Unit::Share)
            .ours(|results| {
                predicted(results, |row| {
                    row.file.recall().filter(|_| row.file.pages > 0)
                })
            })
            .rule(Rule::AtLeast(0.45, 0.3))
            .reason(READ_FILES)
            .lacks(no_prepaged_files),
        claim(("Figure 13", "section 6.4"), SAMPLED)
            .says("Processors are in use 1.18 times as much as without prepaging")
            .paper(Some(1.18), Unit::Ratio)
            .ours(|results| prepaged_by(results, |switch| switch.cpu))
            .rule(Rule::Near(0.15))
            .reason(
                "the kernel host keeps the hot list in memory, so that less is to be brought back",
            ),
        claim(("Figure 14", "section 6.4"), SAMPLED)
            .says("25.2 % more is read each second")
            .paper(Some(1.252), Unit::Ratio)
            .ours(|results| {
                prepaged_by(results, |switch| {
                    switch.in_bytes_per_second + switch.read_bytes_per_second
                })
            })
            .rule(Rule::AtLeast(1.1, 1.0))
            .reason("the kernel host keeps the hot list in memory, so that less is to be read"),
        cannot(("Figure 15", "section 6.5"))
            .says("Fixed choices of cores are 2 to 6 % slower than ASAP's")
            .reason("it takes big and little cores; those here are alike"),
        claim(("Section 6.6", "section 6.6"), PREPAGING)
            .says("Its tables take 800 KB for an application")
            .paper(Some(PAPER_TABLE_BYTES.value), Unit::Bytes)
            .ours(|results| Ours::over(prepaging(results).map(|row| row.table_peak_bytes as f64)))
            .rule(Rule::AtMost(PAPER_TABLE_BYTES.value, 1.6e6)),
        claim(("Section 6.6", "section 6.6"), PREPAGING)
            .says("A switch brings 10 MB of each kind in vain")
            .paper(Some(10e6), Unit::Bytes)
            .ours(|results| {
                let wasted = |part: Prediction| {
                    (part.pages - part.used) as f64 / part.launches.max(1) as f64
                };
                Ours::over(prepaging(results).map(|row| wasted(row.anon) * PAGE_BYTES as f64))
            })
            .rule(Rule::AtMost(10e6, 20e6)),
        cannot(("Section 6.6", "section 6.6"))
            .says(
                "Logging access bits takes up to 14 ms of a switch, \
                managing targets 40 ms of CPU time after it",
            )
            .reason("no result has what reading access bits costs by itself"),
    ]
}

fn switches(results: &Results, arm: Arm) -> Option<&SwitchUse> {
    let arms = results.relaunch.iter().flat_map(|run| &run.arms);
    // A run without samples says nothing of it.
    let mut of_arm = arms.filter(|found| found.arm == arm);
    of_arm.find_map(|found| found.switches.as_ref())
}

/// What a switch takes under the kernel host by what it takes under zram.
fn prepaged_by(results: &Results, of: fn(&SwitchUse) -> f64) -> Option<Ours> {
    let of = |arm: &ArmResult| arm.switches.as_ref().map(of);
    Ours::one(results.live_ratio(of, Arm::Kernel, Arm::Zram)?)
}

fn has_switches(results: &Results) -> bool {
    results.switches.iter().any(|rows| !rows.is_empty())
}

fn of(results: &Results, memory: PageOrigin) -> impl Iterator<Item = &SwitchFootprint> {
    let rows = results.switches.iter().flatten();
    rows.filter(move |row| row.memory == memory)
}

fn no_switched_files(results: &Results) -> Option<&'static str> {
    let has_all = of(results, PageOrigin::File).all(|row| row.cold_files);
    (!has_all).then_some(NO_FILES)
}

fn no_prepaged_files(results: &Results) -> Option<&'static str> {
    (!prepaging(results).all(|row| row.cold_files)).then_some(NO_FILES)
}

fn no_compared_files(results: &Results) -> Option<&'static str> {
    let compared = results.with_files()?;
    (!compared.traces.iter().all(|row| row.cold_files)).then_some(NO_FILES)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::{Finding, Verdict};

    #[test]
    fn only_a_recording_with_cold_files_speaks_against_a_claim_about_files() {
        let verdict = |cold_files| {
            let mut results = Results::default();
            results.switches.push(vec![SwitchFootprint {
                trace: "t".to_owned(),
                app: "a".to_owned(),
                memory: PageOrigin::File,
                switches: 10,
                pages: 7.0,
                by_switches: vec![0; 11],
                invariant: 0.1,
                rare: 0.9,
                of_largest: Some(0.2),
                cold_files,
            }]);
            let mut claims = claims().into_iter();
            let claim = claims.find(|claim| claim.figure == "Figure 10").unwrap();
            Finding::of(claim, &results).verdict
        };
        assert_eq!(verdict(false), Verdict::NotEvaluated);
        assert_eq!(verdict(true), Verdict::DoesNot);
    }
}
