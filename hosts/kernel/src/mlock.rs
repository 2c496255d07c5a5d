//! Keeps pages of files in memory that programs had to read again (`mlock`).
//!
//! Where memory is short the kernel drops pages of files that programs execute, and reads them from the disk when they are
//! touched again, some around each. A thread sees these major faults with their addresses (perf software events), and
//! locks the pages, so that the kernel takes others: anonymous ones, which come back from compressed memory in
//! microseconds. Six programs with 620 MiB of memory wait 33 ms after a switch for pages of files, and 9 ms for swap.
//!
//! - It looks only while pages of files come back that the kernel had dropped ([`MANY_BACK`]), and most of what is read of
//!   files is such; otherwise it sleeps.
//! - The page that faulted is locked alone. Those around it that are in use fault later, and are locked then; locking eight
//!   around each cost more in swap than it saved.
//! - What the first launch of a program reads counts for nothing.
//! - A lock is a mapping of this process, and lasts for some uses of the application at most ([`locks`]), as long as a
//!   process has the file mapped, and as long as there is room in swap.
//! - Of a control group with a bound on memory an eighth of that is locked at most, and nothing where it may not swap.
//! - Only files on disks are locked: opening or reading another one could wait for a program, or another machine.
//!
//! The thread reads memory and files of programs; nothing waits for it, its end included.

mod areas;
mod bounds;
mod locks;
mod process;

use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustc_hash::{FxHashMap, FxHashSet};
use rustix::fs::{AtFlags, StatxFlags};
use warmswap_page::{AppId, PAGE_BYTES};
use warmswap_sys::maps::mapped_file;
use warmswap_sys::meminfo::{Reclaimed, VmstatFile};
use warmswap_sys::perf::{FaultKind, PageFaults, PerfError};
use warmswap_sys::residency::LockedPage;
use warmswap_sys::{FileError, Root, monotonic_ns};

use self::areas::{Areas, MappedFile};
use self::bounds::Bounds;
use self::locks::{FileKey, Locks};
use self::process::Faulting;
use crate::application::ProcessId;
use crate::error::HostError;
use crate::prepage::thread_cpu_ns;

/// Pages of files that came back between two rounds, so that faults are looked at. A round is 2 s.
const MANY_BACK: u64 = 128;

/// Rounds without that after which faults are not looked at any more.
const QUIET_ROUNDS: u32 = 5;

/// How often faults are read while they are looked at.
const READ_INTERVAL: Duration = Duration::from_millis(200);

/// The buffer of each CPU: about 1,600 faults.
const BUFFER_PAGES: usize = 16;

/// A use of an application that never comes to the foreground is over after so many rounds.
const ROUNDS_OF_USE: u32 = 30;

/// Messages that wait for the thread, at most. Where it hangs, others are lost.
const MOST_WAITING: usize = 256;

/// Pages in a row that could not be locked, after which it is not tried any more.
const MOST_FAILURES: u32 = 64;

/// The part of the memory that may be locked: of the machine, and of a control group.
const LOCKED_PART: u64 = 8;

/// What a host tells its thread.
#[derive(Debug)]
enum Message {
    /// Every 2 s: the processes whose faults count, and how much may be locked.
    Round {
        processes: Vec<(AppId, ProcessId)>,
        most_bytes: u64,
    },
    /// The application came to the foreground.
    Used(AppId),
    /// The application is watched no more, and its number is for another one.
    Removed(AppId),
}

/// What the thread did so far.
#[derive(Debug, Default)]
struct Shared {
    faults: AtomicU64,
    pages_now: AtomicU64,
    locked: AtomicU64,
    unlocked: AtomicU64,
    cpu_ns: AtomicU64,
    refused: OnceLock<String>,
}

/// What was locked so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Locked {
    /// Major faults on pages of files that were seen.
    pub faults: u64,
    /// Pages that are locked now.
    pub pages_now: u64,
    /// Pages that were locked.
    pub locked: u64,
    /// Pages that were unlocked.
    pub unlocked: u64,
    /// CPU time, in nanoseconds.
    pub cpu_ns: u64,
    /// Why nothing can be locked; none where it can, or was not tried.
    pub refused: Option<String>,
}

/// The thread that locks pages of files. Dropping it has it unlock all and end, which is not waited for.
#[derive(Debug)]
pub(crate) struct FileLocker {
    messages: SyncSender<Message>,
    shared: Arc<Shared>,
}

impl FileLocker {
    /// Starts the thread. It sleeps until it is told something.
    ///
    /// # Errors
    /// [`HostError::Thread`].
    pub fn start(root: &Root) -> Result<Self, HostError> {
        let (messages, receiver) = sync_channel(MOST_WAITING);
        let shared = Arc::new(Shared::default());
        let state = State::new(root, Arc::clone(&shared));
        std::thread::Builder::new()
            .name("lock files".to_owned())
            .spawn(move || state.run(&receiver))
            .map_err(HostError::Thread)?;
        Ok(Self { messages, shared })
    }

    /// It is 2 s later: these are the processes, and so much memory is there for all. Nothing is locked any more where it
    /// `is_short`: memory or swap runs out.
    pub fn round(&self, processes: Vec<(AppId, ProcessId)>, memory_bytes: u64, is_short: bool) {
        let most_bytes = match is_short {
            true => 0,
            false => memory_bytes / LOCKED_PART,
        };
        let _ = self.messages.try_send(Message::Round {
            processes,
            most_bytes,
        });
    }

    /// The application came to the foreground.
    pub fn used(&self, app: AppId) {
        let _ = self.messages.try_send(Message::Used(app));
    }

    /// The application is watched no more: what is locked for it is unlocked.
    pub fn removed(&self, app: AppId) {
        let _ = self.messages.try_send(Message::Removed(app));
    }

    /// What was locked so far.
    pub fn done(&self) -> Locked {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Locked {
            faults: load(&self.shared.faults),
            pages_now: load(&self.shared.pages_now),
            locked: load(&self.shared.locked),
            unlocked: load(&self.shared.unlocked),
            cpu_ns: load(&self.shared.cpu_ns),
            refused: self.shared.refused.get().cloned(),
        }
    }
}

/// A mapping by which a file was locked.
#[derive(Debug, Clone, Copy)]
struct Place {
    pid: u32,
    start: u64,
    end: u64,
    /// The file as the memory map names it.
    file: MappedFile,
}

impl Place {
    fn path(&self, root: &Root) -> PathBuf {
        mapped_file(root, self.pid, self.start, self.end)
    }
}

/// The file at a path, and the mount that holds it there.
fn key_at(path: &Path) -> std::io::Result<FileKey> {
    key(rustix::fs::CWD, path, AtFlags::empty())
}

/// The same of an open file.
fn key_of(file: &File) -> std::io::Result<FileKey> {
    key(file.as_fd(), Path::new(""), AtFlags::EMPTY_PATH)
}

fn key(folder: BorrowedFd<'_>, path: &Path, flags: AtFlags) -> std::io::Result<FileKey> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
    let found = rustix::fs::statx(folder, path, flags, wanted)?;
    Ok(FileKey {
        device: u64::from(found.stx_dev_major) << 32 | u64::from(found.stx_dev_minor),
        inode: found.stx_ino,
        // 0 before Linux 5.8.
        mount: found.stx_mnt_id,
    })
}

/// Time since the machine booted, by which the kernel tells when processes began.
fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Pages that were read since the machine booted.
#[derive(Debug, Clone, Copy)]
struct Reads {
    /// Those that the kernel had dropped before.
    again: u64,
    /// What was read from disks, and from swap where the kernel counts that, too.
    blocks: u64,
    /// What came from swap.
    swapped_in: u64,
}

impl Reads {
    /// None where the kernel does not tell.
    fn now(root: &Root) -> Option<Self> {
        let again = Reclaimed::read(root).ok()?.files_back?;
        let blocks = VmstatFile::open(root).ok()?.read().ok()?;
        Some(Self {
            again,
            blocks: blocks.read_bytes / PAGE_BYTES as u64,
            swapped_in: blocks.in_pages,
        })
    }
}

#[derive(Debug)]
struct State {
    root: Root,
    shared: Arc<Shared>,
    /// None while they are not looked at.
    faults: Option<PageFaults>,
    processes: FxHashMap<u32, Faulting>,
    locks: Locks<LockedPage>,
    bounds: Bounds,
    /// Where a process has the files mapped of which something is locked.
    places: FxHashMap<FileKey, Place>,
    most_pages: u64,
    /// What had been read at the last round.
    reads: Option<Reads>,
    quiet_rounds: u32,
    rounds: u32,
    /// Pages in a row that could not be locked.
    failures: u32,
}

impl State {
    fn new(root: &Root, shared: Arc<Shared>) -> Self {
        Self {
            root: root.clone(),
            shared,
            faults: None,
            processes: FxHashMap::default(),
            locks: Locks::default(),
            bounds: Bounds::default(),
            places: FxHashMap::default(),
            most_pages: 0,
            reads: None,
            quiet_rounds: QUIET_ROUNDS,
            rounds: 0,
            failures: 0,
        }
    }

    fn run(mut self, messages: &Receiver<Message>) {
        loop {
            let message = match self.faults {
                Some(_) => messages.recv_timeout(READ_INTERVAL),
                None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match message {
                Ok(Message::Round {
                    processes,
                    most_bytes,
                }) => self.round(&processes, most_bytes),
                Ok(Message::Used(app)) => self.locks.used(app),
                Ok(Message::Removed(app)) => self.removed(app),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.read_faults();
            self.publish();
        }
    }

    fn removed(&mut self, app: AppId) {
        self.locks.remove(app);
        self.processes.retain(|_, process| process.app != app);
    }

    fn publish(&self) {
        let shared = &self.shared;
        let store = |to: &AtomicU64, value| to.store(value, Ordering::Relaxed);
        let (now, released) = (self.locks.pages(), self.locks.released());
        store(&shared.pages_now, now);
        store(&shared.locked, now + released);
        store(&shared.unlocked, released);
        store(&shared.cpu_ns, thread_cpu_ns());
    }

    fn round(&mut self, processes: &[(AppId, ProcessId)], most_bytes: u64) {
        self.most_pages = most_bytes / PAGE_BYTES as u64;
        self.locks.bound(self.most_pages);
        self.watch(processes);
        self.release_unmapped();
        for group in self.bounds.refresh() {
            if self.locks.pages_of(group) > self.bounds.most_pages(group) {
                self.locks.release_group(group);
            }
        }
        self.rounds += 1;
        if self.rounds.is_multiple_of(ROUNDS_OF_USE) {
            self.locks.age();
        }
        if self.are_read_again() && self.most_pages > 0 {
            self.quiet_rounds = 0;
            self.look();
        } else {
            self.quiet_rounds = self.quiet_rounds.saturating_add(1);
        }
        if self.quiet_rounds >= QUIET_ROUNDS {
            self.look_away();
        }
    }

    /// Whether many pages of files came back since the last round that the kernel had dropped, and most of what was read was
    /// such.
    fn are_read_again(&mut self) -> bool {
        let now = Reads::now(&self.root);
        let last = std::mem::replace(&mut self.reads, now);
        let (Some(last), Some(now)) = (last, now) else {
            return false;
        };
        let again = now.again.saturating_sub(last.again);
        let blocks = now.blocks.saturating_sub(last.blocks);
        // Before Linux 6.3 what comes from zram is not among them.
        let of_files = blocks.checked_sub(now.swapped_in - last.swapped_in.min(now.swapped_in));
        again >= MANY_BACK && again >= of_files.unwrap_or(blocks) / 2
    }

    fn watch(&mut self, processes: &[(AppId, ProcessId)]) {
        let known = std::mem::take(&mut self.processes);
        let mut known: FxHashMap<_, _> = known.into_values().map(|p| (p.id, p)).collect();
        for &(app, id) in processes {
            let process = known.remove(&id);
            let mut process = process.unwrap_or_else(|| Faulting::new(app, id));
            process.app = app;
            self.processes.insert(id.pid, process);
        }
    }

    /// A file that no process has mapped any more is not held: its file system could not be unmounted.
    fn release_unmapped(&mut self) {
        if self.places.is_empty() {
            return;
        }
        let files = self.locks.files();
        let places = std::mem::take(&mut self.places);
        for (file, place) in places {
            if !files.contains(&file) {
                continue;
            }
            let is_there = key_at(&place.path(&self.root)).is_ok_and(|found| found == file);
            let place = if is_there {
                Some(place)
            } else {
                self.other_place(file, place.file)
            };
            if let Some(place) = place {
                self.places.insert(file, place);
            }
        }
        let places = &self.places;
        self.locks.retain_files(|file| places.contains_key(&file));
    }

    /// Where another process has a file mapped, or the same one elsewhere.
    fn other_place(&self, key: FileKey, file: MappedFile) -> Option<Place> {
        self.processes.keys().find_map(|&pid| {
            let areas = Areas::read(&self.root, pid).ok()?;
            let mut places = areas.of_file(file).map(|area| Place {
                pid,
                start: area.start,
                end: area.end,
                file,
            });
            places.find(|place| key_at(&place.path(&self.root)).is_ok_and(|found| found == key))
        })
    }

    /// Looks at faults from now on.
    fn look(&mut self) {
        if self.faults.is_some() || self.shared.refused.get().is_some() {
            return;
        }
        match PageFaults::open(&self.root, FaultKind::Major, BUFFER_PAGES) {
            Ok(faults) => self.faults = Some(faults),
            Err(error @ (PerfError::Missing | PerfError::Permission { .. })) => {
                self.refuse(&error.to_string());
            }
            // A processor went, or descriptors ran out: it is tried again in the next round.
            Err(_) => {}
        }
    }

    fn look_away(&mut self) {
        self.faults = None;
        for process in self.processes.values_mut() {
            process.look_away();
        }
        let locks = &self.locks;
        self.bounds.retain(|group| locks.pages_of(group) > 0);
    }

    /// It is not tried again.
    fn refuse(&mut self, why: &str) {
        let _ = self.shared.refused.set(why.to_owned());
        self.look_away();
    }

    fn read_faults(&mut self) {
        let Some(faults) = &mut self.faults else {
            return;
        };
        let mut seen = Vec::new();
        faults.read(&mut seen);
        let now_ns = monotonic_ns();
        let mut tried = FxHashSet::default();
        for fault in seen {
            if !tried.insert((fault.pid, fault.address / PAGE_BYTES as u64)) {
                continue;
            }
            // What is gone by now, or cannot be read, is left alone.
            let _ = self.fault(fault.pid, fault.address, now_ns);
            if self.faults.is_none() {
                return;
            }
        }
    }

    fn fault(&mut self, pid: u32, address: u64, now_ns: u64) -> Result<(), FileError> {
        let Some(process) = self.processes.get_mut(&pid) else {
            return Ok(());
        };
        let app = process.app;
        if !process.has_begun(self.locks.switches_to(app), since_boot()) {
            return Ok(());
        }
        let Some(area) = process.area(&self.root, address, now_ns)? else {
            return Ok(());
        };
        let Some((file, first)) = area.file.filter(|_| process.is_of_file(address)) else {
            return Ok(());
        };
        self.shared.faults.fetch_add(1, Ordering::Relaxed);
        let bounds = &mut self.bounds;
        let group = *process
            .group
            .get_or_insert_with(|| bounds.group_of(&self.root, pid));
        let most_of_group = group.map_or(u64::MAX, |group| self.bounds.most_pages(group));
        if !(self.locks).make_room(app, group, most_of_group, self.most_pages) {
            return Ok(());
        }
        let place = Place {
            pid,
            start: area.start,
            end: area.end,
            file,
        };
        let path = place.path(&self.root);
        let opened = File::open(&path).and_then(|opened| Ok((key_of(&opened)?, opened)));
        let (key, opened) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                if error.raw_os_error() == Some(rustix::io::Errno::PERM.raw_os_error()) {
                    self.refuse(&format!("cannot open {}: {error}", path.display()));
                } else if error.kind() == ErrorKind::NotFound {
                    // The mapping has changed.
                    process.look_away();
                }
                return Err(FileError::new("open", &path, error));
            }
        };
        let page = first + (address - area.start) / PAGE_BYTES as u64;
        if self.locks.holds((key, page)) {
            return Ok(());
        }
        match LockedPage::lock_cached(&opened, page) {
            Ok(Some(locked)) => {
                self.failures = 0;
                self.locks.insert(app, group, (key, page), locked);
                self.places.entry(key).or_insert(place);
                Ok(())
            }
            // It left already.
            Ok(None) => Ok(()),
            Err(error) => {
                // A file that was cut off just now is no reason to give up.
                self.failures += 1;
                let is_forbidden = error.kind() == ErrorKind::PermissionDenied;
                if is_forbidden || self.failures >= MOST_FAILURES {
                    self.refuse(&format!("cannot lock pages of {}: {error}", path.display()));
                }
                Err(FileError::new("lock", &path, error))
            }
        }
    }
}
