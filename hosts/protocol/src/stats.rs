//! What a paged program reports.

use serde::{Deserialize, Serialize};

use warmswap_page::latency::LatencySummary;

/// Where a program stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// In use.
    #[default]
    Foreground,
    /// Launched or relaunched, and the launch window is open.
    Launch,
    /// Not in use: its pages are the first to leave.
    Background,
}

/// A short answer to "what are you doing?".
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ProgramStatus {
    /// Process.
    pub pid: u32,
    /// Name of the program's file, without its folder.
    pub name: String,
    /// Where it stands.
    pub phase: Phase,
    /// Whether paging has begun. A program that never reached its first large allocation is not paged.
    pub managed: bool,
    /// Memory for frames, pool and state together.
    pub budget_bytes: u64,
    /// Frames that it holds.
    pub resident_bytes: u64,
    /// Memory of the pool.
    pub pool_bytes: u64,
}

/// Faults by where the page was found. The kinds add up to `total`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct FaultCounts {
    /// Faults that found work to do.
    pub total: u64,
    /// First touches: a page of zeros.
    pub first_touches: u64,
    /// Found in staging, prefetched or on its way out.
    pub staged: u64,
    /// Decompressed out of the pool.
    pub pool: u64,
    /// Read from the backing file.
    pub backing: u64,
    /// Read from files that the program maps.
    pub file: u64,
}

/// Files that a program maps and that are paged; see [`RunSettings::files`](crate::RunSettings::files).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct FileStats {
    /// What is mapped of them.
    pub mapped_bytes: u64,
    /// The most of it.
    pub mapped_peak_bytes: u64,
    /// Pages that were read, neighbours included.
    pub read_pages: u64,
    /// Pages that entered the pool.
    pub pooled_pages: u64,
    /// Pages that were given up without entering the pool.
    pub discarded_pages: u64,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ExitState {
    /// Not at all yet.
    #[default]
    Running,
    /// By itself. The status is `None` where it is not known, as in what the program writes itself.
    Exited {
        /// Exit status.
        status: Option<i32>,
    },
    /// By a signal.
    Killed {
        /// Its number.
        signal: i32,
    },
}

/// All that a paged program reports. Fields that the program does not know are 0 or `None`; peaks are the
/// largest values since its start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ProgramStats {
    /// Process.
    pub pid: u32,
    /// Name of the program's file, without its folder.
    pub name: String,
    /// The command line, program first.
    pub command: Vec<String>,
    /// The scheme by name.
    pub scheme: String,
    /// Where it stands.
    pub phase: Phase,
    /// Whether paging has begun.
    pub managed: bool,
    /// How it ended.
    pub exit: ExitState,
    /// Time since its start.
    pub elapsed_seconds: f64,

    /// Memory for frames, pool and state together.
    pub budget_bytes: u64,
    /// What counts against the budget, all together.
    pub used_bytes: u64,
    /// Paged memory that the program has mapped and touched, wherever it is.
    pub virtual_bytes: u64,
    /// The most of it.
    pub virtual_peak_bytes: u64,
    /// Frames of paged memory, staging included.
    pub resident_bytes: u64,
    /// The most of them.
    pub resident_peak_bytes: u64,
    /// Memory of the pool, all of its state included.
    pub pool_bytes: u64,
    /// The most of it.
    pub pool_peak_bytes: u64,
    /// Bytes in the backing file.
    pub backing_bytes: u64,
    /// Times that it could not be written: its disk may be full.
    pub backing_failures: u64,
    /// Data ratio of what is stored: original over compressed bytes. `None` when nothing is.
    pub data_ratio: Option<f64>,
    /// Memory ratio of what is stored: original bytes over pool memory.
    pub memory_ratio: Option<f64>,

    /// Faults.
    pub faults: FaultCounts,
    /// From a fault's arrival at the pager to its page in place. Excludes what the kernel needs to wake the
    /// pager and the program.
    pub fault_latency: LatencySummary,
    /// Files that are mapped; all 0 where they are not paged.
    pub files: FileStats,
    /// Pages that left their place, those that came straight back included.
    pub swapped_out_pages: u64,
    /// Pages that came back, neighbours and prefetched ones included.
    pub swapped_in_pages: u64,
    /// Pages that were brought back before they were asked for: into their places, or decompressed beside them.
    pub prefetched_pages: u64,
    /// Times that the program was launched or came to the foreground; from then to the end of the launch
    /// window, where it was told.
    pub launches: LatencySummary,
    /// The last of them.
    pub last_launch_ns: Option<u64>,

    /// CPU time of the pager's threads.
    pub pager_cpu_seconds: f64,
    /// CPU time of all threads, those of the pager included.
    pub program_cpu_seconds: f64,
}

impl ProgramStats {
    /// The short form.
    #[must_use]
    pub fn status(&self) -> ProgramStatus {
        ProgramStatus {
            pid: self.pid,
            name: self.name.clone(),
            phase: self.phase,
            managed: self.managed,
            budget_bytes: self.budget_bytes,
            resident_bytes: self.resident_bytes,
            pool_bytes: self.pool_bytes,
        }
    }
}
