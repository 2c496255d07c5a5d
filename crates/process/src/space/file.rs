//! The backing file of a program: unnamed, so that nothing is left whatever becomes of the program, and opened
//! where the program does not see it.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use rustix::fs::{Mode, OFlags};
use warmswap_backing::Storage;

/// Numbers below this are for the descriptors of the memory, which are opened anew under those that they had.
const FIRST_NUMBER: i32 = 64;

/// The file, or none yet. Clones are the same file.
#[derive(Clone, Debug)]
pub struct SpaceFile {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    file: RwLock<Option<File>>,
    /// Process and thread among whose descriptors the file is.
    process: AtomicU32,
    thread: AtomicU32,
}

impl SpaceFile {
    /// A file to be opened in `place`, if that is a folder, or beside it.
    pub fn at(place: &Path) -> Self {
        let folder = match place.parent() {
            _ if place.is_dir() => place,
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        // The program may go to another folder before the file is opened.
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let inner = Inner {
            folder,
            file: RwLock::new(None),
            process: AtomicU32::new(0),
            thread: AtomicU32::new(0),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Opens a new file.
    pub fn open(&self) -> io::Result<()> {
        self.put(self.create()?);
        Ok(())
    }

    /// In the child of a `fork`, while the parent waits: a copy of the parent's file.
    pub fn open_copy(&self) -> io::Result<()> {
        let number = match &*self.file() {
            Some(file) => file.as_raw_fd(),
            None => return Ok(()),
        };
        let process = self.inner.process.load(Ordering::Relaxed);
        let thread = self.inner.thread.load(Ordering::Relaxed);
        let mut parents = File::open(format!("/proc/{process}/task/{thread}/fd/{number}"))?;
        let mut own = self.create()?;
        io::copy(&mut parents, &mut own)?;
        // What was there has a number that means nothing here, or something else.
        let mut file = self
            .inner
            .file
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::forget(file.take());
        drop(file);
        self.put(own);
        Ok(())
    }

    fn create(&self) -> io::Result<File> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::open(&self.inner.folder, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(rustix::io::fcntl_dupfd_cloexec(file, FIRST_NUMBER)?.into())
    }

    fn put(&self, new: File) {
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        self.inner
            .process
            .store(std::process::id(), Ordering::Relaxed);
        self.inner.thread.store(thread as u32, Ordering::Relaxed);
        *self
            .inner
            .file
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Some(new);
    }

    fn file(&self) -> std::sync::RwLockReadGuard<'_, Option<File>> {
        self.inner
            .file
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn with<R>(&self, use_it: impl FnOnce(&File) -> io::Result<R>) -> io::Result<R> {
        match &*self.file() {
            Some(file) => use_it(file),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

impl Storage for SpaceFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.with(|file| file.read_at(buf, offset))
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.with(|file| file.write_at(buf, offset))
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        match &*self.file() {
            Some(file) => file.set_len(bytes),
            // It is empty when it is opened, and made as long as it is written to.
            None => Ok(()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.with(File::sync_data)
    }

    fn path(&self) -> &Path {
        &self.inner.folder
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_another_file_with_the_same_bytes_and_none_has_a_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = SpaceFile::at(&folder.path().join("swap"));
        assert!(file.read_at(&mut [0], 0).is_err());
        file.open().expect("a file");
        file.write_at(b"abc", 5).expect("written");
        let parents = file.with(File::try_clone).expect("open");
        file.open_copy().expect("a copy");
        parents.write_at(b"xyz", 5).expect("written");
        let mut bytes = [0; 3];
        file.read_at(&mut bytes, 5).expect("read");
        assert_eq!(&bytes, b"abc");
        assert_eq!(folder.path().read_dir().expect("a folder").count(), 0);
    }
}
