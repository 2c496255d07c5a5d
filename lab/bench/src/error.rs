//! Why a benchmark cannot run.

use std::path::PathBuf;

use warmswap_apps::AppError;
use warmswap_kernel::HostError;
use warmswap_kernel::program::ProgramError;
use warmswap_page::mib;
use warmswap_protocol::{ClientError, SettingsError};
use warmswap_sys::lock::LockError;
use warmswap_sys::memcg::MemcgError;
use warmswap_sys::taken::TakeError;
use warmswap_sys::tunable::TunableError;
use warmswap_sys::undo::UndoError;
use warmswap_sys::zram::ZramError;
use warmswap_sys::{FileError, WrongPageSize};

/// A benchmark cannot run, or would measure something else than it says.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// No zram device can be had.
    #[error(transparent)]
    Zram(#[from] ZramError),
    /// A file of the kernel cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// What is changed on the machine cannot be noted or taken back.
    #[error(transparent)]
    Undo(#[from] UndoError),
    /// An application does not start, or does not answer.
    #[error(transparent)]
    App(#[from] AppError),
    /// The kernel host cannot be had.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The group of a program cannot be had.
    #[error(transparent)]
    Group(#[from] ProgramError),
    /// The program that is measured does not start, or fails.
    #[error("{}: {why}", program.display())]
    Program {
        /// As it was named.
        program: std::ffi::OsString,
        /// What happened.
        why: String,
    },
    /// Another run changes this machine.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The machine has pages of another size.
    #[error(transparent)]
    PageSize(WrongPageSize),
    /// No application, arm, or relaunch.
    #[error("there is nothing to measure: at least one application, arm and relaunch is needed")]
    NothingToMeasure,
    /// The memory of the limited arms is a share of nothing.
    #[error("without the arm dram, the total memory must be given: --total-mib MIB")]
    NoTotal,
    /// The library is in none of an application's processes.
    #[error(
        "{} is not in {app} after its start: say `preload = false` under [start] of its definition, or have its \
         driver pass the environment on",
        library.display()
    )]
    NotPreloaded {
        /// The application.
        app: String,
        /// The library.
        library: PathBuf,
    },
    /// The kernel has no zswap.
    #[error("this kernel has no zswap ({path} is missing): leave the arm zswap out", path = path.display())]
    NoZswap {
        /// Its settings.
        path: PathBuf,
    },
    /// A swap file cannot be made.
    #[error("{0}; arms that swap to a file need a folder for temporary files on a disk")]
    SwapFile(#[from] warmswap_sys::swap::file::SwapFileError),
    /// The arm `preload` was asked for without a library.
    #[error("the arm preload needs the library that is preloaded")]
    NoLibrary,
    /// The arm `preload` alone.
    #[error(
        "the arm preload divides the memory by what each application takes without the library: measure \
         another arm as well"
    )]
    NoFootprints,
    /// A program under the library, or the daemon, does not hear, or answer.
    #[error("a program that is told of switches: {0}")]
    Control(#[from] ClientError),
    /// Memory cannot be taken away from the machine, or ran out.
    #[error(transparent)]
    Taken(#[from] TakeError),
    /// A setting of the kernel cannot be changed.
    #[error(transparent)]
    Tunable(#[from] TunableError),
    /// Arms over the whole machine beside arms in a control group.
    #[error(
        "the arms {group} and {machine} cannot be compared: the one limits a control group, the other the whole \
         machine; measure them in two runs"
    )]
    MixedScopes {
        /// An arm in a group.
        group: &'static str,
        /// An arm over the machine.
        machine: &'static str,
    },
    /// Swap that is not the benchmark's.
    #[error(
        "{path} is in use as swap, and would be used beside the benchmark's own device: switch it off for the time \
         (`swapoff {path}`)"
    )]
    SwapOfOthers {
        /// The area.
        path: String,
    },
    /// Another daemon steers the machine.
    #[error("a daemon that listens on {} steers this machine already: end it for the time", socket.display())]
    DaemonRuns {
        /// Its socket.
        socket: PathBuf,
    },
    /// This process may not use what the machine is to have left.
    #[error(
        "this process's control group allows {}, which limits programs before the machine does: run it outside \
         of that group", mib(*limit_bytes)
    )]
    LimitedHere {
        /// What it allows, in bytes.
        limit_bytes: u64,
    },
    /// The arms with a daemon were asked for without the command that is the daemon.
    #[error("the arms with a daemon need the warmswap command")]
    NoCommand,
    /// The daemon ended, or did not come up.
    #[error("the daemon does not run: {said}")]
    Daemon {
        /// The end of what it said.
        said: String,
    },
    /// The program that takes memory away failed, or was killed.
    #[error("the program that takes memory away failed: {said}")]
    Hog {
        /// The last thing that it said.
        said: String,
    },
    /// An application was killed before it was measured.
    #[error(
        "the kernel killed {app} for want of memory at its start: give the programs more memory"
    )]
    KilledAtStart {
        /// The application.
        app: String,
    },
    /// A memory cgroup cannot be had.
    #[error(transparent)]
    Memcg(#[from] MemcgError),
    /// The settings of a paged program cannot be handed over.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A measuring thread ended early.
    #[error("a measuring thread ended early")]
    Thread,
    /// Other programs take the processor.
    #[error(
        "this thread gets {share_percent} % of a processor: end what else runs here, or measure anyway with \
         --allow-busy"
    )]
    Busy {
        /// What it gets, of what it asked for.
        share_percent: u32,
    },
}

impl BenchError {
    /// Whether a program of the measurement failed, and not the measurement.
    #[must_use]
    pub const fn is_of_a_program(&self) -> bool {
        matches!(
            self,
            Self::App(_) | Self::Hog { .. } | Self::KilledAtStart { .. }
        )
    }
}
