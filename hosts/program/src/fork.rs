//! The moment of a fork: all is at rest, but faults that the fork itself needs are served.
//!
//! The thread that forks runs code of the C library before and after, in parent and child, which may touch any
//! page. Its own faults in the parent are served while the gate is closed: it cannot fork before they are.
//! Those of other threads wait. The child's faults come to the parent, which has the same content for them,
//! until the child has its own descriptor.
//!
//! The parent does not wait for a child that makes no progress, since it is stopped or frozen. After [`PATIENCE`] the parent
//! makes a copy of itself, the *stand-in*, which has the memory as it was at the fork and resolves the child's faults from
//! then on. A stand-in costs what a fork costs, and ends with the child's need of it.

#![allow(unsafe_code)] // One place: what is known of a fork is read without a lock.

mod link;

pub use link::Link;

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use warmswap_arena::mechanism::{Core, FaultError, Mutex, State, Wanted, die};
use warmswap_page::PAGE_BYTES;
use warmswap_sys::fork::{MostFiles, reap, spawn_copy};
use warmswap_uffd::{Event, Failure, ForkedMemory, UffdError};

use crate::space::SpaceFile;

/// How long to wait for an event before looking whether the gate is open.
const WAIT_MS: i32 = 2;

/// How long a parent waits for its child before it leaves the child to a stand-in. A child needs some milliseconds; a
/// stand-in that was not necessary costs another fork.
const PATIENCE: Duration = Duration::from_millis(200);

/// How often a process looks for what no other process wakes it for.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How long a parent tries to get the child's descriptor, which the fork waits for, while it may open no more files.
const DESCRIPTOR_TRIES: u32 = 5000;

/// Stand-ins whose ends the parent sees to at a time. With more children that make no progress it waits for one of them.
const MOST_STAND_INS: usize = 64;

/// A child that may need pages.
#[derive(Debug)]
struct Child {
    memory: ForkedMemory,
    /// None where there was no memory for it: the child ends.
    link: Option<Link>,
    since: Instant,
}

impl Child {
    fn needs_pages(&self) -> bool {
        self.link.as_ref().is_none_or(Link::needs)
    }

    /// The child has been let go, or is about to be.
    fn let_go(&self) {
        if let Some(link) = &self.link {
            link.let_go();
        }
    }
}

/// What is known of a fork that is under way, and what it left to do.
#[derive(Debug)]
pub struct Forked {
    child: Mutex<Option<Child>>,
    /// What the next child says.
    link: Mutex<Option<Link>>,
    /// Threads that read events, and may be about to find a child.
    readers: AtomicU32,
    /// The parent has to wait for a child.
    is_awaited: AtomicBool,
    /// The files that pages are read from, but for what is mapped.
    file: OnceLock<SpaceFile>,
    /// The thread that forked is back, and lets a stand-in be made.
    may_stand_in: AtomicBool,
    stand_ins: Mutex<Vec<u32>>,
    /// A descriptor that is closed when there is room for no other: for the child's.
    spare: Mutex<Option<File>>,
    /// Times in a row that the child's descriptor could not be had.
    tries: AtomicU32,
    /// Pages that other threads wait for.
    put_off: Mutex<VecDeque<usize>>,
    has_put_off: AtomicBool,
    /// The child needs the parent no more.
    is_over: AtomicBool,
    /// One thread serves the fork.
    turn: Mutex<()>,
}

/// Threads that can be put off at a time. The room is made before: a thread that forks holds the allocator.
const MOST_PUT_OFF: usize = 4096;

impl Default for Forked {
    fn default() -> Self {
        Self {
            child: Mutex::default(),
            link: Mutex::default(),
            readers: AtomicU32::new(0),
            is_awaited: AtomicBool::new(false),
            file: OnceLock::new(),
            may_stand_in: AtomicBool::new(false),
            stand_ins: Mutex::new(Vec::with_capacity(MOST_STAND_INS)),
            spare: Mutex::default(),
            tries: AtomicU32::new(0),
            put_off: Mutex::new(VecDeque::with_capacity(MOST_PUT_OFF)),
            has_put_off: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            turn: Mutex::default(),
        }
    }
}

impl Forked {
    /// A fork is about to be: its child says by `link` what it needs.
    pub fn begin(&self, link: Option<Link>, file: Option<&SpaceFile>) {
        if let Some(file) = file {
            // It is the same in all forks.
            let _ = self.file.set(file.clone());
        }
        *self.link.lock() = link;
        self.is_awaited.store(false, Ordering::Release);
        self.may_stand_in.store(false, Ordering::Release);
    }

    /// By the thread that forked, in the parent: waits until the child needs the parent no more, is no more, or has a
    /// stand-in, for which children must not get the space any more.
    pub fn wait(&self) {
        self.may_stand_in.store(true, Ordering::Release);
        // The fork has returned, so that the event of it was read.
        while self.readers.load(Ordering::Acquire) > 0 {
            std::thread::yield_now();
        }
        let link = self.link.lock().clone();
        while self.is_awaited.load(Ordering::Acquire) {
            match &link {
                Some(link) if link.needs() => link.wait(LOOK_EVERY),
                Some(_) => return,
                None => std::thread::sleep(LOOK_EVERY),
            }
        }
    }

    /// The child needs the parent no more.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// Lets the child go, if it needs the parent no more. Only a thread that has the child's descriptor among
    /// its own can.
    pub fn let_go(&self) {
        if self.is_over.swap(false, Ordering::AcqRel) {
            self.dismiss(&mut self.child.lock());
        }
    }

    fn dismiss(&self, child: &mut Option<Child>) {
        if let Some(child) = child.take() {
            // Before the descriptor is closed: a child that finds its memory let go finds this, too.
            child.let_go();
        }
        self.keep_spare();
    }

    /// Keeps a descriptor for the next child's, by a thread whose descriptors the program does not see; before that thread
    /// opens others, so that its number is below whatever limit the program sets.
    pub fn keep_spare(&self) {
        let mut spare = self.spare.lock();
        if spare.is_none() {
            // Without one, a child's descriptor needs room in the table.
            *spare = File::open("/dev/null").ok();
        }
    }

    /// The child is no more, or has a stand-in.
    fn wait_no_more(&self, child: &Child) {
        self.is_awaited.store(false, Ordering::Release);
        if let Some(link) = &child.link {
            link.wake();
        }
    }

    fn with_files<R>(&self, with: impl FnOnce(&[BorrowedFd<'_>]) -> R) -> R {
        match self.file.get() {
            Some(file) => file.with_descriptors(with),
            None => with(&[]),
        }
    }

    /// Sees to the ends of stand-ins.
    pub fn reap_stand_ins(&self) {
        self.stand_ins.lock().retain(|&pid| !reap(pid));
    }

    /// Puts a page off until the fork is over; false when there is no room.
    fn put_off(&self, page: usize) -> bool {
        let mut put_off = self.put_off.lock();
        let has_room = put_off.len() < MOST_PUT_OFF;
        if has_room {
            put_off.push_back(page);
            self.has_put_off.store(true, Ordering::Release);
        }
        has_room
    }

    /// A page that a thread waited for during a fork.
    pub fn take_put_off(&self) -> Option<usize> {
        if !self.has_put_off.load(Ordering::Acquire) {
            return None;
        }
        let mut put_off = self.put_off.lock();
        let page = put_off.pop_front();
        self.has_put_off
            .store(!put_off.is_empty(), Ordering::Release);
        page
    }
}

/// What is known of a fork, in a place that threads look at without a lock and without allocating: a thread that forks
/// holds the allocator until a thread that may have just begun has heard of it.
#[derive(Debug)]
pub struct CurrentFork(AtomicPtr<Forked>);

impl Default for CurrentFork {
    fn default() -> Self {
        Self(AtomicPtr::new(Box::into_raw(Box::default())))
    }
}

impl CurrentFork {
    /// It.
    pub fn load(&self) -> &Forked {
        // SAFETY: it comes from a box, and boxes that were here live on: `renew` leaks them, and `drop` has the only
        // reference to this value, so that nothing borrowed from it is left.
        unsafe { &*self.0.load(Ordering::Acquire) }
    }

    /// Begins with nothing known, in the child of a `fork`. What was known is leaked: threads of the parent may have
    /// its locks.
    pub fn renew(&self) {
        self.0
            .store(Box::into_raw(Box::default()), Ordering::Release);
    }
}

impl Drop for CurrentFork {
    fn drop(&mut self) {
        // SAFETY: it comes from a box, and nothing else refers to it any more.
        drop(unsafe { Box::from_raw(*self.0.get_mut()) });
    }
}

impl CurrentFork {
    /// Serves what a fork needs, for a while; the gate is closed.
    pub fn serve(&self, core: &Core) -> Result<(), FaultError> {
        let forked = self.load();
        let _turn = forked.turn.lock();
        let mut child = forked.child.lock();
        let memory = child.as_ref().map(|child| &child.memory);
        let waited = core.memory.wait_events(memory, WAIT_MS);
        waited.map_err(FaultError::Events)?;
        forked.readers.fetch_add(1, Ordering::AcqRel);
        let read = self.read_events(core, forked, &mut child);
        forked.readers.fetch_sub(1, Ordering::AcqRel);
        read?;
        let Some(now) = &*child else { return Ok(()) };
        if !serve_faults_of(core, now)? {
            forked.wait_no_more(now);
            forked.dismiss(&mut child);
        } else if now.needs_pages()
            && now.since.elapsed() > PATIENCE
            && forked.may_stand_in.load(Ordering::Acquire)
            && leave_to_stand_in(core, forked, now)?
        {
            forked.wait_no_more(now);
            // Not let go: the stand-in has the descriptor, too.
            *child = None;
            forked.keep_spare();
        }
        Ok(())
    }

    fn read_events(
        &self,
        core: &Core,
        forked: &Forked,
        child: &mut Option<Child>,
    ) -> Result<(), FaultError> {
        while core.gate.is_closed()
            && let Some(event) = read_event(core, forked)?
        {
            match event {
                Event::Fork(descriptor) => {
                    forked.dismiss(child);
                    *child = Some(Child {
                        memory: core.memory.forked(descriptor),
                        link: forked.link.lock().clone(),
                        since: Instant::now(),
                    });
                    forked.is_awaited.store(true, Ordering::Release);
                }
                Event::Fault {
                    address, thread, ..
                } => {
                    if core.gate.holds_up(thread) {
                        serve_forker(core, address)?;
                    } else {
                        self.put_off(core, address)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Puts a fault off until the fork that is under way, or about to be, is over.
    pub fn put_off(&self, core: &Core, address: usize) -> Result<(), FaultError> {
        let page = core.memory.page_of(address).ok_or(FaultError::NotMapped)?;
        if !self.load().put_off(page) {
            // There is no room: the thread tries again, and comes back.
            core.memory.wake(page)?;
        }
        Ok(())
    }
}

/// The next event. To read the event of a fork takes a descriptor: where there is no room for one, the spare one gives
/// its place; where that is not below the limit of files, or there was none, the limit rises for the moment; and where it
/// may not, the event stays, and is read at the next turn.
fn read_event(core: &Core, forked: &Forked) -> Result<Option<Event>, FaultError> {
    let full = [Errno::MFILE, Errno::NFILE].map(|errno| Some(errno.raw_os_error()));
    let is_full = |result: &io::Result<_>| {
        let error = result.as_ref().err();
        error.is_some_and(|error| full.contains(&error.raw_os_error()))
    };
    let mut result = core.memory.read_event();
    if is_full(&result) && forked.spare.lock().take().is_some() {
        result = core.memory.read_event();
    }
    if is_full(&result) {
        let _most_files = MostFiles::allow();
        result = core.memory.read_event();
    }
    let tries = if is_full(&result) {
        forked.tries.fetch_add(1, Ordering::Relaxed)
    } else {
        forked.tries.store(0, Ordering::Relaxed);
        return result.map_err(FaultError::Events);
    };
    if tries > DESCRIPTOR_TRIES {
        return result.map_err(FaultError::Events);
    }
    std::thread::sleep(Duration::from_millis(u64::from(tries > 0)));
    Ok(None)
}

/// Resolves the faults of a child that there are; false when the child has ended.
fn serve_faults_of(core: &Core, child: &Child) -> Result<bool, FaultError> {
    let resolved = resolve_faults_of(core, &child.memory, true);
    match resolved {
        Err(FaultError::Uffd(UffdError {
            failure: Failure::Gone,
            ..
        })) => Ok(false),
        result => result.map(|()| !child.memory.is_gone()),
    }
}

fn resolve_faults_of(core: &Core, child: &ForkedMemory, has_space: bool) -> Result<(), FaultError> {
    while let Some(event) = child.read_event().map_err(FaultError::Events)? {
        match event {
            Event::Fault {
                address,
                protected: true,
                ..
            } => child.unprotect(address)?,
            Event::Fault { address, .. } => serve_child(core, child, address, has_space)?,
            _ => {}
        }
    }
    Ok(())
}

/// Leaves a child to a stand-in; false when there is no room for one. All is at rest, and children do not get the
/// space.
fn leave_to_stand_in(core: &Core, forked: &Forked, child: &Child) -> Result<bool, FaultError> {
    let mut stand_ins = forked.stand_ins.lock();
    if stand_ins.len() == MOST_STAND_INS {
        return Ok(false);
    }
    let spawned = core.memory.lend_staging(|| {
        forked.with_files(|files| {
            let keep: Vec<_> = [child.memory.as_fd()]
                .iter()
                .chain(files)
                .copied()
                .collect();
            spawn_copy(&keep, || stand_in(core, child))
        })
    })?;
    let is_left = spawned.map(|pid| stand_ins.push(pid)).is_ok();
    Ok(is_left)
}

/// The stand-in's work. It is alone in its process.
fn stand_in(core: &Core, child: &Child) {
    while child.needs_pages() {
        let waited = child.memory.wait_events(LOOK_EVERY.as_millis() as i32);
        let served = waited
            .map_err(FaultError::Events)
            .and_then(|_| resolve_faults_of(core, &child.memory, false));
        if child.memory.is_gone() {
            return;
        }
        if let Err(error) = served {
            die(core.memory.address(0), &error);
        }
    }
    child.let_go();
}

/// The thread that forks is in a fault, and so does not fork meanwhile. No frame comes free while the gate is closed.
fn serve_forker(core: &Core, address: usize) -> Result<(), FaultError> {
    let page = core.memory.page_of(address).ok_or(FaultError::NotMapped)?;
    core.fault_in(page, Wanted::DemandAtOnce)?;
    Ok(core.memory.wake(page)?)
}

/// Copies the page to the child as it was at the fork, and still is here. A process without the space has no frames of
/// pages.
fn serve_child(
    core: &Core,
    child: &ForkedMemory,
    address: usize,
    has_space: bool,
) -> Result<(), FaultError> {
    let page = core.memory.page_of(address).ok_or(FaultError::NotMapped)?;
    let address = core.memory.address(page);
    let word = core.words.word(page);
    let mut copy = [0; PAGE_BYTES];
    match word.state {
        State::Fresh => {}
        State::Staged => {
            let claim = core.words.claim(page, word);
            let mut claim = claim.ok_or(FaultError::UsedInFork)?;
            if let Some(slot) = claim.take_slot() {
                copy.copy_from_slice(core.memory.bytes(&slot));
                claim.release(word.staged(slot));
            }
        }
        State::Stored => {
            let mut buffers = core.scratch();
            let (scratch, plain, record) = buffers.parts();
            core.read_chunk((page, word), record, |content| {
                let room = plain.get_mut(..content.pages * PAGE_BYTES);
                content.decode(scratch, room.ok_or(FaultError::NotInChunk)?)?;
                let at = usize::from(word.index) * PAGE_BYTES;
                copy.copy_from_slice(&plain[at..][..PAGE_BYTES]);
                Ok(())
            })?;
        }
        State::InFile => {
            let map = core.files.find(page).ok_or(FaultError::NotMapped)?;
            let place = map.twin(&(page..page + 1)).ok_or(FaultError::NotMapped)?;
            return Ok(child.copy_in_from(address, (place.0, place.1.start))?);
        }
        // The child has it, too, unless it gave it up since.
        State::Resident | State::Protected if has_space && core.memory.has_frame(page) => {
            core.memory.read_page(page, &mut copy);
        }
        // It is unmapped, and the next access faults; or it is on its way.
        _ => return Ok(child.wake(address)?),
    }
    Ok(child.copy_in(address, &copy)?)
}
