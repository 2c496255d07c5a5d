//! Quantities in a form for people and in a raw form.
//!
//! The form for people has three significant digits and a unit; sizes use powers of 1024. The raw
//! form is the plain number in the base unit of its [`Kind`], without a unit, with a full stop
//! and without thousands separators.

use serde_json::Value;

/// What stands for a value that is not known, in the form for people.
const MISSING: &str = "–";

/// The same in the raw form.
const RAW_MISSING: &str = "-";

/// How output looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Raw numbers instead of the form for people.
    pub raw: bool,
    /// Bold and dim text by terminal escape sequences.
    pub colour: bool,
    /// Columns of characters that a table may fill.
    pub width: usize,
}

impl Style {
    /// For people, without colours, 100 columns wide.
    pub const PLAIN: Self = Self {
        raw: false,
        colour: false,
        width: 100,
    };
}

impl Default for Style {
    fn default() -> Self {
        Self::PLAIN
    }
}

/// The kind of a quantity, which gives its base unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Free text.
    Text,
    /// Memory or storage; base unit byte.
    Bytes,
    /// Number of pages.
    Pages,
    /// Time; base unit nanosecond.
    Duration,
    /// One amount over another, as data ratio and memory ratio are.
    Ratio,
    /// A part of a whole; base unit is the whole, so 0.5 is 50 %.
    Percent,
    /// Number of events or things.
    Count,
    /// A number without a unit, such as a coefficient.
    Number,
}

impl Kind {
    /// The base unit by name, as JSON states it; empty for text and plain numbers.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Self::Text | Self::Ratio | Self::Count | Self::Number => "",
            Self::Bytes => "bytes",
            Self::Pages => "pages",
            Self::Duration => "ns",
            Self::Percent => "fraction",
        }
    }

    /// Whether values of this kind are numbers, which tables align to the right.
    #[must_use]
    pub fn is_numeric(self) -> bool {
        self != Self::Text
    }
}

/// One value with its unit.
#[derive(Debug, Clone, PartialEq)]
pub enum Quantity {
    /// Free text.
    Text(String),
    /// Bytes.
    Bytes(u64),
    /// Pages.
    Pages(u64),
    /// Nanoseconds; a fraction of one comes from averages.
    Nanoseconds(f64),
    /// One amount over another.
    Ratio(f64),
    /// A part of a whole, 0.5 for 50 %.
    Fraction(f64),
    /// Number of events or things.
    Count(u64),
    /// A number without a unit.
    Number(f64),
    /// Not known or not applicable; fits every kind.
    Missing,
}

impl Quantity {
    /// A number of whole nanoseconds. Above 2^53 ns (104 days) the last digits are lost.
    #[must_use]
    pub fn nanoseconds(value: u64) -> Self {
        Self::Nanoseconds(value as f64)
    }

    /// Text.
    #[must_use]
    pub fn text(value: impl Into<String>) -> Self {
        Self::Text(value.into())
    }

    /// The kind; `None` for [`Quantity::Missing`].
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        match self {
            Self::Text(_) => Some(Kind::Text),
            Self::Bytes(_) => Some(Kind::Bytes),
            Self::Pages(_) => Some(Kind::Pages),
            Self::Nanoseconds(_) => Some(Kind::Duration),
            Self::Ratio(_) => Some(Kind::Ratio),
            Self::Fraction(_) => Some(Kind::Percent),
            Self::Count(_) => Some(Kind::Count),
            Self::Number(_) => Some(Kind::Number),
            Self::Missing => None,
        }
    }

    /// The form that `style` asks for.
    #[must_use]
    pub fn show(&self, style: Style) -> String {
        if style.raw { self.raw() } else { self.human() }
    }

    /// The form for people: `1.50 MiB`, `12.3 µs`, `2.77×`, `81.3 %`, `1,234 pages`, `0.955`.
    ///
    /// What is not known, and any number that is not finite, is a dash.
    #[must_use]
    pub fn human(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Bytes(bytes) => human_bytes(*bytes),
            Self::Pages(1) => "1 page".to_owned(),
            Self::Pages(pages) => format!("{} pages", grouped(*pages)),
            Self::Nanoseconds(value) => finite(*value, human_nanoseconds),
            Self::Ratio(value) => finite(*value, |value| format!("{}×", three_digits(value))),
            Self::Fraction(value) => finite(*value, |value| format!("{:.1} %", value * 100.0)),
            Self::Count(count) => grouped(*count),
            Self::Number(value) => finite(*value, |value| format!("{value:.3}")),
            Self::Missing => MISSING.to_owned(),
        }
    }

    /// The plain number in the base unit; `-` for what is not known or not finite, so that every
    /// cell of a raw table is a word.
    #[must_use]
    pub fn raw(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Bytes(value) | Self::Pages(value) | Self::Count(value) => value.to_string(),
            Self::Nanoseconds(value)
            | Self::Ratio(value)
            | Self::Fraction(value)
            | Self::Number(value) => {
                if value.is_finite() {
                    value.to_string()
                } else {
                    RAW_MISSING.to_owned()
                }
            }
            Self::Missing => RAW_MISSING.to_owned(),
        }
    }

    /// The value in the base unit; `null` for what is not known or not finite.
    #[must_use]
    pub fn json(&self) -> Value {
        match self {
            Self::Text(text) => Value::from(text.as_str()),
            Self::Bytes(value) | Self::Pages(value) | Self::Count(value) => Value::from(*value),
            // `Value::from` makes `null` of a number that is not finite.
            Self::Nanoseconds(value)
            | Self::Ratio(value)
            | Self::Fraction(value)
            | Self::Number(value) => Value::from(*value),
            Self::Missing => Value::Null,
        }
    }
}

/// `value` with a comma between groups of three digits.
#[must_use]
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// So many things, with the word for one or for several: `1 relaunch`, `1,234 relaunches`.
#[must_use]
pub fn counted(count: u64, one: &str, several: &str) -> String {
    let word = if count == 1 { one } else { several };
    format!("{} {word}", grouped(count))
}

fn finite(value: f64, show: impl Fn(f64) -> String) -> String {
    if value.is_finite() {
        show(value)
    } else {
        MISSING.to_owned()
    }
}

fn human_bytes(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    scaled(
        bytes as f64,
        1024.0,
        &["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"],
    )
}

fn human_nanoseconds(value: f64) -> String {
    if value.abs() < 999.5 {
        return match value.fract() {
            0.0 => format!("{value} ns"),
            _ => format!("{} ns", three_digits(value)),
        };
    }
    scaled(value, 1000.0, &["ns", "µs", "ms", "s"])
}

/// `value` in the largest of `units`, each `step` times the one before it, in which it is at least
/// 1 after rounding.
fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut unit = 0;
    // 999.5 and more has four digits when rounded; between that and `step`, digits are not split.
    while unit + 1 < units.len() && value.abs() >= step - 0.5 {
        value /= step;
        unit += 1;
    }
    format!("{} {}", three_digits(value), units[unit])
}

/// Three significant digits, or all digits before the point when there are more.
fn three_digits(value: f64) -> String {
    let size = value.abs();
    if size < 9.995 {
        format!("{value:.2}")
    } else if size < 99.95 {
        format!("{value:.1}")
    } else if size < 999.5 {
        format!("{value:.0}")
    } else {
        let sign = if value < 0.0 { "-" } else { "" };
        // Saturates far above any time or size.
        format!("{sign}{}", grouped(size.round() as u64))
    }
}

#[cfg(test)]
mod tests;
