//! What is compared: a collector, and the scheme of the arena below it.

use std::time::Duration;

use clap::ValueEnum as _;
use warmswap_heap::{Collector, FleetConfig, Kind, LaunchDepth, MarvinConfig};

/// Timers are expired by the benchmark, so that nothing waits and nothing depends on the time.
const NEVER: Duration = Duration::from_secs(1 << 30);

choices! {
    /// One side of a comparison.
    Arm {
        /// The native collector with memory for everything: what a launch takes when nothing is swapped.
        Dram = "dram",
        /// The native collector over LRU swap: Android.
        Native = "native",
        /// Marvin.
        Marvin = "marvin",
        /// Native collections but for those of the background (BGC).
        Bgc = "bgc",
        /// Guided swap (RGS), native collections.
        Rgs = "rgs",
        /// Both: Fleet as published.
        Fleet = "fleet",
        /// Fleet whose advice brings launch regions back, too. Not in the paper.
        HotRestores = "hot-restores",
        /// Fleet over the kernel's own memory, into whatever swap the machine has. No budget bounds it: what leaves are
        /// cold regions. Takes part where it is named only.
        Kernel = "kernel",
        /// Fleet whose near-root objects are the nearest ones up to a budget in bytes, whatever their D. Not in the
        /// paper.
        DepthByBytes = "depth-by-bytes",
        /// Fleet that groups anew only when half of the heap was allocated since. Not in the paper.
        SkipGrouping = "skip-grouping",
        /// Fleet with launch objects learned.
        Learned = "learned",
        /// The same over the scheme `warmswap`, with chunks by hotness and prefetch, in place of LRU swap by pages.
        LearnedWarmswap = "learned-warmswap",
        /// All four papers at once: Fleet as published over the scheme `all-four`.
        AllFour = "all-four",
    }
}

/// Programs may grow to three times of what they begin with, and near-root objects are 10.4 % of the paper's
/// programs (section 4.2).
const NEAR_ROOT_PART: usize = 30;

impl Arm {
    /// Those that need nothing of the machine.
    pub fn any_machine() -> impl Iterator<Item = Self> {
        let all = Self::value_variants().iter().copied();
        all.filter(|&arm| arm != Self::Kernel)
    }

    /// Its collector for a heap of at most so many bytes, whose timers never expire by themselves.
    #[must_use]
    pub fn collector(self, max_bytes: usize) -> Collector {
        let fleet = FleetConfig {
            background_wait: NEVER,
            foreground_wait: NEVER,
            advice_interval: NEVER,
            ..FleetConfig::paper()
        };
        match self {
            Self::Dram | Self::Native => Collector::Native,
            Self::Marvin => Collector::Marvin(MarvinConfig {
                pass_interval: NEVER,
                ..MarvinConfig::default()
            }),
            Self::Bgc => Collector::Fleet(FleetConfig {
                guided_swap: false,
                ..fleet
            }),
            Self::Rgs => Collector::Fleet(FleetConfig {
                background_collections: false,
                ..fleet
            }),
            Self::Fleet | Self::Kernel | Self::AllFour => Collector::Fleet(fleet),
            Self::DepthByBytes => Collector::Fleet(FleetConfig {
                launch_depth: LaunchDepth::Bytes(max_bytes / NEAR_ROOT_PART),
                ..fleet
            }),
            Self::SkipGrouping => Collector::Fleet(FleetConfig {
                regroup_percent: 50,
                ..fleet
            }),
            Self::HotRestores => Collector::Fleet(FleetConfig {
                hot_restores: true,
                ..fleet
            }),
            Self::Learned | Self::LearnedWarmswap => Collector::Fleet(FleetConfig {
                learned_launches: true,
                ..fleet
            }),
        }
    }

    /// How it collects a program as a whole in the background.
    #[must_use]
    pub fn background_kind(self) -> Kind {
        match self {
            Self::Dram | Self::Native | Self::Marvin | Self::Rgs => Kind::Major,
            _ => Kind::Background,
        }
    }

    /// The arena's scheme; mostly LRU swap by pages, into the pool or to flash as the comparison is about.
    #[must_use]
    pub fn scheme(self, swap: SwapTarget) -> &'static str {
        match (self, swap) {
            (Self::LearnedWarmswap, _) => "warmswap",
            (Self::AllFour, _) => "all-four",
            (_, SwapTarget::Pool) => "zram",
            (_, SwapTarget::Flash | SwapTarget::Counted) => "swap",
        }
    }
}

choices! {
    /// Where pages go that leave.
    SwapTarget {
        /// The compressed pool; part of the budget.
        Pool = "pool",
        /// A file with the paper's flash bandwidth.
        Flash = "flash",
        /// A file, whose reads are counted and not slowed down.
        Counted = "counted",
    }
}
