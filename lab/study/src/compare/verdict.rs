//! One line that says what a comparison came to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BASELINE, Comparison, SchemeRow};

/// The scheme that a comparison is about, if it is among those that were compared.
const OURS: &str = "warmswap";

/// A scheme beside zram.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// The scheme: `warmswap` or a variant of it.
    pub scheme: String,
    /// Its median relaunch, divided by zram's, cold starts after a kill included. `None` when zram's took no time.
    pub median_vs_zram: Option<f64>,
    /// Applications that it killed.
    pub kills: u64,
    /// Applications that zram killed.
    pub kills_of_zram: u64,
    /// Whether a trace is a sample of a recording: its pool is a few pages then, and cold launches take their whole time.
    pub is_sample: bool,
}

impl Verdict {
    /// The verdict about the last variant of ours; `None` without it or without zram.
    pub(super) fn of(comparison: &Comparison) -> Option<Self> {
        let is_ours = |row: &&SchemeRow| row.scheme.starts_with(OURS);
        let ours = comparison.schemes.iter().rfind(is_ours)?;
        let zram = comparison
            .schemes
            .iter()
            .find(|row| row.scheme == BASELINE)?;
        let median_ns = |row: &SchemeRow| Some(row.latency?.median.total_ns());
        let of_zram_ns = median_ns(zram)?;
        let own_ns = median_ns(ours)?;
        Some(Self {
            scheme: ours.scheme.clone(),
            median_vs_zram: (of_zram_ns > 0).then(|| own_ns as f64 / of_zram_ns as f64),
            kills: ours.kills,
            kills_of_zram: zram.kills,
            is_sample: comparison
                .traces
                .iter()
                .any(|row| row.sample_share.is_some()),
        })
    }
}
