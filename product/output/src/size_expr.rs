//! Sizes as people write them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// An amount of memory: so many bytes, or a part of something that is known later.
///
/// | written | meaning |
/// |---|---|
/// | `4096`, `4096B` | bytes |
/// | `512M`, `512MB`, `512MiB`, `1.5 GiB` | powers of 1024, with or without `i` and `B`, in either case |
/// | `50%`, `12.5 %` | a part of the whole that [`SizeExpr::resolve`] is given |
///
/// Memory is counted in powers of 1024 throughout, as the kernel does. A fraction of a byte is
/// rounded to a whole one. Serialized, it is the text that [`fmt::Display`] writes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum SizeExpr {
    /// Bytes.
    Bytes(u64),
    /// Percent of a whole; finite and not negative, above 100 if so written.
    Percent(f64),
}

/// Why a text is no size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// There is nothing in it.
    #[error("a size is missing (examples: 512M, 1.5GiB, 50%, 4096)")]
    Empty,
    /// It is no number with a known unit.
    #[error("{text:?} is no size (examples: 512M, 1.5GiB, 50%, 4096)")]
    Malformed {
        /// What was written.
        text: String,
    },
    /// It has a sign.
    #[error("{text:?} is negative, and a size is not (examples: 512M, 1.5GiB, 50%, 4096)")]
    Negative {
        /// What was written.
        text: String,
    },
    /// It is 2^64 bytes or more.
    #[error("{text:?} is too large: a size is less than 16 EiB")]
    TooLarge {
        /// What was written.
        text: String,
    },
}

impl SizeExpr {
    /// The size in bytes, as part of `whole_bytes` where it is a percentage.
    ///
    /// Rounded down; at most `u64::MAX`. Percentages are exact for wholes up to 2^53 bytes (8 PiB).
    #[must_use]
    pub fn resolve(self, whole_bytes: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => (whole_bytes as f64 * percent / 100.0) as u64,
        }
    }
}

impl SizeExpr {
    /// What was probably meant by a number without a unit that is less than 1 KiB: memory is not counted in single bytes.
    #[must_use]
    pub fn meant(self) -> Option<String> {
        match self {
            Self::Bytes(bytes @ 1..1024) => Some(format!("did you mean {bytes}M?")),
            _ => None,
        }
    }
}

impl FromStr for SizeExpr {
    type Err = SizeError;

    fn from_str(written: &str) -> Result<Self, SizeError> {
        let trimmed = written.trim();
        let text = || written.to_owned();
        if trimmed.is_empty() {
            return Err(SizeError::Empty);
        }
        if trimmed.starts_with('-') {
            return Err(SizeError::Negative { text: text() });
        }
        if let Some(number) = trimmed.strip_suffix('%') {
            return parse_percent(number.trim_end())
                .map(Self::Percent)
                .ok_or_else(|| SizeError::Malformed { text: text() });
        }
        let parser = parse_size::Config::new().with_binary();
        match parser.parse_size(trimmed) {
            Ok(bytes) => Ok(Self::Bytes(bytes)),
            Err(parse_size::Error::PosOverflow) => Err(SizeError::TooLarge { text: text() }),
            Err(_) => Err(SizeError::Malformed { text: text() }),
        }
    }
}

/// Digits with at most one point; no sign, exponent or name of a number.
fn parse_percent(number: &str) -> Option<f64> {
    let plain = number.starts_with(|c: char| c.is_ascii_digit())
        && number.chars().all(|c| c.is_ascii_digit() || c == '.');
    let value: f64 = plain.then(|| number.parse().ok())??;
    value.is_finite().then_some(value)
}

impl TryFrom<String> for SizeExpr {
    type Error = SizeError;

    fn try_from(text: String) -> Result<Self, SizeError> {
        text.parse()
    }
}

impl From<SizeExpr> for String {
    fn from(size: SizeExpr) -> Self {
        size.to_string()
    }
}

/// Suffixes of sizes, the largest first.
const UNITS: [(&str, u64); 4] = [
    ("T", 1 << 40),
    ("G", 1 << 30),
    ("M", 1 << 20),
    ("K", 1 << 10),
];

/// As a person writes it: `4M`, not `4194304`.
impl fmt::Display for SizeExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => {
                let exact = |(_, unit): &(&str, u64)| *bytes > 0 && bytes % unit == 0;
                match UNITS.iter().find(|unit| exact(unit)) {
                    Some((suffix, unit)) => write!(f, "{}{suffix}", bytes / unit),
                    None => write!(f, "{bytes}"),
                }
            }
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> u64 {
        match text.parse() {
            Ok(SizeExpr::Bytes(bytes)) => bytes,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn sizes_are_shown_as_they_are_written() {
        for text in ["4M", "1G", "2T", "3K", "1536M", "1025", "0", "40%"] {
            let size: SizeExpr = text.parse().unwrap();
            assert_eq!(size.to_string(), text);
        }
    }

    #[test]
    fn sizes_are_binary() {
        assert_eq!(bytes("4096"), 4096);
        assert_eq!(bytes("4096B"), 4096);
        assert_eq!(bytes("512M"), 512 << 20);
        assert_eq!(bytes("512MB"), 512 << 20);
        assert_eq!(bytes("512 MiB"), 512 << 20);
        assert_eq!(bytes("64k"), 64 << 10);
        assert_eq!(bytes("1.5GiB"), 3 << 29);
        assert_eq!(bytes(" 2g "), 2 << 30);
        assert_eq!(bytes("0"), 0);
        assert_eq!(bytes("18446744073709551615"), u64::MAX);
    }

    #[test]
    fn percentages_stay_open() {
        assert_eq!("50%".parse(), Ok(SizeExpr::Percent(50.0)));
        assert_eq!("12.5 %".parse(), Ok(SizeExpr::Percent(12.5)));
        assert_eq!("150%".parse(), Ok(SizeExpr::Percent(150.0)));
        assert_eq!(SizeExpr::Percent(50.0).resolve(1001), 500);
        assert_eq!(SizeExpr::Percent(150.0).resolve(100), 150);
        assert_eq!(SizeExpr::Percent(1e9).resolve(u64::MAX), u64::MAX);
        assert_eq!(SizeExpr::Bytes(7).resolve(1000), 7);
    }

    #[test]
    fn a_few_bytes_are_probably_mebibytes() {
        let meant = |text: &str| text.parse::<SizeExpr>().unwrap().meant();
        assert_eq!(meant("3").as_deref(), Some("did you mean 3M?"));
        assert_eq!(meant("512B").as_deref(), Some("did you mean 512M?"));
        for text in ["0", "3%", "1K", "3M", "4096"] {
            assert_eq!(meant(text), None, "{text}");
        }
    }

    #[test]
    fn errors_say_what_was_written() {
        let error = |text: &str| text.parse::<SizeExpr>().unwrap_err();
        assert_eq!(error(""), SizeError::Empty);
        assert_eq!(error("   "), SizeError::Empty);
        for text in [
            "%", "x", "12q", "1.2.3%", "nan%", "inf%", "1e3%", "+5%", "5%%", "M", "½G",
        ] {
            assert_eq!(
                error(text),
                SizeError::Malformed {
                    text: text.to_owned()
                },
                "{text}"
            );
        }
        for text in ["-1", "-5%"] {
            assert_eq!(
                error(text),
                SizeError::Negative {
                    text: text.to_owned()
                },
                "{text}"
            );
        }
        for text in ["16E", "18446744073709551616", "99999999999G"] {
            assert_eq!(
                error(text),
                SizeError::TooLarge {
                    text: text.to_owned()
                },
                "{text}"
            );
        }
        assert!(error("12q").to_string().contains("12q"));
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_is_read_back(amount: u64, percent in 0.0..1e6_f64) {
            for size in [SizeExpr::Bytes(amount), SizeExpr::Percent(percent)] {
                proptest::prop_assert_eq!(size.to_string().parse(), Ok(size));
            }
        }

        #[test]
        fn no_text_panics(text in ".{0,24}") {
            let _ = text.parse::<SizeExpr>();
        }

        #[test]
        fn no_likely_text_panics(text in "[-+0-9._ ]{0,30}[kKmMgGtTpPeEiIbB%]{0,4}") {
            let _ = text.parse::<SizeExpr>();
        }
    }

    #[test]
    fn serialized_as_text() {
        let json = serde_json::to_string(&SizeExpr::Percent(12.5)).unwrap();
        assert_eq!(json, "\"12.5%\"");
        assert_eq!(
            serde_json::from_str::<SizeExpr>("\"1K\"").unwrap(),
            SizeExpr::Bytes(1024)
        );
        let error = serde_json::from_str::<SizeExpr>("\"much\"").unwrap_err();
        assert!(error.to_string().contains("much"));
    }
}
