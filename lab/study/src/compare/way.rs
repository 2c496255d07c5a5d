//! How far a scheme goes on the way from exact LRU to the optimum.

use warmswap_policy::{PolicyError, SchemeSpec};
use warmswap_replay::{Relaunch, ReplayResult};

use super::SchemeRow;

/// The scheme that the way is measured from.
pub const REFERENCE: &str = "lru";

/// Fewer faults between exact LRU and the optimum are no way to measure: a few faults more or less would be several times all
/// of it.
const LEAST_FAULTS: f64 = 30.0;

/// The optimum about launch windows.
pub const OPTIMAL_WINDOWS: &str = "optimal-windows";

/// The optimum.
pub const OPTIMAL: &str = "optimal";

/// A value far outside of 0 to 1 says only that the optimum hardly differs from the reference.
const TOLD: std::ops::RangeInclusive<f64> = -1.0..=2.0;

/// The schemes, and behind them those that the way is measured by.
///
/// # Errors
/// None in practice: the names are those of schemes.
pub fn with_limits(mut schemes: Vec<SchemeSpec>) -> Result<Vec<SchemeSpec>, PolicyError> {
    for name in [REFERENCE, OPTIMAL_WINDOWS, OPTIMAL] {
        schemes.retain(|scheme| scheme.name != name);
        schemes.push(SchemeSpec::named(name)?);
    }
    Ok(schemes)
}

/// Touches in a window that waited for a page that existed before.
pub(super) fn window_faults(relaunch: &Relaunch) -> u64 {
    relaunch.pool_faults + relaunch.backing_faults + relaunch.buffer_hits + relaunch.lost_faults
}

/// The same of a whole replay.
pub(super) fn faults(result: &ReplayResult) -> u64 {
    let counters = &result.counters;
    let lost: u64 = result
        .relaunches()
        .map(|relaunch| relaunch.lost_faults)
        .sum();
    counters.pool_faults + counters.backing_faults + counters.buffer_hits + lost
}

/// Fills in how far each goes.
pub(super) fn measure(rows: &mut [SchemeRow]) {
    let of = |name: &str, faults: fn(&SchemeRow) -> u64| {
        let row = rows.iter().find(|row| row.scheme == name)?;
        Some(faults(row) as f64)
    };
    let way = |limit: &str, faults: fn(&SchemeRow) -> u64| {
        let (from, to) = (of(REFERENCE, faults)?, of(limit, faults)?);
        (from - to >= LEAST_FAULTS).then_some((from, from - to))
    };
    let in_windows = way(OPTIMAL_WINDOWS, |row| row.window_faults);
    let anywhere = way(OPTIMAL, |row| row.faults);
    for row in rows {
        let told = |way: f64| Some(way).filter(|way| TOLD.contains(way));
        row.way_in_windows =
            in_windows.and_then(|(from, all)| told((from - row.window_faults as f64) / all));
        row.way = anywhere.and_then(|(from, all)| told((from - row.faults as f64) / all));
    }
}
