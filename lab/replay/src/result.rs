//! What comes out of a replay.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmswap_columns::{Described, Kind, Quantity, Value};
use warmswap_engine::{Cause, Counters, Outcome, Place};
use warmswap_policy::eviction::Chosen;
use warmswap_policy::reclaim::Ruling;

/// Nanoseconds, in the part that was measured (codec and pool) and the part that was modelled (faults,
/// frames, flash, memory).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Executed and measured.
    pub measured_ns: u64,
    /// From the device model.
    pub modelled_ns: u64,
}

impl Latency {
    /// What part of it was measured; `None` of none.
    pub fn measured_share(self) -> Option<f64> {
        ratio(self.measured_ns, self.total_ns())
    }

    /// Nothing was executed after all: what counts as measured was assumed.
    fn nothing_was_measured(&mut self) {
        self.modelled_ns += std::mem::take(&mut self.measured_ns);
    }

    /// Both parts.
    pub fn total_ns(self) -> u64 {
        self.measured_ns + self.modelled_ns
    }
}

impl Value for Latency {
    fn quantity(&self, kind: Kind) -> Quantity {
        self.total_ns().quantity(kind)
    }
}

impl std::ops::AddAssign for Latency {
    fn add_assign(&mut self, other: Self) {
        self.measured_ns += other.measured_ns;
        self.modelled_ns += other.modelled_ns;
    }
}

/// CPU time of compression, decompression and estimates, measured, by what it was done for. Nanoseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Described,
)]
#[column(total_ns = self.total_ns(), "total")]
pub struct CpuTime {
    /// Decompression that an application waited for.
    #[column("decompression in faults")]
    pub fault_decompress_ns: u64,
    /// Decompression ahead of use.
    #[column("decompression ahead")]
    pub prefetch_decompress_ns: u64,
    /// Compression that an application waited for.
    #[column("compression waited for")]
    pub direct_compress_ns: u64,
    /// Compression in the background.
    #[column("compression in background")]
    pub background_compress_ns: u64,
    /// Compression of prefetched pages that were not used.
    #[column("compression of unused prefetch")]
    pub prefetch_compress_ns: u64,
    /// Estimates of how pages compress, for the admission policy.
    #[serde(default)]
    #[column("estimates")]
    pub estimate_ns: u64,
}

impl CpuTime {
    /// All of it.
    pub fn total_ns(&self) -> u64 {
        self.decompress_ns() + self.compress_ns() + self.estimate_ns
    }

    /// All decompression.
    pub fn decompress_ns(&self) -> u64 {
        self.fault_decompress_ns + self.prefetch_decompress_ns
    }

    /// All compression.
    pub fn compress_ns(&self) -> u64 {
        self.direct_compress_ns + self.background_compress_ns + self.prefetch_compress_ns
    }

    pub(crate) fn add_compression(&mut self, cause: Cause, ns: u64) {
        match cause {
            Cause::Fault | Cause::DirectReclaim => self.direct_compress_ns += ns,
            Cause::Background => self.background_compress_ns += ns,
            Cause::Prefetch | Cause::Prepage => self.prefetch_compress_ns += ns,
        }
    }

    pub(crate) fn add_decompression(&mut self, cause: Cause, ns: u64) {
        match cause {
            Cause::Prefetch | Cause::Prepage => self.prefetch_decompress_ns += ns,
            _ => self.fault_decompress_ns += ns,
        }
    }
}

/// One launch of an application that was in memory before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Relaunch {
    /// Nanoseconds since the trace began.
    pub time_ns: u64,
    /// Time that memory cost in the launch window.
    pub latency: Latency,
    /// True when the scheme had killed the application, so that this was a cold start.
    pub was_killed: bool,
    /// Of the modelled latency, what the application's recorded cold launch took; 0 unless it was killed.
    pub cold_launch_ns: u64,
    /// Distinct pages that the window touched.
    pub touched_pages: u64,
    /// Touches that found their page in the pool.
    pub pool_faults: u64,
    /// Touches that found their page in the backing file.
    pub backing_faults: u64,
    /// Touches that found their page prefetched on demand.
    pub buffer_hits: u64,
    /// Anonymous pages that were brought back for this launch before they were asked for.
    pub prepaged_pages: u64,
    /// Of them, those that the window touched.
    pub prepaged_used: u64,
    /// Pages of files that were read for this launch before they were asked for.
    pub prepaged_file_pages: u64,
    /// Of them, those that the window touched.
    pub prepaged_file_used: u64,
    /// First touches of a relaunch after a kill: most of these pages were lost with the application.
    pub lost_faults: u64,
    /// Reads of files.
    pub file_reads: u64,
    /// Pages of the hot list when the window began.
    pub hot_pages: u64,
    /// Of them, those that the window touched.
    pub hot_touched: u64,
    /// Of the hot list, those that the window or the execution up to the next launch touched.
    pub hot_used: u64,
    /// Distinct anonymous pages that the window touched and that existed before it.
    pub touched_known_pages: u64,
}

impl Relaunch {
    /// Counts a touch in the window, of a page of a file or an anonymous one.
    pub(crate) fn count(&mut self, outcome: Outcome, is_file: bool) {
        match outcome {
            Outcome::Fault(Place::Backing) => self.backing_faults += 1,
            Outcome::Fault(_) => self.pool_faults += 1,
            Outcome::BufferHit => self.buffer_hits += 1,
            Outcome::FileRead => self.file_reads += 1,
            Outcome::Prepaged if is_file => self.prepaged_file_used += 1,
            Outcome::Prepaged => self.prepaged_used += 1,
            Outcome::FirstTouch if self.was_killed => self.lost_faults += 1,
            Outcome::Hit | Outcome::FirstTouch | Outcome::InFlight => {}
        }
    }

    /// Share of the window's pages that the hot list predicted (Ariadne section 6.2); pages that did not
    /// exist before cannot be predicted and do not count. `None` without such pages.
    pub fn coverage(&self) -> Option<f64> {
        ratio(self.hot_touched, self.touched_known_pages)
    }

    /// Share of the hot list that was used in relaunch or execution (section 6.2).
    pub fn accuracy(&self) -> Option<f64> {
        ratio(self.hot_used, self.hot_pages)
    }
}

pub(crate) fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// One application.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AppResult {
    /// Its name in the trace.
    pub name: String,
    /// Its relaunches in order.
    pub relaunches: Vec<Relaunch>,
    /// Time that memory cost outside of launch windows.
    pub execution: Latency,
    /// How often the scheme killed it.
    pub kills: u64,
    /// Compression and decompression of its pages.
    pub cpu: CpuTime,
}

impl AppResult {
    /// Codec and pool were assumed.
    pub(crate) fn nothing_was_measured(&mut self) {
        let windows = self.relaunches.iter_mut();
        let latencies = windows.map(|relaunch| &mut relaunch.latency);
        latencies
            .chain([&mut self.execution])
            .for_each(Latency::nothing_was_measured);
    }
}

/// The whole replay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    /// Events of the trace.
    pub events: u64,
    /// CPU time of compression and decompression.
    pub cpu: CpuTime,
    /// Bytes of pages that were compressed.
    pub original_bytes: u64,
    /// Bytes of what they were compressed to.
    pub compressed_bytes: u64,
    /// The most memory that the pool held.
    pub pool_peak_bytes: u64,
    /// Pages in the pool at that time, in bytes.
    pub pool_peak_original_bytes: u64,
    /// The most that was used of the budget.
    pub peak_bytes: u64,
    /// Pages in the pool, summed over the times that an application went to the background.
    pub background_pool_pages: u64,
    /// Memory that the pool held at these times, summed.
    pub background_pool_bytes: u64,
    /// Pages of the pool that were chosen for eviction, by what they held; all 0 where chunks are evicted
    /// one by one.
    #[schemars(with = "[u64; 9]")]
    pub evicted_pool_pages: Chosen,
    /// Bytes read from flash: the backing file and files.
    pub flash_read_bytes: u64,
    /// Bytes written to flash.
    pub flash_written_bytes: u64,
    /// Applications that were killed.
    pub kills: u64,
    /// The engine's own memory at the end, in bytes.
    pub engine_state_bytes: u64,
    /// Pages that were stored as zeros, since the trace does not say what they hold.
    pub pages_without_content: u64,
}

impl Totals {
    /// Original bytes for each compressed byte, over everything that was stored.
    pub fn data_ratio(&self) -> Option<f64> {
        ratio(self.original_bytes, self.compressed_bytes)
    }

    /// Original bytes for each byte of memory that the pool really held, when it held most.
    pub fn memory_ratio(&self) -> Option<f64> {
        ratio(self.pool_peak_original_bytes, self.pool_peak_bytes)
    }
}

/// What a replay found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayResult {
    /// The scheme.
    pub scheme: String,
    /// The budget, pool limit and backing file, in bytes.
    #[schemars(with = "std::collections::BTreeMap<String, u64>")]
    pub limits: warmswap_engine::Limits,
    /// The device model's name.
    pub device: String,
    /// True when contents were compressed and compared, false when sizes and times were assumed.
    pub with_contents: bool,
    /// The applications, in the order of the trace.
    pub apps: Vec<AppResult>,
    /// All of them together.
    pub totals: Totals,
    /// Which rule of reclaim ruled, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schemars::Schema>")]
    pub ruling: Option<Ruling>,
    /// The engine's counters.
    #[schemars(with = "std::collections::BTreeMap<String, u64>")]
    pub counters: Counters,
}

impl ReplayResult {
    /// The relaunches of all applications, cold starts after a kill included.
    pub fn relaunches(&self) -> impl Iterator<Item = &Relaunch> {
        self.apps.iter().flat_map(|app| &app.relaunches)
    }
}
