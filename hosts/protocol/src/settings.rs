//! How a program is to be paged: what the command tells the preloaded library.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use warmswap_page::Mechanism;

/// The environment variable that carries [`RunSettings`] as JSON.
pub const RUN_VARIABLE: &str = "WARMSWAP_RUN";

/// The environment variable that names the library to preload, in place of the one that is installed.
pub const PRELOAD_VARIABLE: &str = "WARMSWAP_PRELOAD";

/// File name of the library.
pub const PRELOAD_LIBRARY: &str = "libwarmswap_preload.so";

/// Size limit of a backing file for which none is given.
pub const DEFAULT_BACKING_LIMIT_BYTES: u64 = 4 << 30;

/// The least that it can be: the file has four segments of 1 MiB.
pub const LEAST_BACKING_LIMIT_BYTES: u64 = 4 << 20;

/// Stands for the process number in [`RunSettings::stats_json`].
const PID_MARK: &str = "%p";

/// How a program is to be paged. The processes that it starts inherit the settings with the environment, and
/// each has the whole budget to itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSettings {
    /// The scheme, as `SchemeSpec::parse` of the policy crate takes it.
    pub scheme: String,
    /// Memory for frames, pool and state together, in bytes.
    pub budget_bytes: u64,
    /// The backing file. `None`: what the pool has no room for stays resident.
    pub backing: Option<PathBuf>,
    /// Its size at most, in bytes; counts only with a backing file.
    pub backing_limit_bytes: u64,
    /// The folder where what is learned about the program (its hot list, its footprint) survives its end: a file for
    /// each name of a program. `None`: it does not.
    pub learned: Option<PathBuf>,
    /// The socket to listen on. `None`: [`socket_path`](crate::socket_path) of the process. A process that
    /// finds it in use by another listens there, too.
    pub control: Option<PathBuf>,
    /// Where a process writes its [`ProgramStats`](crate::ProgramStats) at its end; `%p` stands for its number.
    /// See [`RunSettings::stats_path`].
    pub stats_json: Option<PathBuf>,
    /// After how many milliseconds without faults and CPU time the program counts as in the background.
    /// `None`: only when it is told.
    pub idle_after_ms: Option<u64>,
    /// Whether files that the program maps to read them are paged, too.
    pub files: bool,
    /// How frames come and go.
    pub mechanism: Mechanism,
    /// Threads that serve faults; at least 1.
    pub fault_threads: usize,
}

/// The settings cannot be passed on, or not be understood.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The text is not what this version writes.
    #[error("{RUN_VARIABLE} cannot be understood: {0}; command and library must be of one version")]
    Malformed(#[source] serde_json::Error),
    /// JSON holds text, and a path is none.
    #[error("cannot pass the settings on: {0}")]
    NotText(#[source] serde_json::Error),
    /// A value is out of its range.
    #[error("{RUN_VARIABLE}: {0}")]
    Range(&'static str),
}

impl RunSettings {
    /// These two, and otherwise: no backing file, nothing kept of what is learned, the default socket, no file of
    /// statistics, in the background only when told, no files, frames moved where possible, two threads for faults.
    #[must_use]
    pub fn new(scheme: &str, budget_bytes: u64) -> Self {
        Self {
            scheme: scheme.to_owned(),
            budget_bytes,
            backing: None,
            backing_limit_bytes: DEFAULT_BACKING_LIMIT_BYTES,
            learned: None,
            control: None,
            stats_json: None,
            idle_after_ms: None,
            files: false,
            mechanism: Mechanism::Auto,
            fault_threads: 2,
        }
    }

    /// The value of [`RUN_VARIABLE`].
    ///
    /// # Errors
    /// [`SettingsError::NotText`] when a path is not UTF-8.
    pub fn to_variable(&self) -> Result<String, SettingsError> {
        serde_json::to_string(self).map_err(SettingsError::NotText)
    }

    /// Reads the value of [`RUN_VARIABLE`].
    ///
    /// # Errors
    /// [`SettingsError::Malformed`] and [`SettingsError::Range`].
    pub fn from_variable(value: &OsStr) -> Result<Self, SettingsError> {
        let settings: Self =
            serde_json::from_slice(value.as_encoded_bytes()).map_err(SettingsError::Malformed)?;
        if settings.budget_bytes == 0 {
            return Err(SettingsError::Range("budget_bytes is 0"));
        }
        if settings.fault_threads == 0 {
            return Err(SettingsError::Range("fault_threads is 0"));
        }
        Ok(settings)
    }

    /// Where the process `pid` writes its statistics.
    #[must_use]
    pub fn stats_path(&self, pid: u32) -> Option<PathBuf> {
        let path = self.stats_json.as_deref()?;
        // Settings come from JSON, so that their paths are text.
        Some(path.to_str().map_or_else(
            || path.to_owned(),
            |text| PathBuf::from(text.replace(PID_MARK, &pid.to_string())),
        ))
    }

    /// The value of [`RunSettings::stats_json`] with which each process writes a file of its own in `folder`.
    #[must_use]
    pub fn stats_in(folder: &Path) -> PathBuf {
        folder.join(format!("{PID_MARK}.json"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<RunSettings, SettingsError> {
        RunSettings::from_variable(OsStr::new(text))
    }

    #[test]
    fn each_process_has_a_file_of_its_own() {
        let mut settings = RunSettings::new("warmswap", 1 << 20);
        assert_eq!(settings.stats_path(7), None);

        settings.stats_json = Some(RunSettings::stats_in(Path::new("/run/x")));
        assert_eq!(settings.stats_path(7), Some("/run/x/7.json".into()));

        settings.stats_json = Some("/tmp/one.json".into());
        assert_eq!(settings.stats_path(7), Some("/tmp/one.json".into()));
    }

    #[test]
    fn settings_of_another_version_are_refused() {
        let text = RunSettings::new("zram", 1 << 20).to_variable().unwrap();
        let newer = text.replacen('{', r#"{"colour":"red","#, 1);

        let error = read(&newer).unwrap_err().to_string();

        assert!(
            error.contains("colour") && error.contains("one version"),
            "{error}"
        );
        assert!(matches!(read("{"), Err(SettingsError::Malformed(_))));
    }

    #[test]
    fn zeros_are_refused_by_name() {
        for (field, written) in [("budget_bytes", "1048576"), ("fault_threads", "2")] {
            let text = RunSettings::new("zram", 1 << 20).to_variable().unwrap();
            let zero = text.replace(&format!("\"{field}\":{written}"), &format!("\"{field}\":0"));
            let error = read(&zero).unwrap_err();
            assert!(matches!(error, SettingsError::Range(_)), "{zero}: {error}");
            assert!(error.to_string().contains(field), "{error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            scheme in "\\PC{0,20}",
            budget_bytes in 1..u64::MAX,
            path in proptest::option::of("[^\0]{1,30}"),
            idle_after_ms: Option<u64>,
            files: bool,
        ) {
            let settings = RunSettings {
                backing: path.map(PathBuf::from),
                idle_after_ms,
                files,
                mechanism: Mechanism::Copy,
                ..RunSettings::new(&scheme, budget_bytes)
            };
            prop_assert_eq!(read(&settings.to_variable().unwrap()).unwrap(), settings);
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,200}") {
            let _ = read(&text);
        }
    }
}
