//! What is to be recorded.

use std::path::PathBuf;

use warmswap_apps::{AppSpec, Directories, Size};

/// In which order the applications come to the foreground.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// One after the other, always the same.
    RoundRobin,
    /// Each once a round, in an order that the seed decides.
    #[default]
    Shuffled,
}

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
    /// The order of the relaunches.
    pub order: Order,
    /// Decides the order and what the requests vary.
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
    /// Compression algorithm of the zram device.
    pub zram_algorithm: String,
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
            order: Order::default(),
            seed: 1,
            foreground_ms: 500,
            repage_interval_ms: 100,
            files: true,
            cold_files: false,
            zram_algorithm: "lz4".to_owned(),
        }
    }
}
