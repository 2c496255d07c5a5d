//! The daemon's configuration, in TOML, with keys and expressions in the style of zram-generator.
//!
//! | module | subject |
//! |---|---|
//! | [`files`] | which files count, and in which order |
//! | `document` | a file's sections and keys |
//! | [`keys`] | a section as a table of keys |
//! | [`sections`] | the sections |
//! | [`size`] | sizes as expressions of the machine's memory |
//! | [`show`] | the configuration that holds, and an example, as text |
//! | [`value`] | what a key can hold |

mod document;
pub mod files;
pub mod keys;
pub mod sections;
pub mod show;
pub mod size;
#[cfg(test)]
mod tests;
pub mod value;

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use warmswap_sys::meminfo::Meminfo;
use warmswap_sys::{FileError, Root};

use self::keys::Section;
use self::sections::{
    AppSection, DaemonSection, DiscoverSection, HostSection, SignalsSection, ZramSection,
};
use self::size::Facts;

/// Longest name of an application, in bytes: it becomes part of a file's name.
pub const MAX_APP_NAME_BYTES: usize = 64;

/// Where something is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The file.
    pub file: Arc<Path>,
    /// The line, from 1 on.
    pub line: u32,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

/// A configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A line is no TOML.
    #[error("{origin}: {why}; text stands in quotes, a section is written [NAME]")]
    Syntax {
        /// The line.
        origin: Origin,
        /// What is wrong with it.
        why: String,
    },
    /// A file is not UTF-8.
    #[error("{origin}: not UTF-8, as TOML is")]
    Encoding {
        /// The first such line.
        origin: Origin,
    },
    /// A key is not known, or its value cannot be used.
    #[error("{origin}: {key} in [{section}]: {why}")]
    Value {
        /// The line.
        origin: Origin,
        /// The section.
        section: String,
        /// The key.
        key: String,
        /// What is wrong with it.
        why: String,
    },
    /// A section is not known, or cannot have its name.
    #[error("{origin}: [{section}]: {why}")]
    Name {
        /// The line.
        origin: Origin,
        /// The section.
        section: String,
        /// What is wrong with it.
        why: String,
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

    /// The line that is wrong; 0 where it is no single one.
    fn line(&self) -> u32 {
        match self {
            Self::Syntax { origin, .. }
            | Self::Encoding { origin }
            | Self::Value { origin, .. }
            | Self::Name { origin, .. } => origin.line,
            Self::File(_) | Self::Several(_) => 0,
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
    /// `[discover]`.
    pub discover: DiscoverSection,
    /// `[zram0]` and others, by name.
    pub zram: BTreeMap<String, ZramSection>,
    /// `[app.NAME]`, by name.
    pub apps: BTreeMap<String, AppSection>,
    /// Where each value was written, by section and key.
    pub origins: BTreeMap<(String, &'static str), Origin>,
    /// The files that were read, the most important one last.
    pub files: Vec<PathBuf>,
    /// What is there and is not read.
    pub warnings: Vec<String>,
    /// What sizes were computed from.
    pub facts: Facts,
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
        if only.is_none() {
            config.warnings.extend(files::old(root));
        }
        let mut errors = Vec::new();
        for path in files {
            match text(&path)? {
                Ok(text) => errors.extend(config.add(&text, &path)),
                Err(error) => errors.push(error),
            }
        }
        ConfigError::all(errors)?;
        Ok(config)
    }

    /// Adds what the text of `file` says; it wins over what was there.
    ///
    /// # Errors
    /// [`ConfigError`], for all that is wrong; what is right has been added all the same.
    pub fn merge(&mut self, text: &str, file: &Path) -> Result<(), ConfigError> {
        ConfigError::all(self.add(text, file))
    }

    fn add(&mut self, text: &str, file: &Path) -> Vec<ConfigError> {
        self.files.push(file.to_owned());
        document::add(self, text, file)
    }
}

/// Most bytes of a file: a device such as `/dev/zero` never ends.
const MOST_BYTES: u64 = 1 << 20;

/// The text of a file, or that it is none.
fn text(path: &Path) -> Result<Result<String, ConfigError>, FileError> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| FileError::new("read", path, error))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(FileError::unexpected(
            path,
            "more than 1 MiB is no configuration",
        ));
    }
    Ok(String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let newlines = good.iter().filter(|&&byte| byte == b'\n').count();
        let origin = Origin {
            file: path.into(),
            line: u32::try_from(newlines + 1).unwrap_or(u32::MAX),
        };
        ConfigError::Encoding { origin }
    }))
}
