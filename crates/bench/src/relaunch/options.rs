//! What is measured, and how far it is.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use warmswap_apps::{AppSpec, Place, Size};
use warmswap_kernel::HostConfig;

/// Who pages the applications.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arm {
    /// Nothing is paged: memory without a limit.
    Dram,
    /// The kernel by itself, over zram.
    Zram,
    /// The kernel, steered by the kernel host, over zram.
    Kernel,
    /// The preloaded library, in the programs that allow it; the others as in [`Arm::Zram`].
    Preload,
}

impl Arm {
    /// One word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dram => "dram",
            Self::Zram => "zram",
            Self::Kernel => "kernel",
            Self::Preload => "preload",
        }
    }

    /// Whether its memory is limited.
    #[must_use]
    pub const fn is_limited(self) -> bool {
        !matches!(self, Self::Dram)
    }
}

/// How much memory the limited arms have.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub enum Total {
    /// So many bytes.
    Bytes(u64),
    /// This share of what the applications take without a limit; needs the arm `dram`.
    Share(f64),
}

/// What the programs of the arm `preload` run with.
#[derive(Debug, Clone)]
pub struct Preload {
    /// The library; a path without links.
    pub library: PathBuf,
    /// The arenas' scheme.
    pub scheme: String,
}

/// What is measured.
#[derive(Debug, Clone)]
pub struct RelaunchOptions {
    /// The applications.
    pub apps: Vec<AppSpec>,
    /// Their footprint.
    pub size: Size,
    /// Where they find and put their files.
    pub place: Place,
    /// The arms; each runs once in a block.
    pub arms: Vec<Arm>,
    /// Memory of the limited arms, the compressed pool included.
    pub total: Total,
    /// Blocks.
    pub blocks: u32,
    /// Relaunches of each application in each arm of a block that count.
    pub relaunches: u32,
    /// Relaunches of each application before, which do not count.
    pub warm_up: u32,
    /// Rest after each switch and use, in milliseconds.
    pub rest_ms: u64,
    /// Decides the orders and how the requests vary.
    pub seed: u64,
    /// The zram devices' compression algorithm.
    pub algorithm: String,
    /// How the kernel host works; its goal is set by the benchmark.
    pub host: HostConfig,
    /// What the arm `preload` needs.
    pub preload: Option<Preload>,
    /// Sample CPU time and I/O of each switch that often.
    pub sample_every: Option<Duration>,
    /// Measure although other programs take the processor.
    pub allow_busy: bool,
}

/// Progress of a run.
#[derive(Debug, Clone, Copy)]
pub enum Step<'a> {
    /// An arm of a block begins; blocks count from 0.
    Arm {
        /// Which.
        arm: Arm,
        /// In which block.
        block: u32,
    },
    /// An application was started.
    Started {
        /// Its name.
        app: &'a str,
    },
    /// A round of relaunches is done.
    Round {
        /// How many are.
        done: u32,
        /// Of how many, warm-up included.
        of: u32,
    },
}
