//! Arms and schemes: what they are called, and which colour they have everywhere.

use warmswap_study::compare::{OPTIMAL, OPTIMAL_WINDOWS, REFERENCE};

use crate::chart::Ink;

/// The name for people.
pub(crate) fn name(arm: &str) -> String {
    match arm {
        "dram" => "all memory (dram)".to_owned(),
        "zram" => "zram".to_owned(),
        "kernel" => "zram, steered by warmswap".to_owned(),
        "preload" => "warmswap, preloaded".to_owned(),
        other => other.to_owned(),
    }
}

/// The colour: one for each family, so that an arm looks alike in all charts.
pub(crate) fn ink(arm: &str) -> Ink {
    let at = match arm {
        "dram" => 6,
        "kernel" | "warmswap" | "learned" | "learned-warmswap" => 0,
        "zram" | "native" => 1,
        "preload" | "fleet" => 2,
        "swap" => 7,
        "zswap" | "marvin" => 5,
        other if other.starts_with("ariadne-al") => 4,
        other if other.starts_with("ariadne") => 3,
        other if other.starts_with("asap") => 4,
        other if other.starts_with("ezswap") => 5,
        // Any colour is better than one that changes from chart to chart.
        other => other.bytes().map(usize::from).sum::<usize>() % 8,
    };
    Ink::Series(at)
}

/// Clairvoyant references, which are no schemes that one could use.
pub(crate) fn is_reference(arm: &str) -> bool {
    [REFERENCE, OPTIMAL, OPTIMAL_WINDOWS].contains(&arm)
}
