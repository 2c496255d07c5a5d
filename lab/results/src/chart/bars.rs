//! Bars that are made of parts.

use warmswap_columns::Quantity;

use super::canvas::{Anchor, Canvas, Ink, legend_height};
use super::scale::Scale;
use super::{Grid, Paint, is_bytes, shortened, widest};
use crate::error::ResultError;

/// One bar.
#[derive(Clone, Debug)]
pub(crate) struct BarRow {
    /// Rows of one group stand below its name; empty for none.
    pub group: String,
    pub label: String,
    /// In the order of the parts.
    pub values: Vec<f64>,
}

impl BarRow {
    /// A bar in no group.
    pub(crate) fn of(label: String, values: impl IntoIterator<Item = f64>) -> Self {
        Self {
            group: String::new(),
            label,
            values: values.into_iter().collect(),
        }
    }
}

/// Bars from the left, from 0.
#[derive(Clone, Debug)]
pub(crate) struct Bars {
    pub parts: Vec<(&'static str, Ink)>,
    pub rows: Vec<BarRow>,
    /// What a value is.
    pub unit: fn(f64) -> Quantity,
    /// Whether each bar is a whole, and its parts are shares of it.
    pub is_share: bool,
}

const SIZE: i32 = 12;
const ROW: i32 = 22;
const HEAD: i32 = 24;
const AXIS: i32 = 26;

impl Bars {
    /// Bars whose parts are amounts.
    pub(crate) fn of<const N: usize>(
        unit: fn(f64) -> Quantity,
        parts: [(&'static str, Ink); N],
        rows: impl IntoIterator<Item = BarRow>,
    ) -> Self {
        Self {
            parts: parts.into(),
            rows: rows.into_iter().collect(),
            unit,
            is_share: false,
        }
    }

    fn legend(&self) -> &[(&'static str, Ink)] {
        if self.parts.len() > 1 {
            &self.parts
        } else {
            &[]
        }
    }

    fn groups(&self) -> impl Iterator<Item = &[BarRow]> {
        self.rows.chunk_by(|a, b| a.group == b.group)
    }

    fn heads(&self) -> i32 {
        self.groups()
            .filter(|rows| !rows[0].group.is_empty())
            .count() as i32
    }

    fn margin(&self, width: i32) -> i32 {
        let labels = self.rows.iter().map(|row| &row.label);
        (widest(labels, SIZE) + 10).min(width * 2 / 5)
    }

    fn total(row: &BarRow) -> f64 {
        row.values.iter().sum()
    }

    /// Values as they are drawn: shares of the bar where it is a whole.
    fn drawn(&self, row: &BarRow) -> Vec<f64> {
        let total = Self::total(row);
        let whole = if self.is_share && total > 0.0 {
            total
        } else {
            1.0
        };
        row.values.iter().map(|value| value / whole).collect()
    }

    fn end(&self) -> i32 {
        if self.is_share { 8 } else { 72 }
    }
}

impl Paint for Bars {
    fn height(&self, width: i32) -> i32 {
        legend_height(width, self.legend())
            + self.heads() * HEAD
            + self.rows.len() as i32 * ROW
            + AXIS
    }

    fn paint(&self, canvas: &Canvas<'_, '_>) -> Result<(), ResultError> {
        let top = canvas.legend(0, self.legend())?;
        let bottom = canvas.height - AXIS;
        let most = if self.is_share {
            1.0
        } else {
            self.rows.iter().map(Self::total).fold(0.0, f64::max)
        };
        let pixels = (self.margin(canvas.width), canvas.width - self.end());
        let unit = if self.is_share {
            Quantity::Fraction
        } else {
            self.unit
        };
        let scale = Scale::linear((0.0, most), pixels).binary(is_bytes(unit));
        scale.rule(canvas, 90, (top, bottom), unit)?;
        let mut y = top;
        for rows in self.groups() {
            if !rows[0].group.is_empty() {
                canvas.heading((0, y + HEAD / 2), &rows[0].group, SIZE + 1)?;
                y += HEAD;
            }
            for row in rows {
                let middle = y + ROW / 2;
                let label = shortened(&row.label, SIZE, pixels.0 - 10);
                canvas.text(
                    (pixels.0 - 8, middle),
                    &label,
                    (SIZE, Anchor::Right),
                    Ink::Text,
                )?;
                let mut from = 0.0;
                for (value, &(_, ink)) in self.drawn(row).into_iter().zip(&self.parts) {
                    let (x0, x1) = (scale.at(from), scale.at(from + value));
                    if x1 > x0 {
                        canvas.rect([x0, middle - 7, x1, middle + 7], ink, 1.0)?;
                        // A line of the surface tells parts apart without colour.
                        canvas.line(&[(x1, middle - 7), (x1, middle + 7)], Ink::Surface, 1)?;
                    }
                    from += value;
                }
                if !self.is_share {
                    let total = (self.unit)(Self::total(row)).human();
                    let at = (scale.at(from) + 6, middle);
                    canvas.text(at, &total, (SIZE, Anchor::Left), Ink::Text)?;
                }
                y += ROW;
            }
        }
        Ok(())
    }

    fn grid(&self) -> Grid {
        let has_groups = self.heads() > 0;
        let mut head = if has_groups {
            vec!["group".to_owned()]
        } else {
            Vec::new()
        };
        head.push("what".to_owned());
        head.extend(self.parts.iter().map(|(name, _)| (*name).to_owned()));
        let sums = !self.is_share && self.parts.len() > 1;
        if sums {
            head.push("together".to_owned());
        }
        let unit = if self.is_share {
            Quantity::Fraction
        } else {
            self.unit
        };
        let rows = self.rows.iter().map(|row| {
            let mut cells = if has_groups {
                vec![row.group.clone()]
            } else {
                Vec::new()
            };
            cells.push(row.label.clone());
            cells.extend(self.drawn(row).into_iter().map(|value| unit(value).human()));
            if sums {
                cells.push((self.unit)(Self::total(row)).human());
            }
            cells
        });
        let rows = rows.collect();
        Grid { head, rows }
    }
}
