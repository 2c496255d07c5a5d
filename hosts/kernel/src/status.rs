//! What a host knows, for people and for other programs: is it working, and is it helping?

use crate::counters::Counters;
use crate::decide::State;

/// One relaunch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Relaunch {
    /// When it began, in nanoseconds of the monotonic clock.
    pub begin_ns: u64,
    /// From the switch to its end, in nanoseconds; the length of the window where nothing told the end.
    pub latency_ns: u64,
    /// True if its end was told.
    pub is_answered: bool,
    /// Major faults of its processes: pages that had to be read or decompressed.
    pub faults: u64,
    /// Pages that were asked for ahead of use.
    pub prefetched: u64,
}

/// One program.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AppStatus {
    /// Its name.
    pub name: String,
    /// Its processes now.
    pub processes: u32,
    /// Processes that may not be looked at, or do not answer.
    pub unreadable_processes: u32,
    /// It is in the foreground.
    pub is_foreground: bool,
    /// Its launch window is open.
    pub is_launching: bool,
    /// Anonymous memory that is resident and that launches touch, in bytes.
    pub hot_bytes: u64,
    /// Resident, and neither hot nor cold.
    pub warm_bytes: u64,
    /// Resident, and not used by sessions.
    pub cold_bytes: u64,
    /// In swap, in bytes before compression.
    pub swapped_bytes: u64,
    /// What that takes in the compressed pool, by the pool's mean ratio.
    pub compressed_bytes: u64,
    /// The last relaunches, oldest first; at most 16.
    pub relaunches: Vec<Relaunch>,
    /// Relaunches since the host began.
    pub relaunch_count: u64,
    /// Pages brought back since the host began, in idle time and at switches.
    pub prefetched: u64,
    /// Of these, pages that were touched until the end of the next session.
    pub prefetch_used: u64,
    /// Of these, pages that were not.
    pub prefetch_wasted: u64,
}

/// The swap and its pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
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

/// What was given back in idle time since the host began: "gave 742 MiB back to 5 programs in 3.1 s of idle time; their next uses
/// touched 97 % of it".
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GivenBack {
    /// Bytes that came back.
    pub bytes: u64,
    /// Programs to which.
    pub programs: u32,
    /// Time that it took, in nanoseconds.
    pub idle_ns: u64,
    /// Pages of what came back, or was asked for at a switch, whose next session has ended.
    pub judged_pages: u64,
    /// Of these, pages that the session touched.
    pub used_pages: u64,
    /// Bytes that came back besides without being mapped, of files that programs open again and again, or hold.
    pub opened_bytes: u64,
}

/// A process that does not answer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unanswering {
    /// The name of its program.
    pub name: String,
    /// Its number.
    pub pid: u32,
    /// Its start in clock ticks since boot.
    pub start_ticks: u64,
}

/// A host.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostStatus {
    /// What it is about.
    pub state: State,
    /// What it gave back.
    pub given_back: GivenBack,
    /// Processes that do not answer, by name.
    pub unanswering: Vec<Unanswering>,
    /// Why accesses are not seen by page; none where accessed bits are read.
    pub accesses_unseen: Option<String>,
    /// Why nothing is read in bulk at switches though it should be; none where the kernel takes such requests.
    pub read_ahead_refused: Option<String>,
    /// Why it is not known which files programs open; none where the kernel tells.
    pub openings_unseen: Option<String>,
    /// Programs, in the order in which they were added.
    pub apps: Vec<AppStatus>,
    /// Swap and pool.
    pub swap: SwapStatus,
    /// Bytes that the host itself holds for pages.
    pub state_bytes: u64,
    /// What it did.
    pub counters: Counters,
}
