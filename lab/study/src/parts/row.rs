//! What the study says: parts, pairs of them, and schemes beside them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warmswap_columns::Described;

/// Where a part pays, by more than noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pays {
    /// Beside all others, and alone.
    Everywhere,
    /// Beside all others only.
    WithOthers,
    /// Alone only.
    Alone,
    /// Neither.
    Nowhere,
}

impl Pays {
    /// Of whether it pays beside all others, and whether it does alone.
    pub(super) fn of(in_all: bool, alone: bool) -> Self {
        match (in_all, alone) {
            (true, true) => Self::Everywhere,
            (true, false) => Self::WithOthers,
            (false, true) => Self::Alone,
            (false, false) => Self::Nowhere,
        }
    }

    /// As a table says it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Everywhere => "everywhere",
            Self::WithOthers => "with others",
            Self::Alone => "alone",
            Self::Nowhere => "nowhere",
        }
    }
}

/// One part, or several that are taken out and added together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Described)]
#[column(verdict = self.verdict.words(), text, "pays")]
pub struct PartRow {
    /// The part or parts.
    #[column]
    pub part: String,
    /// The paper or papers.
    #[column]
    pub paper: String,
    /// What it gains beside all other parts.
    #[column(ratio, "in all")]
    pub gain_in_all: Option<f64>,
    /// Traces on which it pays there.
    #[column("traces")]
    pub gained_traces_in_all: u64,
    /// What it gains where it is the only part.
    #[column(ratio, "alone")]
    pub gain_alone: Option<f64>,
    /// Traces on which it pays there.
    #[column("traces")]
    pub gained_traces_alone: u64,
    /// The gain beside the others, divided by that alone: above 1 the others make it worth more.
    #[column(ratio, "interaction")]
    pub gain_interaction: Option<f64>,
    /// CPU time of compression, decompression and estimates with it, divided by that without, beside the others.
    #[column(ratio, "CPU")]
    pub cpu_in_all: Option<f64>,
    /// Where it pays.
    pub verdict: Pays,
}

/// Two parts without the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Described)]
pub struct PairRow {
    /// One part.
    #[column]
    pub first: String,
    /// The other.
    #[column]
    pub second: String,
    /// What the first gains alone.
    #[column(ratio, "first alone")]
    pub gain_first: Option<f64>,
    /// What the second gains alone.
    #[column(ratio, "second alone")]
    pub gain_second: Option<f64>,
    /// What both gain.
    #[column(ratio, "both")]
    pub gain_both: Option<f64>,
    /// What both gain, divided by the product of what each gains alone: above 1 they pay together.
    #[column(ratio, "interaction")]
    pub gain_interaction: Option<f64>,
    /// Traces on which that is above 1.
    #[column("traces")]
    pub gained_traces: u64,
}

/// A scheme by its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Described)]
pub struct BesideRow {
    /// The scheme.
    #[column]
    pub scheme: String,
    /// Time that memory cost in a relaunch's window, in the mean over all traces.
    #[column(duration, "relaunch mean")]
    pub relaunch_ns: Option<f64>,
    /// What it gains by the scheme without parts.
    #[column(ratio, "gain")]
    pub gain: Option<f64>,
    /// Traces on which it gains.
    #[column("traces")]
    pub gained_traces: u64,
    /// CPU time of compression, decompression and estimates, divided by that of the scheme without parts.
    #[column(ratio, "CPU")]
    pub cpu_vs_base: Option<f64>,
    /// Touches that waited for the backing file, at any time.
    #[column("from flash")]
    pub backing_faults: u64,
    /// Pages that were not admitted to the pool.
    #[column]
    pub not_admitted: u64,
    /// Chunks that were evicted to the backing file.
    #[column(count, "evicted")]
    pub written_back_chunks: u64,
    /// Pages of files that the pool gave up.
    #[column]
    pub evicted_files: u64,
    /// Touches that found their page prefetched, on demand or for a launch.
    #[column]
    pub buffer_hits: u64,
    /// Of them, pages of the footprint of a launch.
    #[column]
    pub prepaged_used: u64,
    /// Bytes written to flash.
    #[column]
    pub flash_written_bytes: u64,
    /// Applications that were killed.
    #[column]
    pub kills: u64,
}

/// What the parts of the papers are worth, together and alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PartsStudy {
    /// The traces.
    pub traces: Vec<String>,
    /// Memory for frames and pool, in percent of the footprint.
    pub budget_percent: f64,
    /// The pool's limit, in percent of that.
    pub pool_percent: f64,
    /// The scheme without parts, that of all of them, and [`BESIDE`](super::BESIDE).
    pub schemes: Vec<BesideRow>,
    /// Each part, then some that share a slot or a paper.
    pub parts: Vec<PartRow>,
    /// Each two of them.
    pub pairs: Vec<PairRow>,
}
