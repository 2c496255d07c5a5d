//! What is compared: a collector, and the scheme of the arena below it.

use std::time::Duration;

use warmswap_heap::{Collector, FleetConfig, Kind, MarvinConfig};

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
        /// Fleet with launch objects learned.
        Learned = "learned",
        /// The same over the scheme `warmswap`, with chunks by hotness and prefetch, in place of LRU swap by pages.
        LearnedWarmswap = "learned-warmswap",
    }
}

impl Arm {
    /// Its collector, whose timers never expire by themselves.
    #[must_use]
    pub fn collector(self) -> Collector {
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
            Self::Fleet => Collector::Fleet(fleet),
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
            Self::Bgc | Self::Fleet | Self::Learned | Self::LearnedWarmswap => Kind::Background,
        }
    }

    /// The arena's scheme. LRU swap by pages, into the pool or to flash as the comparison is about.
    #[must_use]
    pub fn scheme(self, swap: Swap) -> &'static str {
        match (self, swap) {
            (Self::LearnedWarmswap, _) => "warmswap",
            (_, Swap::Pool) => "zram",
            (_, Swap::Flash | Swap::Counted) => "swap",
        }
    }
}

choices! {
    /// Where pages go that leave.
    Swap {
        /// The compressed pool; part of the budget.
        Pool = "pool",
        /// A file with the paper's flash bandwidth.
        Flash = "flash",
        /// A file, whose reads are counted and not slowed down.
        Counted = "counted",
    }
}
