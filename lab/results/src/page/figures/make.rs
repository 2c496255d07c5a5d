//! What charts are drawn from: the marks of each, taken out of results.

use warmswap_codec::Codec;
use warmswap_columns::Quantity;
use warmswap_study::coverage::CoverageRow;
use warmswap_study::hotness_order::Part;
use warmswap_study::{PrepagingRow, Similarity};

use super::Made;
use crate::arms;
use crate::chart::{Axis, BarRow, Bars, Curve, Curves, Ink, Paint};
use crate::series::{self, Beside, Latencies};
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

pub(super) fn capacity(results: &Results) -> Option<Made> {
    let all = results.fleet.iter().flat_map(|fleet| &fleet.capacity);
    let rows = all.filter(|of| of.background_factor < 1.5).flat_map(|of| {
        of.arms.iter().map(|arm| BarRow {
            group: of.name.clone(),
            label: arms::name(arm.arm.name()),
            values: vec![arm.cached as f64],
        })
    });
    let count = |value: f64| Quantity::Count(value.round() as u64);
    let bars = Bars::of(count, [("programs", Ink::Series(0))], rows);
    (!bars.rows.is_empty()).then(|| made(bars))?
}

pub(super) fn coverage(results: &Results) -> Option<Made> {
    use warmswap_study::coverage::{PAPER_ACCURACY, PAPER_COVERAGE};
    let rows = results.coverage.first()?.iter();
    let seen = rows.filter(|row| row.sight == warmswap_replay::Sight::All);
    let kinds: [Beside<'_, CoverageRow>; 2] = [
        (
            "coverage",
            "coverage, paper",
            |row| row.coverage,
            &PAPER_COVERAGE,
        ),
        (
            "accuracy",
            "accuracy, paper",
            |row| row.accuracy,
            &PAPER_ACCURACY,
        ),
    ];
    made(series::by_app(seen, |row| &row.app, kinds))
}

pub(super) fn prepaging(results: &Results) -> Option<Made> {
    use warmswap_study::prepaging::{
        PAPER_ANON_PRECISION as PRECISION, PAPER_ANON_RECALL as RECALL,
    };
    let rows = results.prepaging.first()?.iter();
    let used = rows.filter(|row| row.anon.pages > 0);
    let kinds: [Beside<'_, PrepagingRow>; 2] = [
        (
            "precision, anonymous",
            "precision, paper",
            |row| row.anon.precision(),
            &PRECISION,
        ),
        (
            "recall, anonymous",
            "recall, paper",
            |row| row.anon.recall(),
            &RECALL,
        ),
    ];
    made(series::by_app(used, |row| &row.app, kinds))
}

pub(super) fn similarity(results: &Results) -> Option<Made> {
    use warmswap_study::similarity::{PAPER_REUSED, PAPER_SIMILARITY};
    let rows = results.similarity.first()?.iter();
    let kinds: [Beside<'_, Similarity>; 2] = [
        (
            "similarity",
            "similarity, paper",
            |row| Some(row.similarity),
            &PAPER_SIMILARITY,
        ),
        (
            "reuse",
            "reuse, paper",
            |row| Some(row.reused),
            &PAPER_REUSED,
        ),
    ];
    made(series::by_app(rows, |row| &row.app, kinds))
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
    let rows = parts.iter().enumerate().map(|(at, part)| {
        let values = [part.hot_pages, part.warm_pages, part.cold_pages];
        BarRow::of(format!("part {at}"), values.map(|n| n as f64))
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
    is_some.then(|| made(bars))?
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
        x: Axis::log("bytes compressed at once", series::bytes),
        y,
        most: None,
    };
    Some((more, Box::new(curves)))
}
