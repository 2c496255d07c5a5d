//! ezswap: an enhanced compressed swap scheme for mobile devices (IEEE Access 2019).

use warmswap_bench::relaunch::Arm;
use warmswap_codec::Codec;
use warmswap_policy::eviction::Chosen;
use warmswap_study::ezswap::{BUDGETS_PERCENT, EzswapRow};

use super::{Claim, LIVE_SCHEMES, Ours, Rule, Unit, claim};
use crate::stored::Results;

const EZSWAP: &str = "warmswap-lab study ezswap TRACE";
const ENTROPY: &str = "warmswap-lab study entropy TRACE";
const ZSWAP: &str = "ezswap-zswap";
const APA: &str = "ezswap-apa";
const APA_CA: &str = "ezswap-apa-ca";
const APA_SA: &str = "ezswap-apa-sa";
const CA_SA: &str = "ezswap-ca-sa";
const ALL: &str = "ezswap";

const NO_FILES: &str =
    "this recording was made without --cold-files, so that few accesses to files are in it";
const OTHER_FILES: &str = "files that are read by system calls are not in a recording, and these programs map code, no media";

/// A figure of a configuration.
type Part = fn(&EzswapRow) -> Option<f64>;

const TIME: Part = |row| row.relaunch_ns;
const READ: Part = |row| Some(row.read_bytes as f64);
const WRITTEN: Part = |row| Some(row.written_bytes as f64);
const DENSITY: Part = |row| row.density;
const COMPRESSED: Part = |row| Some(row.compressed_pages as f64);

/// A claim about the parts of ezswap: a ratio, which other files change.
fn part(place: (&'static str, &'static str), paper: f64) -> Claim {
    let ratio = claim(place, EZSWAP).paper(Some(paper), Unit::Ratio);
    ratio.reason(OTHER_FILES).lacks(no_files)
}

const FIGURE_8: (&str, &str) = ("Figure 8", "section IV-B");
const FIGURE_9: (&str, &str) = ("Figure 9", "section IV-B");
const TABLE_3: (&str, &str) = ("Table 3", "section IV-C");

pub(super) fn claims() -> Vec<Claim> {
    let mut claims = entropy();
    claims.extend(launch_times());
    claims.extend(analysis());
    claims
}

fn entropy() -> Vec<Claim> {
    vec![
        claim(("Figure 4", "section III-A"), EZSWAP)
            .says("20.3 times as many clean pages of files as anonymous pages leave memory")
            .paper(Some(20.3), Unit::Ratio)
            .ours(|results| {
                let rows = of(results, "swap");
                Ours::over(rows.map(|row| row.file_out_pages as f64 / row.anon_out_pages as f64))
            })
            .rule(Rule::AtLeast(10.0, 1.0))
            .lacks(no_files),
        claim(("Figure 5", "section III-B"), ENTROPY)
            .says("The entropy of the first 512 bytes tells the page's: coefficient 0.955")
            .paper(Some(0.955), Unit::Number)
            .ours(|results| Ours::one(results.entropy.first()?.head_512?))
            .rule(Rule::Near(0.05))
            .reason("pages of programs begin unlike they go on"),
        claim(("Figure 5", "section III-B"), ENTROPY)
            .says("The first 256 bytes do with 0.938")
            .paper(Some(0.938), Unit::Number)
            .ours(|results| Ours::one(results.entropy.first()?.head_256?))
            .rule(Rule::Near(0.05))
            .reason("pages of programs begin unlike they go on"),
        claim(("Figure 6", "section III-B"), ENTROPY)
            .says("The estimate by 512 bytes tells how lzo compresses: coefficient 0.88")
            .paper(Some(0.88), Unit::Number)
            .ours(|results| {
                let study = results.entropy.first()?;
                let row = study.codecs.iter().find(|row| row.codec == Codec::Lzo)?;
                Ours::one(row.correlation?)
            })
            .rule(Rule::Near(0.1))
            .reason("compressors find repetitions, which a count of bytes does not see"),
        claim(("Figure 6", "section III-B"), ENTROPY)
            .says("The estimate takes 14 % of compression by lzo")
            .paper(Some(0.14), Unit::Share)
            .ours(|results| {
                let study = results.entropy.first()?;
                let row = study.codecs.iter().find(|row| row.codec == Codec::Lzo)?;
                Ours::one(study.estimate_ns / row.compress_ns)
            })
            .rule(Rule::AtMost(0.14, 0.28)),
    ]
}

fn launch_times() -> Vec<Claim> {
    vec![
        part(FIGURE_8, 1.06)
            .says("zswap makes launches 6 % slower than swap")
            .ours(|r| by(r, TIME, ZSWAP, "swap"))
            .rule(Rule::AtLeast(1.0, 0.95)),
        part(FIGURE_8, 1.31)
            .says("zswap reads 31 % more than swap")
            .ours(|r| by(r, READ, ZSWAP, "swap"))
            .rule(Rule::AtLeast(1.1, 1.0)),
        part(FIGURE_8, 0.34)
            .says("zswap writes 66 % less than swap")
            .ours(|r| by(r, WRITTEN, ZSWAP, "swap"))
            .rule(Rule::AtMost(0.4, 1.0)),
        part(FIGURE_8, 0.69)
            .says("With pages of files (APA) it reads 31 % less than swap")
            .ours(|r| by(r, READ, APA, "swap"))
            .rule(Rule::AtMost(0.75, 1.0)),
        part(FIGURE_8, 0.53)
            .says("APA reads 47 % less than zswap")
            .ours(|r| by(r, READ, APA, ZSWAP))
            .rule(Rule::AtMost(0.65, 0.98)),
        part(FIGURE_8, 1.19)
            .says("APA writes 19 % more than zswap")
            .ours(|r| by(r, WRITTEN, APA, ZSWAP))
            .rule(Rule::Near(0.15)),
        part(FIGURE_8, 1.09)
            .says("APA alone makes launches 9 % slower than zswap")
            .ours(|r| by(r, TIME, APA, ZSWAP))
            .rule(Rule::AtLeast(1.02, 1.0)),
        part(FIGURE_8, 0.89)
            .says("With selective admission, APA reads 11 % less")
            .ours(|r| by(r, READ, APA_SA, APA))
            .rule(Rule::AtMost(0.95, 1.0)),
        part(FIGURE_8, 1.05)
            .says("and writes 5 % more")
            .ours(|r| by(r, WRITTEN, APA_SA, APA))
            .rule(Rule::Near(0.15)),
        part(FIGURE_8, 0.78)
            .says("and makes launches 22 % faster than APA alone")
            .ours(|r| by(r, TIME, APA_SA, APA))
            .rule(Rule::AtMost(0.85, 0.98)),
        part(FIGURE_8, 0.85)
            .says("15 % faster than zswap")
            .ours(|r| by(r, TIME, APA_SA, ZSWAP))
            .rule(Rule::AtMost(0.9, 0.98)),
        part(FIGURE_8, 0.45)
            .says("ezswap reads 55 % less than zswap")
            .ours(|r| by(r, READ, ALL, ZSWAP))
            .rule(Rule::AtMost(0.6, 0.98)),
        part(FIGURE_8, 0.78)
            .says("ezswap makes launches 22 % faster than zswap")
            .ours(|r| by(r, TIME, ALL, ZSWAP))
            .rule(Rule::AtMost(0.85, 0.98)),
        claim(FIGURE_8, LIVE_SCHEMES)
            .says("Live, ezswap makes launches 22 % faster than zswap")
            .paper(Some(0.78), Unit::Ratio)
            .ours(|results| results.live_by(Arm::Ezswap, Arm::Zswap))
            .rule(Rule::AtMost(0.85, 0.98))
            .reason("a fault that a process serves takes longer than the kernel's"),
        claim(FIGURE_8, EZSWAP)
            .says("Without pages of files, selective admission lets 110,000 of 340,000 pages in")
            .paper(Some(0.324), Unit::Share)
            .ours(|results| {
                Ours::over(
                    of(results, CA_SA)
                        .map(|row| row.compressed_pages as f64 / row.estimates as f64),
                )
            })
            .rule(Rule::AtMost(0.5, 0.9))
            .reason("little of this memory is incompressible"),
        part(FIGURE_9, 0.84)
            .says(
                "ezswap is more than 16 % faster than zswap in all cases: \
                under the pressure where it is least",
            )
            .ours(|results| Ours::most(under_pressure(results, ALL, ZSWAP)))
            .rule(Rule::AtMost(0.9, 1.0)),
        part(FIGURE_9, 0.90)
            .says("With most applications it is 10 % faster than zswap")
            .ours(|results| Ours::one(*under_pressure(results, ALL, ZSWAP).last()?))
            .rule(Rule::AtMost(0.95, 1.0)),
        part(FIGURE_9, 0.96)
            .says("and pages of files alone (APA) 4 %")
            .ours(|results| Ours::one(*under_pressure(results, APA, ZSWAP).last()?))
            .rule(Rule::AtMost(0.98, 1.0)),
    ]
}

fn analysis() -> Vec<Claim> {
    let little = "little of this memory is incompressible";
    vec![
        part(("Figure 10", "section IV-C"), 0.24)
            .says("Selective admission compresses 76 % fewer pages")
            .ours(|r| by(r, COMPRESSED, APA_SA, APA))
            .rule(Rule::AtMost(0.5, 0.95))
            .reason(little),
        part(("Figure 10", "section IV-C"), 0.38)
            .says("and takes 62 % fewer cycles, those of the estimates included")
            .ours(|results| {
                let estimate_ns = results.entropy.first()?.estimate_ns;
                let cycles =
                    |row: &EzswapRow| row.compress_ns as f64 + row.estimates as f64 * estimate_ns;
                Ours::over(
                    pairs(results, APA_SA, APA)
                        .into_iter()
                        .map(|(a, b)| cycles(a) / cycles(b)),
                )
            })
            .rule(Rule::AtMost(0.6, 0.98))
            .reason(little),
        part(("Figure 11", "section IV-C"), 1.0)
            .says(
                "With the lottery, more of the pages that are evicted hold one \
                page of a file alone: how many times as many",
            )
            .ours(|results| {
                let alone = |row: &EzswapRow| {
                    let at = Chosen::KINDS.iter().position(|&kind| kind == (1, 1))?;
                    let all: u64 = row.evicted.0.iter().sum();
                    (all > 0).then(|| row.evicted.0[at] as f64 / all as f64)
                };
                let ratio = |(a, b): (&EzswapRow, &EzswapRow)| Some(alone(a)? / alone(b)?);
                Ours::over(pairs(results, APA_CA, APA).into_iter().filter_map(ratio))
            })
            .rule(Rule::AtLeast(1.05, 1.0)),
        part(FIGURE_8, 0.81)
            .says("The lottery writes 19 % less than LRU, with pages of files")
            .ours(|r| by(r, WRITTEN, APA_CA, APA))
            .rule(Rule::AtMost(0.9, 1.0)),
        part(FIGURE_8, 0.92)
            .says("and makes launches 8 % faster")
            .ours(|r| by(r, TIME, APA_CA, APA))
            .rule(Rule::AtMost(0.96, 1.0)),
        part(FIGURE_8, 1.04)
            .says("and reads 4 % more")
            .ours(|r| by(r, READ, APA_CA, APA))
            .rule(Rule::Near(0.1)),
        part(FIGURE_8, 0.90)
            .says("With selective admission, too, the lottery writes 10 % less")
            .ours(|r| by(r, WRITTEN, ALL, APA_SA))
            .rule(Rule::AtMost(0.95, 1.0)),
        part(FIGURE_8, 0.93)
            .says("and makes launches 7 % faster")
            .ours(|r| by(r, TIME, ALL, APA_SA))
            .rule(Rule::AtMost(0.97, 1.0)),
        claim(TABLE_3, EZSWAP)
            .says("zswap's pool holds 684 pages a megabyte")
            .paper(Some(684.0), Unit::Number)
            .ours(|results| Ours::over(of(results, ZSWAP).filter_map(DENSITY)))
            .rule(Rule::Near(0.2))
            .reason(OTHER_FILES)
            .lacks(no_files),
        part(TABLE_3, 0.58)
            .says("Pages of files make it 42 % less dense")
            .ours(|r| by(r, DENSITY, APA, ZSWAP))
            .rule(Rule::AtMost(0.8, 0.98)),
        part(TABLE_3, 1.02)
            .says("Selective admission and lottery make zswap 2 % denser")
            .ours(|r| by(r, DENSITY, CA_SA, ZSWAP))
            .rule(Rule::AtLeast(1.01, 1.0)),
        part(TABLE_3, 1.18)
            .says("Selective admission makes APA 18 % denser")
            .ours(|r| by(r, DENSITY, APA_SA, APA))
            .rule(Rule::AtLeast(1.1, 1.0)),
        part(TABLE_3, 1.27)
            .says("The lottery makes APA 27 % denser")
            .ours(|r| by(r, DENSITY, APA_CA, APA))
            .rule(Rule::AtLeast(1.1, 1.0)),
        part(TABLE_3, 1.35)
            .says("Both make it 35 % denser")
            .ours(|r| by(r, DENSITY, ALL, APA))
            .rule(Rule::AtLeast(1.2, 1.0)),
    ]
}

fn no_files(results: &Results) -> Option<&'static str> {
    let study = results.ezswap.first()?;
    (!study.rows.iter().all(|row| row.cold_files)).then_some(NO_FILES)
}

/// The rows of a configuration.
fn of<'a>(results: &'a Results, scheme: &str) -> impl Iterator<Item = &'a EzswapRow> {
    let rows = results.ezswap.iter().take(1).flat_map(|study| &study.rows);
    rows.filter(move |row| row.scheme == scheme)
}

/// The rows of two configurations, trace by trace.
fn pairs<'a>(results: &'a Results, own: &str, other: &str) -> Vec<(&'a EzswapRow, &'a EzswapRow)> {
    let pair = |row: &'a EzswapRow| {
        let is_same = |found: &&EzswapRow| found.trace == row.trace;
        Some((row, of(results, other).find(is_same)?))
    };
    of(results, own).filter_map(pair).collect()
}

/// A figure of a configuration, divided by another's, over the traces.
fn by(results: &Results, part: Part, of: &str, other: &str) -> Option<Ours> {
    let ratio = |(a, b): (&EzswapRow, &EzswapRow)| Some(part(a)? / part(b)?);
    Ours::over(pairs(results, of, other).into_iter().filter_map(ratio))
}

/// Launch time, divided by another configuration's, under each budget, from the largest; means over the traces. What the
/// largest budget leaves in memory says nothing.
fn under_pressure(results: &Results, of: &str, other: &str) -> Vec<f64> {
    let rows = results
        .ezswap
        .first()
        .map_or(&[][..], |study| &study.pressure);
    let at = |budget: u32| {
        let own = rows
            .iter()
            .filter(|row| row.scheme == of && row.budget_percent == budget);
        let ratio = |row: &EzswapRow| {
            let is_other = |found: &&EzswapRow| {
                let is_same = (&found.trace, found.budget_percent) == (&row.trace, budget);
                found.scheme == other && is_same
            };
            let other = rows.iter().find(is_other)?;
            (row.anon_out_pages > 0).then(|| Some(TIME(row)? / TIME(other)?))?
        };
        Some(Ours::over(own.filter_map(ratio))?.value)
    };
    BUDGETS_PERCENT.into_iter().filter_map(at).collect()
}
