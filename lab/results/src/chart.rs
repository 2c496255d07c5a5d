//! Charts: what is drawn, as SVG with a text for screen readers, and a table of the same numbers.
//!
//! Every chart is drawn twice, for a wide page and for a narrow one, so that letters have their size on both. Colours
//! are names of the page's style sheet: it decides how they look in light, in dark and on paper.

mod bars;
mod canvas;
mod curves;
mod dots;
mod scale;
mod strips;

pub(crate) use bars::{BarRow, Bars};
pub(crate) use canvas::{Canvas, Drawing, INKS, Ink, InkLook};
pub(crate) use curves::{Axis, Curve, Curves};
pub(crate) use dots::{DotRow, Dots};
pub(crate) use strips::{StripGroup, StripRow, Strips};

use crate::error::ResultError;

/// Widths that charts are drawn for, in pixels of the style sheet.
pub(crate) const WIDTHS: [u32; 2] = [760, 358];

/// A table: its head, and its rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Grid {
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Grid {
    pub(crate) fn new<const N: usize>(head: [&str; N]) -> Self {
        Self {
            head: head.map(str::to_owned).into(),
            rows: Vec::new(),
        }
    }
}

/// What can be drawn at any width.
pub(crate) trait Paint {
    /// Height at that width.
    fn height(&self, width: i32) -> i32;

    /// Draws.
    fn paint(&self, canvas: &Canvas<'_, '_>) -> Result<(), ResultError>;

    /// The same numbers as a table.
    fn grid(&self) -> Grid;
}

/// A chart, drawn.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    /// What it is about, in a few words.
    pub title: String,
    /// What it shows, for screen readers.
    pub description: String,
    /// In the order of [`WIDTHS`].
    pub drawings: [Drawing; 2],
    pub grid: Grid,
}

impl Chart {
    pub(crate) fn of(
        title: &str,
        description: &str,
        what: &dyn Paint,
    ) -> Result<Self, ResultError> {
        let [wide, narrow] = WIDTHS.map(|width| canvas::draw(width, what));
        Ok(Self {
            title: title.to_owned(),
            description: description.to_owned(),
            drawings: [wide?, narrow?],
            grid: what.grid(),
        })
    }
}

/// A quantity as an axis shows it: without zeros behind the point.
pub(crate) fn tick(quantity: &warmswap_columns::Quantity) -> String {
    let text = quantity.human();
    let at = text.find(|c: char| !(c.is_ascii_digit() || ".,-".contains(c)));
    let (number, unit) = text.split_at(at.unwrap_or(text.len()));
    let number = if number.contains('.') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        number
    };
    let is_nothing = number == "0" && unit != " %" && unit != "×";
    if is_nothing {
        number.to_owned()
    } else {
        format!("{number}{unit}")
    }
}

/// Whether a quantity counts bytes, whose axis has ticks at powers of 1024.
pub(crate) fn is_bytes(unit: fn(f64) -> warmswap_columns::Quantity) -> bool {
    unit(1.0).kind() == Some(warmswap_columns::Kind::Bytes)
}

/// Pixels that a text takes, about.
pub(crate) fn text_width(text: &str, size: i32) -> i32 {
    (text.chars().count() as f64 * f64::from(size) * 0.6).ceil() as i32
}

/// Pixels that the longest of some texts takes.
pub(crate) fn widest<'a>(texts: impl Iterator<Item = &'a String>, size: i32) -> i32 {
    texts.map(|text| text_width(text, size)).max().unwrap_or(0)
}

/// `text` with at most so many pixels.
pub(crate) fn shortened(text: &str, size: i32, width: i32) -> String {
    if text_width(text, size) <= width {
        return text.to_owned();
    }
    let fits = (f64::from(width) / (f64::from(size) * 0.6)) as usize;
    let mut short: String = text.chars().take(fits.saturating_sub(1)).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmswap_columns::Quantity;

    #[test]
    fn ticks_have_no_idle_zeros() {
        assert_eq!(tick(&Quantity::Nanoseconds(1e6)), "1 ms");
        assert_eq!(tick(&Quantity::Nanoseconds(2.5e6)), "2.5 ms");
        assert_eq!(tick(&Quantity::Nanoseconds(100e6)), "100 ms");
        assert_eq!(tick(&Quantity::Fraction(0.5)), "50 %");
        assert_eq!(tick(&Quantity::Ratio(10.0)), "10×");
        assert_eq!(tick(&Quantity::Bytes(0)), "0");
    }

    #[test]
    fn long_labels_are_shortened() {
        assert_eq!(shortened("zram", 12, 200), "zram");
        let short = shortened("a name that is longer than most", 12, 70);
        assert!(
            short.ends_with('…') && text_width(&short, 12) <= 70,
            "{short}"
        );
    }
}
