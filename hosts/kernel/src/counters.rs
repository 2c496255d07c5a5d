//! What a host did, and what it was refused, by reason.

use serde::{Deserialize, Serialize};

/// Counters since the host began. Each says when it moves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Pages of programs' own memory that came back in idle time.
    pub brought_pages: u64,
    /// Pages of shared memory that came back in idle time.
    pub brought_shared_pages: u64,
    /// Pages of files that came back in idle time.
    pub brought_file_pages: u64,
    /// Pages of files that came back in idle time without being mapped: of files that are opened again and again, or held.
    pub brought_opened_pages: u64,
    /// Pages that were asked for at switches.
    pub switch_pages: u64,
    /// Pages that came back and were touched until the end of the next session.
    pub used_pages: u64,
    /// Pages that came back and were not.
    pub wasted_pages: u64,
    /// Pages that stayed away when others came back, since sessions did not use them.
    pub cold_pages: u64,
    /// Times that pages of all programs were to come back.
    pub turns: u64,
    /// Times that it stopped since the kernel reclaimed.
    pub stopped_short: u64,
    /// Times that it stopped since only the reserve was left.
    pub stopped_reserve: u64,
    /// Pages that could not be read: unmapped or protected meanwhile.
    pub refused_pages: u64,
    /// Mappings that were left alone: devices, userfaultfd, file systems that may not answer.
    pub skipped_regions: u64,
    /// Processes that were found gone.
    pub process_gone: u64,
    /// Processes that may not be looked at.
    pub process_unreadable: u64,
    /// Processes that did not answer, and are left alone since.
    pub process_unanswering: u64,
    /// Cold pages that went from compressed memory to the disks behind it.
    pub written_back_pages: u64,
    /// Processes whose cold pages a device refused to write.
    pub write_back_refused: u64,
    /// Bytes of the pool that were freed by compressing idle pages anew.
    pub recompressed_bytes: u64,
    /// Rounds of that which a device refused.
    pub recompress_refused: u64,
    /// Nanoseconds of CPU time of the host's calls.
    pub host_cpu_ns: u64,
    /// Nanoseconds of CPU time of its threads: bringing back, reading ahead, looking.
    pub bring_cpu_ns: u64,
}
