//! The definition of an application, as it stands in a TOML file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use warmswap_sys::FileError;

use crate::error::{AppError, toml_fault};

/// One application.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppSpec {
    /// Short name: lower-case letters, digits, `-`.
    pub name: String,
    /// One line for people.
    pub summary: String,
    /// What its figures are for.
    #[serde(default)]
    pub set: Set,
    /// How it is started.
    pub start: Start,
    /// What is asked of it.
    pub requests: Requests,
    /// How much it works on.
    pub amount: Amount,
    /// What must be installed.
    pub needs: Needs,
    /// The file that this was read from.
    #[serde(skip)]
    pub path: PathBuf,
}

/// What an application's figures are for. A coin decides it once for each shipped definition (CONTRIBUTING.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Set {
    /// For development: policies and defaults may be chosen by it.
    #[default]
    Tuning,
    /// For final figures alone: nothing is chosen by it.
    Judging,
}

/// How an application is started.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// Program and arguments. `{drivers}` stands for a copy of the folder `drivers` beside the definition,
    /// `{cache}` for a copy of the needed files of the cache folder, `{amount}` for the amount of the chosen size, and `{NAME}` for
    /// one of [`Start::variables`].
    pub command: Vec<String>,
    /// Which processes are the application.
    pub measured: Measured,
    /// Environment variables beside the fixed ones (`PATH`, `HOME`, `TMPDIR`, `LANG`, `TZ`).
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Values by size that the command may use.
    #[serde(default)]
    pub variables: BTreeMap<String, BySize>,
    /// Longest time until `ready`, in seconds.
    pub ready_limit_s: u32,
    /// Whether the program works with the preloaded library before it, as `warmswap run` starts it. False for
    /// programs into which nothing can be preloaded, for those that bring allocator and address space of their
    /// own so that little is left to page, and for those of many processes: each would have a budget to
    /// itself. A driver that starts the program must pass its environment on.
    #[serde(default = "yes")]
    pub preload: bool,
}

fn yes() -> bool {
    true
}

/// Which processes count as the application's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measured {
    /// The started process and all its descendants.
    Tree,
    /// Its descendants only: the started process is a driver that speaks to the application.
    Children,
}

/// What is asked of an application, in words, and how long it may take.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requests {
    /// What a relaunch does.
    pub relaunch: String,
    /// What use in the foreground does.
    #[serde(rename = "use")]
    pub foreground_use: String,
    /// Longest time for one answer, in seconds.
    pub limit_s: u32,
}

/// How much an application works on, by size.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Amount {
    /// What is counted.
    pub unit: String,
    /// For a memory of about 30 to 60 MB.
    pub small: u64,
    /// For a memory of about 150 to 300 MB.
    pub normal: u64,
}

/// One value for each size.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BySize {
    /// The value for [`Size::Small`].
    pub small: String,
    /// The value for [`Size::Normal`].
    pub normal: String,
}

/// The footprint of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Size {
    /// About 30 to 60 MB, as far as the program can be that small.
    #[default]
    Small,
    /// About 150 to 300 MB.
    Normal,
}

/// What must be installed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Needs {
    /// Programs, looked for on the fixed path and then on the caller's `PATH`.
    pub programs: Vec<String>,
    /// Files and folders; `{cache}` and `{drivers}` are replaced.
    #[serde(default)]
    pub files: Vec<String>,
    /// Debian packages that bring the programs.
    #[serde(default)]
    pub debian: Vec<String>,
    /// Maven artifacts (`group:artifact:version`) that bring the files.
    #[serde(default)]
    pub maven: Vec<String>,
    /// npm packages (`name@version`) that bring the files.
    #[serde(default)]
    pub npm: Vec<String>,
}

/// What `{drivers}` and `{cache}` stand for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Folders {
    /// Driver programs.
    pub drivers: PathBuf,
    /// Files that were installed or built.
    pub cache: PathBuf,
}

impl AppSpec {
    /// Reads a definition.
    ///
    /// # Errors
    /// [`AppError::File`], or [`AppError::Invalid`] with the line.
    pub fn load(path: &Path) -> Result<Self, AppError> {
        let text = warmswap_sys::file::read(path)?;
        Self::parse(&text, path)
    }

    /// Parses the text of a definition that stands at `path`.
    ///
    /// # Errors
    /// [`AppError::Invalid`] with the line.
    pub fn parse(text: &str, path: &Path) -> Result<Self, AppError> {
        let invalid_at = |(line, message)| AppError::Invalid {
            path: path.to_owned(),
            line,
            message,
        };
        let invalid = |message: String| invalid_at((None, message));
        let mut spec: Self =
            toml::from_str(text).map_err(|error| invalid_at(toml_fault(text, &error)))?;
        spec.path = path.to_owned();
        let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if spec.name.is_empty() || !spec.name.chars().all(letters) {
            return Err(invalid(format!(
                "the name {:?} has other characters than a-z, 0-9, -",
                spec.name
            )));
        }
        if spec.start.command.is_empty() {
            return Err(invalid("start.command is empty".to_owned()));
        }
        for size in [Size::Small, Size::Normal] {
            for word in spec.command(size, &Folders::default()) {
                if let Some(name) = placeholder(&word) {
                    return Err(invalid(format!(
                        "start.command uses {{{name}}}, which has no value"
                    )));
                }
            }
        }
        Ok(spec)
    }

    /// The command for a size, with all placeholders replaced.
    #[must_use]
    pub fn command(&self, size: Size, folders: &Folders) -> Vec<String> {
        self.start
            .command
            .iter()
            .map(|word| self.fill_in(word, size, folders))
            .collect()
    }

    /// The folder `drivers` beside the definition.
    #[must_use]
    pub fn drivers(&self) -> PathBuf {
        self.path.with_file_name("drivers")
    }

    /// `text` with its placeholders replaced.
    pub(crate) fn fill_in(&self, text: &str, size: Size, folders: &Folders) -> String {
        let mut text = text
            .replace("{drivers}", &folders.drivers.to_string_lossy())
            .replace("{cache}", &folders.cache.to_string_lossy())
            .replace("{amount}", &self.amount.of(size).to_string());
        for (name, value) in &self.start.variables {
            text = text.replace(&format!("{{{name}}}"), value.of(size));
        }
        text
    }
}

impl BySize {
    /// The value for a size.
    #[must_use]
    pub fn of(&self, size: Size) -> &str {
        match size {
            Size::Small => &self.small,
            Size::Normal => &self.normal,
        }
    }
}

impl Amount {
    /// The amount for a size.
    #[must_use]
    pub fn of(&self, size: Size) -> u64 {
        match size {
            Size::Small => self.small,
            Size::Normal => self.normal,
        }
    }
}

/// The first `{name}` in `word`; a name is lower-case letters. Other braces are text.
fn placeholder(word: &str) -> Option<&str> {
    word.split('{').skip(1).find_map(|rest| {
        let (name, _) = rest.split_once('}')?;
        let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase());
        is_name.then_some(name)
    })
}

/// All definitions (`*.toml`) in `folder`, by name.
///
/// # Errors
/// [`AppError`] of the first definition that is not valid; two of one name are not.
pub fn load_all(folder: &Path) -> Result<Vec<AppSpec>, AppError> {
    let entries = std::fs::read_dir(folder).map_err(|e| FileError::new("list", folder, e))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    paths.retain(|p| p.extension().is_some_and(|x| x == "toml"));
    let mut specs = paths
        .iter()
        .map(|p| AppSpec::load(p))
        .collect::<Result<Vec<_>, _>>()?;
    specs.sort_by(|a, b| a.name.cmp(&b.name));
    if let Some(pair) = specs.windows(2).find(|pair| pair[0].name == pair[1].name) {
        let message = format!(
            "{:?} is also the name of {}",
            pair[1].name,
            pair[0].path.display()
        );
        return Err(AppError::Invalid {
            path: pair[1].path.clone(),
            line: None,
            message,
        });
    }
    Ok(specs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
name = "thing"
summary = "a thing"
[start]
command = ["prog", "-m{heap}", "{drivers}/x.py", "{amount}", "{cache}/f"]
measured = "children"
ready_limit_s = 5
[start.variables.heap]
small = "1"
normal = "2"
[requests]
relaunch = "r"
use = "u"
limit_s = 3
[amount]
unit = "pieces"
small = 10
normal = 20
[needs]
programs = ["prog"]
"#;

    #[test]
    fn placeholders_follow_the_size() {
        let spec = AppSpec::parse(TEXT, Path::new("/a/thing.toml")).unwrap();

        let folders = Folders {
            drivers: "/d".into(),
            cache: "/c".into(),
        };
        let small = spec.command(Size::Small, &folders);
        let normal = spec.command(Size::Normal, &folders);

        assert_eq!(small, ["prog", "-m1", "/d/x.py", "10", "/c/f"]);
        assert_eq!(normal[1..4], ["-m2", "/d/x.py", "20"]);
        assert_eq!(spec.drivers(), Path::new("/a/drivers"));
        assert_eq!(spec.start.measured, Measured::Children);
    }

    #[test]
    fn the_library_is_preloaded_unless_the_definition_forbids_it() {
        let preloads = |text: &str| {
            let spec = AppSpec::parse(text, Path::new("/a/thing.toml")).unwrap();
            spec.start.preload
        };
        let forbidden = TEXT.replace("ready_limit_s = 5", "ready_limit_s = 5\npreload = false");

        assert!(preloads(TEXT) && !preloads(&forbidden));
    }

    #[test]
    fn mistakes_are_told_with_file_and_line() {
        let cases = [
            (
                TEXT.replace("limit_s = 3", "limit_s = 3\ncolour = 1"),
                "colour",
            ),
            (
                TEXT.replace("\"children\"", "\"friends\""),
                "/a/thing.toml:6: ",
            ),
            (TEXT.replace("{heap}", "{heaps}"), "{heaps}"),
            (TEXT.replace("\"thing\"", "\"Thing!\""), "Thing!"),
            (TEXT.replace("unit = \"pieces\"\n", ""), "unit"),
        ];
        for (text, expected) in cases {
            let error = AppSpec::parse(&text, Path::new("/a/thing.toml"))
                .unwrap_err()
                .to_string();
            assert!(
                error.contains(expected) && error.contains("/a/thing.toml"),
                "{expected}: {error}"
            );
        }
    }

    #[test]
    fn only_names_in_braces_are_placeholders() {
        assert_eq!(placeholder("a{amount}b"), Some("amount"));
        assert_eq!(
            placeholder("f'{base:x}' {} { drivers } {heap}"),
            Some("heap")
        );
        assert_eq!(placeholder("{Base} {a"), None);
    }

    #[test]
    fn figures_are_for_tuning_unless_the_definition_says_otherwise() {
        let set = |text: &str| {
            AppSpec::parse(text, Path::new("/a/thing.toml"))
                .unwrap()
                .set
        };

        assert_eq!(set(TEXT), Set::Tuning);
        let judging = TEXT.replace("[start]", "set = \"judging\"\n[start]");
        assert_eq!(set(&judging), Set::Judging);
    }

    #[test]
    fn a_name_given_twice_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.toml"), TEXT).unwrap();
        std::fs::write(dir.path().join("b.toml"), TEXT).unwrap();

        let error = load_all(dir.path()).unwrap_err().to_string();

        assert!(
            error.contains("a.toml") && error.contains("b.toml"),
            "{error}"
        );
    }
}
