//! What a recording brought.

use rustc_hash::FxHashSet;
use warmswap_page::PageAddr;
use warmswap_sys::perf::Losses;

/// A whole recording.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// The trace's size.
    pub trace: warmswap_trace::Summary,
    /// Each application, in the order of the trace.
    pub apps: Vec<AppSummary>,
    /// Page-fault events that are missing, of all processes of the machine.
    pub losses: Losses,
    /// True when fault-around was switched off.
    pub exact_file_faults: bool,
    /// Pages of files that were dropped; `None` where none were to be.
    pub cold_files: Option<ColdFiles>,
}

/// Pages of files that were dropped before relaunches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ColdFiles {
    /// How often pages were dropped.
    pub drops: u64,
    /// Pages that left memory, each as often as it did.
    pub pages_dropped: u64,
    /// Of them, those that a program accessed afterwards.
    pub pages_accessed_again: u64,
    /// Faults of programs on pages of files that waited for the disk; one reads neighbours along.
    pub major_faults: u64,
}

/// One application in a recording.
#[derive(Debug, Clone, Default)]
pub struct AppSummary {
    /// Its name.
    pub name: String,
    /// Processes seen.
    pub processes: u32,
    /// Anonymous pages at the end.
    pub anonymous_pages: u64,
    /// Accesses by a fault event.
    pub accesses: u64,
    /// Those that changed the content.
    pub writes: u64,
    /// Pages that were there again without a fault event and are taken as accessed.
    pub accesses_without_fault: u64,
    /// Pages of files that were there again without a fault event (fault-around); no access is recorded.
    pub pages_mapped_around: u64,
    /// Pages, anonymous and of files, that the last page-out left in memory.
    pub pages_not_paged_out: u64,
    /// Anonymous pages given back.
    pub pages_freed: u64,
    /// Each relaunch, in order.
    pub relaunches: Vec<RelaunchSummary>,
}

/// One launch window.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RelaunchSummary {
    /// From the request to the answer, with all pages swapped out before, in nanoseconds.
    pub latency_ns: u64,
    /// Distinct pages touched.
    pub pages: u64,
    /// Part of them that was touched in the relaunch before too, 0 to 1; `None` for the first.
    pub similarity: Option<f64>,
}

/// The part of `now` that is in `before` too.
pub(crate) fn similarity(before: &FxHashSet<PageAddr>, now: &FxHashSet<PageAddr>) -> f64 {
    if now.is_empty() {
        return 1.0;
    }
    now.intersection(before).count() as f64 / now.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(numbers: &[u64]) -> FxHashSet<PageAddr> {
        numbers
            .iter()
            .map(|&number| PageAddr::Anon { number })
            .collect()
    }

    #[test]
    fn similarity_is_the_part_seen_before() {
        assert_eq!(similarity(&pages(&[1, 2, 3]), &pages(&[2, 3, 4, 5])), 0.5);
        assert_eq!(similarity(&pages(&[]), &pages(&[1])), 0.0);
        assert_eq!(similarity(&pages(&[1]), &pages(&[])), 1.0);
    }
}
