//! What is measured of a relaunch.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::options::Arm;
use super::sampler::Slice;

/// One relaunch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RelaunchValue {
    /// In which arm.
    pub arm: Arm,
    /// In which block, from 0.
    pub block: u32,
    /// In which round of it, from 0, warm-up not counted.
    pub round: u32,
    /// The application.
    pub app: String,
    /// To the program's own answer, in nanoseconds; of one that was killed, until it was started again and ready.
    pub latency_ns: u64,
    /// Of the use that follows, to its answer, in nanoseconds; none where the application was killed in it.
    pub use_ns: Option<u64>,
    /// Major faults of that use, as those of the relaunch.
    pub use_major_faults: Option<u64>,
    /// It had been killed for want of memory, and was started again.
    pub was_killed: bool,
    /// Major faults of its processes: those for which something had to be read or decompressed. Where an arena serves
    /// them, those that brought a page from its pool.
    pub major_faults: u64,
    /// All other faults of its processes.
    pub minor_faults: u64,
    /// Pages that came back ahead of use; none in arms that prefetch nothing.
    pub prefetched: Option<u64>,
    /// Of these, pages that were touched; not known of arenas.
    pub prefetch_used: Option<u64>,
    /// Pages that the application's arenas brought back to their places, for faults and ahead of them, until the answer;
    /// none in other arms.
    pub arena_in_pages: Option<u64>,
    /// CPU time and I/O from the switch on, where they were sampled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<Slice>,
}

#[cfg(test)]
impl RelaunchValue {
    /// A value without anything else.
    pub(super) fn of(arm: Arm, round: u32, app: &str) -> Self {
        Self {
            arm,
            block: 0,
            round,
            app: app.to_owned(),
            latency_ns: 1,
            use_ns: None,
            use_major_faults: None,
            was_killed: false,
            major_faults: 0,
            minor_faults: 0,
            prefetched: None,
            prefetch_used: None,
            arena_in_pages: None,
            slices: Vec::new(),
        }
    }
}
