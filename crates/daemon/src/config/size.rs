//! Sizes as expressions of the machine's memory, as in zram-generator: `min(ram / 2, 4096)`, in MiB.

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
    /// the other functions of fasteval (`floor`, `round`, `log`, …). A number has no unit behind it, since the
    /// one of a size is MiB. Costs about 1 µs.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub fn parse(text: &str, facts: Facts) -> Result<Self, String> {
        let wrong = |what: &str| {
            format!("{text:?} {what}; a size is written in MiB, such as 2048 or min(ram / 2, 4096)")
        };
        // fasteval would take 4G for four thousand millions.
        let letter_behind_digit =
            |pair: &[u8]| pair[0].is_ascii_digit() && pair[1].is_ascii_alphabetic();
        if text.as_bytes().windows(2).any(letter_behind_digit) {
            return Err(wrong("has a number with a unit"));
        }
        let ram_mib = facts.ram_bytes as f64 / f64::from(1 << 20);
        let mut unknown = None;
        let mut look_up = |name: &str, arguments: Vec<f64>| {
            if name == "ram" && arguments.is_empty() {
                return Some(ram_mib);
            }
            unknown = Some(name.to_owned());
            None
        };
        let mib = match (fasteval::ez_eval(text, &mut look_up), unknown) {
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
        ] {
            assert_eq!(mib(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_none_says_how_to_write_one() {
        for text in [
            "",
            "4G",
            "1e3",
            "memory / 2",
            "min(ram",
            "ram / 0",
            "-1",
            "10 ^ 30",
            "½",
        ] {
            let error = mib(text).unwrap_err();
            let helps = error.contains("min(ram / 2, 4096)");
            assert!(helps && error.contains(text), "{text}: {error}");
        }
        assert!(mib("memory / 2").unwrap_err().contains("\"memory\""));
        assert!(mib("ram / 0").unwrap_err().contains("inf"));
        assert!(mib("4G").unwrap_err().contains("unit"));
        assert!(mib(&"(".repeat(1000)).is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,60}") {
            let _ = mib(&text);
        }

        #[test]
        fn no_likely_text_panics(text in "(min|max|ram|sqrt|[0-9]{1,4}|[-+*/^(), .]){0,16}") {
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
