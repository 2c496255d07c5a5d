//! A file of our own that is swapped to: switched off and removed on every way out.

use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use warmswap_page::PAGE_BYTES;

use super::{Owner, Uuid};
use crate::undo::{Action, Pending, Undo, UndoError, accept_gone};
use crate::{FileError, Root};

/// A file cannot be swapped to.
#[derive(Debug, thiserror::Error)]
pub enum SwapFileError {
    /// The file, or the call that switches it on; the error names it. A file of a file system in memory, or of one that
    /// copies on write, is refused by the kernel.
    #[error(transparent)]
    File(#[from] FileError),
    /// The change could not be noted.
    #[error(transparent)]
    Undo(#[from] UndoError),
}

/// A swap area in a file. Dropping it switches it off and removes the file.
#[derive(Debug)]
pub struct SwapFile {
    path: PathBuf,
    pending: Pending,
}

impl SwapFile {
    /// Makes a file in `folder` and swaps to it; the highest `priority` is used first. Allocating takes about 0.1 s a GiB on
    /// file systems that need not write it.
    ///
    /// # Errors
    /// [`SwapFileError`]; nothing is left behind.
    pub fn create(
        undo: &Undo,
        folder: &Path,
        bytes: u64,
        priority: u16,
    ) -> Result<Self, SwapFileError> {
        let uuid = Uuid::random()?;
        // A name of its own: a fresh number.
        let path = folder.join(format!("{}swap-{uuid}", Action::FOLDER_PREFIX));
        let bytes = bytes.next_multiple_of(PAGE_BYTES as u64);
        let pending = undo.register(Action::RemoveSwapFile {
            path: path.clone(),
            uuid: uuid.clone(),
        })?;
        allocate(&path, bytes)?;
        super::format(&path, bytes, &uuid)?;
        super::on(&path, priority)?;
        Ok(Self { path, pending })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Switches it off and removes it now.
    ///
    /// # Errors
    /// [`UndoError`]; the next run tries again.
    pub fn remove(self) -> Result<(), UndoError> {
        self.pending.finish()
    }
}

/// A new file for root alone, all of it allocated: a swap file has no holes.
fn allocate(path: &Path, bytes: u64) -> Result<(), FileError> {
    let made = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(|e| FileError::new("make", path, e))?;
    rustix::fs::fallocate(&made, rustix::fs::FallocateFlags::empty(), 0, bytes)
        .map_err(|e| FileError::new("allocate", path, e.into()))
}

/// Switches the file off and removes it, unless there is anything else at its place.
pub(crate) fn remove(root: &Root, path: &Path, uuid: &Uuid) -> Result<(), FileError> {
    let is_active = super::areas(root)?
        .iter()
        .any(|area| Path::new(&area.path) == path);
    // A file that was not formatted yet holds zeros, or nothing.
    let is_empty = std::fs::metadata(path).is_ok_and(|found| found.len() == 0);
    let is_ours = is_empty
        || match super::owner(path, uuid) {
            Ok(owner) => owner != Owner::Another,
            Err(error) if error.is_gone() => return Ok(()),
            Err(error) => return Err(error),
        };
    if !is_ours {
        return Ok(());
    }
    if is_active {
        super::off(root, path)?;
    }
    accept_gone(std::fs::remove_file(path).map_err(|e| FileError::new("remove", path, e)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_of_our_own_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        std::fs::create_dir(dir.path().join("proc")).unwrap();
        std::fs::write(
            dir.path().join("proc/swaps"),
            "Filename Type Size Used Priority\n",
        )
        .unwrap();
        let uuid = Uuid("00112233-4455-6677-8899-aabbccddeeff".to_owned());
        let path = dir.path().join("warmswap-swap");

        remove(&root, &path, &uuid).unwrap();
        std::fs::write(&path, vec![7; 20 * PAGE_BYTES]).unwrap();
        remove(&root, &path, &uuid).unwrap();
        assert!(path.exists(), "it is somebody else's");
        for size in [0, 20 * PAGE_BYTES] {
            std::fs::write(&path, vec![0; size]).unwrap();
            remove(&root, &path, &uuid).unwrap();
            assert!(!path.exists(), "not formatted yet: {size}");
        }
        allocate(&path, 20 * PAGE_BYTES as u64).unwrap();
        super::super::format(&path, 20 * PAGE_BYTES as u64, &uuid).unwrap();
        remove(&root, &path, &uuid).unwrap();
        assert!(!path.exists());
    }

    /// The kernel's own word on it: a real swap file, on the file system of the build.
    #[test]
    fn it_is_swapped_to_until_it_is_dropped() {
        let name = "it_is_swapped_to_until_it_is_dropped";
        let root = Root::machine();
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let undo = Undo::open(&root, &folder.path().join("undo")).unwrap();
        if !crate::is_root() {
            warmswap_testkit::skip!(name, "only root may swap to a file");
        }
        let swap = match SwapFile::create(&undo, folder.path(), 1 << 20, 0) {
            Ok(swap) => swap,
            Err(error) => warmswap_testkit::skip!(name, "this file system cannot: {error}"),
        };
        let path = swap.path().to_owned();
        let is_listed = || {
            let areas = super::super::areas(&root).unwrap();
            areas.iter().any(|area| Path::new(&area.path) == path)
        };
        assert!(is_listed());
        drop(swap);
        assert!(!is_listed() && !path.exists());
    }
}
