//! What can go wrong with an application.

use std::io;
use std::path::{Path, PathBuf};

use warmswap_sys::FileError;
use warmswap_sys::undo::UndoError;

use crate::check::Missing;

/// An application could not be defined, started or asked.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The definition cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The definition is not valid.
    #[error("{}: {message}", place(path, *line))]
    Invalid {
        /// The definition.
        path: PathBuf,
        /// The line that is wrong, from 1, where it is one.
        line: Option<usize>,
        /// What is wrong.
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

/// `FILE:LINE`, as editors and compilers write it.
fn place(path: &Path, line: Option<usize>) -> String {
    let line = line.map_or_else(String::new, |line| format!(":{line}"));
    format!("{}{line}", path.display())
}

/// What is wrong with the TOML `text` of the file at `path`, in one line with file and line.
#[must_use]
pub fn bad_toml(path: &Path, text: &str, error: &toml::de::Error) -> String {
    let (line, message) = toml_fault(text, error);
    format!("{}: {message}", place(path, line))
}

/// The line that an error of `text` is about, from 1, and the error in one line.
pub(crate) fn toml_fault(text: &str, error: &toml::de::Error) -> (Option<usize>, String) {
    let before = error.span().and_then(|span| text.get(..span.start));
    let line = before.map(|before| before.matches('\n').count() + 1);
    (line, error.message().replace('\n', ", "))
}

fn said(stderr: &str) -> String {
    if stderr.is_empty() {
        String::new()
    } else {
        format!(", saying: {}", stderr.trim_end())
    }
}
