//! A program's whole memory as an arena: for a library that stands between a program and its calls of `mmap`.
//!
//! The space is one stretch of addresses. The program maps, protects, discards and unmaps within it as it
//! would with the kernel; all ranges are whole pages of the space. Until the program comes near its budget its
//! memory is the kernel's ([`Space::adopt`]), and costs nothing.
//!
//! # What the caller sees to
//!
//! - Signals are blocked around every call: a handler that waits for a page while its thread holds a lock here
//!   would wait for ever.
//! - What is called here allocates, so the allocator is not one whose memory lies in the space.
//! - [`Space::attach`], [`Space::adopt`], [`Space::recover`] and [`Space::attach_in_child`] are called by a thread
//!   whose descriptors the program does not see; the space's threads share them.

mod changes;
mod file;
mod fork;
mod maps;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use warmswap_arena::mechanism::{AddressKind, FrameSource, Mutex, Pager, Shared};
use warmswap_arena::{Application, ArenaConfig, ArenaError, ArenaStats, FaultMode, Mechanism};
use warmswap_backing::Backing;
use warmswap_page::PAGE_BYTES;
use warmswap_page::latency::LatencySummary;
use warmswap_uffd::{self as uffd, Protection, Reach};

use crate::addresses::Addresses;
use crate::error::SpaceError;
use crate::fork::Link;
use crate::hooks::ProgramHooks;
use crate::program::{Mapped, Program};
pub use changes::Over;
pub(crate) use file::SpaceFile;

/// What a program's memory takes, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceUsage {
    /// Memory that the program has touched, wherever its content is.
    pub virtual_bytes: u64,
    /// Frames, staging included.
    pub resident_bytes: u64,
    /// Memory of the pool.
    pub pool_bytes: u64,
    /// Pages in it, before compression.
    pub stored_bytes: u64,
    /// The same, compressed.
    pub compressed_bytes: u64,
}

/// The memory of a program. Ends with the process.
#[derive(Debug)]
pub struct Space {
    shared: Arc<Shared<Program>>,
    hooks: Arc<ProgramHooks>,
    app: Application<Program>,
    config: ArenaConfig,
    file: Option<SpaceFile>,
    /// What parent and child of the fork under way share.
    link: Mutex<Option<Link>>,
    /// The backing file for the child.
    lent: Mutex<io::Result<Vec<File>>>,
}

impl Space {
    /// An empty space of `config.address_space_bytes`, at this address if nothing is there. It has no open
    /// descriptors until [`Self::attach`].
    ///
    /// Faults are served by threads ([`FaultMode::Thread`], whatever `config` says), since a program gives
    /// its memory to system calls. The backing file is an unnamed one in the folder of `config.backing`, or in
    /// `config.backing` itself if that is a folder.
    ///
    /// # Errors
    /// [`ArenaError`]; besides what an arena needs, [`ArenaError::UserOnly`] without the right to serve faults
    /// within system calls, and [`ArenaError::CannotMove`] where [`Mechanism::Auto`] finds that pages cannot be moved:
    /// with [`Mechanism::Copy`], the caller sees to it that neither kernel nor devices keep pages of the program.
    pub fn new(mut config: ArenaConfig, name: &str, at: usize) -> Result<Self, ArenaError> {
        config.fault_mode = FaultMode::Thread;
        let file = config.backing.as_deref().map(|place| {
            let segment_bytes = config.backing_config().segment_bytes;
            SpaceFile::at(place, segment_bytes)
        });
        let backing = match &file {
            Some(file) => Some(Backing::on(
                Box::new(file.clone()),
                config.backing_config(),
            )?),
            None => None,
        };
        let hooks = Arc::new(ProgramHooks::default());
        let kind = AddressKind {
            addresses: uffd::Addresses::Whole { at },
            frames: FrameSource::Fresh,
            hooks: Arc::clone(&hooks) as _,
        };
        let shared = Shared::new(&config, backing, kind, Program::new)?;
        if shared.core.memory.reach() == Reach::UserOnly {
            return Err(ArenaError::UserOnly);
        }
        let is_move = shared.core.memory.mechanism() == uffd::Mechanism::Move;
        if config.mechanism == Mechanism::Auto && !is_move {
            return Err(ArenaError::CannotMove);
        }
        shared.core.memory.close();
        // Until it is adopted, a child has all of this as it has other memory, however it is made.
        shared.core.memory.inherit_staging(true)?;
        let shared = Arc::new(shared);
        let app = Application::new(Arc::clone(&shared), name.to_owned())?;
        // The program runs: no launch of it can be the first.
        app.was_launched();
        Ok(Self {
            shared,
            hooks,
            app,
            config,
            file,
            link: Mutex::default(),
            lent: Mutex::new(Ok(Vec::new())),
        })
    }

    /// Opens the space's descriptors among those of the calling thread, which the program must not see.
    ///
    /// # Errors
    /// [`ArenaError`].
    pub fn attach(&self) -> Result<(), ArenaError> {
        self.hooks.fork.load().keep_spare();
        self.shared.core.memory.reopen()?;
        if let Some(file) = &self.file {
            file.open()
                .map_err(ArenaError::system("open the backing file"))?;
        }
        Ok(())
    }

    /// Its addresses.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.shared.core.memory.range()
    }

    /// The program, which goes to the background and comes to the foreground.
    #[must_use]
    pub fn application(&self) -> &Application<Program> {
        &self.app
    }

    /// Saves what the scheme learned about the program, if there is a folder for it
    /// ([`ArenaConfig::learned_folder`]) and a launch since it was last saved: when the program ends. That it cannot
    /// be saved is said on standard error.
    pub fn keep_learned(&self) {
        self.app.keep_learned();
    }

    /// What it holds and has done. Linear in the pages that the program has mapped.
    #[must_use]
    pub fn stats(&self) -> ArenaStats {
        self.shared.stats()
    }

    /// What it uses, at little cost. All 0 until the program's memory is adopted.
    #[must_use]
    pub fn usage(&self) -> SpaceUsage {
        let core = &self.shared.core;
        if !self.is_adopted() {
            return SpaceUsage::default();
        }
        let pool = core.store.pool.stats();
        let page_bytes = PAGE_BYTES as u64;
        let in_use = core.frames.held().saturating_sub(core.frames.free()) as u64;
        let stored_only = core.counts.stored_only.load(Relaxed);
        SpaceUsage {
            virtual_bytes: (in_use + stored_only) * page_bytes,
            resident_bytes: core.frames.held() as u64 * page_bytes,
            pool_bytes: pool.memory_bytes,
            stored_bytes: pool.stored_pages * page_bytes,
            compressed_bytes: pool.compressed_bytes,
        }
    }

    /// What may be done with a range; `None` when some of it is no memory of the space, or when that differs within it.
    #[must_use]
    pub fn protection(&self, address: usize, len: usize) -> Option<Protection> {
        let pieces = self.shared.pager().map.pieces(self.pages(address, len));
        let mut protections = pieces.iter().map(|(_, mapped)| match (*mapped)? {
            Mapped::Open(protection) => Some(protection),
            Mapped::File => Some(Protection::READ),
            Mapped::Reserved => Some(Protection::NONE),
            Mapped::Foreign | Mapped::Lost => None,
        });
        let first = protections.next()??;
        protections.all(|next| next == Some(first)).then_some(first)
    }

    /// Whether the program has mapped something in a range.
    #[must_use]
    pub fn has_mapped(&self, address: usize, len: usize) -> bool {
        let range = self.pages(address, len);
        self.shared.pager().map.has_mapped(range)
    }

    /// Bytes of a range in which the program has mapped something.
    #[must_use]
    pub fn mapped_in(&self, address: usize, len: usize) -> usize {
        let pieces = self.shared.pager().map.pieces(self.pages(address, len));
        let mapped = pieces
            .iter()
            .filter(|(_, mapped)| !matches!(mapped, None | Some(Mapped::Lost)));
        mapped.map(|(range, _)| range.len() * PAGE_BYTES).sum()
    }

    /// Whether the program has mapped nothing in some of a range.
    #[must_use]
    pub fn has_hole(&self, address: usize, len: usize) -> bool {
        let range = self.pages(address, len);
        self.shared.pager().map.first_hole(&range).is_some()
    }

    /// Whether the program has mapped something else there, all over the range.
    #[must_use]
    pub fn is_foreign(&self, address: usize, len: usize) -> bool {
        let pieces = self.shared.pager().map.pieces(self.pages(address, len));
        pieces
            .iter()
            .all(|(_, mapped)| *mapped == Some(Mapped::Foreign))
    }

    /// Bytes that the program can use, touched or not.
    #[must_use]
    pub fn mapped_bytes(&self) -> u64 {
        (self.shared.pager().map.open_pages() * PAGE_BYTES) as u64
    }

    // ---- adoption and fork ----

    /// Whether its pages are ours.
    #[must_use]
    pub fn is_adopted(&self) -> bool {
        self.shared.pager().map.is_adopted()
    }

    /// Makes the program's memory ours: from now on it is kept within its budget.
    ///
    /// # Errors
    /// [`ArenaError`]: no threads, or the kernel refuses. If [`Self::is_adopted`] says no then, the memory is the kernel's
    /// as before, and stays so.
    pub fn adopt(&self) -> Result<(), ArenaError> {
        // A fork waits until there are threads that hear of it.
        let _inside = self.shared.core.gate.enter();
        if self.shared.pager.lock().map.is_adopted() {
            return Ok(());
        }
        // While no access can be a fault yet: making a thread takes locks of the loader, and a thread that
        // holds these (it loads a library) must not wait for us.
        let adopted = self.shared.start_threads(&self.config).and_then(|()| {
            // They wait until all pages are known.
            let mut pager = self.shared.pager.lock();
            self.keep_accessed(&mut pager);
            let adopted = self.addresses(&mut pager).adopt();
            adopted.map_err(|error| ArenaError::Adopt(error.to_string()))
        });
        if adopted.is_ok() {
            self.shared.threads.lock().begin();
        } else if !self.shared.pager.lock().map.is_adopted() {
            // With its descriptor all registrations end.
            self.shared.core.memory.close();
            self.shared.threads.lock().abandon();
        }
        adopted
    }

    /// What the space's own threads access in all that they do stays in its place once the memory is ours.
    fn keep_accessed(&self, pager: &mut Pager<Program>) {
        let ours = self.range();
        for range in std::mem::take(&mut *self.hooks.accessed.lock()) {
            let (start, end) = (range.start.max(ours.start), range.end.min(ours.end));
            if start < end {
                let first = start / PAGE_BYTES * PAGE_BYTES;
                pager.map.keep(self.pages(first, end - first));
            }
        }
    }

    /// Makes room again where the program had mapped something else: to be called now and then, by a thread as
    /// [`Self::adopt`] is.
    ///
    /// # Errors
    /// [`SpaceError`].
    pub fn recover(&self) -> Result<(), SpaceError> {
        self.hooks.fork.load().reap_stand_ins();
        let mut pager = self.shared.pager();
        Ok(self.addresses(&mut pager).recover()?)
    }

    /// Before the program creates a thread or a process, becomes another, or deals with where its threads may run: one
    /// that makes many faults is bound to a processor for a while, and what it creates would be for good. For a few
    /// faults from here on none will be; whether one is, so that [`Self::unbind`] has something to do.
    #[must_use]
    pub fn bind_no_more(&self) -> bool {
        self.hooks.binding.hold_off()
    }

    /// No thread of the program is bound any more.
    pub fn unbind(&self) {
        let core = &self.shared.core;
        if self.hooks.binding.is_bound() {
            // Not within a fork: the lock would be held in the child for ever. There none is bound.
            let _inside = core.gate.enter();
            self.hooks.binding.release();
        }
    }

    /// CPU time of the space's threads so far.
    #[must_use]
    pub fn cpu_time(&self) -> Duration {
        self.shared.workers().cpu_time()
    }

    /// How long faults took, from their arrival at a thread to the page in place.
    #[must_use]
    pub fn fault_latency(&self) -> LatencySummary {
        self.shared.core.counts.latency.summary()
    }

    /// Faults so far that a thread waited for.
    #[must_use]
    pub fn awaited_faults(&self) -> u64 {
        self.shared.core.counts.latency.count()
    }

    fn addresses<'a>(&'a self, pager: &'a mut Pager<Program>) -> Addresses<'a> {
        Addresses::new(pager, &self.shared.core)
    }

    fn pages(&self, address: usize, len: usize) -> Range<usize> {
        let ours = self.range();
        debug_assert!(address >= ours.start && address + len <= ours.end);
        let first = (address - ours.start) / PAGE_BYTES;
        first..first + len.div_ceil(PAGE_BYTES)
    }
}
