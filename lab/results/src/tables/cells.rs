//! Cells and columns that many tables share.

use warmswap_study::Published;

use warmswap_columns::table::{Column, Origin};
use warmswap_columns::units::{Kind, Quantity};

/// What tables with latencies say below, with the recorded contents or without.
pub(super) fn latency_note(with_contents: bool) -> &'static str {
    if with_contents {
        LATENCY_NOTE
    } else {
        "Time that memory cost in the launch window, all of it modelled. The application's own work is not in it."
    }
}

/// The same where contents are always there.
pub(super) const LATENCY_NOTE: &str = "Time that memory cost in the launch window: codec and pool \
     measured, faults, frames and flash modelled. The application's own work is not in it.";

/// What memory the studies with a small pool give.
pub(super) fn small_pool_note(budget_percent: f64, pool_percent: f64) -> String {
    format!(
        "Budget {} of the footprint, pool at most {} of that, backing file as large as the footprint, pages of files \
         included.",
        Quantity::Fraction(budget_percent / 100.0).human(),
        Quantity::Fraction(pool_percent / 100.0).human()
    )
}

pub(super) fn text(value: &str) -> Quantity {
    Quantity::text(value)
}

/// A part of a whole; none of nothing.
pub(super) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

pub(super) fn measured(key: &str, title: &str, kind: Kind) -> Column {
    Column::new(key, title, kind).from(Origin::Measured)
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
