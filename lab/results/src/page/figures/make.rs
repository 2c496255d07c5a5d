//! What charts are drawn from: the marks of each, taken out of results.

use warmswap_codec::Codec;
use warmswap_result::Quantity;
use warmswap_study::hotness_order::Part;

use super::Made;
use crate::arms;
use crate::chart::{Axis, BarRow, Bars, Curve, Curves, DotRow, Dots, Ink, Paint};
use crate::series::{self, Latencies};
use crate::stored::Results;

pub(super) fn made(what: impl Paint + 'static) -> Option<Made> {
    Some((String::new(), Box::new(what)))
}

pub(super) fn live(
    results: &Results,
    make: impl FnOnce(&Latencies) -> Option<Box<dyn Paint>>,
) -> Option<Made> {
    let of = results.relaunch.first()?;
    let latencies = Latencies::live(of);
    if latencies.is_empty() {
        return None;
    }
    let total = of.total_bytes.map(|bytes| Quantity::Bytes(bytes).human());
    let footprint = of
        .footprint_bytes
        .map(|bytes| Quantity::Bytes(bytes).human());
    let more = match (total, footprint) {
        (Some(total), Some(footprint)) => {
            format!(
                "Limited arms have {total}, pool included; the programs take {footprint} without a limit."
            )
        }
        _ => String::new(),
    };
    Some((more, make(&latencies)?))
}

pub(super) fn replayed(
    of: &warmswap_study::compare::Comparison,
    make: impl FnOnce(&Latencies) -> Option<Box<dyn Paint>>,
) -> Option<Made> {
    let latencies = Latencies::replayed(of);
    if latencies.is_empty() {
        return None;
    }
    let trace = |row: &warmswap_study::compare::TraceRow| {
        let budget = Quantity::Bytes(row.budget_bytes).human();
        let footprint = Quantity::Bytes(row.footprint_bytes).human();
        format!("{}: {budget} for a footprint of {footprint}", row.trace)
    };
    let traces: Vec<String> = of.traces.iter().map(trace).collect();
    Some((
        format!("{}; flash {}.", traces.join(", "), of.device),
        make(&latencies)?,
    ))
}

pub(super) fn faults(results: &Results) -> Option<Made> {
    let rows = results.faults.first()?.measures.iter().map(|of| DotRow {
        label: format!("{} / {}", of.what, of.other),
        values: vec![Some(of.ours_ns), Some(of.other_ns)],
    });
    made(Dots {
        kinds: vec![
            ("arena", Ink::Series(0), false),
            ("beside", Ink::Series(1), true),
        ],
        rows: rows.collect(),
        unit: Quantity::Nanoseconds,
        is_log: true,
        most: None,
    })
}

pub(super) fn residency(results: &Results, at: usize) -> Option<Made> {
    let drawn = series::residency(results.residency.first()?);
    let (of, curves) = drawn.into_iter().nth(at)?;
    let more = format!(
        "{} under {}. What is kept hot in frames while the application is away need not come back.",
        of.app,
        arms::name(&of.scheme)
    );
    Some((more, Box::new(curves)))
}

pub(super) fn capacity(results: &Results) -> Option<Made> {
    let all = results.fleet.iter().flat_map(|fleet| &fleet.capacity);
    let rows = all.filter(|of| of.background_factor < 1.5).flat_map(|of| {
        of.arms.iter().map(|arm| BarRow {
            group: of.name.clone(),
            label: arms::name(arm.arm.name()),
            values: vec![arm.cached as f64],
        })
    });
    let rows: Vec<BarRow> = rows.collect();
    (!rows.is_empty()).then(|| {
        let bars = Bars {
            parts: vec![("programs", Ink::Series(0))],
            rows,
            unit: |value| Quantity::Count(value.round() as u64),
            is_share: false,
        };
        (String::new(), Box::new(bars) as Box<dyn Paint>)
    })
}

pub(super) fn coverage(results: &Results) -> Option<Made> {
    use warmswap_study::coverage::{PAPER_ACCURACY, PAPER_COVERAGE};
    let rows = results.coverage.first()?;
    let seen = rows
        .iter()
        .filter(|row| row.sight == warmswap_replay::Sight::All);
    made(series::by_app(
        seen,
        |row| row.app.clone(),
        |row| {
            vec![
                row.coverage,
                row.accuracy,
                Some(PAPER_COVERAGE.value),
                Some(PAPER_ACCURACY.value),
            ]
        },
        vec![
            ("coverage", Ink::Series(0), false),
            ("accuracy", Ink::Series(1), false),
            ("coverage, paper", Ink::Series(0), true),
            ("accuracy, paper", Ink::Series(1), true),
        ],
    ))
}

pub(super) fn prepaging(results: &Results) -> Option<Made> {
    use warmswap_study::prepaging::{PAPER_ANON_PRECISION, PAPER_ANON_RECALL};
    let rows = results.prepaging.first()?;
    let used = rows.iter().filter(|row| row.anon.pages > 0);
    made(series::by_app(
        used,
        |row| row.app.clone(),
        |row| {
            vec![
                row.anon.precision(),
                row.anon.recall(),
                Some(PAPER_ANON_PRECISION.value),
                Some(PAPER_ANON_RECALL.value),
            ]
        },
        vec![
            ("precision, anonymous", Ink::Series(0), false),
            ("recall, anonymous", Ink::Series(1), false),
            ("precision, paper", Ink::Series(0), true),
            ("recall, paper", Ink::Series(1), true),
        ],
    ))
}

pub(super) fn similarity(results: &Results) -> Option<Made> {
    use warmswap_study::similarity::{PAPER_REUSED, PAPER_SIMILARITY};
    made(series::by_app(
        results.similarity.first()?.iter(),
        |row| row.app.clone(),
        |row| {
            vec![
                Some(row.similarity),
                Some(row.reused),
                Some(PAPER_SIMILARITY.value),
                Some(PAPER_REUSED.value),
            ]
        },
        vec![
            ("similarity", Ink::Series(0), false),
            ("reuse", Ink::Series(1), false),
            ("similarity, paper", Ink::Series(0), true),
            ("reuse, paper", Ink::Series(1), true),
        ],
    ))
}

pub(super) fn hotness_order(results: &Results) -> Option<Made> {
    let rows = results.hotness_order.first()?;
    let mut parts = [Part::default(); 10];
    for row in rows.iter().filter(|row| row.scheme == "zram") {
        for (sum, part) in parts.iter_mut().zip(row.parts) {
            sum.hot_pages += part.hot_pages;
            sum.warm_pages += part.warm_pages;
            sum.cold_pages += part.cold_pages;
        }
    }
    let is_some = parts.iter().any(|part| part.shares().is_some());
    let rows = parts.iter().enumerate().map(|(at, part)| BarRow {
        group: String::new(),
        label: format!("part {at}"),
        values: [part.hot_pages, part.warm_pages, part.cold_pages]
            .map(|n| n as f64)
            .into(),
    });
    let bars = Bars {
        parts: vec![
            ("hot", Ink::Series(1)),
            ("warm", Ink::Series(5)),
            ("cold", Ink::Series(4)),
        ],
        rows: rows.collect(),
        unit: Quantity::Fraction,
        is_share: true,
    };
    is_some.then(|| (String::new(), Box::new(bars) as Box<dyn Paint>))
}

pub(super) fn chunks(
    results: &Results,
    y: Axis,
    of: fn(&warmswap_study::chunk_size::ChunkSizeRow) -> f64,
) -> Option<Made> {
    let study = results.chunk_size.first()?;
    let mut curves: Vec<Curve> = Vec::new();
    for (at, codec) in Codec::ALL.into_iter().enumerate() {
        let rows = study.rows.iter().filter(|row| row.codec == codec);
        let points: Vec<(f64, f64)> = rows
            .map(|row| (f64::from(row.chunk_bytes), of(row)))
            .collect();
        if !points.is_empty() {
            curves.push(Curve {
                name: codec.name().to_owned(),
                ink: Ink::Series(at),
                points,
            });
        }
    }
    let more = format!("The median of {} passes on one thread.", study.passes);
    let curves = Curves {
        curves,
        x: Axis {
            name: "bytes compressed at once",
            unit: series::bytes,
            is_log: true,
        },
        y,
        is_stacked: false,
        most: None,
    };
    Some((more, Box::new(curves)))
}
