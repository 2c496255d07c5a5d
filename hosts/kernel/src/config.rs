//! What a host does.

use std::path::PathBuf;

use crate::upkeep::Upkeep;

/// How a host works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostConfig {
    /// Pages come back in idle time.
    pub bring_back: bool,
    /// Pages are read ahead at switches.
    pub prefetch: bool,
    /// What is done to idle pages in zram; nothing by default.
    pub upkeep: Upkeep,
    /// Where learned pages are kept; none forgets them at the end.
    pub learned_folder: Option<PathBuf>,
}

impl Default for HostConfig {
    fn default() -> Self {
        Self {
            bring_back: true,
            prefetch: true,
            upkeep: Upkeep::default(),
            learned_folder: None,
        }
    }
}
