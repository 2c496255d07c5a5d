//! What a backing store needs of a file, and how it deals with short and failing operations.

use std::fmt::Debug;
use std::io;
use std::path::Path;

use crate::{BackingError, Operation};

/// A file, as the backing store sees it. Methods are called from several threads at once.
pub trait Storage: Debug + Send + Sync {
    /// Reads up to `buf.len()` bytes at `offset`; 0 at the end of the file.
    ///
    /// # Errors
    ///
    /// Those of `pread`.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes up to `buf.len()` bytes at `offset`, making the file longer if needed.
    ///
    /// # Errors
    ///
    /// Those of `pwrite`.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize>;

    /// Cuts or extends the file.
    ///
    /// # Errors
    ///
    /// Those of `ftruncate`.
    fn set_len(&self, bytes: u64) -> io::Result<()>;

    /// Makes all that was written durable.
    ///
    /// # Errors
    ///
    /// Those of `fdatasync`.
    fn sync(&self) -> io::Result<()>;

    /// The file's name, for messages.
    fn path(&self) -> &Path;
}

/// Repeats operations on a storage until they are complete or have failed for good.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retrying<'a> {
    pub(crate) storage: &'a dyn Storage,
    /// Tries after the first that EIO gets, between two that make progress.
    pub(crate) retries: u32,
}

impl Retrying<'_> {
    /// Fills `buf` from `offset`; the number of retries after EIO.
    pub(crate) fn read(&self, buf: &mut [u8], offset: u64) -> Result<u32, BackingError> {
        let len = buf.len();
        self.complete(Operation::Read, offset, len, |done| {
            self.storage.read_at(&mut buf[done..], offset + done as u64)
        })
    }

    /// Writes all of `buf` at `offset`; the number of retries after EIO.
    pub(crate) fn write(&self, buf: &[u8], offset: u64) -> Result<u32, BackingError> {
        self.complete(Operation::Write, offset, buf.len(), |done| {
            self.storage.write_at(&buf[done..], offset + done as u64)
        })
    }

    /// Makes everything durable. EIO is final here: the kernel reports a lost write only once, and
    /// a second try would succeed without the data.
    pub(crate) fn sync(&self) -> Result<(), BackingError> {
        loop {
            match self.storage.sync() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(Operation::Sync, 0, 0, error)),
                Ok(()) => return Ok(()),
            }
        }
    }

    /// Calls `step` with the bytes done so far until `len` are.
    fn complete(
        &self,
        operation: Operation,
        offset: u64,
        len: usize,
        mut step: impl FnMut(usize) -> io::Result<usize>,
    ) -> Result<u32, BackingError> {
        let (mut done, mut used, mut left) = (0, 0, self.retries);
        while done < len {
            let error = match step(done) {
                Ok(0) => match operation {
                    Operation::Read => io::ErrorKind::UnexpectedEof.into(),
                    _ => io::ErrorKind::WriteZero.into(),
                },
                Ok(count) => {
                    done += count;
                    left = self.retries;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => error,
            };
            let is_eio = error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error());
            if !is_eio || left == 0 {
                let at = offset + done as u64;
                return Err(self.failed(operation, at, len - done, error));
            }
            left -= 1;
            used += 1;
        }
        Ok(used)
    }

    pub(crate) fn failed(
        &self,
        operation: Operation,
        offset: u64,
        bytes: usize,
        source: io::Error,
    ) -> BackingError {
        BackingError::Io {
            operation,
            path: self.storage.path().to_owned(),
            offset,
            bytes,
            source,
        }
    }
}
