//! What is measured.

use std::path::PathBuf;

use warmswap_apps::{AppSpec, Directories, Size};
use warmswap_kernel::HostConfig;

use crate::relaunch::SwapKind;

choices! {
    /// What brings pages back.
    ReturnArm {
        /// Memory has no limit: nothing leaves.
        #[value(skip)]
        NoLimit = "no-limit",
        /// The kernel alone, a page at each fault.
        Kernel = "kernel",
        /// The daemon as shipped, which is told of switches.
        Daemon = "daemon",
        /// The daemon as shipped, which is told nothing.
        DaemonUntold = "daemon-untold",
    }
}

impl ReturnArm {
    /// Whether a daemon runs.
    pub(super) const fn has_daemon(self) -> bool {
        matches!(self, Self::Daemon | Self::DaemonUntold)
    }
}

choices! {
    /// What takes the memory away.
    HogKind {
        /// Anonymous memory with contents of real files; all of it is touched twice a second.
        Anonymous = "anonymous",
        /// Copies of many files, which stay until the last return.
        Files = "files",
        /// Compilations, as many at a time as take the memory.
        Compiler = "compiler",
    }
}

/// What is measured.
#[derive(Debug, Clone)]
pub struct ReturnOptions {
    /// The programs.
    pub apps: Vec<AppSpec>,
    /// Their footprint.
    pub size: Size,
    /// Where they find and put their files.
    pub directories: Directories,
    /// The limited arms; the one without a limit always runs first, since the others are compared with it.
    pub arms: Vec<ReturnArm>,
    /// What they swap to: each arm runs over each.
    pub swaps: Vec<SwapKind>,
    /// Between the hog's end and the first return, in milliseconds; a hog for each.
    pub waits_ms: Vec<u64>,
    /// What takes the memory away.
    pub hog: HogKind,
    /// How long it works about once it has the memory, in milliseconds: every arm's does as much work.
    pub hog_ms: u64,
    /// Whether it stays while programs are returned to.
    pub hog_stays: bool,
    /// Between two returns, in milliseconds.
    pub pause_ms: u64,
    /// How often each program is used before the first hog.
    pub warm_up: u32,
    /// How often all is measured.
    pub blocks: u32,
    /// Decides the order of returns, and how requests vary.
    pub seed: u64,
    /// The zram devices' compression algorithm.
    pub algorithm: String,
    /// Whether memory is taken away from the whole machine, in place of limiting a control group.
    pub is_machine: bool,
    /// Whether the daemon brings pages back, and reads ahead.
    pub host: HostConfig,
    /// The command that runs the daemon, for the arms that have one.
    pub command: Option<PathBuf>,
    /// Measure although other programs take the processor.
    pub allow_busy: bool,
}

/// Progress of a run.
#[derive(Debug, Clone, Copy)]
pub enum ReturnStep<'a> {
    /// An arm of a block begins; blocks count from 0.
    Arm {
        /// Which.
        arm: ReturnArm,
        /// Over which swap; none without a limit.
        swap: Option<SwapKind>,
        /// In which block.
        block: u32,
    },
    /// A program was started.
    Started {
        /// Its name.
        app: &'a str,
    },
    /// The hog ended, or has all that it wants and stays.
    Hog {
        /// Memory of programs that is in swap now, in bytes.
        swapped_bytes: u64,
    },
}
