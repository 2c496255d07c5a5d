//! What can go wrong with an application.

use std::io;
use std::path::PathBuf;

use warmswap_sys::FileError;
use warmswap_sys::undo::UndoError;

use crate::check::Missing;

/// An application could not be defined, started or asked.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The definition cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The definition is not valid; the message shows line and column.
    #[error("{}: {message}", path.display())]
    Invalid {
        /// The definition.
        path: PathBuf,
        /// What is wrong, with its place.
        message: String,
    },
    /// There is no definition of this name.
    #[error("there is no application {name:?}; there are: {known}")]
    Unknown {
        /// The name.
        name: String,
        /// All names.
        known: String,
    },
    /// Something that the application needs is not installed.
    #[error("the application {app} cannot start: {missing}")]
    Needs {
        /// The application.
        app: String,
        /// What is missing and how to install it.
        missing: Missing,
    },
    /// The system refused to start it.
    #[error("cannot start {app} ({program}): {source}")]
    Start {
        /// The application.
        app: String,
        /// The program.
        program: String,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The pipe to the driver failed.
    #[error("cannot talk to {app}: {source}")]
    Pipe {
        /// The application.
        app: String,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// It did not answer in time.
    #[error("{app} did not answer {request:?} within {limit_s} s")]
    Late {
        /// The application.
        app: String,
        /// What it was asked.
        request: String,
        /// The limit of its definition.
        limit_s: u32,
    },
    /// It ended.
    #[error("{app} ended{}", said(stderr))]
    Ended {
        /// The application.
        app: String,
        /// The end of what it wrote to standard error.
        stderr: String,
    },
    /// It answered with an error, or not by the protocol.
    #[error("{app} answered {request:?} with {answer:?}")]
    Answer {
        /// The application.
        app: String,
        /// What it was asked.
        request: String,
        /// The line that came.
        answer: String,
    },
    /// Its processes or folder could not be registered for removal.
    #[error(transparent)]
    Undo(#[from] UndoError),
}

fn said(stderr: &str) -> String {
    if stderr.is_empty() {
        String::new()
    } else {
        format!(", saying: {}", stderr.trim_end())
    }
}
