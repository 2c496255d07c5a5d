//! Events and page contents of running programs: the trace format, its reader, writer and importers.
//!
//! A trace is one file (`.wst`, described in `FORMAT.md`): what the applications did, in order of time
//! ([`Event`]), and what their pages held, each distinct content once. [`TraceWriter`] makes one,
//! [`TraceReader`] reads one as a stream, from any time or event on, in memory that does not grow with
//! the trace.

pub mod describe;
pub mod error;
pub mod event;
pub mod events;
#[cfg(feature = "export")]
pub mod export;
pub mod format;
pub mod import;
pub mod reader;
pub mod sample;
pub mod stats;
pub mod synth;
pub mod writer;

mod columns;
mod contents;
mod source;
#[cfg(test)]
mod testing;
mod verify;

pub use describe::{AppInfo, Description, FileInfo, Summary};
pub use error::{Result, TraceError};
pub use event::{ContentId, Event, EventKind};
pub use events::Events;
pub use reader::TraceReader;
pub use writer::{TraceWriter, WriterOptions};

/// The mode of a file that is written: the umask takes away what others must not have.
fn new_file() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o666)
}
