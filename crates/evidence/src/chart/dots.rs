//! Several values of each row, as marks on one line: full circles for ours, rings for a paper's.

use warmswap_report::Quantity;

use super::canvas::{Anchor, Canvas, Ink, legend_height};
use super::scale::{Scale, extremes};
use super::{Grid, Paint, shortened, text_width, tick};
use crate::error::EvidenceError;

/// One row.
#[derive(Clone, Debug)]
pub(crate) struct DotRow {
    /// Rows of one group stand below its name; empty for none.
    pub group: String,
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
const HEAD: i32 = 24;
const AXIS: i32 = 26;

impl Dots {
    fn legend(&self) -> Vec<(&'static str, Ink)> {
        self.kinds
            .iter()
            .map(|&(name, ink, _)| (name, ink))
            .collect()
    }

    fn groups(&self) -> impl Iterator<Item = &[DotRow]> {
        self.rows.chunk_by(|a, b| a.group == b.group)
    }

    fn heads(&self) -> i32 {
        self.groups()
            .filter(|rows| !rows[0].group.is_empty())
            .count() as i32
    }

    fn margin(&self, width: i32) -> i32 {
        let widest = self
            .rows
            .iter()
            .map(|row| text_width(&row.label, SIZE))
            .max();
        (widest.unwrap_or(0) + 12).min(width * 11 / 20)
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
        legend_height(width, &self.legend())
            + self.heads() * HEAD
            + self.rows.len() as i32 * ROW
            + AXIS
    }

    fn paint(&self, canvas: &Canvas<'_, '_>) -> Result<(), EvidenceError> {
        let is_ring = |at: usize| self.kinds[at].2;
        let top = canvas.legend_with_rings(0, &self.legend(), &is_ring)?;
        let bottom = canvas.height - AXIS;
        let pixels = (self.margin(canvas.width), canvas.width - 18);
        let scale = self.scale(pixels);
        for value in scale.ticks(((pixels.1 - pixels.0) / 60).max(2) as usize) {
            let x = scale.at(value);
            canvas.line(&[(x, top), (x, bottom)], Ink::Grid, 1)?;
            let name = tick(&(self.unit)(value));
            canvas.text((x, bottom + 13), &name, (11, Anchor::Middle), Ink::Muted)?;
        }
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
                    (pixels.0 - 10, middle),
                    &label,
                    (SIZE, Anchor::Right),
                    Ink::Text,
                )?;
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
        head.extend(self.kinds.iter().map(|&(name, ..)| name.to_owned()));
        let rows = self.rows.iter().map(|row| {
            let mut cells = if has_groups {
                vec![row.group.clone()]
            } else {
                Vec::new()
            };
            cells.push(row.label.clone());
            let shown = |value: &Option<f64>| value.map_or(Quantity::Missing, self.unit).human();
            cells.extend(row.values.iter().map(shown));
            cells
        });
        let rows = rows.collect();
        Grid { head, rows }
    }
}
