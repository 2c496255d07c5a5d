//! The backing store: an encrypted log of compressed records for write-back.
//!
//! A [`Backing`] is one file of fixed-size segments. Records are appended to the open segment,
//! found again through an index in memory, and reclaimed by cleaning: the live records of a mostly
//! dead segment are copied to another one, as in a log-structured file system. Nothing survives
//! the process: the file is swap space, not a database.
//!
//! A record is its payload, encrypted and authenticated (ChaCha20-Poly1305) with a key that only this process has, followed
//! by a trailer of 36 bytes (tag, magic, record number, generation, length, epoch). A read checks all of it, so damage never
//! passes for data: it is a loud [`BackingError::Corrupt`].
//!
//! Memory: 20 bytes a record (16 in the index, 4 in the list of its segment) and 56 a segment.
//!
//! # Locks
//!
//! 1. `cleaning`: held by the one thread that cleans;
//! 2. `log`: index and segments, held for a few instructions and never during input or output.
//!
//! Space is reserved under the lock, written without it, and published under it again. A read looks
//! the place up, reads without the lock, and, when what it found is wrong, looks again whether the
//! record has been moved or freed meanwhile; only if neither is the case is it an error.

#![forbid(unsafe_code)]

mod backing;
mod config;
mod error;
mod file;
mod log;
mod record;
mod stats;
mod storage;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use backing::{Backing, CleanReport};
pub use config::BackingConfig;
pub use error::{BackingError, Damage, Operation};
pub use file::FileStorage;
pub use record::RecordId;
pub use stats::BackingStats;
pub use storage::Storage;
