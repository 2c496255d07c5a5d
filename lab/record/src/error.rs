//! What can go wrong with a recording.

use std::path::PathBuf;

use warmswap_apps::AppError;
use warmswap_sys::lock::LockError;
use warmswap_sys::memcg::MemcgError;
use warmswap_sys::perf::PerfError;
use warmswap_sys::process::ProcessError;
use warmswap_sys::tunable::TunableError;
use warmswap_sys::undo::UndoError;
use warmswap_sys::zram::ZramError;
use warmswap_sys::{FileError, WrongPageSize};
use warmswap_trace::TraceError;

/// A recording could not be made. Nothing is left behind: no application, no device, no trace.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// No application was given.
    #[error("there is no application to record")]
    NoApps,
    /// The target exists and is not a file, or has no folder.
    #[error("cannot write a trace to {}", path.display())]
    Output {
        /// The target.
        path: PathBuf,
    },
    /// The machine's pages have another size.
    #[error(transparent)]
    PageSize(#[from] WrongPageSize),
    /// Another recording is under way.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The swap device; says what is missing.
    #[error(transparent)]
    Zram(#[from] ZramError),
    /// Page-fault events; says what is missing.
    #[error(transparent)]
    Perf(#[from] PerfError),
    /// The control group out of which pages of files are dropped.
    #[error(transparent)]
    Group(#[from] MemcgError),
    /// A setting of the kernel.
    #[error(transparent)]
    Tunable(#[from] TunableError),
    /// An application; says what is missing.
    #[error(transparent)]
    App(#[from] AppError),
    /// A process of an application.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// A file of the system.
    #[error(transparent)]
    File(#[from] FileError),
    /// The list of changes to the machine.
    #[error(transparent)]
    Undo(#[from] UndoError),
    /// The trace.
    #[error(transparent)]
    Trace(#[from] TraceError),
}
