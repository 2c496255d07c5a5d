//! Events and page contents of running programs: the trace format, its reader, writer and importers.
//!
//! A trace is one file (`.wst`, described in `FORMAT.md`): what the applications did, in order of time
//! ([`Event`]), and what their pages held, each distinct content once. [`TraceWriter`] makes one,
//! [`TraceReader`] reads one as a stream, from any time or event on, in memory that does not grow with
//! the trace.

pub mod ahead;
pub mod describe;
pub mod error;
pub mod event;
pub mod events;
pub mod format;
pub mod import;
pub mod oracle_general;
pub mod reader;
pub mod sample;
pub mod stats;
pub mod stop;
#[cfg(any(test, feature = "synth"))]
pub mod synth;
pub mod writer;

mod columns;
mod contents;
mod source;
#[cfg(test)]
mod testing;
mod verify;

pub use ahead::Ahead;
pub use describe::{AppInfo, Description, FileInfo, Summary};
pub use error::{Result, TraceError};
pub use event::{ContentId, Event, EventKind};
pub use events::Events;
pub use reader::TraceReader;
pub use stop::Stop;
pub use writer::{TraceWriter, WriterOptions};

/// Where a file is to stand that is written to `path`: a symbolic link is followed, also to a file that does not exist yet, and what
/// is no regular file is not replaced.
///
/// # Errors
/// [`TraceError::Io`] for a device, a pipe or a folder, and for what cannot be looked at.
pub fn destination(path: &std::path::Path) -> Result<std::path::PathBuf> {
    use std::io::{Error, ErrorKind};

    let refused = |source| TraceError::Io {
        path: path.to_owned(),
        action: "write a file here",
        source,
    };
    match std::fs::metadata(path) {
        // The name of a pipe, or of a file that was deleted, below /proc leads nowhere.
        Ok(found) if found.is_file() => std::fs::canonicalize(path).map_err(refused),
        Ok(_) => Err(refused(Error::new(
            ErrorKind::InvalidInput,
            "this is no regular file, and is not replaced",
        ))),
        Err(error) if error.kind() == ErrorKind::NotFound => match std::fs::read_link(path) {
            Ok(target) => destination(&path.parent().unwrap_or(path).join(target)),
            Err(_) => Ok(path.to_owned()),
        },
        Err(error) => Err(refused(error)),
    }
}

/// Has `write` fill a new file, which then takes the place of `path`: what was there before stays as it is until all is
/// written.
fn replace_file<T>(
    path: &std::path::Path,
    write: impl FnOnce(&mut std::fs::File) -> Result<T>,
) -> Result<T> {
    let path = &destination(path)?;
    let io = |action| {
        move |source| TraceError::Io {
            path: path.to_owned(),
            action,
            source,
        }
    };
    let parent = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let mut file = tempfile::Builder::new()
        .permissions(new_file())
        .suffix(".tmp")
        .tempfile_in(parent.unwrap_or(std::path::Path::new(".")))
        .map_err(io("create"))?;
    let written = write(file.as_file_mut())?;
    file.as_file().sync_all().map_err(io("flush"))?;
    let persisted = file.persist(path).map_err(|error| error.error);
    persisted.map_err(io("rename the finished file to this name"))?;
    Ok(written)
}

/// The mode of a file that is written: the umask takes away what others must not have.
fn new_file() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o666)
}
