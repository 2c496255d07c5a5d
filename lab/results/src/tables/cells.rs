//! Cells and columns that many tables share.

use warmswap_replay::Latency;
use warmswap_study::Published;

use warmswap_result::table::{Column, Origin};
use warmswap_result::units::{Kind, Quantity};

/// What every table with latencies says below.
pub(super) const LATENCY_NOTE: &str = "Time that memory cost in the launch window: codec and pool \
     measured, faults, frames and flash modelled. The application's own work is not in it.";

pub(super) fn text(value: &str) -> Quantity {
    Quantity::text(value)
}

pub(super) fn latency(value: Option<Latency>) -> Quantity {
    value.map_or(Quantity::Missing, |latency| {
        Quantity::nanoseconds(latency.total_ns())
    })
}

pub(super) fn ratio(value: Option<f64>) -> Quantity {
    value.map_or(Quantity::Missing, Quantity::Ratio)
}

pub(super) fn fraction(value: Option<f64>) -> Quantity {
    value.map_or(Quantity::Missing, Quantity::Fraction)
}

/// Columns of names.
pub(super) fn names<const N: usize>(keys: [&str; N]) -> Vec<Column> {
    keys.map(|key| Column::new(key, key, Kind::Text)).into()
}

/// Whether times and sizes of compression were measured, or assumed for want of contents.
pub(super) fn codec_origin(with_contents: bool) -> Origin {
    if with_contents {
        Origin::Measured
    } else {
        Origin::Modelled
    }
}

/// `Paper: WHAT VALUE (SOURCE).`
pub(super) fn paper_note(what: &str, value: Quantity, published: &Published) -> String {
    format!("Paper: {what} {} ({}).", value.human(), published.source)
}
