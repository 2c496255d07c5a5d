//! Curves over an axis.

use warmswap_columns::Quantity;

use super::canvas::{Anchor, Canvas, Ink, legend_height};
use super::scale::{Scale, extremes};
use super::{Grid, Paint, is_bytes, tick};
use crate::error::ResultError;

/// One curve.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    pub name: String,
    pub ink: Ink,
    /// From left to right.
    pub points: Vec<(f64, f64)>,
}

/// What an axis measures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    pub name: &'static str,
    pub unit: fn(f64) -> Quantity,
    pub is_log: bool,
}

impl Axis {
    /// Equal steps are equal differences.
    pub(crate) const fn linear(name: &'static str, unit: fn(f64) -> Quantity) -> Self {
        Self {
            name,
            unit,
            is_log: false,
        }
    }

    /// Equal steps are equal ratios.
    pub(crate) const fn log(name: &'static str, unit: fn(f64) -> Quantity) -> Self {
        Self {
            name,
            unit,
            is_log: true,
        }
    }
}

/// Curves that share their axes.
#[derive(Clone, Debug)]
pub(crate) struct Curves {
    pub curves: Vec<Curve>,
    pub x: Axis,
    pub y: Axis,
    /// The top of the upright axis where it is known.
    pub most: Option<f64>,
}

const HEIGHT: i32 = 230;
const AXIS: i32 = 42;
const MARGIN: i32 = 66;
/// No more rows in the table under a chart.
const TABLE_ROWS: usize = 24;

impl Curves {
    fn legend(&self) -> Vec<(&str, Ink)> {
        let names = self
            .curves
            .iter()
            .map(|curve| (curve.name.as_str(), curve.ink));
        names.filter(|(name, _)| !name.is_empty()).collect()
    }

    fn scales(&self, width: i32, (top, bottom): (i32, i32)) -> (Scale, Scale) {
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let x = extremes(points().map(|point| point.0));
        let pixels = (MARGIN, width - 14);
        let x = if self.x.is_log {
            Scale::log(x, pixels)
        } else {
            Scale::linear(x, pixels)
        };
        let highest = extremes(points().map(|point| point.1)).1;
        let highest = self.most.unwrap_or(highest * 1.06);
        let y = if self.y.is_log {
            Scale::log_around(points().map(|point| point.1), (bottom, top))
        } else {
            Scale::linear((0.0, highest), (bottom, top))
        };
        (
            x.binary(is_bytes(self.x.unit)),
            y.binary(is_bytes(self.y.unit)),
        )
    }

    fn axes(
        &self,
        canvas: &Canvas<'_, '_>,
        (x, y): (&Scale, &Scale),
        (top, bottom): (i32, i32),
    ) -> Result<(), ResultError> {
        for value in y.ticks(5) {
            let at = y.at(value);
            canvas.line(&[(MARGIN, at), (canvas.width - 14, at)], Ink::Grid, 1)?;
            let name = tick(&(self.y.unit)(value));
            canvas.text((MARGIN - 8, at), &name, (11, Anchor::Right), Ink::Muted)?;
        }
        for value in x.ticks((canvas.width / 90) as usize) {
            let at = x.at(value);
            canvas.line(&[(at, bottom), (at, bottom + 4)], Ink::Muted, 1)?;
            let name = tick(&(self.x.unit)(value));
            canvas.text((at, bottom + 14), &name, (11, Anchor::Middle), Ink::Muted)?;
        }
        canvas.line(
            &[(MARGIN, bottom), (canvas.width - 14, bottom)],
            Ink::Muted,
            1,
        )?;
        let middle = (MARGIN + canvas.width) / 2;
        canvas.text(
            (middle, bottom + 32),
            self.x.name,
            (11, Anchor::Middle),
            Ink::Muted,
        )?;
        canvas.text((0, top - 12), self.y.name, (11, Anchor::Left), Ink::Muted)
    }
}

impl Paint for Curves {
    fn height(&self, width: i32) -> i32 {
        legend_height(width, &self.legend()) + 22 + HEIGHT + AXIS
    }

    fn paint(&self, canvas: &Canvas<'_, '_>) -> Result<(), ResultError> {
        let top = canvas.legend(0, &self.legend())? + 22;
        let bottom = canvas.height - AXIS;
        let (x, y) = self.scales(canvas.width, (top, bottom));
        self.axes(canvas, (&x, &y), (top, bottom))?;
        for curve in &self.curves {
            let at = |point: &(f64, f64)| (x.at(point.0), y.at(point.1));
            let points: Vec<_> = curve.points.iter().map(at).collect();
            canvas.line(&points, curve.ink, 2)?;
            if points.len() <= 16 {
                for &point in &points {
                    canvas.dot(point, 3, curve.ink, 1.0)?;
                }
            }
        }
        Ok(())
    }

    fn grid(&self) -> Grid {
        let mut grid = Grid {
            head: vec![
                "series".to_owned(),
                self.x.name.to_owned(),
                self.y.name.to_owned(),
            ],
            rows: Vec::new(),
        };
        for curve in &self.curves {
            let each = curve.points.len().div_ceil(TABLE_ROWS).max(1);
            for point in curve.points.iter().step_by(each) {
                grid.rows.push(vec![
                    curve.name.clone(),
                    (self.x.unit)(point.0).human(),
                    (self.y.unit)(point.1).human(),
                ]);
            }
        }
        grid
    }
}
