//! Distributions side by side: every sample a dot, the middle half a box, the median a line.

use warmswap_columns::Quantity;
use warmswap_page::quantile::Sorted;

use super::canvas::{Anchor, Canvas, Ink};
use super::scale::Scale;
use super::{Grid, Paint, shortened, widest};
use crate::error::ResultError;

/// Samples of one kind, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct StripRow {
    pub label: String,
    pub ink: Ink,
    pub values: Vec<f64>,
}

/// Rows that belong together.
#[derive(Clone, Debug)]
pub(crate) struct StripGroup {
    pub name: String,
    pub rows: Vec<StripRow>,
}

/// Distributions of times, on a logarithmic axis.
#[derive(Clone, Debug)]
pub(crate) struct Strips {
    /// What the rows of the table are called: group, row.
    pub names: [&'static str; 2],
    pub groups: Vec<StripGroup>,
}

const SIZE: i32 = 12;
const ROW: i32 = 19;
const HEAD: i32 = 24;
const AXIS: i32 = 26;
const MEDIAN: i32 = 62;
/// No more dots than this in a row: more would hide each other.
const DOTS: usize = 400;

fn sorted(row: &StripRow) -> Sorted<f64> {
    Sorted::by(row.values.iter().copied(), f64::total_cmp)
}

impl Strips {
    fn rows(&self) -> impl Iterator<Item = &StripRow> {
        self.groups.iter().flat_map(|group| &group.rows)
    }

    fn margin(&self, width: i32) -> i32 {
        (widest(self.rows().map(|row| &row.label), SIZE) + 10).min(width * 2 / 5)
    }

    fn row(
        &self,
        canvas: &Canvas<'_, '_>,
        (scale, y): (&Scale, i32),
        row: &StripRow,
    ) -> Result<(), ResultError> {
        let margin = self.margin(canvas.width);
        let label = shortened(&row.label, SIZE, margin - 10);
        canvas.text((margin - 8, y), &label, (SIZE, Anchor::Right), Ink::Text)?;
        let sorted = sorted(row);
        let (Some(median), Some(low), Some(high)) = (
            sorted.median(),
            sorted.per_mille(250),
            sorted.per_mille(750),
        ) else {
            return Ok(());
        };
        canvas.rect(
            [scale.at(low), y - 6, scale.at(high) + 1, y + 6],
            row.ink,
            0.28,
        )?;
        let each = row.values.len().div_ceil(DOTS).max(1);
        for (at, &value) in row.values.iter().step_by(each).enumerate() {
            // A little up and down, so that dots do not hide each other.
            let up = (at as i32 * 5) % 9 - 4;
            canvas.dot((scale.at(value), y + up), 2, row.ink, 0.5)?;
        }
        let x = scale.at(median);
        canvas.line(&[(x, y - 8), (x, y + 8)], row.ink, 3)?;
        let value = Quantity::Nanoseconds(median).human();
        canvas.text((canvas.width, y), &value, (SIZE, Anchor::Right), Ink::Text)
    }
}

impl Paint for Strips {
    fn height(&self, _: i32) -> i32 {
        let rows = self.rows().count() as i32;
        self.groups.len() as i32 * HEAD + rows * ROW + AXIS
    }

    fn paint(&self, canvas: &Canvas<'_, '_>) -> Result<(), ResultError> {
        let bottom = canvas.height - AXIS;
        let pixels = (self.margin(canvas.width), canvas.width - MEDIAN);
        let scale = Scale::log_around(
            self.rows().flat_map(|row| row.values.iter().copied()),
            pixels,
        );
        scale.rule(canvas, 55, (HEAD - 6, bottom), Quantity::Nanoseconds)?;
        canvas.text(
            (canvas.width, 10),
            "median",
            (11, Anchor::Right),
            Ink::Muted,
        )?;
        let mut y = 0;
        for group in &self.groups {
            canvas.heading((0, y + HEAD / 2), &group.name, SIZE + 1)?;
            y += HEAD;
            for row in &group.rows {
                self.row(canvas, (&scale, y + ROW / 2), row)?;
                y += ROW;
            }
        }
        Ok(())
    }

    fn grid(&self) -> Grid {
        let mut grid = Grid::new([
            self.names[0],
            self.names[1],
            "relaunches",
            "25th percentile",
            "median",
            "75th percentile",
            "90th percentile",
            "most",
        ]);
        for group in &self.groups {
            for row in &group.rows {
                let sorted = sorted(row);
                let at = |per_mille| {
                    let value = sorted.per_mille(per_mille);
                    value
                        .map_or(Quantity::Missing, Quantity::Nanoseconds)
                        .human()
                };
                grid.rows.push(vec![
                    group.name.clone(),
                    row.label.clone(),
                    row.values.len().to_string(),
                    at(250),
                    at(500),
                    at(750),
                    at(900),
                    at(1000),
                ]);
            }
        }
        grid
    }
}
