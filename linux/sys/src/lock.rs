//! One at a time: a lock between processes.
//!
//! Two runs that change the same setting of the kernel would each take the other's value for the
//! original one. A thread that changes settings holds this lock meanwhile.

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::FileError;

/// The lock could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds it.
    #[error("another run (process {holder}) changes settings of this machine; wait for its end")]
    Busy {
        /// The process that says it holds the lock, or `unknown`.
        holder: String,
    },
    /// The lock file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
}

/// A held lock. The kernel lets go of it when this is dropped or the process ends, in whatever way.
#[derive(Debug)]
pub struct MachineLock {
    _file: File,
}

impl MachineLock {
    /// The machine-wide lock, for root: `/run/warmswap.lock`.
    #[must_use]
    pub fn default_path() -> PathBuf {
        PathBuf::from("/run/warmswap.lock")
    }

    /// Takes the lock whose file is at `path`, which is made when missing, without waiting.
    ///
    /// # Errors
    /// [`LockError::Busy`] with the holder, [`LockError::File`].
    pub fn take(path: &Path) -> Result<Self, LockError> {
        let failed = |e: std::io::Error| LockError::File(FileError::new("lock", path, e));
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(path).map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut holder = String::new();
                let _ = file.read_to_string(&mut holder);
                let known = holder.trim().parse::<u32>().is_ok();
                let holder = if known { holder.trim() } else { "unknown" }.to_owned();
                return Err(LockError::Busy { holder });
            }
            Err(e) => return Err(failed(e.into())),
        }
        file.set_len(0)
            .and_then(|()| file.rewind())
            .map_err(failed)?;
        writeln!(file, "{}", std::process::id()).map_err(failed)?;
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_who_holds_it_until_the_first_lets_go() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");

        let first = MachineLock::take(&path).unwrap();
        let refused = MachineLock::take(&path).unwrap_err();
        drop(first);

        assert!(
            refused
                .to_string()
                .contains(&std::process::id().to_string()),
            "{refused}"
        );
        MachineLock::take(&path).unwrap();
    }

    #[test]
    fn a_folder_that_does_not_exist_is_named() {
        let error = MachineLock::take(Path::new("/nowhere/lock")).unwrap_err();

        assert!(error.to_string().contains("/nowhere/lock"), "{error}");
    }
}
