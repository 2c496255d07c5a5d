//! A cost table: what was measured, and what follows for each hotness class.

use warmswap_policy::Hotness;
use warmswap_study::Calibration;

use super::cells::{names, text};
use crate::table::{Column, Origin, Table, TableError};
use crate::units::{Kind, Quantity};

/// The codecs by chunk size, and what is assumed and chosen for hot, warm and cold pages.
///
/// # Errors
/// None in practice: a row that does not fit its columns.
pub fn calibration(calibration: &Calibration) -> Result<Vec<Table>, TableError> {
    Ok(vec![codecs(calibration)?, classes(calibration)?])
}

fn codecs(calibration: &Calibration) -> Result<Table, TableError> {
    let mut columns = names(["codec"]);
    columns.extend([
        Column::new("chunk_bytes", "chunk", Kind::Bytes),
        Column::new(
            "compress_ns_per_page",
            "compression of a page",
            Kind::Duration,
        )
        .from(Origin::Measured),
        Column::new(
            "decompress_ns_per_page",
            "decompression of a page",
            Kind::Duration,
        )
        .from(Origin::Measured),
        Column::new(
            "stored_bytes_per_page",
            "pool memory for a page",
            Kind::Bytes,
        )
        .from(Origin::Measured),
    ]);
    let title = format!("Costs of codecs on pages of {}", calibration.trace);
    let mut table = Table::new(title, columns);
    for cost in &calibration.table.codecs {
        table.row([
            text(cost.plan.codec().name()),
            Quantity::Bytes(cost.plan.chunk_bytes().into()),
            Quantity::Nanoseconds(cost.compress_ns_per_page),
            Quantity::Nanoseconds(cost.decompress_ns_per_page),
            Quantity::Bytes(cost.stored_bytes_per_page.round() as u64),
        ])?;
    }
    table.footnote(format!(
        "Medians of {} passes on {}, one thread.",
        calibration.passes,
        Quantity::Bytes(calibration.sample_bytes).human()
    ));
    Ok(table)
}

fn classes(calibration: &Calibration) -> Result<Table, TableError> {
    let mut columns = names(["pages"]);
    columns.extend([
        Column::new("reuse", "used again", Kind::Percent),
        Column::new("together", "with neighbour", Kind::Percent),
        Column::new("from", "from", Kind::Text),
        Column::new("plan", "chosen", Kind::Text),
    ]);
    let mut table = Table::new("Hotness classes", columns);
    for hotness in Hotness::ALL {
        let index = hotness.index();
        let class = calibration.table.classes[index];
        let is_default = calibration.class_is_default[index];
        let plan = calibration.plan(hotness);
        table.row([
            text(["hot", "warm", "cold"][index]),
            Quantity::Fraction(class.reuse),
            Quantity::Fraction(class.together),
            text(if is_default { "defaults" } else { "trace" }),
            plan.map_or(Quantity::Missing, |plan| Quantity::text(plan.to_string())),
        ])?;
    }
    table.footnote(format!(
        "Costs of faults and frames are modelled ({}).",
        calibration.device
    ));
    if let Some(used) = calibration.neighbours_used {
        table.footnote(format!(
            "With neighbour: at most what a replay with half of the memory finds of pages that come along in chunks of \
             16 KiB, {}.",
            Quantity::Fraction(used).human()
        ));
    }
    Ok(table)
}
