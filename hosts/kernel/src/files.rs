//! Pages of files that programs open again and again, or hold open or mapped: code of short-lived programs, headers, mail,
//! databases, resources. Many are in no page table, and under pressure they are the first to go.
//!
//! Every two seconds it is looked at which files were opened, and which of their pages are in memory; in idle time those come
//! back that were dropped. A thread of its own does it: a disk that does not answer holds up nothing else.

mod known;

use std::collections::BTreeSet;
use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use parking_lot::Mutex;
use warmswap_page::PAGE_BYTES;
use warmswap_sys::advise::PageRange;
use warmswap_sys::memcg::{MemcgStats, bounds_of};
use warmswap_sys::meminfo::Meminfo;
use warmswap_sys::opened::{FileHandle, Opened};
use warmswap_sys::page_cache::{cached, read_in};
use warmswap_sys::process::{background_io_priority, background_priority};
use warmswap_sys::{FileError, Root};

use self::known::{KnownFiles, MOST_FILES};
use crate::act::brake::{Brake, Groups};
use crate::act::bring::batches;
use crate::act::pace::Pace;
use crate::act::worker::Beat;
use crate::decide::Seen;
use crate::decide::order::{count, without};
use crate::decide::reserve::least_bytes;
use crate::error::HostError;
use crate::host::thread_cpu_ns;
use crate::see::swap::swapped_bytes;

const PAGE: u64 = PAGE_BYTES as u64;

/// File systems for programs and their data on disks of this machine. Removable disks are left out: a file that is read just
/// then would keep them from being unmounted.
const TYPES: [&str; 9] = [
    "bcachefs", "btrfs", "erofs", "ext2", "ext3", "ext4", "f2fs", "jfs", "xfs",
];

/// Larger files are images and films, for the most part.
const MOST_BYTES: u64 = 1 << 30;

/// Between looks: a program that begins to use a file has read some of it by then, and pressure has seldom taken that again.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// What came back so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FilesDone {
    pub pages: u64,
    /// CPU time of looks as well.
    pub cpu_ns: u64,
    /// Bytes that what is known of files takes.
    pub state_bytes: usize,
}

/// Pages are to come back while memory is free beyond the reserve, where the machine is as it was seen then.
#[derive(Debug)]
struct Bring {
    machine: Seen,
    reserve_bytes: u64,
}

/// The thread that does it. Dropping it has it end after the batch that is under way, which is not waited for.
#[derive(Debug)]
pub(crate) struct Files {
    tasks: SyncSender<Bring>,
    held: Arc<Mutex<BTreeSet<FileHandle>>>,
    done: Arc<Mutex<FilesDone>>,
    beat: Arc<Beat>,
}

impl Files {
    /// Starts the thread. None with the reason where the kernel does not tell which files are opened.
    ///
    /// # Errors
    /// [`HostError::Thread`].
    pub fn start(root: &Root, pace: &Arc<Pace>) -> Result<Result<Self, String>, HostError> {
        let opened = match Opened::new(root) {
            Ok(opened) => opened,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let (tasks, receiver) = sync_channel(1);
        let mut thread = Thread {
            root: root.clone(),
            opened,
            known: KnownFiles::default(),
            held: Arc::default(),
            beat: Arc::new(Beat::at(pace)),
            done: Arc::default(),
        };
        let (beat, done) = (Arc::clone(&thread.beat), Arc::clone(&thread.done));
        let held = Arc::clone(&thread.held);
        std::thread::Builder::new()
            .name("files".to_owned())
            .spawn(move || thread.run(&receiver))
            .map_err(HostError::Thread)?;
        Ok(Ok(Self {
            tasks,
            held,
            done,
            beat,
        }))
    }

    /// A program holds these files. Forgotten while the thread waits for a disk and has many to look at already.
    pub fn note_held(&self, files: BTreeSet<FileHandle>) {
        let mut held = self.held.lock();
        if held.len() < MOST_FILES {
            held.extend(files);
        }
    }

    /// Has pages come back while memory is free beyond the reserve, where the machine is as it was seen now; unless that is under
    /// way.
    pub fn bring(&self, machine: Seen, reserve_bytes: u64) {
        let _ = self.tasks.try_send(Bring {
            machine,
            reserve_bytes,
        });
    }

    /// What was done so far.
    pub fn done(&self) -> FilesDone {
        *self.done.lock()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        self.beat.abandon();
    }
}

struct Thread {
    root: Root,
    opened: Opened,
    known: KnownFiles<FileHandle>,
    /// Files that programs were seen to hold since the last look.
    held: Arc<Mutex<BTreeSet<FileHandle>>>,
    beat: Arc<Beat>,
    done: Arc<Mutex<FilesDone>>,
}

impl Thread {
    fn run(&mut self, tasks: &Receiver<Bring>) {
        // Without them the work is done at normal priority.
        let _ = background_priority();
        let _ = background_io_priority();
        loop {
            let task = match tasks.recv_timeout(LOOK_INTERVAL) {
                Ok(task) => Some(task),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let begin = thread_cpu_ns();
            self.look();
            if let Some(task) = task {
                // Memory that cannot be read is taken for used.
                let _ = self.bring(task.machine, task.reserve_bytes);
            }
            self.done.lock().cpu_ns += thread_cpu_ns() - begin;
        }
    }

    /// Takes in which files were opened or held, and which of their pages are in memory.
    fn look(&mut self) {
        // Mounts that cannot be read now are taken for unchanged; what is not told is not brought back.
        let _ = self.opened.follow_mounts(&TYPES);
        let known = &mut self.known;
        let _ = self.opened.drain(|handle| known.note_opened(handle));
        for handle in std::mem::take(&mut *self.held.lock()) {
            known.note_held(handle);
        }
        for handle in self.known.to_note() {
            match self.open(&handle).and_then(|file| cached(&file).ok()) {
                Some(pages) => self.known.note_cached(&handle, pages),
                None => self.known.forget(&handle),
            }
        }
        self.known.end_look();
        self.done.lock().state_bytes = self.known.state_bytes();
    }

    /// None for what is gone, cannot be read, or is not worth it.
    fn open(&self, handle: &FileHandle) -> Option<File> {
        let file = self.opened.open(handle).ok()??;
        (file.metadata().ok()?.len() <= MOST_BYTES).then_some(file)
    }

    /// Brings pages back that were dropped, of files that were opened last first: into memory that is free and that programs
    /// leave whose pages are in swap, not into that of other files, which would have to come back in turn.
    fn bring(&mut self, machine: Seen, reserve_bytes: u64) -> Result<(), FileError> {
        let memory = Meminfo::read(&self.root)?;
        let kept_bytes = machine.floor_bytes + reserve_bytes + swapped_bytes(&memory);
        let bounds = bounds_of(&self.root, std::process::id());
        let rooms = bounds
            .iter()
            .flat_map(|(group, bound)| Ok::<_, FileError>(room_of_group(&group.stats()?, *bound)));
        let room_bytes = memory.free_bytes.saturating_sub(kept_bytes);
        // Half of what is free is left: programs that are used grow.
        let mut room_pages = rooms.fold(room_bytes, u64::min) / 2 / PAGE;
        // What reclaimed before is no reason to wait: this is tried once.
        let mut groups = Groups::default();
        let mut brake = Brake::new(&self.root, &self.beat, &mut groups, machine, reserve_bytes);
        'all: for (handle, pages) in self.known.in_order() {
            let Some((file, dropped)) = self.dropped(&handle, &pages) else {
                self.known.forget(&handle);
                continue;
            };
            for batch in batches(&dropped) {
                brake.wait_for_launch();
                let pages = count(&batch);
                if pages > room_pages || brake.halt(&bounds).is_some() {
                    break 'all;
                }
                // What cannot be read is read by no program either.
                let read = batch.iter().filter(|range| read_in(&file, **range).is_ok());
                self.done.lock().pages += read.map(|range| range.count).sum::<u64>();
                brake.brought(pages);
                room_pages -= pages;
            }
        }
        Ok(())
    }

    /// The file, and which of these pages are not in memory.
    fn dropped(&self, handle: &FileHandle, pages: &[PageRange]) -> Option<(File, Vec<PageRange>)> {
        let file = self.open(handle)?;
        let mut dropped = without(pages, &cached(&file).ok()?);
        let end = file.metadata().ok()?.len().div_ceil(PAGE);
        dropped.retain(|range| range.first < end);
        if let Some(last) = dropped.last_mut() {
            last.count = last.count.min(end - last.first);
        }
        Some((file, dropped))
    }
}

/// Bytes that files may take of a group: what its programs have in swap is left to them.
fn room_of_group(stats: &MemcgStats, bound_bytes: u64) -> u64 {
    let kept_bytes = least_bytes(bound_bytes) + stats.swapped_bytes.unwrap_or(0);
    bound_bytes.saturating_sub(stats.usage_bytes + kept_bytes)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::{Command, Stdio};

    use warmswap_testkit::skip;

    use super::*;
    use crate::see::bounds;

    /// Another process opens the file and reads it.
    fn read(path: &Path) {
        let mut command = Command::new("cat");
        let status = command.arg(path).stdout(Stdio::null()).status();
        assert!(status.expect("cat is there").success());
    }

    fn drop_pages(file: &File) {
        rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }

    #[test]
    fn files_leave_a_group_what_its_programs_have_in_swap() {
        let room = |usage_bytes, swapped_bytes| {
            let stats = MemcgStats {
                usage_bytes,
                swapped_bytes,
                ..MemcgStats::default()
            };
            room_of_group(&stats, 1000 << 20)
        };
        let all = room(300 << 20, None);
        assert_eq!(all, (700 << 20) - least_bytes(1000 << 20));
        assert_eq!(room(300 << 20, Some(200 << 20)), all - (200 << 20));
        assert_eq!(room(300 << 20, Some(700 << 20)), 0);
    }

    #[test]
    fn dropped_pages_of_a_file_that_is_used_come_back() {
        let name = "dropped_pages_of_a_file_that_is_used_come_back";
        let root = Root::machine();
        let opened = match Opened::new(&root) {
            Ok(opened) => opened,
            Err(error) => skip!(name, "the kernel does not tell what is opened: {error}"),
        };
        let mut thread = Thread {
            root: root.clone(),
            opened,
            known: KnownFiles::default(),
            held: Arc::default(),
            beat: Arc::default(),
            done: Arc::default(),
        };
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let files = ["again", "once", "removed", "held"].map(|name| {
            let path = folder.path().join(name);
            std::fs::write(&path, vec![7; 64 * PAGE_BYTES + 1]).unwrap();
            let file = File::open(&path).unwrap();
            file.sync_all().unwrap();
            (path, file)
        });
        let [
            (again, file),
            (once, other),
            (removed, gone),
            (held, mapped),
        ] = files;
        let held = FileHandle::of(&held).unwrap();
        thread.held.lock().insert(held);
        thread.look();
        for opened in [vec![&again, &removed], vec![&again, &removed, &once]] {
            opened.into_iter().for_each(|path| read(path));
            thread.look();
        }
        if thread.known.in_order().is_empty() {
            skip!(name, "this file system cannot be watched");
        }
        std::fs::remove_file(removed).unwrap();
        drop(gone);
        // Another test may take memory just then.
        let is_back = (0..20).any(|_| {
            [&file, &other, &mapped].into_iter().for_each(drop_pages);
            assert!(cached(&file).unwrap().is_empty());
            let memory = Meminfo::read(&root).unwrap();
            let machine = bounds::machine(&root, &memory).unwrap();
            thread.bring(machine, 0).unwrap();
            [&file, &mapped].map(|file| count(&cached(file).unwrap())) == [65; 2]
        });
        assert!(is_back);
        assert!(cached(&other).unwrap().is_empty(), "it was opened once");
        assert!(thread.done.lock().pages >= 65);
        // Nothing is read where nothing is free.
        drop_pages(&file);
        let memory = Meminfo::read(&root).unwrap();
        let machine = bounds::machine(&root, &memory).unwrap();
        thread.bring(machine, memory.total_bytes).unwrap();
        assert!(cached(&file).unwrap().is_empty());
    }
}
