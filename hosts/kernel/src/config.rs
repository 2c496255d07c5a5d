//! What a host does, and how eagerly.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use warmswap_sys::Root;
use warmswap_sys::accessed::Accessed;

use crate::goal::Goal;
use crate::upkeep::Upkeep;

/// The word for the scheme that suits what a host sees of accesses.
pub const AUTO: &str = "auto";

/// Where accessed bits are read: pages leave by what the last sessions of their application did with them.
const BY_ACCESSES: &str =
    "asap+prefetch=footprint:profile=0,likely=60+reclaim=adaptive:rule=history";

/// Where faults alone are seen: what launches touched is kept.
const BY_FAULTS: &str =
    "asap+prefetch=footprint:profile=0,likely=60+reclaim=hotness:foreground=last,hot=keep";

/// By which system call pages come back ahead of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PrepageBy {
    /// `process_madvise(MADV_WILLNEED)`: into the swap cache. The touch is a minor fault of about 2 µs, and
    /// tells that the page was needed; a page that is not touched can leave again for nothing.
    #[default]
    WillNeed,
    /// `process_vm_readv` of one byte a page: into the page table. The touch costs nothing, and is not seen.
    Read,
}

/// How a host works.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct HostConfig {
    /// The engine's scheme, as `warmswap schemes` lists them, or [`AUTO`]. Slots that are about a pool of its own (sizing,
    /// admission, eviction) have no effect: the kernel's swap is the pool.
    pub scheme: String,
    /// When and how far applications are paged out.
    pub goal: Goal,
    /// Most pages that are paged out in a second.
    pub page_out_pages_per_second: u64,
    /// By which call footprints come back.
    pub prepage_by: PrepageBy,
    /// Threads of idle priority that bring anonymous pages of footprints back: one for each processor (ASAP section 5.1),
    /// eight at most. 0 for no prefetch.
    pub prepage_threads: usize,
    /// Which pages are touched is read from accessed bits, where the kernel has what it takes; else, and without, it is held
    /// to be so by evidence.
    pub accessed_bits: bool,
    /// Most launches for which a page that stays in memory is taken for accessed after it was last seen to be: ten
    /// where it was seen once, and twice as many for each later launch that it was seen in. ASAP (section 4.3) forgets
    /// a page after five; here what is forgotten costs a fault to be seen again.
    pub evidence_launches: u8,
    /// The host may stand aside where programs wait no longer for memory without it. It never does where a goal of its own
    /// must hold: free memory, pressure, or a budget without a group whose limit the kernel holds.
    pub may_stand_aside: bool,
    /// Pages of files that programs had to read again are locked in memory, where the kernel shows major faults of all
    /// programs.
    pub mlock_files: bool,
    /// What is done to idle pages in zram; nothing by default.
    pub upkeep: Upkeep,
    /// A launch window ends after so long at most, in milliseconds: before, when its end is told, or when the application
    /// rests.
    pub launch_window_ms: u64,
    /// Swap that is always left free, in bytes.
    pub swap_reserve_bytes: u64,
    /// Where learned tables are kept; none forgets them at the end.
    pub learned_folder: Option<PathBuf>,
}

impl HostConfig {
    /// The scheme of a host that sees accesses of pages that stay in memory, or faults alone.
    #[must_use]
    pub fn scheme(&self, sees_accesses: bool) -> &str {
        match (self.scheme.as_str(), sees_accesses) {
            (AUTO, true) => BY_ACCESSES,
            (AUTO, false) => BY_FAULTS,
            (named, _) => named,
        }
    }

    /// The scheme of a host on this machine. Takes 20 ms.
    #[must_use]
    pub fn scheme_here(&self) -> &str {
        self.scheme(self.accessed_bits && Accessed::open(&Root::machine()).is_ok())
    }
}

impl Default for HostConfig {
    fn default() -> Self {
        Self {
            scheme: AUTO.to_owned(),
            goal: Goal::default(),
            page_out_pages_per_second: 50_000,
            prepage_by: PrepageBy::default(),
            prepage_threads: default_threads(),
            accessed_bits: true,
            evidence_launches: 40,
            may_stand_aside: true,
            mlock_files: true,
            upkeep: Upkeep::default(),
            launch_window_ms: 3_000,
            swap_reserve_bytes: 4 << 20,
            learned_folder: None,
        }
    }
}

/// More would wait for memory, not for processors.
const MOST_THREADS: usize = 8;

fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |processors| processors.get().min(MOST_THREADS))
}
