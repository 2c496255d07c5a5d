//! ezswap: an enhanced compressed swap scheme for mobile devices (IEEE Access 2019).

use warmswap_codec::Codec;
use warmswap_policy::eviction::Chosen;
use warmswap_study::ezswap::{BUDGETS_PERCENT, EzswapRow};

use super::{Claim, Ours, Rule, Unit};
use crate::results::Results;

const EZSWAP: &str = "warmswap study ezswap TRACE";
const ENTROPY: &str = "warmswap study entropy TRACE";
const ZSWAP: &str = "ezswap-zswap";
const APA: &str = "ezswap-apa";
const APA_CA: &str = "ezswap-apa-ca";
const APA_SA: &str = "ezswap-apa-sa";
const CA_SA: &str = "ezswap-ca-sa";
const ALL: &str = "ezswap";

const MIXED_FILES: &str =
    "files of a desk's programs are code, not media, and few accesses to them are recorded";

/// A figure of a configuration.
type Part = fn(&EzswapRow) -> Option<f64>;

const TIME: Part = |row| row.relaunch_ns;
const READ: Part = |row| Some(row.read_bytes as f64);
const WRITTEN: Part = |row| Some(row.written_bytes as f64);
const DENSITY: Part = |row| row.density;
const COMPRESSED: Part = |row| Some(row.compressed_pages as f64);

/// A claim of Figure 8 or Table 3: what `ours` takes out, with the rule.
fn part(
    (figure, section): (&'static str, &'static str),
    says: &'static str,
    paper: f64,
    ours: fn(&Results) -> Option<Ours>,
    rule: Rule,
) -> Claim {
    Claim {
        figure,
        section,
        says,
        paper: Some(paper),
        unit: Unit::Ratio,
        command: EZSWAP,
        ours,
        rule,
        reason: MIXED_FILES,
    }
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
    let correlation = |figure, says, paper, ours, rule, reason| Claim {
        figure,
        section: "section III-B",
        says,
        paper: Some(paper),
        unit: Unit::Number,
        command: ENTROPY,
        ours,
        rule,
        reason,
    };
    vec![
        Claim {
            figure: "Figure 4",
            section: "section III-A",
            says: "20.3 times as many clean pages of files as anonymous pages leave memory",
            paper: Some(20.3),
            unit: Unit::Ratio,
            command: EZSWAP,
            ours: |results| {
                let rows = results
                    .ezswap
                    .first()?
                    .rows
                    .iter()
                    .filter(|row| row.scheme == "swap");
                Ours::over(rows.map(|row| row.file_out_pages as f64 / row.anon_out_pages as f64))
            },
            rule: Rule::AtLeast(10.0, 1.0),
            reason: "a recording sees a page of a file only where it is mapped anew",
        },
        correlation(
            "Figure 5",
            "The entropy of the first 512 bytes tells that of the page: coefficient 0.955",
            0.955,
            |results| Ours::one(results.entropy.first()?.head_512?),
            Rule::Near(0.05),
            "pages of programs begin unlike they go on",
        ),
        correlation(
            "Figure 5",
            "The first 256 bytes do with 0.938",
            0.938,
            |results| Ours::one(results.entropy.first()?.head_256?),
            Rule::Near(0.05),
            "pages of programs begin unlike they go on",
        ),
        correlation(
            "Figure 6",
            "The estimate by 512 bytes tells how lzo compresses: coefficient 0.88",
            0.88,
            |results| {
                let study = results.entropy.first()?;
                let row = study.codecs.iter().find(|row| row.codec == Codec::Lzo)?;
                Ours::one(row.correlation?)
            },
            Rule::Near(0.1),
            "compressors find repetitions, which a count of bytes does not see",
        ),
        Claim {
            figure: "Figure 6",
            section: "section III-B",
            says: "The estimate takes 14 % of compression by lzo",
            paper: Some(0.14),
            unit: Unit::Share,
            command: ENTROPY,
            ours: |results| {
                let study = results.entropy.first()?;
                let row = study.codecs.iter().find(|row| row.codec == Codec::Lzo)?;
                Ours::one(study.estimate_ns / row.compress_ns)
            },
            rule: Rule::AtMost(0.14, 0.28),
            reason: "",
        },
    ]
}

fn launch_times() -> Vec<Claim> {
    vec![
        part(
            FIGURE_8,
            "zswap makes launches 6 % slower than swap",
            1.06,
            |r| by(r, TIME, ZSWAP, "swap"),
            Rule::AtLeast(1.0, 0.95),
        ),
        part(
            FIGURE_8,
            "zswap reads 31 % more than swap",
            1.31,
            |r| by(r, READ, ZSWAP, "swap"),
            Rule::AtLeast(1.1, 1.0),
        ),
        part(
            FIGURE_8,
            "zswap writes 66 % less than swap",
            0.34,
            |r| by(r, WRITTEN, ZSWAP, "swap"),
            Rule::AtMost(0.4, 1.0),
        ),
        part(
            FIGURE_8,
            "With pages of files (APA) it reads 31 % less than swap",
            0.69,
            |r| by(r, READ, APA, "swap"),
            Rule::AtMost(0.75, 1.0),
        ),
        part(
            FIGURE_8,
            "APA reads 47 % less than zswap",
            0.53,
            |r| by(r, READ, APA, ZSWAP),
            Rule::AtMost(0.65, 0.98),
        ),
        part(
            FIGURE_8,
            "APA writes 19 % more than zswap",
            1.19,
            |r| by(r, WRITTEN, APA, ZSWAP),
            Rule::Near(0.15),
        ),
        part(
            FIGURE_8,
            "APA alone makes launches 9 % slower than zswap",
            1.09,
            |r| by(r, TIME, APA, ZSWAP),
            Rule::AtLeast(1.02, 1.0),
        ),
        part(
            FIGURE_8,
            "With selective admission, APA reads 11 % less",
            0.89,
            |r| by(r, READ, APA_SA, APA),
            Rule::AtMost(0.95, 1.0),
        ),
        part(
            FIGURE_8,
            "and writes 5 % more",
            1.05,
            |r| by(r, WRITTEN, APA_SA, APA),
            Rule::Near(0.15),
        ),
        part(
            FIGURE_8,
            "and makes launches 22 % faster than APA alone",
            0.78,
            |r| by(r, TIME, APA_SA, APA),
            Rule::AtMost(0.85, 0.98),
        ),
        part(
            FIGURE_8,
            "15 % faster than zswap",
            0.85,
            |r| by(r, TIME, APA_SA, ZSWAP),
            Rule::AtMost(0.9, 0.98),
        ),
        part(
            FIGURE_8,
            "ezswap reads 55 % less than zswap",
            0.45,
            |r| by(r, READ, ALL, ZSWAP),
            Rule::AtMost(0.6, 0.98),
        ),
        part(
            FIGURE_8,
            "ezswap makes launches 22 % faster than zswap",
            0.78,
            |r| by(r, TIME, ALL, ZSWAP),
            Rule::AtMost(0.85, 0.98),
        ),
        Claim {
            unit: Unit::Share,
            reason: "little of this memory is incompressible",
            ..part(
                FIGURE_8,
                "Without pages of files, selective admission lets 110,000 of 340,000 pages in",
                0.324,
                |results| {
                    let rows = results
                        .ezswap
                        .first()?
                        .rows
                        .iter()
                        .filter(|row| row.scheme == CA_SA);
                    Ours::over(rows.map(|row| row.compressed_pages as f64 / row.estimates as f64))
                },
                Rule::AtMost(0.5, 0.9),
            )
        },
        part(
            FIGURE_9,
            "ezswap is more than 16 % faster than zswap in all cases: under the pressure where it is least",
            0.84,
            |results| Ours::most(under_pressure(results, ALL, ZSWAP)),
            Rule::AtMost(0.9, 1.0),
        ),
        part(
            FIGURE_9,
            "With most applications it is 10 % faster than zswap",
            0.90,
            |results| Ours::one(*under_pressure(results, ALL, ZSWAP).last()?),
            Rule::AtMost(0.95, 1.0),
        ),
        part(
            FIGURE_9,
            "and pages of files alone (APA) 4 %",
            0.96,
            |results| Ours::one(*under_pressure(results, APA, ZSWAP).last()?),
            Rule::AtMost(0.98, 1.0),
        ),
    ]
}

fn analysis() -> Vec<Claim> {
    let little = "little of this memory is incompressible";
    vec![
        Claim {
            reason: little,
            ..part(
                ("Figure 10", "section IV-C"),
                "Selective admission compresses 76 % fewer pages",
                0.24,
                |r| by(r, COMPRESSED, APA_SA, APA),
                Rule::AtMost(0.5, 0.95),
            )
        },
        Claim {
            reason: little,
            ..part(
                ("Figure 10", "section IV-C"),
                "and takes 62 % fewer cycles, those of the estimates included",
                0.38,
                |results| {
                    let estimate_ns = results.entropy.first()?.estimate_ns;
                    let cycles = |row: &EzswapRow| {
                        row.compress_ns as f64 + row.estimates as f64 * estimate_ns
                    };
                    Ours::over(
                        pairs(results, APA_SA, APA)
                            .into_iter()
                            .map(|(a, b)| cycles(a) / cycles(b)),
                    )
                },
                Rule::AtMost(0.6, 0.98),
            )
        },
        Claim {
            unit: Unit::Ratio,
            ..part(
                ("Figure 11", "section IV-C"),
                "With the lottery, more of the pages that are evicted hold one page of a file alone: how many times as many",
                1.0,
                |results| {
                    let alone = |row: &EzswapRow| {
                        let at = Chosen::KINDS.iter().position(|&kind| kind == (1, 1))?;
                        let all: u64 = row.evicted.0.iter().sum();
                        (all > 0).then(|| row.evicted.0[at] as f64 / all as f64)
                    };
                    let ratio = |(a, b): (&EzswapRow, &EzswapRow)| Some(alone(a)? / alone(b)?);
                    Ours::over(pairs(results, APA_CA, APA).into_iter().filter_map(ratio))
                },
                Rule::AtLeast(1.05, 1.0),
            )
        },
        part(
            FIGURE_8,
            "The lottery writes 19 % less than LRU, with pages of files",
            0.81,
            |r| by(r, WRITTEN, APA_CA, APA),
            Rule::AtMost(0.9, 1.0),
        ),
        part(
            FIGURE_8,
            "and makes launches 8 % faster",
            0.92,
            |r| by(r, TIME, APA_CA, APA),
            Rule::AtMost(0.96, 1.0),
        ),
        part(
            FIGURE_8,
            "and reads 4 % more",
            1.04,
            |r| by(r, READ, APA_CA, APA),
            Rule::Near(0.1),
        ),
        part(
            FIGURE_8,
            "With selective admission, too, the lottery writes 10 % less",
            0.90,
            |r| by(r, WRITTEN, ALL, APA_SA),
            Rule::AtMost(0.95, 1.0),
        ),
        part(
            FIGURE_8,
            "and makes launches 7 % faster",
            0.93,
            |r| by(r, TIME, ALL, APA_SA),
            Rule::AtMost(0.97, 1.0),
        ),
        Claim {
            unit: Unit::Number,
            ..part(
                TABLE_3,
                "zswap's pool holds 684 pages a megabyte",
                684.0,
                |results| {
                    let rows = results
                        .ezswap
                        .first()?
                        .rows
                        .iter()
                        .filter(|row| row.scheme == ZSWAP);
                    Ours::over(rows.filter_map(DENSITY))
                },
                Rule::Near(0.2),
            )
        },
        part(
            TABLE_3,
            "Pages of files make it 42 % less dense",
            0.58,
            |r| by(r, DENSITY, APA, ZSWAP),
            Rule::AtMost(0.8, 0.98),
        ),
        part(
            TABLE_3,
            "Selective admission and lottery make zswap 2 % denser",
            1.02,
            |r| by(r, DENSITY, CA_SA, ZSWAP),
            Rule::AtLeast(1.01, 1.0),
        ),
        part(
            TABLE_3,
            "Selective admission makes APA 18 % denser",
            1.18,
            |r| by(r, DENSITY, APA_SA, APA),
            Rule::AtLeast(1.1, 1.0),
        ),
        part(
            TABLE_3,
            "The lottery makes APA 27 % denser",
            1.27,
            |r| by(r, DENSITY, APA_CA, APA),
            Rule::AtLeast(1.1, 1.0),
        ),
        part(
            TABLE_3,
            "Both make it 35 % denser",
            1.35,
            |r| by(r, DENSITY, ALL, APA),
            Rule::AtLeast(1.2, 1.0),
        ),
    ]
}

/// The rows of two configurations, trace by trace.
fn pairs<'a>(results: &'a Results, of: &str, other: &str) -> Vec<(&'a EzswapRow, &'a EzswapRow)> {
    let rows = results.ezswap.first().map_or(&[][..], |study| &study.rows);
    let own = rows.iter().filter(|row| row.scheme == of);
    let pair = |row: &'a EzswapRow| {
        let is_other = |found: &&EzswapRow| found.scheme == other && found.trace == row.trace;
        Some((row, rows.iter().find(is_other)?))
    };
    own.filter_map(pair).collect()
}

/// A figure of a configuration by that of another, over the traces.
fn by(results: &Results, part: Part, of: &str, other: &str) -> Option<Ours> {
    let ratio = |(a, b): (&EzswapRow, &EzswapRow)| Some(part(a)? / part(b)?);
    Ours::over(pairs(results, of, other).into_iter().filter_map(ratio))
}

/// Launch time by that of another configuration under each budget, from the largest; means over the traces. What the
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
