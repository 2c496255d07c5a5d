//! Sizes as expressions of the machine's memory, as in zram-generator: `min(ram / 2, 4096)`, in MiB. A number may have a
//! unit behind it, as on the command line: `min(ram / 2, 4G)`.

use serde::Serialize;

/// What expressions may speak of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The machine's memory without what is reserved for huge pages, in bytes; `ram` is the same in MiB.
    pub ram_bytes: u64,
}

/// A size, as it was written and what it comes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Size {
    /// The expression.
    pub text: String,
    /// Its value, in bytes; whole pages, rounded down.
    pub bytes: u64,
}

/// Largest size, in MiB: 8 EiB. Above it a number of bytes has no 64 bits.
const MAX_MIB: f64 = 8_796_093_022_207.0;

impl Size {
    /// Computes an expression: numbers, `ram`, `+ - * / % ^ ( )`, `min` and `max` of any number of values, and
    /// the other functions of fasteval (`floor`, `round`, `log`, …). A number is in MiB unless a unit stands behind it: K,
    /// M, G or T, as powers of 1024, with or without `i` and `B`. Costs about 1 µs.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub fn parse(text: &str, facts: Facts) -> Result<Self, String> {
        let wrong = |what: &str| {
            format!(
                "{text:?} {what}; a size is written in MiB, or with a unit, such as 2048, 2G or min(ram / 2, 4G)"
            )
        };
        let in_mib =
            in_mib(text).map_err(|unit| wrong(&format!("has the unknown unit {unit:?}")))?;
        let ram_mib = facts.ram_bytes as f64 / f64::from(1 << 20);
        let mut unknown = None;
        let mut look_up = |name: &str, arguments: Vec<f64>| {
            if name == "ram" && arguments.is_empty() {
                return Some(ram_mib);
            }
            unknown = Some(name.to_owned());
            None
        };
        let mib = match (fasteval::ez_eval(&in_mib, &mut look_up), unknown) {
            (Ok(mib), _) => mib,
            (Err(_), Some(name)) => {
                return Err(wrong(&format!("speaks of {name:?}, which is not known")));
            }
            (Err(_), None) => return Err(wrong("is no expression")),
        };
        if !(0.0..=MAX_MIB).contains(&mib) {
            return Err(wrong(&format!("comes to {mib}")));
        }
        let bytes = (mib * f64::from(1 << 20)) as u64;
        Ok(Self {
            text: text.to_owned(),
            bytes: bytes & !(warmswap_page::PAGE_BYTES as u64 - 1),
        })
    }

    /// A default, which is an expression that can be computed; 0 bytes otherwise.
    pub(super) fn known(text: &str, facts: Facts) -> Self {
        let size = Self::parse(text, facts);
        debug_assert!(size.is_ok(), "{size:?}");
        size.unwrap_or_else(|_| Self {
            text: text.to_owned(),
            bytes: 0,
        })
    }
}

/// MiB of a unit.
fn unit_mib(unit: &str) -> Option<f64> {
    let unit = unit.to_ascii_lowercase();
    let letter = unit.strip_suffix("ib").or_else(|| unit.strip_suffix('b'));
    match letter.unwrap_or(&unit) {
        "k" => Some(1.0 / 1024.0),
        "m" => Some(1.0),
        "g" => Some(1024.0),
        "t" => Some(1_048_576.0),
        _ => None,
    }
}

/// The expression with each number that has a unit replaced by one in MiB. fasteval would take 4G for four thousand
/// millions, and so no letter may be left behind a digit.
///
/// # Errors
/// A unit that is none.
fn in_mib(text: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        if !next.is_ascii_digit() && next != '.' {
            // A name such as log10 is left whole.
            let end = if next.is_ascii_alphabetic() {
                rest.find(|c| !is_word(c)).unwrap_or(rest.len())
            } else {
                next.len_utf8()
            };
            out += &rest[..end];
            rest = &rest[end..];
            continue;
        }
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, behind) = rest.split_at(end.unwrap_or(rest.len()));
        let end = behind.find(|c| !is_word(c)).unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(end);
        out += &match unit {
            "" => number.to_owned(),
            unit => format!("({number} * {})", unit_mib(unit).ok_or(unit)?),
        };
        rest = behind;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mib(text: &str) -> Result<f64, String> {
        let facts = Facts {
            ram_bytes: 6000 << 20,
        };
        Size::parse(text, facts).map(|size| size.bytes as f64 / f64::from(1 << 20))
    }

    #[test]
    fn expressions_of_memory_are_computed() {
        for (text, expected) in [
            ("2048", 2048.0),
            ("ram", 6000.0),
            ("ram / 2", 3000.0),
            ("min(ram / 2, 4096)", 3000.0),
            ("min(ram, 4096)", 4096.0),
            ("max(ram * 0.25, min(ram, 512))", 1500.0),
            ("min(0.5 * ram, 4096) + 2 * (3 - 1)", 3004.0),
            ("0", 0.0),
            ("0.5", 0.5),
            ("4G", 4096.0),
            ("1.5GiB", 1536.0),
            ("512m + 1024KB", 513.0),
            ("min(ram / 2, 4G)", 3000.0),
            ("min(1T, ram)", 6000.0),
            ("round(3.4) * 2M", 6.0),
        ] {
            assert_eq!(mib(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_none_says_how_to_write_one() {
        for text in [
            "",
            "4X",
            "4GG",
            "1e3",
            "memory / 2",
            "min(ram",
            "ram / 0",
            "-1",
            "10 ^ 30",
            "½",
        ] {
            let error = mib(text).unwrap_err();
            let helps = error.contains("min(ram / 2, 4G)");
            assert!(helps && error.contains(text), "{text}: {error}");
        }
        assert!(mib("memory / 2").unwrap_err().contains("\"memory\""));
        assert!(mib("ram / 0").unwrap_err().contains("inf"));
        assert!(mib("4X").unwrap_err().contains("unit \"X\""));
        assert!(mib(&"(".repeat(1000)).is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,60}") {
            let _ = mib(&text);
        }

        #[test]
        fn no_likely_text_panics(text in "(min|max|ram|sqrt|[0-9]{1,4}[KMGib]{0,3}|[-+*/^(), .]){0,16}") {
            let _ = mib(&text);
        }

        #[test]
        fn a_size_is_whole_pages_and_never_more_than_written(whole in 0u32..1 << 20, part in 0u32..1000) {
            let written = format!("{whole}.{part:03}");
            let size = mib(&written).unwrap();
            let asked: f64 = written.parse().unwrap();
            prop_assert!(size <= asked && asked - size < 4096.0 / f64::from(1 << 20));
        }
    }
}
