//! What a host does.

use std::path::PathBuf;

/// How a host works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostConfig {
    /// Pages come back in idle time.
    pub bring_back: bool,
    /// Pages are read ahead at switches.
    pub prefetch: bool,
    /// Cold pages in zram are written to the disk that their device has for it.
    pub write_back: bool,
    /// Pages in zram that were not accessed for so many seconds are compressed anew.
    pub recompress_after_s: Option<u64>,
    /// Where learned pages are kept; none forgets them at the end.
    pub learned_folder: Option<PathBuf>,
}

impl Default for HostConfig {
    fn default() -> Self {
        Self {
            bring_back: true,
            prefetch: true,
            write_back: true,
            recompress_after_s: None,
            learned_folder: None,
        }
    }
}
