//! What is measured, and how far it is.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use warmswap_apps::{AppSpec, Directories, Size};
use warmswap_kernel::HostConfig;

choices! {
    /// What pages the applications.
    #[derive(Default)]
    Arm {
        /// Nothing is paged: memory without a limit.
        #[default]
        Dram = "dram",
        /// The kernel by itself, over zram.
        Zram = "zram",
        /// The kernel, steered by the kernel host, over zram.
        Kernel = "kernel",
        /// The preloaded library, in the programs that allow it; the others as with `zram`.
        Preload = "preload",
        /// The kernel by itself, over a swap file on disk.
        Swap = "swap",
        /// The kernel by itself, over zswap and a swap file behind it.
        Zswap = "zswap",
        /// Ariadne as published, by the preloaded library: hot data excluded from compression at first.
        AriadneEhl = "ariadne-ehl",
        /// The same, all lists compressed.
        AriadneAl = "ariadne-al",
        /// ezswap as published, by the preloaded library: files of programs too, with a backing file.
        Ezswap = "ezswap",
        /// The whole machine is short of memory: the kernel by itself with its own settings, over zram.
        ZramDefault = "zram-default",
        /// The same with the settings that distributions choose for zram.
        ZramTuned = "zram-tuned",
        /// The same as `zram-default`, steered by the daemon as shipped, which is told of switches.
        Daemon = "daemon",
        /// The same, but the daemon is told nothing: it finds the applications and their switches by itself.
        DaemonUntold = "daemon-untold",
    }
}

choices! {
    /// What the memory of an arm is swapped to.
    SwapKind {
        /// A zram device.
        Zram = "zram",
        /// A file.
        File = "file",
        /// zswap, with a file behind it.
        Zswap = "zswap",
    }
}

/// Where the memory of an arm is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// It is not.
    Unlimited,
    /// In a control group of the applications.
    Group,
    /// On the whole machine, from which memory is taken away.
    Machine,
}

impl Arm {
    /// Where its memory is limited.
    #[must_use]
    pub const fn scope(self) -> Scope {
        match self {
            Self::Dram => Scope::Unlimited,
            Self::ZramDefault | Self::ZramTuned | Self::Daemon | Self::DaemonUntold => {
                Scope::Machine
            }
            _ => Scope::Group,
        }
    }

    /// Whether its memory is limited.
    #[must_use]
    pub const fn is_limited(self) -> bool {
        !matches!(self.scope(), Scope::Unlimited)
    }

    /// What it swaps to.
    #[must_use]
    pub const fn swap(self) -> SwapKind {
        match self {
            Self::Swap => SwapKind::File,
            Self::Zswap => SwapKind::Zswap,
            _ => SwapKind::Zram,
        }
    }

    /// Whether the kernel host steers it.
    #[must_use]
    pub const fn has_host(self) -> bool {
        matches!(self, Self::Kernel)
    }

    /// Whether the library is preloaded into its programs.
    #[must_use]
    pub const fn is_preloaded(self) -> bool {
        matches!(
            self,
            Self::Preload | Self::AriadneEhl | Self::AriadneAl | Self::Ezswap
        )
    }

    /// The scheme that it has whatever was asked for, where it is a published one.
    #[must_use]
    pub const fn published_scheme(self) -> Option<&'static str> {
        match self {
            Self::AriadneEhl => Some("ariadne-ehl-1k-2k-16k"),
            Self::AriadneAl => Some("ariadne-al-1k-2k-16k"),
            Self::Ezswap => Some("ezswap"),
            _ => None,
        }
    }

    /// Whether the daemon runs in it.
    #[must_use]
    pub const fn has_daemon(self) -> bool {
        matches!(self, Self::Daemon | Self::DaemonUntold)
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
    /// The codec of published schemes, as they name it; none for their own.
    pub codec: Option<String>,
}

impl Preload {
    /// A scheme with the codec of the other arms.
    #[must_use]
    pub fn with_codec(&self, scheme: &str) -> String {
        match &self.codec {
            Some(codec) => format!("{scheme}+codec={codec}"),
            None => scheme.to_owned(),
        }
    }
}

/// What is measured.
#[derive(Debug, Clone)]
pub struct RelaunchOptions {
    /// The applications.
    pub apps: Vec<AppSpec>,
    /// Their footprint.
    pub size: Size,
    /// Where they find and put their files.
    pub directories: Directories,
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
    /// Readahead of disks in all arms, in KiB; none for this machine's.
    pub readahead_kib: Option<u64>,
    /// How the kernel host works; its goal is set by the benchmark.
    pub host: HostConfig,
    /// What the arm `preload` needs.
    pub preload: Option<Preload>,
    /// The `warmswap` command, which the arms with a daemon run.
    pub command: Option<PathBuf>,
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
    /// An application was killed for want of memory, and is started again.
    Killed {
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
