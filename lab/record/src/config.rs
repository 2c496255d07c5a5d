//! What is to be recorded.

use std::path::PathBuf;

use warmswap_apps::{AppSpec, Directories, Size};

/// One recording.
#[derive(Debug, Clone)]
pub struct RecordConfig {
    /// The trace to write; it appears when the recording is complete.
    pub output: PathBuf,
    /// The applications, each by its definition.
    pub apps: Vec<AppSpec>,
    /// Their footprint.
    pub size: Size,
    /// Where they find and put their files.
    pub directories: Directories,
    /// Relaunches of each application.
    pub relaunches: u32,
    /// Decides the order of relaunches, each application once a round, and what the requests vary.
    pub seed: u64,
    /// Use in the foreground after each launch, in milliseconds; 0 for none.
    pub foreground_ms: u64,
    /// Longest period of use before the pages are paged out anew, in milliseconds. A request under way is
    /// not interrupted.
    pub repage_interval_ms: u64,
    /// Whether pages of files are recorded too.
    pub files: bool,
    /// Whether clean pages of files are dropped before each relaunch; needs a memory control group.
    pub cold_files: bool,
}

impl RecordConfig {
    /// A recording of `apps` into `output`, with six relaunches, half a second of use after each, and a
    /// new period every 100 ms.
    #[must_use]
    pub fn new(output: impl Into<PathBuf>, apps: Vec<AppSpec>) -> Self {
        Self {
            output: output.into(),
            apps,
            size: Size::Small,
            directories: Directories::default(),
            relaunches: 6,
            seed: 1,
            foreground_ms: 500,
            repage_interval_ms: 100,
            files: true,
            cold_files: false,
        }
    }
}
