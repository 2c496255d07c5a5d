//! What the daemon reports: about programs as they are, over the kernel's own swap.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Phase;

/// Relaunches that are kept of an application.
pub const KEPT_RELAUNCHES: usize = 16;

/// All that the daemon reports. Counts go from its start on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct DaemonStatus {
    /// Its process.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// What it is about: `calm`, `short` or `rest`.
    pub state: String,
    /// Whether it helps.
    pub verdict: Verdict,
    /// What it gave back to programs in idle time.
    pub given_back: GivenBack,
    /// Processes that do not answer, as `NAME (PID)`; they are left alone.
    pub unanswering: Vec<String>,
    /// Why accesses of pages that stay in memory are not seen; none where accessed bits are read.
    pub accesses_unseen: Option<String>,
    /// Why nothing is read in bulk at switches though it should be; none where the kernel takes such requests.
    pub read_ahead_refused: Option<String>,
    /// Why it is not known which files programs open; none where the kernel tells.
    pub openings_unseen: Option<String>,
    /// Time since its start.
    pub uptime_seconds: f64,
    /// CPU time that it took, all threads together.
    pub cpu_seconds: f64,
    /// Bytes that it holds for what it knows of pages.
    pub state_bytes: u64,
    /// The machine's memory.
    pub memory: MemoryStatus,
    /// The machine's swap.
    pub swap: SwapStatus,
    /// Applications.
    pub apps: Vec<AppStatus>,
    /// Where it hears of switches.
    pub signals: Vec<SignalStatus>,
    /// What it did, and what it was refused, by name; as the host names its counters.
    pub counters: BTreeMap<String, u64>,
    /// What is wrong and does not end it.
    pub warnings: Vec<String>,
}

/// Whether the daemon helps, as far as is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It cannot: the machine has no swap.
    NoSwap,
    /// Nothing has been swapped, so that every relaunch was as fast as without it.
    NotTested,
    /// Nothing came back so far: programs wait for memory, and pages come back when it is free again.
    NotNow,
    /// Nothing came back so far.
    #[default]
    NotKnown,
    /// Pages came back, and no session of their programs has ended since.
    NotUsed,
    /// Most pages that came back were used by the next session of their program.
    Helping,
    /// Most of them were not.
    NotHelping,
}

/// The machine's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct MemoryStatus {
    /// All of it.
    pub total_bytes: u64,
    /// What programs could still have without swapping.
    pub available_bytes: u64,
}

/// What came back in idle time since the daemon's start, and what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct GivenBack {
    /// Bytes that came back.
    pub bytes: u64,
    /// Programs to which.
    pub programs: u32,
    /// Time that it took.
    pub idle_seconds: f64,
    /// Pages that came back, or were asked for at a switch, and whose next session has ended.
    pub judged_pages: u64,
    /// Of them, those that the session touched.
    pub used_pages: u64,
    /// Bytes that came back besides without being mapped, of files that programs open again and again, or hold.
    pub opened_bytes: u64,
}

/// The machine's swap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SwapStatus {
    /// All swap areas.
    pub total_bytes: u64,
    /// Of it, unused.
    pub free_bytes: u64,
    /// What the compressed pools hold, before compression.
    pub stored_bytes: u64,
    /// Memory that they take.
    pub pool_bytes: u64,
    /// Devices that the daemon made, by path.
    pub own_devices: Vec<String>,
}

/// One application.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct AppStatus {
    /// Its name.
    pub name: String,
    /// Whether it was found, and not configured or launched.
    pub discovered: bool,
    /// Where it stands.
    pub phase: Phase,
    /// Its processes.
    pub processes: u32,
    /// Of them, those that the daemon may not look at.
    pub unreadable_processes: u32,
    /// Anonymous memory that is resident and hot.
    pub hot_bytes: u64,
    /// Resident and warm.
    pub warm_bytes: u64,
    /// Resident and cold.
    pub cold_bytes: u64,
    /// In swap, before compression.
    pub swapped_bytes: u64,
    /// What that takes in the pool, by its mean ratio.
    pub compressed_bytes: u64,
    /// Relaunches.
    pub relaunch_count: u64,
    /// The last of them, oldest first; at most [`KEPT_RELAUNCHES`].
    pub relaunches: Vec<RelaunchStatus>,
    /// Pages that were brought back ahead of use.
    pub prefetched_pages: u64,
    /// Of them, those that were touched.
    pub prefetch_used_pages: u64,
    /// Of them, those that were not.
    pub prefetch_wasted_pages: u64,
}

/// One relaunch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct RelaunchStatus {
    /// How long ago it began.
    pub age_seconds: f64,
    /// From the switch to its end; the length of the launch window where its end was not told.
    pub latency_ns: u64,
    /// Whether its end was told.
    pub is_answered: bool,
    /// Major faults: pages that had to be read or decompressed when they were touched.
    pub faults: u64,
    /// Pages that were asked for ahead of use.
    pub prefetched_pages: u64,
}

/// One source of switch signals.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SignalStatus {
    /// Its name: `x11`, `sway`, `i3`, `activity`, `command`.
    pub name: String,
    /// Where it stands, for people.
    pub state: String,
    /// Whether it is listened to now.
    pub is_live: bool,
    /// Switches that it told.
    pub switches: u64,
}

impl AppStatus {
    /// Anonymous memory that is resident.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        self.hot_bytes + self.warm_bytes + self.cold_bytes
    }
}
