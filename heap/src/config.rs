//! What a heap is made with.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::HeapError;
use crate::layout::REGION_BYTES;
use crate::regions::regions_for;

/// How far from the roots an object may be to count as near-root object (NRO, section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LaunchDepth {
    /// Fewer references than this on the shortest path; the paper's D.
    References(u32),
    /// Whatever is nearest, until launch regions hold so many bytes. Not in the paper.
    Bytes(usize),
}

/// What a collector does with swap in mind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Collector {
    /// Nothing: minor and major collections, as ART's (section 5.2).
    Native,
    /// Bookmarks of swapped-out objects, and swap of objects (Marvin, USENIX ATC '20).
    Marvin(MarvinConfig),
    /// Background collections and guided swap.
    Fleet(FleetConfig),
}

/// Parameters of Marvin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarvinConfig {
    /// Smaller objects are not swapped (Fleet, section 6: 1024).
    pub least_bytes: usize,
    /// Objects that were not accessed between two passes are swapped out after so many passes.
    pub idle_passes: u8,
    /// Time between two passes in the background.
    pub pass_interval: Duration,
}

impl Default for MarvinConfig {
    fn default() -> Self {
        Self {
            least_bytes: 1024,
            idle_passes: 1,
            pass_interval: Duration::from_secs(10),
        }
    }
}

/// Parameters of Fleet (Table 2), and what of it is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetConfig {
    /// Background-object collections (BGC, section 5.2).
    pub background_collections: bool,
    /// Object grouping and advice to the memory below (RGS, section 5.3).
    pub guided_swap: bool,
    /// D.
    pub launch_depth: LaunchDepth,
    /// T_B: time in the background before it begins.
    pub background_wait: Duration,
    /// T_F: time in the foreground before it ends.
    pub foreground_wait: Duration,
    /// How often launch regions are said to be hot. The paper says "periodically".
    pub advice_interval: Duration,
    /// Launch regions that have left come back then, too. The paper's advice only raises their pages' place in the order
    /// of reclaim.
    pub hot_restores: bool,
    /// Objects that earlier launches accessed count as launch objects, in the order of access. Not in the paper.
    pub learned_launches: bool,
    /// Objects are not grouped anew when less than this part of the heap, in per cent, was allocated since the last
    /// grouping. 0: always, as in the paper.
    pub regroup_percent: u8,
}

impl FleetConfig {
    /// The paper's.
    #[must_use]
    pub fn paper() -> Self {
        Self {
            background_collections: true,
            guided_swap: true,
            launch_depth: LaunchDepth::References(2),
            background_wait: Duration::from_secs(10),
            foreground_wait: Duration::from_secs(3),
            advice_interval: Duration::from_secs(5),
            hot_restores: false,
            learned_launches: false,
            regroup_percent: 0,
        }
    }

    /// With launch objects learned.
    #[must_use]
    pub fn learned() -> Self {
        Self {
            learned_launches: true,
            ..Self::paper()
        }
    }
}

/// What a heap is made with.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeapConfig {
    /// Most bytes that mutators can allocate, what is not yet collected included.
    pub max_bytes: usize,
    /// A collection begins when the heap has grown to this multiple of what was live after the last one, in the
    /// foreground (section 7.4).
    pub foreground_factor: f64,
    /// The same in the background.
    pub background_factor: f64,
    /// A launch raises the limit to what the foreground's factor makes of the bytes in use. Else the limit of the
    /// background stays until the next collection, so that a launch that allocates begins one: Android, as the paper
    /// has it (section 4.2).
    pub launch_raises_limit: bool,
    /// Time in the background after which a native heap is collected as a whole, as ART does on a change of process
    /// state. `None`: never.
    pub background_collection_wait: Option<Duration>,
    /// The collector.
    pub collector: Collector,
    /// Notes what launches access ([`LaunchReport`](crate::LaunchReport)), whether it is learned or not. Costs time in
    /// launches and in the background.
    pub observe_launches: bool,
    /// Collects at every safepoint, with every kind of collection in turn, and checks the heap after each. For tests.
    pub stress: bool,
}

impl HeapConfig {
    /// A heap of at most so many bytes with the native collector; factors 2 and 1.1.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            foreground_factor: 2.0,
            background_factor: 1.1,
            launch_raises_limit: true,
            background_collection_wait: Some(Duration::from_secs(5)),
            collector: Collector::Native,
            observe_launches: false,
            stress: false,
        }
    }

    /// The same with another collector.
    #[must_use]
    pub fn with(self, collector: Collector) -> Self {
        Self { collector, ..self }
    }

    /// Bytes of addresses that the heap needs: room for what a collection copies, and for what copies waste.
    #[must_use]
    pub fn address_bytes(&self) -> usize {
        self.regions() * REGION_BYTES
    }

    /// Regions that mutators can have in use.
    pub(crate) fn most_in_use(&self) -> usize {
        regions_for(self.max_bytes)
    }

    /// All regions: those in use, copies of all of them, and the unused first one. Copies waste up to a quarter of
    /// each region, and what is in use may be the copies of an earlier collection: a third more for both.
    pub(crate) fn regions(&self) -> usize {
        let copies = self.most_in_use().div_ceil(3) * 4;
        copies + copies + 48
    }

    /// Checks sizes and factors.
    pub(crate) fn check(&self) -> Result<(), HeapError> {
        /// Addresses of 32 bits count 8 bytes each; regions for copies are within them, too.
        const MOST: usize = 8 << 30;
        const LEAST: usize = 1 << 20;
        if !(LEAST..=MOST).contains(&self.max_bytes) {
            return Err(HeapError::Size {
                bytes: self.max_bytes,
                least: LEAST,
                most: MOST,
            });
        }
        for factor in [self.foreground_factor, self.background_factor] {
            if factor.is_nan() || factor < 1.0 {
                return Err(HeapError::Factor { factor });
            }
        }
        Ok(())
    }
}
