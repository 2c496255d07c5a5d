//! The moment of a fork: all is at rest, but faults that the fork itself needs are served.
//!
//! The thread that forks runs code of the C library before and after, in parent and child, which may touch any
//! page. Its own faults in the parent are served while the gate is closed: it cannot fork before they are.
//! Those of other threads wait. The child's faults come to the parent, which has the same content for them,
//! until the child has its own descriptor.
#![allow(unsafe_code)] // One place: what is known of a fork is read without a lock.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use warmswap_arena::mechanism::{Core, Mutex, ServeError, State, Wanted};
use warmswap_page::PAGE_BYTES;
use warmswap_sys::uffd::{Event, ForkedMemory};

/// How long to wait for an event before looking whether the gate is open.
const WAIT_MS: i32 = 2;

/// What is known of a fork that is under way, and what it left to do.
#[derive(Debug)]
pub struct Forked {
    child: Mutex<Option<ForkedMemory>>,
    /// Pages that other threads wait for.
    put_off: Mutex<VecDeque<usize>>,
    has_put_off: AtomicBool,
    /// The child needs the parent no more.
    is_over: AtomicBool,
    /// One thread serves the fork.
    turn: Mutex<()>,
}

/// Threads that can be put off at a time. The room is made before: whoever forks holds the allocator.
const MOST_PUT_OFF: usize = 4096;

impl Default for Forked {
    fn default() -> Self {
        Self {
            child: Mutex::default(),
            put_off: Mutex::new(VecDeque::with_capacity(MOST_PUT_OFF)),
            has_put_off: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            turn: Mutex::default(),
        }
    }
}

impl Forked {
    /// The child needs the parent no more.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// Lets the child go, if it needs the parent no more. Only a thread that has the child's descriptor among
    /// its own can.
    pub fn let_go(&self) {
        if self.is_over.swap(false, Ordering::AcqRel) {
            *self.child.lock() = None;
        }
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

/// What is known of a fork, in a place that threads look at without a lock and without allocating: whoever forks
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
        // SAFETY: it comes from a box, and nobody else refers to it any more.
        drop(unsafe { Box::from_raw(*self.0.get_mut()) });
    }
}

impl CurrentFork {
    /// Serves what a fork needs, for a while; the gate is closed.
    pub fn serve(&self, core: &Core) -> Result<(), ServeError> {
        let forked = self.load();
        let _turn = forked.turn.lock();
        let mut child = forked.child.lock();
        let waited = core.memory.wait_events(child.as_ref(), WAIT_MS);
        waited.map_err(ServeError::Events)?;
        while core.gate.is_closed()
            && let Some(event) = core.memory.read_event().map_err(ServeError::Events)?
        {
            match event {
                Event::Fork(descriptor) => *child = Some(core.memory.forked(descriptor)),
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
        let Some(child) = &*child else { return Ok(()) };
        while let Some(event) = child.read_event().map_err(ServeError::Events)? {
            match event {
                Event::Fault {
                    address,
                    protected: true,
                    ..
                } => child.unprotect(address)?,
                Event::Fault { address, .. } => serve_child(core, child, address)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Puts a fault off until the fork that is under way, or about to be, is over.
    pub fn put_off(&self, core: &Core, address: usize) -> Result<(), ServeError> {
        let page = core.memory.page_of(address).ok_or(ServeError::NotMapped)?;
        if !self.load().put_off(page) {
            // There is no room: the thread tries again, and comes back.
            core.memory.wake(page)?;
        }
        Ok(())
    }
}

/// The thread that forks is in a fault, and so does not fork meanwhile. No frame comes free while the gate is closed.
fn serve_forker(core: &Core, address: usize) -> Result<(), ServeError> {
    let page = core.memory.page_of(address).ok_or(ServeError::NotMapped)?;
    core.serve_page(page, Wanted::AtOnce)?;
    Ok(core.memory.wake(page)?)
}

/// Copies the page to the child as it was at the fork, and still is here.
fn serve_child(core: &Core, child: &ForkedMemory, address: usize) -> Result<(), ServeError> {
    let page = core.memory.page_of(address).ok_or(ServeError::NotMapped)?;
    let address = core.memory.address(page);
    let word = core.directory.word(page);
    let mut copy = [0; PAGE_BYTES];
    match word.state {
        State::Fresh => {}
        State::Staged => {
            let claim = core.directory.claim(page, word);
            let mut claim = claim.ok_or(ServeError::UsedInFork)?;
            if let Some(slot) = claim.take_slot() {
                copy.copy_from_slice(core.memory.bytes(&slot));
                claim.release(word.staged(slot));
            }
        }
        State::Stored => {
            let mut service = core.service_slot();
            let (scratch, plain, record) = service.parts();
            let pages = core.store.decode(word.chunk, (scratch, record), plain)?;
            let index = usize::from(word.index);
            if index >= pages {
                return Err(ServeError::NotInChunk);
            }
            copy.copy_from_slice(&plain[index * PAGE_BYTES..][..PAGE_BYTES]);
        }
        State::InFile => {
            let map = core.files.find(page).ok_or(ServeError::NotMapped)?;
            let place = map.twin(&(page..page + 1)).ok_or(ServeError::NotMapped)?;
            return Ok(child.copy_in_from(address, (place.0, place.1.start))?);
        }
        // The child has it, too, unless it gave it up since.
        State::Resident | State::Protected if core.memory.has_frame(page) => {
            core.memory.read_page(page, &mut copy);
        }
        // It is nobody's, and the next access says so; or it is on its way.
        _ => return Ok(child.wake(address)?),
    }
    Ok(child.copy_in(address, &copy)?)
}
