//! The bytes of an opened trace file, read by position and checked, for any number of threads.

use std::fs::File;
use std::os::unix::fs::{FileExt, FileTypeExt as _};
use std::path::{Path, PathBuf};

use crate::error::{Result, Section, TraceError};

/// An open file with its name and length.
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) len: u64,
    file: File,
}

impl Source {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let io = |source| TraceError::Io {
            path: path.to_owned(),
            action: "open",
            source,
        };
        let file = File::open(path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        let kind = metadata.file_type();
        if kind.is_fifo() || kind.is_socket() {
            return Err(TraceError::NotATrace {
                path: path.to_owned(),
                found: "a pipe, of which parts cannot be read out of order: copy it to a file"
                    .to_owned(),
            });
        }
        let len = metadata.len();
        Ok(Self {
            path: path.to_owned(),
            len,
            file,
        })
    }

    /// Fills `buffer` from `offset`.
    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8], section: Section) -> Result<()> {
        if offset
            .checked_add(buffer.len() as u64)
            .is_none_or(|end| end > self.len)
        {
            return Err(self.truncated(
                self.len,
                format!("{} bytes of {section} at byte {offset}", buffer.len()),
            ));
        }
        self.file
            .read_exact_at(buffer, offset)
            .map_err(|source| TraceError::Io {
                path: self.path.clone(),
                action: "read",
                source,
            })
    }

    pub(crate) fn truncated(&self, offset: u64, expected: String) -> TraceError {
        TraceError::Truncated {
            path: self.path.clone(),
            offset,
            expected,
        }
    }

    pub(crate) fn damaged(
        &self,
        offset: u64,
        section: Section,
        found: impl ToString,
        expected: impl ToString,
    ) -> TraceError {
        let (found, expected) = (found.to_string(), expected.to_string());
        TraceError::Damaged {
            path: self.path.clone(),
            offset,
            section,
            found,
            expected,
        }
    }

    pub(crate) fn checksum(
        &self,
        offset: u64,
        section: Section,
        found: u32,
        expected: u32,
    ) -> Result<()> {
        // A build for fuzzing lets every checksum pass, to reach the checks behind it.
        if found == expected || cfg!(fuzzing) {
            return Ok(());
        }
        Err(TraceError::Checksum {
            path: self.path.clone(),
            offset,
            section,
            found,
            expected,
        })
    }

    /// An error unless `found` is `expected`.
    pub(crate) fn same<T: PartialEq + std::fmt::Display>(
        &self,
        offset: u64,
        section: Section,
        what: &str,
        (found, expected): (T, T),
    ) -> Result<()> {
        if found == expected {
            return Ok(());
        }
        Err(self.damaged(offset, section, format!("{what} {found}"), expected))
    }
}
