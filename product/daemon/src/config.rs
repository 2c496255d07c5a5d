//! The daemon's configuration, in the style of zram-generator.
//!
//! | module | subject |
//! |---|---|
//! | [`files`] | which files count, and in which order |
//! | [`ini`] | their syntax |
//! | [`keys`] | a section as a table of keys |
//! | [`sections`] | the sections |
//! | [`size`] | sizes as expressions of the machine's memory |
//! | [`show`] | the configuration that holds, and an example, as text |

pub mod files;
pub mod ini;
pub mod keys;
pub mod sections;
pub mod show;
pub mod size;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use warmswap_sys::meminfo::Meminfo;
use warmswap_sys::{FileError, Root, file};

use self::ini::{Item, Origin, SyntaxError};
use self::keys::Section;
use self::sections::{
    AppSection, DaemonSection, DiscoverSection, HostSection, MetricsSection, SignalsSection,
    ZramSection,
};
use self::size::Facts;

/// Longest name of an application, in bytes: it becomes part of a file's name.
pub const MAX_APP_NAME_BYTES: usize = 64;

/// A configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A line is no configuration.
    #[error("{origin}: {source}")]
    Syntax {
        /// The line.
        origin: Origin,
        /// What is wrong with it.
        #[source]
        source: SyntaxError,
    },
    /// A value cannot be used.
    #[error("{origin}: {key} in [{section}]: {why}")]
    Value {
        /// The line.
        origin: Origin,
        /// The section.
        section: String,
        /// The key.
        key: String,
        /// What is wrong with the value.
        why: String,
    },
    /// A property stands before the first section.
    #[error("{origin}: {key} stands in no section; write a line such as [host] before it")]
    NoSection {
        /// The line.
        origin: Origin,
        /// The key.
        key: String,
    },
    /// A section's name cannot be used.
    #[error("{origin}: [{section}]: {why}")]
    Name {
        /// The line.
        origin: Origin,
        /// The section.
        section: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// More than one thing is wrong; a line each.
    #[error("{}", lines(.0))]
    Several(Vec<ConfigError>),
}

fn lines(errors: &[ConfigError]) -> String {
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

impl ConfigError {
    /// One error for all of them; `Ok` where there is none.
    fn all(mut errors: Vec<Self>) -> Result<(), Self> {
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(Self::Several(errors)),
        }
    }
}

/// All that is configured.
#[derive(Clone, Debug)]
pub struct Config {
    /// `[daemon]`.
    pub daemon: DaemonSection,
    /// `[host]`.
    pub host: HostSection,
    /// `[signals]`.
    pub signals: SignalsSection,
    /// `[metrics]`.
    pub metrics: MetricsSection,
    /// `[discover]`.
    pub discover: DiscoverSection,
    /// `[zram0]` and others, by name.
    pub zram: BTreeMap<String, ZramSection>,
    /// `[app NAME]`, by name.
    pub apps: BTreeMap<String, AppSection>,
    /// Where each value was written, by section and key.
    pub origins: BTreeMap<(String, String), Origin>,
    /// The files that were read, the most important one last.
    pub files: Vec<PathBuf>,
    /// What was not understood and is left out, each with file and line.
    pub warnings: Vec<String>,
    /// What sizes were computed from.
    pub facts: Facts,
}

/// What a section's name stands for.
enum Kind {
    Daemon,
    Host,
    Signals,
    Metrics,
    Discover,
    Zram,
    App(String),
    Unknown,
}

fn kind(section: &str) -> Result<Kind, &'static str> {
    let number = section.strip_prefix("zram");
    Ok(match section {
        "daemon" => Kind::Daemon,
        "host" => Kind::Host,
        "signals" => Kind::Signals,
        "metrics" => Kind::Metrics,
        "discover" => Kind::Discover,
        _ if number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit())) => {
            Kind::Zram
        }
        _ => match section.split_once(char::is_whitespace) {
            Some(("app", name)) => Kind::App(app_name(name)?.to_owned()),
            _ => Kind::Unknown,
        },
    })
}

/// The name of an application as it counts: without the spaces around it.
///
/// # Errors
/// What is wrong with it.
pub fn app_name(name: &str) -> Result<&str, &'static str> {
    let name = name.trim();
    if name.is_empty() || name.len() > MAX_APP_NAME_BYTES {
        return Err("an application's name has 1 to 64 bytes");
    }
    if name.contains(|c: char| c == '/' || c.is_control()) {
        return Err("an application's name has no / and no control characters");
    }
    if name.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("an application's name is not just a number, which would be a process");
    }
    Ok(name)
}

impl Config {
    /// What holds where nothing is configured.
    #[must_use]
    pub fn defaults(facts: Facts) -> Self {
        Self {
            daemon: Section::defaults(facts),
            host: Section::defaults(facts),
            signals: Section::defaults(facts),
            metrics: Section::defaults(facts),
            discover: Section::defaults(facts),
            zram: BTreeMap::new(),
            apps: BTreeMap::new(),
            origins: BTreeMap::new(),
            files: Vec::new(),
            warnings: Vec::new(),
            facts,
        }
    }

    /// Reads the files that count ([`files::files`]), or `only` this one.
    ///
    /// # Errors
    /// [`ConfigError`], for all that is wrong with them.
    pub fn load(root: &Root, only: Option<&Path>) -> Result<Self, ConfigError> {
        let mut config = Self::defaults(Facts {
            ram_bytes: Meminfo::read(root)?.usable_bytes(),
        });
        let files = match only {
            Some(path) => vec![path.to_owned()],
            None => files::files(root)?,
        };
        let mut errors = Vec::new();
        for path in files {
            config.add(&file::read(&path)?, &path, &mut errors);
        }
        ConfigError::all(errors)?;
        Ok(config)
    }

    /// Adds what the text of `file` says; it wins over what was there.
    ///
    /// # Errors
    /// [`ConfigError`], for all that is wrong; what is right has been added all the same.
    pub fn merge(&mut self, text: &str, file: &Path) -> Result<(), ConfigError> {
        let mut errors = Vec::new();
        self.add(text, file, &mut errors);
        ConfigError::all(errors)
    }

    fn add(&mut self, text: &str, file: &Path, errors: &mut Vec<ConfigError>) {
        self.files.push(file.to_owned());
        // `None`: what follows belongs to a section that was refused.
        let mut section = Some(None);
        for (origin, item) in ini::parse(text, file) {
            let added = match item {
                Err(source @ SyntaxError::Section) => {
                    section = None;
                    Err(ConfigError::Syntax { origin, source })
                }
                Err(source) => Err(ConfigError::Syntax { origin, source }),
                Ok(Item::Section(name)) => {
                    let opened = self.open(name, &origin);
                    section = opened.as_ref().ok().cloned().map(Some);
                    opened.map(|_| ())
                }
                Ok(Item::Property(key, value)) => match &section {
                    Some(Some(name)) => self.assign(name, &key, &value, origin),
                    Some(None) => Err(ConfigError::NoSection { origin, key }),
                    None => Ok(()),
                },
            };
            errors.extend(added.err());
        }
    }

    /// A section begins: that it is there can be all that it says.
    fn open(&mut self, section: String, origin: &Origin) -> Result<String, ConfigError> {
        let facts = self.facts;
        match kind(&section) {
            Ok(Kind::Zram) => {
                let new = || ZramSection::defaults(facts);
                self.zram.entry(section.clone()).or_insert_with(new);
            }
            Ok(Kind::App(name)) => {
                self.apps.entry(name).or_default();
            }
            Ok(Kind::Unknown) => self.warnings.push(format!(
                "{origin}: there is no section [{section}]; it is ignored"
            )),
            Ok(_) => {}
            Err(why) => {
                return Err(ConfigError::Name {
                    origin: origin.clone(),
                    section,
                    why,
                });
            }
        }
        Ok(section)
    }

    fn assign(
        &mut self,
        section: &str,
        key: &str,
        value: &str,
        origin: Origin,
    ) -> Result<(), ConfigError> {
        let facts = self.facts;
        let known = match kind(section) {
            Ok(Kind::Daemon) => self.daemon.assign(key, value, facts),
            Ok(Kind::Host) => self.host.assign(key, value, facts),
            Ok(Kind::Signals) => self.signals.assign(key, value, facts),
            Ok(Kind::Metrics) => self.metrics.assign(key, value, facts),
            Ok(Kind::Discover) => self.discover.assign(key, value, facts),
            Ok(Kind::Zram) => match self.zram.get_mut(section) {
                Some(zram) => zram.assign(key, value, facts),
                None => Ok(false),
            },
            Ok(Kind::App(name)) => self.apps.entry(name).or_default().assign(key, value, facts),
            // Warned about, or refused, where the section began.
            Ok(Kind::Unknown) | Err(_) => return Ok(()),
        };
        match known {
            Ok(true) => {
                let place = (section.to_owned(), key.to_owned());
                self.origins.insert(place, origin);
            }
            Ok(false) => self.warnings.push(format!(
                "{origin}: there is no key {key} in [{section}]; it is ignored"
            )),
            Err(why) => {
                return Err(ConfigError::Value {
                    origin,
                    section: section.to_owned(),
                    key: key.to_owned(),
                    why,
                });
            }
        }
        Ok(())
    }
}
