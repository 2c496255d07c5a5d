//! Small control files: read and written whole, with errors that name the path.

use std::io;
use std::path::{Path, PathBuf};

/// A file could not be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {source}", path.display())]
pub struct FileError {
    /// What was tried, as a verb: "read", "write", "open".
    pub action: &'static str,
    /// The file.
    pub path: PathBuf,
    /// The system's answer.
    #[source]
    pub source: io::Error,
}

impl FileError {
    /// An error of `action` on `path`.
    #[must_use]
    pub fn new(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self {
            action,
            path: path.to_owned(),
            source,
        }
    }

    /// An error for a file whose text does not have the form that the kernel documents.
    #[must_use]
    pub fn unexpected(path: &Path, what: &str) -> Self {
        Self::new(
            "understand",
            path,
            io::Error::new(io::ErrorKind::InvalidData, what),
        )
    }

    /// True when the file, or the process that it describes, does not exist (any more).
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
            || self.source.raw_os_error() == Some(libc::ESRCH)
    }

    /// True when descriptors or memory ran out: it says nothing about the file.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        is_exhausted(&self.source)
    }

    /// True when the kernel does not know what was written (EINVAL).
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.source.raw_os_error() == Some(libc::EINVAL)
    }

    /// True when the kernel could not do it now (EBUSY).
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.source.raw_os_error() == Some(libc::EBUSY)
    }
}

/// True when descriptors or memory ran out.
#[must_use]
pub fn is_exhausted(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    matches!(code, Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM))
}

/// Reads a whole text file. Bytes that are not UTF-8 are replaced.
///
/// # Errors
/// [`FileError`] with the path.
pub fn read(path: &Path) -> Result<String, FileError> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(e) => Err(FileError::new("read", path, e)),
    }
}

/// Writes `value` into an existing control file by one `write(2)`, as sysfs demands; never creates it.
///
/// # Errors
/// [`FileError`] with the path.
pub fn write(path: &Path, value: &str) -> Result<(), FileError> {
    use std::io::Write as _;
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(path)
        .map_err(|e| FileError::new("open", path, e))?;
    file.write_all(value.as_bytes())
        .map_err(|e| FileError::new("write", path, e))
}

/// Reads a file that holds one unsigned number.
///
/// # Errors
/// [`FileError`] with the path, also for text that is no number.
pub fn read_u64(path: &Path) -> Result<u64, FileError> {
    let text = read(path)?;
    text.trim()
        .parse()
        .map_err(|_| FileError::unexpected(path, "no unsigned number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_does_not_create_a_missing_control_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("absent");

        let error = write(&path, "1").unwrap_err();

        assert!(error.is_gone());
        assert!(!path.exists());
        assert!(error.to_string().contains("absent"), "{error}");
    }

    #[test]
    fn a_number_with_text_around_it_is_refused_with_the_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("value");
        std::fs::write(&path, "12 apples\n").unwrap();

        let error = read_u64(&path).unwrap_err();

        assert!(error.to_string().contains("value"), "{error}");
        assert!(!error.is_gone());
    }
}
