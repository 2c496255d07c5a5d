//! What a host knows, for people and for other programs: is it working, and is it helping?

use serde::{Deserialize, Serialize};

use crate::counters::Counters;
use crate::host::Worth;

/// One relaunch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Relaunch {
    /// When it began, in nanoseconds of the monotonic clock.
    pub begin_ns: u64,
    /// From the switch to its end, in nanoseconds; the length of the window where nobody told the end.
    pub latency_ns: u64,
    /// True if somebody told the end.
    pub is_answered: bool,
    /// Pages that came from swap because they were touched.
    pub faults: u64,
    /// Pages that were not faulted on: prepaged ones that were touched, and hot ones that are held to have been.
    pub faults_avoided: u64,
    /// Pages that were brought back ahead of use.
    pub prefetched: u64,
    /// Of these, pages that were touched.
    pub prefetch_used: u64,
}

/// One application.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AppStatus {
    /// Its name.
    pub name: String,
    /// Its processes now.
    pub processes: u32,
    /// Processes that may not be looked at.
    pub unreadable_processes: u32,
    /// It is in the foreground.
    pub is_foreground: bool,
    /// Its launch window is open.
    pub is_launching: bool,
    /// Anonymous memory that is resident and hot, in bytes.
    pub hot_bytes: u64,
    /// Resident and warm.
    pub warm_bytes: u64,
    /// Resident and cold.
    pub cold_bytes: u64,
    /// In swap, in bytes before compression.
    pub swapped_bytes: u64,
    /// What that takes in the compressed pool, by the pool's mean ratio.
    pub compressed_bytes: u64,
    /// The last relaunches, oldest first; at most 16.
    pub relaunches: Vec<Relaunch>,
    /// Relaunches since the host began.
    pub relaunch_count: u64,
    /// Pages brought back ahead of use since the host began.
    pub prefetched: u64,
    /// Of these, pages that were touched in their launch window.
    pub prefetch_used: u64,
    /// Of these, pages that were not.
    pub prefetch_wasted: u64,
    /// Pages paged out by the host since it began.
    pub paged_out: u64,
    /// Nanoseconds of CPU time that the host spent on it.
    pub cost_cpu_ns: u64,
}

/// The swap and its pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SwapStatus {
    /// All swap areas, in bytes.
    pub total_bytes: u64,
    /// Of it, unused.
    pub free_bytes: u64,
    /// Memory that the compressed pools take: zram devices and zswap.
    pub pool_bytes: u64,
    /// What they hold, uncompressed.
    pub stored_bytes: u64,
}

/// A host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostStatus {
    /// The scheme.
    pub scheme: String,
    /// Why accesses of pages that stay in memory are not seen; none where accessed bits are read.
    pub accesses_unseen: Option<String>,
    /// Applications, in the order in which they were added.
    pub apps: Vec<AppStatus>,
    /// Swap and pool.
    pub swap: SwapStatus,
    /// Memory that is missing to the goal, in bytes; 0 when it is reached.
    pub missing_bytes: u64,
    /// Whether it takes part now, and why.
    pub worth: Worth,
    /// Pages of files that are locked in memory, in bytes.
    pub locked_file_bytes: u64,
    /// Why pages of files cannot be locked; none where they can, or that was not tried.
    pub files_unlockable: Option<String>,
    /// Bytes that the host itself holds for pages.
    pub state_bytes: u64,
    /// What it did.
    pub counters: Counters,
}
