//! Several values of each row, as marks on one line: full circles for ours, rings for a paper's.

use warmswap_columns::Quantity;

use super::canvas::{Anchor, Canvas, Ink, legend_height};
use super::scale::{Scale, extremes};
use super::{Grid, Paint, shortened, widest};
use crate::error::ResultError;

/// One row.
#[derive(Clone, Debug)]
pub(crate) struct DotRow {
    pub label: String,
    /// In the order of the kinds; `None` for what is not known.
    pub values: Vec<Option<f64>>,
}

/// Rows of marks.
#[derive(Clone, Debug)]
pub(crate) struct Dots {
    /// What each mark is; rings come from a paper.
    pub kinds: Vec<(&'static str, Ink, bool)>,
    pub rows: Vec<DotRow>,
    pub unit: fn(f64) -> Quantity,
    /// Equal factors are equally long; else the axis begins at 0.
    pub is_log: bool,
    /// The end of the axis where it is known.
    pub most: Option<f64>,
}

const SIZE: i32 = 12;
const ROW: i32 = 20;
const AXIS: i32 = 26;

impl Dots {
    fn legend(&self) -> Vec<(&'static str, Ink)> {
        self.kinds
            .iter()
            .map(|&(name, ink, _)| (name, ink))
            .collect()
    }

    fn margin(&self, width: i32) -> i32 {
        let labels = self.rows.iter().map(|row| &row.label);
        (widest(labels, SIZE) + 12).min(width * 11 / 20)
    }

    fn scale(&self, pixels: (i32, i32)) -> Scale {
        let values = || {
            self.rows
                .iter()
                .flat_map(|row| row.values.iter().flatten().copied())
        };
        if self.is_log {
            Scale::log_around(values(), pixels)
        } else {
            let most = self.most.unwrap_or(extremes(values()).1);
            Scale::linear((0.0, most), pixels)
        }
    }
}

impl Paint for Dots {
    fn height(&self, width: i32) -> i32 {
        legend_height(width, &self.legend()) + self.rows.len() as i32 * ROW + AXIS
    }

    fn paint(&self, canvas: &Canvas<'_, '_>) -> Result<(), ResultError> {
        let is_ring = |at: usize| self.kinds[at].2;
        let top = canvas.legend_with_rings(0, &self.legend(), &is_ring)?;
        let bottom = canvas.height - AXIS;
        let pixels = (self.margin(canvas.width), canvas.width - 18);
        let scale = self.scale(pixels);
        scale.rule(canvas, 60, (top, bottom), self.unit)?;
        for (at, row) in self.rows.iter().enumerate() {
            let middle = top + at as i32 * ROW + ROW / 2;
            let (right, size) = (pixels.0 - 10, (SIZE, Anchor::Right));
            let label = shortened(&row.label, SIZE, right);
            canvas.text((right, middle), &label, size, Ink::Text)?;
            let known: Vec<f64> = row.values.iter().flatten().copied().collect();
            if let Some((low, high)) = (known.len() > 1).then(|| extremes(known)) {
                let ends = [(scale.at(low), middle), (scale.at(high), middle)];
                canvas.line(&ends, Ink::Muted, 1)?;
            }
            for (value, &(_, ink, is_paper)) in row.values.iter().zip(&self.kinds) {
                let Some(value) = value else { continue };
                let at = (scale.at(*value), middle);
                if is_paper {
                    canvas.ring(at, 7, ink)?;
                } else {
                    canvas.dot(at, 4, ink, 1.0)?;
                }
            }
        }
        Ok(())
    }

    fn grid(&self) -> Grid {
        let mut grid = Grid::new(["what"]);
        let kinds = self.kinds.iter();
        grid.head.extend(kinds.map(|&(name, ..)| name.to_owned()));
        for row in &self.rows {
            let shown = |value: &Option<f64>| value.map_or(Quantity::Missing, self.unit).human();
            let mut cells = vec![row.label.clone()];
            cells.extend(row.values.iter().map(shown));
            grid.rows.push(cells);
        }
        grid
    }
}
