//! What can go wrong.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::RecordId;

/// The operation on the file that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reading a record.
    Read,
    /// Writing a record.
    Write,
    /// Making data durable.
    Sync,
    /// Setting the size of the file.
    Resize,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Sync => "sync",
            Operation::Resize => "resize",
        })
    }
}

/// What is wrong with a damaged record, with what was expected and what was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// There is no record.
    #[error("magic {found:#010x} instead of {expected:#010x}")]
    Magic {
        /// The magic number of every record.
        expected: u32,
        /// What is there.
        found: u32,
    },
    /// It is another record.
    #[error("record number {found} instead of {expected}")]
    Number {
        /// The number asked for.
        expected: u32,
        /// The number there.
        found: u32,
    },
    /// It is an earlier or later use of the record number.
    #[error("generation {found} instead of {expected}")]
    Generation {
        /// The generation asked for.
        expected: u32,
        /// The generation there.
        found: u32,
    },
    /// It has another length, in bytes.
    #[error("length {found} instead of {expected}")]
    Length {
        /// The length asked for.
        expected: u32,
        /// The length there.
        found: u32,
    },
    /// Its content was changed.
    #[error("its content is not what was written")]
    Content,
}

/// Why an operation on a backing store failed.
#[derive(Debug, thiserror::Error)]
pub enum BackingError {
    /// Sizes that make no store.
    #[error("{capacity_bytes} bytes in segments of {segment_bytes}: {reason}")]
    Config {
        /// The capacity asked for.
        capacity_bytes: u64,
        /// The segment size asked for.
        segment_bytes: u32,
        /// What is wrong.
        reason: &'static str,
    },
    /// The system has no random numbers for a key.
    #[error("no random numbers to encrypt the backing file with: {0}")]
    Random(#[source] io::Error),
    /// The file could not be created or examined.
    #[error("cannot create the backing file {path}: {source}")]
    Create {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Something other than a regular file has that name.
    #[error("{path} is not a regular file")]
    NotAFile {
        /// The name.
        path: PathBuf,
    },
    /// The file exists and holds data, which is left alone.
    #[error("{path} exists and holds {bytes} bytes; it is not overwritten")]
    NotEmpty {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// Another store uses the file.
    #[error("{path} is in use by another backing store")]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// Live records fill the capacity, as far as cleaning could make room.
    #[error("the backing store is full: {live_bytes} of {capacity_bytes} bytes are live")]
    Full {
        /// Bytes of live records.
        live_bytes: u64,
        /// The capacity.
        capacity_bytes: u64,
    },
    /// The record is larger than a segment, or empty.
    #[error("a record of {bytes} bytes is not from 1 to {max_bytes}")]
    RecordSize {
        /// Bytes of the record.
        bytes: usize,
        /// Bytes of the largest record.
        max_bytes: usize,
    },
    /// The id names no record: never given out, or freed.
    #[error("record {0} does not exist")]
    UnknownRecord(RecordId),
    /// The system failed an operation, after the retries that it merits.
    #[error("{operation} of {bytes} bytes at {offset:#x} of {path} failed: {source}")]
    Io {
        /// What failed.
        operation: Operation,
        /// The file.
        path: PathBuf,
        /// Where in the file.
        offset: u64,
        /// How many bytes were still to be done.
        bytes: usize,
        /// The error of the system.
        source: io::Error,
    },
    /// What was read is not what was written.
    #[error("record {record} at {offset:#x} of {path} is damaged: {damage}")]
    Corrupt {
        /// The record asked for.
        record: RecordId,
        /// The file.
        path: PathBuf,
        /// Where in the file.
        offset: u64,
        /// What is wrong.
        damage: Damage,
    },
}
