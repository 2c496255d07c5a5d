//! Storage in a real file.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use crate::{BackingError, Storage};

/// A regular file that this process has created, or found empty, and locked.
#[derive(Debug)]
pub struct FileStorage {
    file: File,
    path: PathBuf,
    delete_on_drop: bool,
}

impl FileStorage {
    /// Creates the file with mode 0600, or takes an existing empty one.
    ///
    /// The file is locked (`flock`) for as long as the value lives, so that no other store takes
    /// it. With `delete_on_drop` it is removed at the end, if the name still leads to it.
    ///
    /// # Errors
    ///
    /// [`BackingError::NotEmpty`], [`BackingError::NotAFile`] (symbolic links too),
    /// [`BackingError::InUse`]; [`BackingError::Create`] for all else.
    pub fn create(path: &Path, delete_on_drop: bool) -> Result<FileStorage, BackingError> {
        let create = |source: io::Error| match source.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::LOOP | Errno::ISDIR) => BackingError::NotAFile { path: path.into() },
            _ => BackingError::Create {
                path: path.into(),
                source,
            },
        };
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(flags.bits() as i32)
            .open(path)
            .map_err(create)?;
        let metadata = file.metadata().map_err(create)?;
        if !metadata.is_file() {
            return Err(BackingError::NotAFile { path: path.into() });
        }
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Err(BackingError::InUse { path: path.into() }),
            result => result.map_err(|errno| create(errno.into()))?,
        }
        // Only now: a store that had it locked may have written meanwhile.
        let bytes = file.metadata().map_err(create)?.len();
        if bytes > 0 {
            return Err(BackingError::NotEmpty {
                path: path.into(),
                bytes,
            });
        }
        Ok(FileStorage {
            file,
            path: path.to_owned(),
            delete_on_drop,
        })
    }

    /// Whether the name still leads to this file.
    fn is_still_named(&self) -> io::Result<bool> {
        let named = std::fs::symlink_metadata(&self.path)?;
        let own = self.file.metadata()?;
        Ok((named.dev(), named.ino()) == (own.dev(), own.ino()))
    }
}

impl Storage for FileStorage {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(buf, offset)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for FileStorage {
    fn drop(&mut self) {
        if self.delete_on_drop && self.is_still_named().is_ok_and(|is| is) {
            // A file that cannot be removed has no one to be reported to here; it is empty of
            // meaning, and `create` refuses to reuse it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_file_is_private_and_removed_when_asked() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("swap");
        for delete in [false, true] {
            let storage = FileStorage::create(&path, delete).expect("new or empty");
            let mode = path.metadata().expect("exists").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            drop(storage);
            assert_eq!(path.exists(), !delete);
        }
    }

    #[test]
    fn files_of_others_are_left_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("letter");
        std::fs::write(&path, "dear").expect("writable");
        let error = FileStorage::create(&path, true).expect_err("holds data");
        assert!(
            matches!(error, BackingError::NotEmpty { bytes: 4, .. }),
            "{error}"
        );
        assert_eq!(std::fs::read(&path).expect("still there"), b"dear");

        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).expect("new");
        for not_a_file in [link.as_path(), dir.path()] {
            let error = FileStorage::create(not_a_file, true).expect_err("not a file");
            assert!(matches!(error, BackingError::NotAFile { .. }), "{error}");
        }
        let error = FileStorage::create(&dir.path().join("no/such"), true).expect_err("no dir");
        assert!(matches!(error, BackingError::Create { .. }), "{error}");
    }

    #[test]
    fn a_file_belongs_to_one_store_and_a_successor_is_not_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("swap");
        let storage = FileStorage::create(&path, true).expect("new");
        let error = FileStorage::create(&path, true).expect_err("locked");
        assert!(matches!(error, BackingError::InUse { .. }), "{error}");
        std::fs::remove_file(&path).expect("there");
        std::fs::write(&path, "another file").expect("writable");
        drop(storage);
        assert!(path.exists());
    }
}
