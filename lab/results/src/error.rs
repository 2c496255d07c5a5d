//! Why a result cannot be used.

use std::io;
use std::path::PathBuf;

/// A result that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ResultError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// A file is no JSON.
    #[error("{}: it is no result of --json: {reason}", path.display())]
    NoJson {
        /// The file.
        path: PathBuf,
        /// Where it goes wrong.
        reason: String,
    },
    /// A file is not what a result of its schema is.
    #[error("{}: {field}: {reason}", path.display())]
    Field {
        /// The file.
        path: PathBuf,
        /// Where in it, as in `data.arms[1].cpu.programs_ns`.
        field: String,
        /// What is wrong there.
        reason: String,
    },
    /// A result that no report reads.
    #[error("{}: schema: {schema} version {version} is no result that a report reads", path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
        /// Its schema.
        schema: String,
        /// Its version.
        version: u32,
    },
    /// Two results that cannot be compared.
    #[error("cannot compare: {reason}")]
    Unlike {
        /// Why.
        reason: String,
    },
}
