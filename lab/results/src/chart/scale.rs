//! From values to pixels, and the rule that shows them.

use plotters::coord::ranged1d::Ranged;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::{IntoLogRange, LogCoord};
use warmswap_columns::Quantity;

use super::canvas::{Anchor, Canvas, Ink};
use super::tick;
use crate::error::ResultError;

/// A range of values on a range of pixels.
pub(crate) struct Scale {
    coord: Coord,
    values: (f64, f64),
    pixels: (i32, i32),
    is_binary: bool,
}

enum Coord {
    Linear(RangedCoordf64),
    Log(LogCoord<f64>),
}

/// More values than this factor apart need decades only.
const WIDE: f64 = 200.0;

impl Scale {
    /// Equal differences are equally long.
    pub(crate) fn linear((low, high): (f64, f64), pixels: (i32, i32)) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        Self {
            coord: Coord::Linear((low..high).into()),
            values: (low, high),
            pixels,
            is_binary: false,
        }
    }

    /// Equal factors are equally long. Values must be positive.
    pub(crate) fn log((low, high): (f64, f64), pixels: (i32, i32)) -> Self {
        let low = low.max(f64::MIN_POSITIVE);
        let high = if high > low { high } else { low * 10.0 };
        Self {
            coord: Coord::Log((low..high).log_scale().into()),
            values: (low, high),
            pixels,
            is_binary: false,
        }
    }

    /// A range around positive values on which no mark lies at the edge.
    pub(crate) fn log_around(values: impl IntoIterator<Item = f64>, pixels: (i32, i32)) -> Self {
        let (low, high) = extremes(values.into_iter().filter(|&value| value > 0.0));
        Self::log((low / 1.15, high * 1.15), pixels)
    }

    /// The same with ticks that are round in powers of 1024, where `is_binary`.
    pub(crate) fn binary(self, is_binary: bool) -> Self {
        Self { is_binary, ..self }
    }

    /// The pixel of a value; values beyond the range are at its end.
    pub(crate) fn at(&self, value: f64) -> i32 {
        let value = value.clamp(self.values.0, self.values.1);
        match &self.coord {
            Coord::Linear(coord) => coord.map(&value, self.pixels),
            Coord::Log(coord) => coord.map(&value, self.pixels),
        }
    }

    /// Round values, about so many.
    pub(crate) fn ticks(&self, count: usize) -> Vec<f64> {
        match &self.coord {
            Coord::Linear(_) if self.is_binary => {
                let unit = 1024_f64.powf(self.values.1.max(1.0).log(1024.0).floor());
                let (low, high) = (self.values.0 / unit, self.values.1 / unit);
                let round = RangedCoordf64::from(low..high).key_points(count);
                round.into_iter().map(|value| value * unit).collect()
            }
            Coord::Linear(coord) => coord.key_points(count),
            Coord::Log(_) => self.log_ticks(count),
        }
    }

    /// Draws round values, about `each` pixels apart: a line from `top` to `bottom`, and the value below.
    pub(crate) fn rule(
        &self,
        canvas: &Canvas<'_, '_>,
        each: i32,
        (top, bottom): (i32, i32),
        unit: fn(f64) -> Quantity,
    ) -> Result<(), ResultError> {
        let count = (self.pixels.1 - self.pixels.0) / each;
        for value in self.ticks(count.max(2) as usize) {
            let x = self.at(value);
            canvas.line(&[(x, top), (x, bottom)], Ink::Grid, 1)?;
            let name = tick(&unit(value));
            canvas.text((x, bottom + 13), &name, (11, Anchor::Middle), Ink::Muted)?;
        }
        Ok(())
    }

    fn log_ticks(&self, count: usize) -> Vec<f64> {
        let (low, high) = self.values;
        if self.is_binary {
            let powers = low.log2().ceil() as i32..=high.log2().floor() as i32;
            let each = powers.clone().count().div_ceil(count.max(1)).max(1);
            return powers
                .step_by(each)
                .map(|power| 2_f64.powi(power))
                .collect();
        }
        let factors: &[f64] = match high / low {
            wide if wide > WIDE => &[1.0],
            some if some > WIDE / 10.0 => &[1.0, 3.0],
            _ => &[1.0, 2.0, 5.0],
        };
        let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
        let all = decades.flat_map(|decade| factors.iter().map(move |f| f * 10_f64.powi(decade)));
        let ticks: Vec<f64> = all.filter(|tick| (low..=high).contains(tick)).collect();
        let each = ticks.len().div_ceil(count.max(1)).max(1);
        ticks.into_iter().step_by(each).collect()
    }
}

/// The least and the most; 1 and 10 of none.
pub(crate) fn extremes(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let start = (f64::INFINITY, f64::NEG_INFINITY);
    let finite = values.into_iter().filter(|value| value.is_finite());
    let (low, high) = finite.fold(start, |(low, high), value| {
        (low.min(value), high.max(value))
    });
    if low.is_finite() {
        (low, high)
    } else {
        (1.0, 10.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_where_they_belong() {
        let linear = Scale::linear((0.0, 10.0), (100, 200));
        assert_eq!(
            [0.0, 5.0, 10.0, 99.0].map(|v| linear.at(v)),
            [100, 150, 200, 200]
        );
        let log = Scale::log((1.0, 100.0), (0, 100));
        assert_eq!([1.0, 10.0, 100.0, 0.0].map(|v| log.at(v)), [0, 50, 100, 0]);
    }

    #[test]
    fn ticks_are_round_and_in_range() {
        let few = |low, high| Scale::log((low, high), (0, 100)).ticks(6);
        assert_eq!(few(1.0, 1e4), [1.0, 10.0, 100.0, 1e3, 1e4]);
        assert_eq!(few(4.0, 60.0), [5.0, 10.0, 20.0, 50.0]);
        assert!(
            Scale::linear((0.0, 7.0), (0, 100))
                .ticks(8)
                .iter()
                .all(|t| (0.0..=7.0).contains(t))
        );
    }

    #[test]
    fn bytes_have_ticks_of_their_own() {
        let mib = 1024.0 * 1024.0;
        let ticks = Scale::linear((0.0, 60.0 * mib), (0, 100))
            .binary(true)
            .ticks(4);
        assert!(
            ticks.len() > 1 && ticks.iter().all(|tick| (tick / mib).fract() == 0.0),
            "{ticks:?}"
        );
        let ticks = Scale::log((128.0, 131_072.0), (0, 100))
            .binary(true)
            .ticks(6);
        assert_eq!(ticks, [128.0, 512.0, 2048.0, 8192.0, 32768.0, 131_072.0]);
    }

    #[test]
    fn nothing_is_a_range_as_well() {
        assert_eq!(extremes([]), (1.0, 10.0));
        assert_eq!(extremes([f64::NAN, 3.0, 2.0]), (2.0, 3.0));
        let one = Scale::log_around([5.0], (0, 100));
        assert!((1..100).contains(&one.at(5.0)));
    }
}
