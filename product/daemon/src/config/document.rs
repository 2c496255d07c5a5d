//! Walks a TOML document, and names for all that is wrong with it the file and the line.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::Section;
use super::sections::is_zram;
use super::size::Facts;
use super::value::key;
use super::{Config, ConfigError, Origin, app_name};

/// Names of sections besides those of devices.
const SECTIONS: [&str; 5] = ["daemon", "host", "signals", "discover", "app"];

/// Where each value was written, by section and key.
type Origins = BTreeMap<(String, &'static str), Origin>;

/// A document that is added to a configuration.
struct Document<'d> {
    text: &'d str,
    file: Arc<Path>,
    facts: Facts,
    errors: Vec<ConfigError>,
}

/// Adds what the text of `file` says; it wins over what was there. Returns all that is wrong, by line.
pub(super) fn add(config: &mut Config, text: &str, file: &Path) -> Vec<ConfigError> {
    // Editors of other systems write a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut document = Document {
        text,
        file: file.into(),
        facts: config.facts,
        errors: Vec::new(),
    };
    match DeTable::parse(text) {
        Ok(table) => document.sections(table.into_inner(), config),
        Err(error) => {
            let at = error.span().map_or(0, |span| span.start);
            let origin = document.origin(at);
            let why = error.message().to_owned();
            document.errors.push(ConfigError::Syntax { origin, why });
        }
    }
    document.errors.sort_by_key(ConfigError::line);
    document.errors
}

impl Document<'_> {
    fn origin(&self, at: usize) -> Origin {
        let before = self.text.as_bytes().iter().take(at);
        let newlines = before.filter(|&&byte| byte == b'\n').count();
        Origin {
            file: Arc::clone(&self.file),
            line: u32::try_from(newlines + 1).unwrap_or(u32::MAX),
        }
    }

    fn sections(&mut self, table: DeTable<'_>, config: &mut Config) {
        for (name, value) in table {
            let at = name.span().start;
            let name = name.into_inner();
            let is_known = SECTIONS.contains(&&*name) || is_zram(&name);
            if !is_known {
                let hint = hint(&name, SECTIONS.iter().copied().chain(["zram0"]));
                let why = format!("there is no such section{hint}");
                self.refuse_section(at, &name, why);
                continue;
            }
            let Some(keys) = self.table(at, &name, value) else {
                continue;
            };
            let origins = &mut config.origins;
            match &*name {
                "daemon" => self.keys(&name, keys, &mut config.daemon, origins),
                "host" => self.keys(&name, keys, &mut config.host, origins),
                "signals" => self.keys(&name, keys, &mut config.signals, origins),
                "discover" => self.keys(&name, keys, &mut config.discover, origins),
                "app" => self.apps(keys, config),
                _ => {
                    let new = || Section::defaults(self.facts);
                    let zram = config.zram.entry(name.to_string()).or_insert_with(new);
                    self.keys(&name, keys, zram, origins);
                }
            }
        }
    }

    /// `[app.NAME]`, for each name.
    fn apps(&mut self, apps: DeTable<'_>, config: &mut Config) {
        for (name, value) in apps {
            let at = name.span().start;
            let name = name.into_inner();
            let section = format!("app.{}", key(&name));
            if !matches!(value.get_ref(), DeValue::Table(_)) {
                let why = "an application has a name: write [app.NAME]".to_owned();
                self.refuse_section(at, "app", why);
                continue;
            }
            match app_name(&name) {
                Err(why) => self.refuse_section(at, &section, why.to_owned()),
                Ok(app) => {
                    let Some(keys) = self.table(at, &section, value) else {
                        continue;
                    };
                    let new = || Section::defaults(self.facts);
                    let app = config.apps.entry(app.to_owned()).or_insert_with(new);
                    self.keys(&section, keys, app, &mut config.origins);
                }
            }
        }
    }

    fn table<'v>(
        &mut self,
        at: usize,
        section: &str,
        value: Spanned<DeValue<'v>>,
    ) -> Option<DeTable<'v>> {
        match value.into_inner() {
            DeValue::Table(table) => Some(table),
            _ => {
                self.refuse_section(at, section, format!("write it as [{section}], once"));
                None
            }
        }
    }

    fn keys<T: Section>(
        &mut self,
        section: &str,
        table: DeTable<'_>,
        to: &mut T,
        origins: &mut Origins,
    ) {
        for (name, value) in table {
            let origin = self.origin(name.span().start);
            let name = name.into_inner();
            let set = match T::KEYS.iter().find(|key| key.name == name) {
                Some(key) => (key.set)(to, value, self.facts).map(|()| key.name),
                None => {
                    let hint = hint(&name, T::KEYS.iter().map(|key| key.name));
                    Err(format!("there is no such key{hint}"))
                }
            };
            match set {
                Ok(key) => drop(origins.insert((section.to_owned(), key), origin)),
                Err(why) => self.errors.push(ConfigError::Value {
                    origin,
                    section: section.to_owned(),
                    key: name.into_owned(),
                    why,
                }),
            }
        }
    }

    fn refuse_section(&mut self, at: usize, section: &str, why: String) {
        let origin = self.origin(at);
        let section = section.to_owned();
        self.errors.push(ConfigError::Name {
            origin,
            section,
            why,
        });
    }
}

/// The known name that is most like `name`, as the end of a sentence.
fn hint<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> String {
    let likeness = |known: &str| strsim::normalized_damerau_levenshtein(name, known);
    let most = known.max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    match most.filter(|known| likeness(known) >= 0.5) {
        Some(known) => format!("; did you mean {known}?"),
        None => String::new(),
    }
}
