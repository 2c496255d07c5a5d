//! The backing file of a program: unnamed, so that nothing is left whatever becomes of the program, and opened
//! where the program does not see it.
//!
//! A fork copies nothing of it. What is in a file at a fork is read by parent and child, and written to by neither: a
//! process writes on to a file of its own (a *layer*), segment by segment, until all others that share the one before have
//! let it go. A file's space comes back when the last process that reads it ends, or has no record in it any more.
//!
//! Each process that shares a layer has a lock on it, which ends with the process at the latest
//! ([`warmswap_sys::fork::share`]).

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate};
use warmswap_backing::Storage;
use warmswap_sys::fork::{is_shared, share};

/// Numbers below this are for the descriptors of the memory, which are opened anew under those that they had.
const FIRST_NUMBER: i32 = 64;

/// The last of the numbers that stand for something in every process.
const STDERR_NUMBER: i32 = 2;

/// The files, or none yet. Clones are the same.
#[derive(Clone, Debug)]
pub struct SpaceFile {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    segment_bytes: u64,
    layers: RwLock<Layers>,
    /// The thread among whose descriptors the files are.
    thread: AtomicU32,
}

/// Which file has which segment.
#[derive(Debug, Default)]
struct Layers {
    files: Vec<Layer>,
    /// By segment, the layer with its records: a place in `files`.
    of_segment: Vec<Option<usize>>,
}

#[derive(Debug)]
struct Layer {
    file: File,
    /// Others may read what is in it.
    is_shared: bool,
    /// How many segments have their records in it.
    segments: usize,
    /// Segments that are written elsewhere since it is shared: what it holds of them is for others.
    left: Vec<u32>,
}

impl Layer {
    /// The segments that were left, as runs of neighbours, ascending. None are, from here on.
    fn take_left(&mut self) -> Vec<Range<u32>> {
        let mut left = std::mem::take(&mut self.left);
        left.sort_unstable();
        let runs = left.chunk_by(|&one, &next| one + 1 == next);
        runs.map(|run| run[0]..run[run.len() - 1] + 1).collect()
    }
}

impl SpaceFile {
    /// A file to be opened in `place`, if that is a folder, or beside it, with segments of so many bytes.
    pub fn at(place: &Path, segment_bytes: u32) -> Self {
        let folder = match place.parent() {
            _ if place.is_dir() => place,
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        // The program may go to another folder before the file is opened.
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let inner = Inner {
            folder,
            segment_bytes: segment_bytes.into(),
            layers: RwLock::default(),
            thread: AtomicU32::new(0),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Opens a new file.
    ///
    /// # Errors
    /// The system's answer.
    pub fn open(&self) -> io::Result<()> {
        let layer = self.create()?;
        self.is_at_home();
        *self.write() = Layers {
            files: vec![layer],
            of_segment: Vec::new(),
        };
        Ok(())
    }

    /// Before a `fork`, by the thread that forks: the files for the child, among the descriptors of the program. From here
    /// on they are shared, and only read. No segment is open.
    ///
    /// # Errors
    /// The system's answer: no room for descriptors. Nothing is lent then.
    pub fn lend(&self) -> io::Result<Vec<File>> {
        let thread = self.inner.thread.load(Ordering::Relaxed);
        let mut layers = self.write();
        let lend = |layer: &Layer| -> io::Result<File> {
            let number = layer.file.as_raw_fd();
            // With a lock of its own, that the child has, too.
            let path = format!("/proc/self/task/{thread}/fd/{number}");
            let mut file = File::options().read(true).write(true).open(path)?;
            if file.as_raw_fd() <= STDERR_NUMBER {
                // The program has closed what it stands for.
                file = rustix::io::fcntl_dupfd_cloexec(&file, STDERR_NUMBER + 1)?.into();
            }
            share(file.as_fd())?;
            Ok(file)
        };
        let lent: io::Result<Vec<File>> = layers.files.iter().map(lend).collect();
        if lent.is_ok() {
            layers
                .files
                .iter_mut()
                .for_each(|layer| layer.is_shared = true);
        }
        lent
    }

    /// In the child of a `fork`: the records that it has are in these files, which were lent to it.
    ///
    /// # Errors
    /// The system's answer: no room for descriptors.
    pub fn take_over(&self, lent: Vec<File>) -> io::Result<()> {
        self.is_at_home();
        let mut layers = self.write();
        for (layer, file) in layers.files.iter_mut().zip(lent) {
            // The parent's descriptor has a number that means nothing here, or something else.
            let own = rustix::io::fcntl_dupfd_cloexec(&file, FIRST_NUMBER)?;
            std::mem::forget(std::mem::replace(&mut layer.file, own.into()));
        }
        Ok(())
    }

    /// Calls `with` with the descriptors of the files.
    pub fn with_descriptors<R>(&self, with: impl FnOnce(&[BorrowedFd<'_>]) -> R) -> R {
        let layers = self.read();
        let files = layers.files.iter().map(|layer| layer.file.as_fd());
        with(&files.collect::<Vec<_>>())
    }

    fn is_at_home(&self) {
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        self.inner.thread.store(thread as u32, Ordering::Relaxed);
    }

    fn create(&self) -> io::Result<Layer> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::open(&self.inner.folder, flags, Mode::RUSR | Mode::WUSR)?;
        share(file.as_fd())?;
        Ok(Layer {
            file: rustix::io::fcntl_dupfd_cloexec(file, FIRST_NUMBER)?.into(),
            is_shared: false,
            segments: 0,
            left: Vec::new(),
        })
    }

    fn read(&self) -> RwLockReadGuard<'_, Layers> {
        let layers = self.inner.layers.read();
        layers.unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Layers> {
        let layers = self.inner.layers.write();
        layers.unwrap_or_else(PoisonError::into_inner)
    }

    fn segment(&self, offset: u64) -> usize {
        (offset / self.inner.segment_bytes) as usize
    }

    /// Has a segment in a file that this process alone uses. What others can read of it has no record of this process:
    /// segments with records in them are not written to after a fork.
    fn make_own(&self, segment: usize) -> io::Result<()> {
        let mut layers = self.write();
        if layers.own(segment).is_some() {
            return Ok(());
        }
        layers.regain(self.inner.segment_bytes);
        if layers.own(segment).is_some() {
            return Ok(());
        }
        let own = match layers.files.iter().position(|layer| !layer.is_shared) {
            Some(own) => own,
            None => {
                layers.files.push(self.create()?);
                layers.files.len() - 1
            }
        };
        layers.put(segment, own);
        Ok(())
    }
}

impl Layers {
    fn layer(&self, segment: usize) -> Option<&Layer> {
        let number = self.of_segment.get(segment).copied().flatten()?;
        self.files.get(number)
    }

    /// The file of a segment that can be written to.
    fn own(&self, segment: usize) -> Option<&File> {
        let layer = self.layer(segment)?;
        (!layer.is_shared).then_some(&layer.file)
    }

    fn put(&mut self, segment: usize, layer: usize) {
        if self.of_segment.len() <= segment {
            self.of_segment.resize(segment + 1, None);
        }
        if let Some(before) = self.of_segment[segment].replace(layer) {
            let before = &mut self.files[before];
            debug_assert!(before.is_shared);
            before.segments -= 1;
            before.left.push(segment as u32);
        }
        self.files[layer].segments += 1;
        self.drop_unused();
    }

    /// Layers that no other process has any more are this one's: to be written to again, without what others had in them.
    fn regain(&mut self, segment_bytes: u64) {
        for layer in &mut self.files {
            if !layer.is_shared || is_shared(layer.file.as_fd()) {
                continue;
            }
            layer.is_shared = false;
            for run in layer.take_left() {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                let offset = u64::from(run.start) * segment_bytes;
                let bytes = run.len() as u64 * segment_bytes;
                // Where the file system cannot, its space stays in use until a record is there again.
                let _ = fallocate(&layer.file, flags, offset, bytes);
            }
        }
    }

    /// Lets shared files go that have no segment any more.
    fn drop_unused(&mut self) {
        let mut number = 0;
        while number < self.files.len() {
            let layer = &self.files[number];
            if layer.segments > 0 || !layer.is_shared {
                number += 1;
                continue;
            }
            self.files.remove(number);
            for of in self.of_segment.iter_mut().flatten() {
                *of -= usize::from(*of > number);
            }
        }
    }
}

impl Storage for SpaceFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let layers = self.read();
        match layers.layer(self.segment(offset)) {
            Some(layer) => layer.file.read_at(buf, offset),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let segment = self.segment(offset);
        loop {
            if let Some(file) = self.read().own(segment) {
                return file.write_at(buf, offset);
            }
            self.make_own(segment)?;
        }
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        // It is empty when it is opened, and made as long as it is written to.
        let layers = self.read();
        let mut files = layers.files.iter().filter(|layer| !layer.is_shared);
        files.try_for_each(|layer| layer.file.set_len(bytes))
    }

    fn sync(&self) -> io::Result<()> {
        self.read()
            .files
            .iter()
            .try_for_each(|layer| layer.file.sync_data())
    }

    fn path(&self) -> &Path {
        &self.inner.folder
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmswap_testkit::Random;

    const SEGMENT: u32 = 4096;

    /// A file with bytes in its first two segments, and its folder.
    fn file() -> (tempfile::TempDir, SpaceFile) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = SpaceFile::at(&folder.path().join("swap"), SEGMENT);
        assert!(file.read_at(&mut [0], 0).is_err());
        file.open().expect("a file");
        file.write_at(b"abc", 5).expect("written");
        file.write_at(b"def", 4096).expect("written");
        (folder, file)
    }

    /// As a child of a fork has it.
    fn child(parent: &SpaceFile) -> SpaceFile {
        let lent = parent.lend().expect("descriptors");
        let child = SpaceFile::at(&parent.inner.folder, SEGMENT);
        let layers = parent.read();
        *child.write() = Layers {
            files: layers
                .files
                .iter()
                .map(|layer| Layer {
                    // Forgotten, as a number of the parent's.
                    file: File::open("/dev/null").expect("a file"),
                    is_shared: true,
                    segments: layer.segments,
                    left: layer.left.clone(),
                })
                .collect(),
            of_segment: layers.of_segment.clone(),
        };
        child.take_over(lent).expect("descriptors");
        child
    }

    fn holds(file: &SpaceFile, bytes: &[u8], offset: u64) -> bool {
        let mut read = vec![0; bytes.len()];
        file.read_at(&mut read, offset).expect("read");
        read == bytes
    }

    fn disk_bytes(file: &SpaceFile) -> u64 {
        use std::os::unix::fs::MetadataExt;
        let layers = file.read();
        let blocks = layers
            .files
            .iter()
            .map(|layer| layer.file.metadata().expect("a file").blocks());
        blocks.sum::<u64>() * 512
    }

    #[test]
    fn parent_and_child_read_what_was_there_and_write_elsewhere() {
        let (folder, parent) = file();
        let child = child(&parent);
        parent.write_at(b"xyz", 4096).expect("written");
        child.write_at(b"uvw", 8192).expect("written");
        assert!(holds(&parent, b"abc", 5) && holds(&parent, b"xyz", 4096));
        assert!(holds(&child, b"abc", 5) && holds(&child, b"def", 4096));
        assert!(holds(&child, b"uvw", 8192));
        assert!(parent.read_at(&mut [0], 8192).is_err());
        assert_eq!(folder.path().read_dir().expect("a folder").count(), 0);
    }

    #[test]
    fn a_parent_whose_children_have_ended_has_one_file_without_what_they_had() {
        let (_folder, parent) = file();
        let before = disk_bytes(&parent);
        for round in 0..3 {
            let child = child(&parent);
            parent.write_at(b"xyz", 4096).expect("written");
            assert_eq!(parent.read().files.len(), 2, "round {round}");
            assert!(holds(
                &child,
                if round == 0 { b"def" } else { b"xyz" },
                4096
            ));
            drop(child);
            // Regained with the next segment that is begun.
            parent
                .write_at(b"next", 4 * 4096 * (round + 1))
                .expect("written");
            parent.write_at(b"abc", 5).expect("written");
            parent.write_at(b"xyz", 4096).expect("written");
            let files = parent.read().files.len();
            assert!(files <= 2, "{files} files");
            assert!(holds(&parent, b"abc", 5) && holds(&parent, b"xyz", 4096));
        }
        assert!(disk_bytes(&parent) <= before + 3 * 4096);
    }

    #[test]
    fn what_others_had_is_given_back_in_runs_and_once() {
        let (_folder, parent) = file();
        for segment in 0..16 {
            parent.write_at(b"old", segment * 4096).expect("written");
        }
        let full = disk_bytes(&parent);
        let child = child(&parent);
        for segment in [5, 1, 2, 0, 11, 10, 300] {
            parent.write_at(b"new", segment * 4096).expect("written");
        }
        let left = parent.write().files[0].left.clone();
        assert_eq!(left, [5, 1, 2, 0, 11, 10], "and nothing that it never held");
        let runs = parent.write().files[0].take_left();
        assert_eq!(runs, [0..3, 5..6, 10..12]);
        parent.write().files[0].left = left;
        assert!(disk_bytes(&parent) > full);

        drop(child);
        // Regained with the next segment that is begun.
        parent.write_at(b"new", 301 * 4096).expect("written");
        let regained = parent.write().files[0].take_left();
        assert!(regained.is_empty() && parent.read().files.len() == 2);
        // One segment more than there were, and the one in place of six.
        assert!(disk_bytes(&parent) <= full + 2 * 4096);
        for segment in 0..16 {
            let is_new = [5, 1, 2, 0, 11, 10].contains(&segment);
            let bytes = if is_new { b"new" } else { b"old" };
            assert!(holds(&parent, bytes, segment * 4096), "{segment}");
        }
    }

    #[test]
    fn layers_know_how_many_segments_they_have_whatever_is_written_and_forked() {
        let (_folder, mut file) = file();
        let mut relatives = Vec::new();
        let mut random = Random(1);
        let mut next = |below: u64| random.next() % below;
        let mut written = std::collections::HashMap::new();
        for step in 0..2_000_u64 {
            match next(12) {
                0 if relatives.len() < 3 => {
                    let child = child(&file);
                    // The one goes on, and the other is there for a time.
                    let is_child = next(2) == 0;
                    let other = if is_child {
                        std::mem::replace(&mut file, child)
                    } else {
                        child
                    };
                    relatives.push((other, written.clone()));
                }
                1 if !relatives.is_empty() => {
                    relatives.swap_remove(next(relatives.len() as u64) as usize);
                }
                _ => {
                    let segment = next(24);
                    file.write_at(&step.to_ne_bytes(), segment * 4096)
                        .expect("written");
                    written.insert(segment, step);
                }
            }
            let layers = file.read();
            for (number, layer) in layers.files.iter().enumerate() {
                let of = layers.of_segment.iter();
                assert_eq!(layer.segments, of.filter(|of| **of == Some(number)).count());
                assert!(layer.is_shared || layer.left.is_empty());
                let is_elsewhere =
                    |&segment: &u32| layers.of_segment[segment as usize] != Some(number);
                assert!(layer.left.iter().all(is_elsewhere));
            }
            drop(layers);
            for (file, written) in relatives.iter().chain([&(file.clone(), written.clone())]) {
                for (segment, step) in written {
                    assert!(holds(file, &step.to_ne_bytes(), segment * 4096));
                }
            }
        }
    }
}
