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
//! - What the first launch of a program reads counts for nothing ([`Sighting::counts`]).
//! - A lock is a mapping of this process, and lasts for some uses of the application at most ([`locks`]), as long as a
//!   process has the file mapped, and as long as there is room in swap.
//! - Only files on disks are locked: reading another one could wait for a program, or another machine.
//!
//! The thread reads memory and files of programs; nothing waits for it, its end included.

mod areas;
mod locks;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustc_hash::{FxHashMap, FxHashSet};
use warmswap_page::{AppId, PAGE_BYTES};
use warmswap_sys::maps::mapped_file;
use warmswap_sys::memcg::limit_bytes_of;
use warmswap_sys::meminfo::{Reclaimed, VmstatFile};
use warmswap_sys::pagemap::Pagemap;
use warmswap_sys::perf::{FaultKind, PageFaults};
use warmswap_sys::residency::{LockedPage, is_on_disk};
use warmswap_sys::{FileError, Root, monotonic_ns};

use self::areas::{Area, Areas, FileKey};
use self::locks::Locks;
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

/// A process of an application that nobody told of a switch has begun when it is known for so long.
const BEGUN: Duration = Duration::from_secs(60);

/// Where no switches are told, a use of all applications is over after so many rounds.
const ROUNDS_OF_USE: u32 = 30;

/// The mappings of a process are read again after so long at the earliest.
const REREAD: Duration = Duration::from_secs(1);

/// The part of the memory that may be locked: of the machine, and of each control group.
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
    messages: Sender<Message>,
    shared: Arc<Shared>,
}

impl FileLocker {
    /// Starts the thread. It sleeps until it is told something.
    ///
    /// # Errors
    /// [`HostError::Thread`].
    pub fn start(root: &Root) -> Result<Self, HostError> {
        let (messages, receiver) = channel();
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
        // The thread lives as long as the sender.
        let _ = self.messages.send(Message::Round {
            processes,
            most_bytes,
        });
    }

    /// The application came to the foreground.
    pub fn used(&self, app: AppId) {
        let _ = self.messages.send(Message::Used(app));
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

/// A process whose faults are looked at.
#[derive(Debug)]
struct Sighting {
    app: AppId,
    id: ProcessId,
    since_ns: u64,
    /// Pages that may be locked for it: the part of its control group's memory.
    most_pages: u64,
    /// Its page table and mappings, while faults are looked at.
    memory: Option<(Pagemap, Areas, u64)>,
}

impl Sighting {
    /// Whether it has begun, so that what it reads it has read before, as a rule.
    fn counts(&self, switches: u64, now_ns: u64) -> bool {
        let known = Duration::from_nanos(now_ns.saturating_sub(self.since_ns));
        switches >= 2 || switches == 0 && known >= BEGUN
    }

    /// The mapping that holds an address, read anew where it is none that is known.
    fn area(&mut self, root: &Root, address: u64, now_ns: u64) -> Result<Option<Area>, FileError> {
        if let Some((_, areas, read_ns)) = &self.memory {
            let area = areas.find(address);
            let is_fresh = now_ns.saturating_sub(*read_ns) < REREAD.as_nanos() as u64;
            if area.is_some() || is_fresh {
                return Ok(area);
            }
        }
        let areas = Areas::read(root, self.id.pid)?;
        let area = areas.find(address);
        let table = Pagemap::open(root, self.id.pid)?;
        self.memory = Some((table, areas, now_ns));
        Ok(area)
    }

    /// Whether there is a page of a file at an address; what the process has written to is its own.
    fn is_of_file(&self, address: u64) -> bool {
        let page = PAGE_BYTES as u64;
        let mut is_of_file = false;
        if let Some((table, ..)) = &self.memory {
            let start = address / page * page;
            let seen = table.scan(start, start + page, |_, entry| {
                is_of_file = entry.present() && entry.file();
            });
            is_of_file &= seen.is_ok();
        }
        is_of_file
    }
}

/// A mapping by which a file was locked.
#[derive(Debug, Clone, Copy)]
struct Place {
    pid: u32,
    start: u64,
    end: u64,
}

/// Pages of files that were read since the machine booted.
#[derive(Debug, Clone, Copy)]
struct Reads {
    /// All of them.
    all: u64,
    /// Those that the kernel had dropped before.
    again: u64,
}

impl Reads {
    /// None where the kernel does not tell.
    fn now(root: &Root) -> Option<Self> {
        let again = Reclaimed::read(root).ok()?.files_back?;
        let blocks = VmstatFile::open(root).ok()?.read().ok()?;
        let read = blocks.read_bytes / PAGE_BYTES as u64;
        let all = read.saturating_sub(blocks.in_pages);
        Some(Self { all, again })
    }
}

#[derive(Debug)]
struct State {
    root: Root,
    shared: Arc<Shared>,
    /// None while they are not looked at.
    faults: Option<PageFaults>,
    processes: FxHashMap<u32, Sighting>,
    locks: Locks<LockedPage>,
    /// Files of which something is locked.
    places: FxHashMap<FileKey, Place>,
    most_pages: u64,
    /// What had been read at the last round.
    reads: Option<Reads>,
    quiet_rounds: u32,
    /// Rounds since the last use, where no switch is told.
    rounds: u32,
}

impl State {
    fn new(root: &Root, shared: Arc<Shared>) -> Self {
        Self {
            root: root.clone(),
            shared,
            faults: None,
            processes: FxHashMap::default(),
            locks: Locks::default(),
            places: FxHashMap::default(),
            most_pages: 0,
            reads: None,
            quiet_rounds: QUIET_ROUNDS,
            rounds: 0,
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
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.read_faults();
            self.publish();
        }
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
        if self.locks.switches() == 0 {
            self.rounds += 1;
            if self.rounds >= ROUNDS_OF_USE {
                self.rounds = 0;
                self.locks.age();
            }
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
        let all = now.all.saturating_sub(last.all);
        again >= MANY_BACK && again >= all / 2
    }

    fn watch(&mut self, processes: &[(AppId, ProcessId)]) {
        let now_ns = monotonic_ns();
        let known = std::mem::take(&mut self.processes);
        let mut known: FxHashMap<_, _> = known.into_values().map(|p| (p.id, p)).collect();
        for &(app, id) in processes {
            let mut process = known.remove(&id).unwrap_or_else(|| {
                let limit = limit_bytes_of(&self.root, id.pid);
                Sighting {
                    app,
                    id,
                    since_ns: now_ns,
                    most_pages: limit
                        .map_or(u64::MAX, |limit| limit / LOCKED_PART / PAGE_BYTES as u64),
                    memory: None,
                }
            });
            process.app = app;
            self.processes.insert(id.pid, process);
        }
    }

    /// A file that no process has mapped any more is not held: the file system could not be unmounted.
    fn release_unmapped(&mut self) {
        let root = &self.root;
        let is_mapped = |place: &Place| {
            let path = mapped_file(root, place.pid, place.start, place.end);
            path.symlink_metadata().is_ok()
        };
        let before = self.places.len();
        self.places.retain(|_, place| is_mapped(place));
        if self.places.len() < before {
            let places = &self.places;
            self.locks.retain_files(|file| places.contains_key(&file));
        }
    }

    /// Looks at faults from now on.
    fn look(&mut self) {
        if self.faults.is_some() || self.shared.refused.get().is_some() {
            return;
        }
        match PageFaults::open(&self.root, FaultKind::Major, BUFFER_PAGES) {
            Ok(faults) => self.faults = Some(faults),
            Err(error) => self.refuse(&error.to_string()),
        }
    }

    fn look_away(&mut self) {
        self.faults = None;
        for process in self.processes.values_mut() {
            process.memory = None;
        }
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
        if !process.counts(self.locks.switches_to(app), now_ns) {
            return Ok(());
        }
        let Some(area) = process.area(&self.root, address, now_ns)? else {
            return Ok(());
        };
        let Some((file, first)) = area.file.filter(|_| process.is_of_file(address)) else {
            return Ok(());
        };
        self.shared.faults.fetch_add(1, Ordering::Relaxed);
        let page = (file, first + (address - area.start) / PAGE_BYTES as u64);
        let (most_of_app, most) = (process.most_pages, self.most_pages);
        if self.locks.holds(page) || !self.locks.make_room(app, most_of_app, most) {
            return Ok(());
        }
        let path = mapped_file(&self.root, pid, area.start, area.end);
        let opened = match std::fs::File::open(&path) {
            Ok(opened) => opened,
            Err(error) => {
                if error.kind() == std::io::ErrorKind::PermissionDenied {
                    self.refuse(&format!("cannot open {}: {error}", path.display()));
                }
                return Err(FileError::new("open", &path, error));
            }
        };
        if !is_on_disk(&opened) {
            return Ok(());
        }
        match LockedPage::lock_cached(&opened, page.1) {
            Ok(Some(locked)) => {
                self.locks.insert(app, page, locked);
                let (start, end) = (area.start, area.end);
                self.places.insert(file, Place { pid, start, end });
                Ok(())
            }
            Ok(None) => Ok(()),
            Err(error) => {
                self.refuse(&format!("cannot lock pages of {}: {error}", path.display()));
                Err(FileError::new("lock", &path, error))
            }
        }
    }
}
