//! What a page reads of live results.
//!
//! Each type here names those fields of a result of `warmswap bench` that are shown, and no others: a page can be made
//! of the results of other builds, and an arm that is new needs no change here.

use serde::Deserialize;
use warmswap_page::quantile::Sorted;

/// `warmswap.bench.relaunch`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Relaunches {
    /// Names of the applications.
    pub apps: Vec<String>,
    /// Blocks.
    pub blocks: u32,
    /// Processors of the machine.
    #[serde(default)]
    pub processors: usize,
    /// What the applications took without a limit, in bytes.
    pub footprint_bytes: Option<u64>,
    /// Memory of the limited arms, the pool included, in bytes.
    pub total_bytes: Option<u64>,
    /// The arms.
    pub arms: Vec<LiveArm>,
    /// Every single relaunch.
    pub values: Vec<LiveRelaunch>,
}

impl Relaunches {
    /// Latencies of an application in an arm, in nanoseconds.
    #[must_use]
    pub fn latencies(&self, arm: &str, app: &str) -> Vec<f64> {
        let own = self.values.iter().filter(|v| v.arm == arm && v.app == app);
        own.map(|v| v.latency_ns as f64).collect()
    }

    /// Their median; `None` without relaunches.
    #[must_use]
    pub fn median_ns(&self, arm: &str, app: &str) -> Option<f64> {
        Sorted::by(self.latencies(arm, app), f64::total_cmp).median()
    }
}

/// One arm.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct LiveArm {
    /// Its name.
    pub arm: String,
    /// CPU time.
    pub cpu: LiveCpu,
    /// Memory used, the pool included: mean over time, in bytes.
    pub mean_bytes: u64,
    /// The most.
    pub peak_bytes: u64,
    /// Pages written to swap, or to the arenas' pools.
    pub out_pages: u64,
    /// Pages read from there.
    pub in_pages: u64,
    /// What the kernel host, or the arenas, did.
    pub host: Option<LiveHost>,
    /// Where switches were sampled.
    pub switches: Option<LiveSwitches>,
    /// Memory used in the course of the arm's first block.
    #[serde(default)]
    pub memory: Vec<LiveMemory>,
}

/// CPU time of an arm by part, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct LiveCpu {
    /// The applications, with what the kernel does in them.
    pub programs_ns: u64,
    /// Threads of the kernel.
    pub kernel_threads_ns: u64,
    /// The thread that keeps the limit.
    pub limit_ns: u64,
    /// Who pages in user space.
    pub host_ns: u64,
    /// The kernel host's prefetch threads.
    pub prepage_ns: u64,
}

impl LiveCpu {
    /// All of it.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.programs_ns + self.reclaim_ns() + self.host_ns + self.prepage_ns
    }

    /// The kernel's own threads, and the one in which it reclaims when the limit falls.
    #[must_use]
    pub fn reclaim_ns(&self) -> u64 {
        self.kernel_threads_ns + self.limit_ns
    }
}

/// What was done ahead of use.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct LiveHost {
    /// Pages brought back ahead of use.
    pub prefetched: u64,
    /// Of these, touched in their launch window; not known of arenas.
    pub prefetch_used: Option<u64>,
}

/// What processors and devices do in the course of a switch.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct LiveSwitches {
    /// What part of all processors is in use.
    pub cpu: f64,
    /// Bytes that come back from swap each second.
    pub in_bytes_per_second: f64,
    /// Bytes of files that are read each second.
    pub read_bytes_per_second: f64,
}

/// Memory at one time.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct LiveMemory {
    /// Milliseconds since the arm's first switch.
    pub time_ms: u64,
    /// Bytes, the pool included.
    pub bytes: u64,
}

/// One relaunch.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct LiveRelaunch {
    /// In which arm.
    pub arm: String,
    /// Of which application.
    pub app: String,
    /// To the program's own answer, in nanoseconds.
    pub latency_ns: u64,
}

/// `warmswap.bench.fleet`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Fleet {
    /// Lifetimes, and what background collections access.
    pub working_set: Option<FleetWorkingSet>,
    /// What launches access, by D.
    pub depth: Option<FleetDepth>,
    /// Hot launches.
    #[serde(default)]
    pub launches: Vec<FleetLaunches>,
    /// Cached programs.
    #[serde(default)]
    pub capacity: Vec<FleetCapacity>,
}

/// What background collections access, and how long objects live.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct FleetWorkingSet {
    /// By program and number of changes.
    pub rows: Vec<FleetCollection>,
    /// By program.
    pub lifetimes: Vec<FleetLifetimes>,
}

/// What collections of a program access.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct FleetCollection {
    /// Old objects changed before each collection.
    pub old_changes: u64,
    /// Objects that can be reached.
    pub live_objects: u64,
    /// Objects that a native collection accesses.
    pub native_objects: u64,
    /// Those that a background collection accesses.
    pub bgc_objects: u64,
}

/// How many objects survive collections, in per mille.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct FleetLifetimes {
    /// Foreground objects after 1, 2, … collections.
    pub foreground_per_mille: Vec<u64>,
    /// Background objects that survived their first, second, … collection.
    pub background_per_mille: Vec<u64>,
}

/// Coverage of launch objects.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct FleetDepth {
    /// By program, choice and D.
    pub rows: Vec<FleetDepthRow>,
}

/// One program with one D.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct FleetDepthRow {
    /// Which objects: `nro`, `fyo`, `both`, `learned`.
    pub choice: String,
    /// D.
    pub depth: u32,
    /// Of what a launch accesses, launch objects, in per mille.
    pub covered_per_mille: u64,
    /// Bytes of launch objects, in per mille of all.
    pub footprint_per_mille: u64,
}

/// Hot launches, arm beside arm.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct FleetLaunches {
    /// Where pages go: `pool` or `flash`.
    pub swap: String,
    /// Factor of the heap limit in the background.
    pub background_factor: f64,
    /// The arms.
    pub arms: Vec<FleetArm>,
}

/// One arm of the managed heap.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct FleetArm {
    /// Its name.
    pub arm: String,
    /// Each launch, by program, in nanoseconds.
    pub launch_ns: Vec<Vec<u64>>,
    /// Median over all launches.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// How many times faster the median is than under `native`.
    pub median_speedup: Option<f64>,
    /// The same for the 90th percentile.
    pub p90_speedup: Option<f64>,
    /// Actions in the foreground.
    pub actions: FleetActions,
    /// CPU time.
    pub cpu_ns: u64,
    /// Card tables, in bytes.
    pub card_bytes: u64,
}

/// Actions in the foreground.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct FleetActions {
    /// How many.
    pub count: u64,
    /// Of them, longer than a frame.
    pub slow: u64,
}

/// Cached programs.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct FleetCapacity {
    /// What the programs are called.
    pub name: String,
    /// Factor of the heap limit in the background.
    pub background_factor: f64,
    /// The arms.
    pub arms: Vec<FleetCached>,
}

/// One arm's programs.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct FleetCached {
    /// The arm.
    pub arm: String,
    /// Programs that were cached before the first was killed.
    pub cached: u64,
}

/// `warmswap.bench.faults`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Faults {
    /// CPU time.
    pub measures: Vec<FaultMeasure>,
}

/// One comparison of the arena with the kernel.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct FaultMeasure {
    /// What is measured.
    pub what: String,
    /// What it is compared with.
    pub other: String,
    /// CPU nanoseconds a page in the arena.
    pub ours_ns: f64,
    /// The same for the other.
    pub other_ns: f64,
    /// Median of the rounds' ratios.
    pub ratio: f64,
}

/// `warmswap.bench.redis`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Redis {
    /// By arm and choice of keys.
    pub rows: Vec<RedisRow>,
}

/// One arm with one choice of keys.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct RedisRow {
    /// The arm.
    pub arm: String,
    /// How keys are chosen.
    pub choice: String,
    /// Requests a second in each turn.
    pub turns: Vec<f64>,
}
