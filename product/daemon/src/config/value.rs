//! What a key can hold: how it is read from TOML, and written.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Error, Visitor};
use toml::Spanned;
use toml::de::{DeValue, ValueDeserializer};
use warmswap_page::mib;

use super::size::{Facts, Size};

/// The value of a key.
pub trait Value: Sized {
    /// As TOML has it.
    type Raw: DeserializeOwned;

    /// Checks what was written, and computes what it comes to.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    fn from_raw(raw: Self::Raw, facts: Facts) -> Result<Self, String>;

    /// As it would be written.
    fn written(&self) -> String;

    /// What it comes to, where that is not what is written.
    fn comes_to(&self) -> Option<String> {
        None
    }

    /// Reads it.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    fn read(value: Spanned<DeValue<'_>>, facts: Facts) -> Result<Self, String> {
        let raw = Self::Raw::deserialize(ValueDeserializer::from(value));
        Self::from_raw(raw.map_err(|error| error.message().to_owned())?, facts)
    }
}

/// A key as TOML has it: bare where it can be.
#[must_use]
pub fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match !name.is_empty() && name.chars().all(is_bare) {
        true => name.to_owned(),
        false => quoted(name),
    }
}

/// A text in double quotes and on one line.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out += &format!("\\u{:04X}", u32::from(c)),
            c => out.push(c),
        }
    }
    out + "\""
}

impl Value for bool {
    type Raw = Self;

    fn from_raw(raw: Self, _: Facts) -> Result<Self, String> {
        Ok(raw)
    }

    fn written(&self) -> String {
        self.to_string()
    }
}

impl Value for u64 {
    type Raw = i64;

    fn from_raw(raw: i64, _: Facts) -> Result<Self, String> {
        raw.try_into().map_err(|_| format!("{raw} is less than 0"))
    }

    fn written(&self) -> String {
        self.to_string()
    }
}

impl Value for String {
    type Raw = Self;

    fn from_raw(raw: Self, _: Facts) -> Result<Self, String> {
        Ok(raw)
    }

    fn written(&self) -> String {
        quoted(self)
    }
}

/// An empty text is none.
impl Value for Option<String> {
    type Raw = String;

    fn from_raw(raw: String, _: Facts) -> Result<Self, String> {
        Ok((!raw.is_empty()).then_some(raw))
    }

    fn written(&self) -> String {
        quoted(self.as_deref().unwrap_or_default())
    }
}

impl Value for Vec<String> {
    type Raw = Self;

    fn from_raw(raw: Self, _: Facts) -> Result<Self, String> {
        Ok(raw)
    }

    fn written(&self) -> String {
        let words: Vec<String> = self.iter().map(|word| quoted(word)).collect();
        format!("[{}]", words.join(", "))
    }
}

/// A path from the root on.
impl Value for PathBuf {
    type Raw = String;

    fn from_raw(raw: String, _: Facts) -> Result<Self, String> {
        let path = Self::from(&raw);
        if path.is_absolute() {
            return Ok(path);
        }
        Err(format!("{raw:?} is no path that begins with /"))
    }

    fn written(&self) -> String {
        quoted(&self.to_string_lossy())
    }
}

/// A size as it is written: a number of MiB, or a text with an expression.
#[derive(Debug)]
pub struct SizeText(String);

impl<'de> Deserialize<'de> for SizeText {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SizeVisitor)
    }
}

struct SizeVisitor;

impl Visitor<'_> for SizeVisitor {
    type Value = SizeText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(r#"a size, such as 2048 (MiB), "2G" or "min(ram / 2, 4G)""#)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<SizeText, E> {
        Ok(SizeText(number.to_string()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<SizeText, E> {
        Ok(SizeText(number.to_string()))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<SizeText, E> {
        Ok(SizeText(text.to_owned()))
    }
}

impl Value for Size {
    type Raw = SizeText;

    fn from_raw(raw: SizeText, facts: Facts) -> Result<Self, String> {
        Self::parse(&raw.0, facts)
    }

    fn written(&self) -> String {
        let is_number = |text: &str| text.parse::<u32>().is_ok_and(|n| n.to_string() == text);
        match is_number(&self.text) {
            true => self.text.clone(),
            false => quoted(&self.text),
        }
    }

    fn comes_to(&self) -> Option<String> {
        Some(mib(self.bytes))
    }
}

/// Nothing and 0 are none; what comes to less than a page is not meant to be none.
impl Value for Option<Size> {
    type Raw = SizeText;

    fn from_raw(raw: SizeText, facts: Facts) -> Result<Self, String> {
        let text = raw.0.trim();
        if text.is_empty() || text.parse() == Ok(0.0) {
            return Ok(None);
        }
        match Size::parse(text, facts)? {
            size if size.bytes == 0 => Err(format!(
                "{text:?} comes to less than a page, and would be no limit: write 0 for none"
            )),
            size => Ok(Some(size)),
        }
    }

    fn written(&self) -> String {
        self.as_ref().map_or_else(|| "0".to_owned(), Value::written)
    }

    fn comes_to(&self) -> Option<String> {
        self.as_ref().and_then(Value::comes_to)
    }
}

/// A check that a number lies from `least` to `most`.
pub fn within(least: u64, most: u64) -> impl Fn(&u64) -> Result<(), String> {
    move |number| match (least..=most).contains(number) {
        true => Ok(()),
        false => Err(format!(
            "{number} is no whole number from {least} to {most}"
        )),
    }
}
