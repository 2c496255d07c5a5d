//! The keys of a section as a table: from one entry follow reading, the printed configuration and the example.

use std::path::PathBuf;

use super::size::{Facts, Size};

/// One key of sections that are read into a `T`.
#[derive(Debug)]
pub struct Key<T: 'static> {
    /// As it is written.
    pub name: &'static str,
    /// What it says, in one or two sentences.
    pub doc: &'static str,
    /// Reads a value into its field. An empty value is the default of fields that have "none" as a value.
    pub set: fn(&mut T, &str, Facts) -> Result<(), String>,
    /// The field as it would be written.
    pub show: fn(&T) -> String,
    /// What the value comes to, where that is not what is written.
    pub comes_to: Option<fn(&T) -> String>,
}

/// A section with its keys.
pub trait Section: Default + 'static {
    /// What the section is about, in one or two sentences.
    const DOC: &'static str;

    /// Its keys, in the order in which they are printed.
    const KEYS: &'static [Key<Self>];

    /// What holds where nothing is written.
    fn defaults(facts: Facts) -> Self;

    /// Sets `key` to `value`, or to its default when that is empty. `Ok(false)`: there is no such key.
    ///
    /// # Errors
    /// What is wrong with the value.
    fn assign(&mut self, key: &str, value: &str, facts: Facts) -> Result<bool, String> {
        let Some(key) = Self::KEYS.iter().find(|known| known.name == key) else {
            return Ok(false);
        };
        if value.is_empty() {
            let default = (key.show)(&Self::defaults(facts));
            (key.set)(self, &default, facts)?;
        } else {
            (key.set)(self, value, facts)?;
        }
        Ok(true)
    }
}

/// `yes` or `no`, and the other words that systemd takes.
pub fn yes_no(value: &str) -> Result<bool, String> {
    match value.to_ascii_lowercase().as_str() {
        "yes" | "true" | "on" | "1" => Ok(true),
        "no" | "false" | "off" | "0" => Ok(false),
        _ => Err(format!("{value:?} is neither yes nor no")),
    }
}

/// The word for a bool.
pub fn show_yes_no(value: bool) -> String {
    if value { "yes" } else { "no" }.to_owned()
}

/// A whole number from `least` to `most`.
pub fn number(value: &str, least: u64, most: u64) -> Result<u64, String> {
    match value.parse() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!(
            "{value:?} is no whole number from {least} to {most}"
        )),
    }
}

/// A path from the root on.
pub fn absolute(value: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(value);
    if path.is_absolute() {
        Ok(path)
    } else {
        Err(format!("{value:?} is no path that begins with /"))
    }
}

/// A size, or none when nothing is written.
pub fn optional_size(value: &str, facts: Facts) -> Result<Option<Size>, String> {
    if value.is_empty() {
        return Ok(None);
    }
    Size::parse(value, facts).map(Some)
}

/// As it was written; nothing for none.
pub fn show_size(size: &Option<Size>) -> String {
    size.as_ref()
        .map_or_else(String::new, |size| size.text.clone())
}

/// In MiB.
pub fn size_comes_to(size: &Option<Size>) -> String {
    size.as_ref().map_or_else(
        || "none".to_owned(),
        |size| format!("{} MiB", size.bytes >> 20),
    )
}

/// Words with spaces or commas between them.
pub fn words(value: &str) -> Vec<String> {
    value
        .split([' ', ',', '\t'])
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}
