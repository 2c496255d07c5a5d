//! What all of an arena's handles share: memory and tables, the engine behind its lock, the threads.

use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard};

use warmswap_backing::Backing;
use warmswap_policy::reclaim::Arrival;
use warmswap_sys::uffd::sigbus;

use crate::brain::Brain;
use crate::config::{ArenaConfig, FaultMode};
use crate::directory::State;
use crate::error::{ArenaError, die};
use crate::gate::Inside;
use crate::lock::Mutex;
use crate::service::{Core, Wanted};
use crate::stats::ArenaStats;
use crate::threads::Threads;

#[derive(Debug)]
pub struct Shared {
    pub core: Arc<Core>,
    pub brain: Arc<Mutex<Brain>>,
    /// Ends before the core may go.
    pub registration: Option<sigbus::Registration>,
    pub threads: Mutex<Threads>,
    pub budget_bytes: u64,
    /// Where what was learned survives a restart.
    pub learned_folder: Option<PathBuf>,
    /// The process that made it: threads and memory are its alone.
    pub process: AtomicU32,
}

/// The engine with all that only the holder of its lock uses. Who has this is inside the gate.
pub struct BrainGuard<'a> {
    brain: MutexGuard<'a, Brain>,
    _inside: Inside<'a>,
}

impl Deref for BrainGuard<'_> {
    type Target = Brain;

    fn deref(&self) -> &Brain {
        &self.brain
    }
}

impl DerefMut for BrainGuard<'_> {
    fn deref_mut(&mut self) -> &mut Brain {
        &mut self.brain
    }
}

/// The arena's threads. Who has this is inside the gate.
pub struct WorkersGuard<'a> {
    threads: MutexGuard<'a, Threads>,
    _inside: Inside<'a>,
}

impl Deref for WorkersGuard<'_> {
    type Target = Threads;

    fn deref(&self) -> &Threads {
        &self.threads
    }
}

impl Shared {
    pub fn brain(&self) -> BrainGuard<'_> {
        let _inside = self.core.gate.enter();
        BrainGuard {
            brain: self.brain.lock(),
            _inside,
        }
    }

    /// The arena's threads. Who has this is inside the gate.
    pub fn workers(&self) -> WorkersGuard<'_> {
        let _inside = self.core.gate.enter();
        WorkersGuard {
            threads: self.threads.lock(),
            _inside,
        }
    }

    pub fn start(&mut self, config: &ArenaConfig) -> Result<(), ArenaError> {
        let threads = || ArenaError::system("start a thread");
        let mut workers = self.threads.lock();
        self.brain.lock().ahead.jobs = Arc::clone(&workers.jobs);
        match config.fault_mode {
            FaultMode::Signal => {
                let service = Arc::clone(&self.core) as Arc<dyn sigbus::FaultService>;
                let range = self.core.memory.range();
                self.registration = Some(sigbus::register(range, service)?);
            }
            FaultMode::Thread => workers
                .start_handlers(&self.core, config.handler_threads)
                .map_err(threads())?,
        }
        workers
            .start_pager(&self.core, &self.brain)
            .map_err(threads())?;
        workers
            .start_restorers(&self.core, config.restore_threads)
            .map_err(threads())?;
        workers.begin();
        Ok(())
    }

    pub fn stats(&self) -> ArenaStats {
        let core = &self.core;
        let mut brain = self.brain();
        brain.hear(core);
        let (mut resident, mut staged, mut stored) = (0, 0, 0);
        for page in brain.pages() {
            match core.directory.word(page).state {
                State::Resident | State::Protected => resident += 1,
                State::Staged => staged += 1,
                State::Stored => stored += 1,
                _ => {}
            }
        }
        let (engine_bytes, directory_bytes) = brain.state_bytes(core);
        let pool = core.store.pool.stats();
        let counts = &core.counts;
        ArenaStats {
            budget_bytes: self.budget_bytes,
            held_frames: core.frames.held() as u64,
            resident_frames: resident,
            staged_frames: staged,
            free_frames: core.frames.free() as u64,
            stored_pages: stored,
            pool_bytes: pool.memory_bytes,
            engine_bytes: engine_bytes as u64,
            directory_bytes: directory_bytes as u64,
            scratch_bytes: core.scratch_bytes() as u64,
            faults: counts.faults.load(Relaxed),
            first_touches: counts.first_touches.load(Relaxed),
            staged_faults: counts.staged.load(Relaxed),
            file_faults: counts.file_faults.load(Relaxed),
            chunks_read: counts.chunks_read.load(Relaxed),
            file_reads: counts.file_reads.load(Relaxed),
            neighbours: counts.neighbours.load(Relaxed),
            restored: counts.restored.load(Relaxed),
            restored_ahead: counts.restored_ahead.load(Relaxed),
            copied: counts.copied.load(Relaxed),
            frame_waits: core.frames.waits.load(Relaxed),
            lost_slots: core.frames.lost.load(Relaxed),
            is_prepaging: brain.is_prepaging(),
            pager: brain.counts,
            engine: brain.engine.counters(),
            pool,
            backing: core.store.backing.as_ref().map(Backing::stats),
        }
    }

    /// Whether this is a child of the process that made the arena, which has none of its threads and memory.
    pub fn is_in_child(&self) -> bool {
        self.process.load(Relaxed) != std::process::id()
    }

    /// Lets the engine hear of everything, and carries out what is under way: a page that a prediction was
    /// bringing back when it was touched counts as touched once that is reported.
    pub fn settle(&self, brain: &mut Brain) {
        loop {
            match brain.work(&self.core) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => die(self.core.memory.address(0), &error),
            }
        }
    }

    /// Brings pages back as far as frames can be spared.
    pub fn restore(&self, pages: &[u32], arrival: Arrival) {
        if let Err(error) = self.core.restore(pages, arrival) {
            die(self.core.memory.address(0), &error);
        }
    }

    pub fn bring(&self, page: usize, wanted: Wanted) {
        if let Err(error) = self.core.serve_page(page, wanted) {
            die(self.core.memory.address(page), &error);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.is_in_child() {
            // Nothing here is the child's; and the descriptor, if it were used, would change the parent.
            std::mem::forget(self.registration.take());
            std::mem::forget(Arc::clone(&self.core));
            // What is not yet on the tape is the parent's to write.
            std::mem::forget(Arc::clone(&self.brain));
            std::mem::forget(std::mem::take(&mut *self.threads.lock()));
            return;
        }
        self.threads.lock().stop(&self.core);
        drop(self.registration.take());
    }
}
