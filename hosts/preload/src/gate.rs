//! No thread is inside mimalloc while the process forks.
//!
//! mimalloc has locks, and states of pages ("a block is being freed") that end with the call that set them. A child of
//! `fork` has one thread: what the calls of others set stays set there, and the child waits for it forever. The C library
//! lets children of programs with threads allocate; so must this one. Each call of mimalloc is between [`enter`] and the
//! end of what that gives. [`close`] waits for the calls that have begun, and those that begin later wait for [`open`].
//!
//! A call costs a store before and a store after it, without an atomic operation: `membarrier` makes all threads' stores
//! visible where they are looked at, in [`close`].
//!
//! | state | protected by |
//! |---|---|
//! | `Slot::depth` | written by the thread that has the slot; by the child's only thread in [`reset`] |
//! | `HOLDER` | the gate: written by the thread that closed it |

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, compiler_fence, fence};
use std::time::{Duration, Instant};

use libc::{c_int, c_long, pthread_key_t};
use libmimalloc_sys as mi;
use rustix::thread::{Timespec, futex};

use crate::filters;
use crate::reentrancy::ReentrancyGuard;
use crate::thread_words::thread_words;

/// How far a thread is inside, apart from others' so that its stores cost no traffic between processors.
#[repr(align(64))]
struct Slot {
    /// Calls of mimalloc that the thread is in: more than one where a signal's handler allocates.
    depth: AtomicU32,
    is_taken: AtomicBool,
    /// A fork waited in vain: the thread left by `longjmp`, or stands still.
    is_given_up: AtomicBool,
}

impl Slot {
    const fn new() -> Self {
        Self {
            depth: AtomicU32::new(0),
            is_taken: AtomicBool::new(false),
            is_given_up: AtomicBool::new(false),
        }
    }
}

/// Threads that have a slot of their own; further ones share one.
const MOST_SLOTS: usize = 4096;
static SLOTS: [Slot; MOST_SLOTS] = [const { Slot::new() }; MOST_SLOTS];
/// Behind the last slot that a thread ever had.
static USED_SLOTS: AtomicUsize = AtomicUsize::new(0);
/// The slot of all threads without one of their own: those beyond the number, and those that are about to end.
static SHARED: Slot = Slot::new();

/// Bits of [`GATE`].
const CLOSED: u32 = 1;
/// There is no `membarrier`: threads fence their stores.
const FENCED: u32 = 2;

/// The word that every thread reads after it has said that it is inside.
static GATE: AtomicU32 = AtomicU32::new(0);
/// The thread that closed the gate, as [`thread`] names it.
static HOLDER: AtomicUsize = AtomicUsize::new(0);

/// How long a fork waits for a thread that does not leave. Threads inside may wait for pages; one that a signal's handler
/// took away by `longjmp`, or stopped for as long as the fork takes, never leaves.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it looks again before it sleeps in between, and for how long.
const LOOKS: u32 = 100;
const PAUSE: Duration = Duration::from_micros(50);
/// By then stores of others are visible that no fence and no `membarrier` makes so: they leave a processor within
/// microseconds, and with every change of threads.
const STORES_ARRIVE: Duration = Duration::from_millis(1);

// The address of the thread's slot: 0 before it has one, and `SHARES` where it has none; and how deep a thread without one is
// inside.
thread_words!("warmswap_gate_slot", 2);

/// How deep the calling thread is inside where it has no slot.
fn own_depth() -> *mut u32 {
    // SAFETY: there are two words.
    unsafe { words().add(1).cast() }
}

/// In place of an address: the thread uses [`SHARED`].
const SHARES: usize = 1;

/// The calling thread, among those that run.
fn thread() -> usize {
    words().addr()
}

/// The calling thread's own slot, where it has one.
#[inline]
fn own_slot() -> Option<&'static Slot> {
    let address = first_word();
    // SAFETY: what is neither 0 nor `SHARES` was set to the address of one of `SLOTS`.
    (address > SHARES).then(|| unsafe { &*ptr::with_exposed_provenance(address) })
}

fn set_slot(address: usize) {
    // SAFETY: the word is the calling thread's alone, and lives as long as it runs.
    unsafe { words().write(address) };
}

/// The thread is inside mimalloc as long as this lives.
pub struct Inside {
    slot: &'static Slot,
    /// The thread's depth before.
    depth: u32,
}

/// The thread is about to call mimalloc. Waits while another thread forks.
#[inline]
pub fn enter() -> Inside {
    if let Some(slot) = own_slot()
        && slot.depth.load(Ordering::Relaxed) == 0
    {
        slot.depth.store(1, Ordering::Relaxed);
        // `close` makes the processor keep this order.
        compiler_fence(Ordering::SeqCst);
        let inside = Inside { slot, depth: 0 };
        if GATE.load(Ordering::Relaxed) != 0 {
            return inside.wait_until_open();
        }
        return inside;
    }
    enter_slowly()
}

/// The same for a thread without a slot, and where a signal's handler interrupted a call.
#[cold]
fn enter_slowly() -> Inside {
    if first_word() == 0 {
        begin_thread();
    }
    if let Some(slot) = own_slot() {
        let depth = slot.depth.load(Ordering::Relaxed);
        let inside = Inside { slot, depth };
        inside.begin();
        return inside.wait_until_open();
    }
    // SAFETY: the variable is the calling thread's alone.
    let depth = unsafe { own_depth().read() };
    let inside = Inside {
        slot: &SHARED,
        depth,
    };
    inside.begin();
    inside.wait_until_open()
}

impl Inside {
    fn is_shared(&self) -> bool {
        ptr::eq(self.slot, &SHARED)
    }

    #[cold]
    fn wait_until_open(self) -> Self {
        loop {
            // Either this thread sees that the gate is closed, or the thread that closes it sees this one.
            fence(Ordering::SeqCst);
            let gate = GATE.load(Ordering::SeqCst);
            // A fork waits for what this thread is in the midst of: a call of mimalloc, or one of the space.
            let must_go_on = self.depth > 0 || ReentrancyGuard::is();
            if gate & CLOSED == 0 || must_go_on || is_closed_by_this_thread() {
                return self;
            }
            self.leave();
            wait_for_change(gate);
            self.begin();
        }
    }

    #[cold]
    fn begin(&self) {
        if self.is_shared() {
            self.set_own_depth(self.depth + 1);
            self.slot.depth.fetch_add(1, Ordering::SeqCst);
        } else {
            self.slot.depth.store(self.depth + 1, Ordering::Relaxed);
        }
    }

    #[cold]
    fn set_own_depth(&self, depth: u32) {
        // SAFETY: the variable is the calling thread's alone.
        unsafe { own_depth().write(depth) };
    }

    #[inline]
    fn leave(&self) {
        if self.is_shared() {
            self.slot.depth.fetch_sub(1, Ordering::Release);
            self.set_own_depth(self.depth);
        } else {
            self.slot.depth.store(self.depth, Ordering::Release);
        }
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        self.leave();
    }
}

/// Whether the calling thread is inside mimalloc.
pub fn is_inside() -> bool {
    match own_slot() {
        Some(slot) => slot.depth.load(Ordering::Relaxed) > 0,
        // SAFETY: the variable is the calling thread's alone.
        None => unsafe { own_depth().read() > 0 },
    }
}

/// Waits as long as the gate's word is this.
fn wait_for_change(gate: u32) {
    let _ = futex::wait(&GATE, futex::Flags::PRIVATE, gate, None);
}

/// Closes the gate and waits until no other thread is inside. The calling thread is not inside, works for this library until
/// the gate is open again, and is not kept out.
pub fn close() {
    while let Err(gate) = try_close() {
        if gate & CLOSED != 0 {
            wait_for_change(gate);
        }
    }
    fence(Ordering::SeqCst);
    if other_slots().next().is_some() {
        let is_fenced = GATE.load(Ordering::Relaxed) & FENCED != 0;
        if !is_fenced && membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0 {
            pause(STORES_ARRIVE);
        }
    }
    let begin = Instant::now();
    other_slots()
        .chain([&SHARED])
        .for_each(|slot| wait_until_left(slot, begin));
}

/// Whether the calling thread closed the gate.
pub fn is_closed_by_this_thread() -> bool {
    HOLDER.load(Ordering::Relaxed) == thread()
}

/// Closes the gate, unless it is closed already or its word changes meanwhile; the word then.
fn try_close() -> Result<(), u32> {
    let gate = GATE.load(Ordering::Relaxed);
    if gate & CLOSED != 0 {
        return Err(gate);
    }
    GATE.compare_exchange(gate, gate | CLOSED, Ordering::SeqCst, Ordering::Relaxed)?;
    HOLDER.store(thread(), Ordering::Relaxed);
    Ok(())
}

/// Slots that other threads have.
fn other_slots() -> impl Iterator<Item = &'static Slot> {
    let own = own_slot();
    let used = USED_SLOTS.load(Ordering::SeqCst);
    SLOTS[..used].iter().filter(move |slot| {
        slot.is_taken.load(Ordering::SeqCst) && !own.is_some_and(|own| ptr::eq(own, *slot))
    })
}

/// Sleeps. The C library's function would let the thread be cancelled, which `fork` does not.
fn pause(duration: Duration) {
    let request = Timespec {
        tv_sec: 0,
        tv_nsec: i64::from(duration.subsec_nanos()),
    };
    let _ = rustix::thread::nanosleep(&request);
}

/// `begin`: when the fork began to wait.
fn wait_until_left(slot: &Slot, begin: Instant) {
    let mut looks = 0;
    while slot.depth.load(Ordering::Acquire) > 0 {
        if slot.is_given_up.load(Ordering::Relaxed) {
            return;
        }
        looks += 1;
        if looks < LOOKS {
            rustix::thread::sched_yield();
        } else if begin.elapsed() < PATIENCE {
            pause(PAUSE);
        } else {
            slot.is_given_up.store(true, Ordering::Relaxed);
        }
    }
    slot.is_given_up.store(false, Ordering::Relaxed);
}

/// Opens the gate, in the parent.
pub fn open() {
    HOLDER.store(0, Ordering::Relaxed);
    GATE.fetch_and(!CLOSED, Ordering::Release);
    let _ = futex::wake(&GATE, futex::Flags::PRIVATE, u32::MAX >> 1);
}

/// Opens the gate in the child, which has one thread.
pub fn reset() {
    for slot in other_slots() {
        slot.depth.store(0, Ordering::Relaxed);
        slot.is_taken.store(false, Ordering::Relaxed);
    }
    // SAFETY: the variable is the calling thread's alone.
    SHARED
        .depth
        .store(unsafe { own_depth().read() }, Ordering::Relaxed);
    GATE.fetch_and(!CLOSED, Ordering::Relaxed);
    HOLDER.store(0, Ordering::Relaxed);
}

/// From now on threads fence their stores: the process is about to filter its system calls, or does.
pub fn do_without_membarrier() {
    if GATE.fetch_or(FENCED, Ordering::SeqCst) & FENCED == 0 {
        pause(STORES_ARRIVE);
    }
}

fn membarrier(command: c_int) -> c_long {
    // SAFETY: it changes no memory.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }
}

/// No key.
const NONE: u32 = u32::MAX;
/// The key whose values are there until a thread ends.
static KEY: AtomicU32 = AtomicU32::new(NONE);
/// How often the C library calls what is called at the end of a thread, which may set values anew.
const TURNS: usize = 4;

unsafe extern "C" {
    /// By which mimalloc learns that a thread ends; -1 where it does not.
    static mut _mi_heap_default_key: pthread_key_t;
}

/// Registers the process for `membarrier`, and has threads give their heaps up within the gate.
pub fn start() {
    let register = libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED;
    // A filter may end the process at a call that it does not know.
    if filters::are_set() || membarrier(register) != 0 {
        GATE.fetch_or(FENCED, Ordering::SeqCst);
    }
    // mimalloc's own key is called from outside of the gate.
    if key().is_some() {
        // SAFETY: the first call has no effect after the first time. The variable is read by mimalloc whenever it takes a
        // heap into use, and -1 says that there is no key; nothing else has the key that is deleted.
        unsafe {
            mi::mi_process_init();
            let replaced = (&raw const _mi_heap_default_key).read();
            (&raw mut _mi_heap_default_key).write(NONE);
            if replaced != NONE {
                libc::pthread_key_delete(replaced);
            }
        }
    }
}

fn key() -> Option<pthread_key_t> {
    let known = KEY.load(Ordering::Acquire);
    if known != NONE {
        return Some(known);
    }
    let mut key = 0;
    // SAFETY: the function lives as long as the process.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(thread_ends)) } != 0 {
        return None;
    }
    match KEY.compare_exchange(NONE, key, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(key),
        Err(known) => {
            // SAFETY: it was just made, and no other code knows it.
            unsafe { libc::pthread_key_delete(key) };
            Some(known)
        }
    }
}

/// Gives the calling thread a slot: when it begins, so that the slot is given back when it ends, whatever it calls by then.
pub fn begin_thread() {
    if first_word() != 0 {
        return;
    }
    let is_free = |slot: &Slot| {
        !slot.is_taken.load(Ordering::Relaxed) && !slot.is_taken.swap(true, Ordering::SeqCst)
    };
    let index = SLOTS.iter().position(is_free);
    set_slot(index.map_or(SHARES, |index| {
        USED_SLOTS.fetch_max(index + 1, Ordering::SeqCst);
        SLOTS[index].is_given_up.store(false, Ordering::Relaxed);
        (&raw const SLOTS[index]).expose_provenance()
    }));
    // Either `close` sees the slot, or this thread's next call sees that the gate is closed.
    fence(Ordering::SeqCst);
    // It may allocate, for which the thread has its slot by now.
    set_turn(1);
}

fn set_turn(turn: usize) {
    if let Some(key) = key() {
        let turn: *const c_void = ptr::without_provenance(turn);
        // SAFETY: there is such a key. Without memory for the value, slot and heap of the thread are not used again.
        unsafe { libc::pthread_setspecific(key, turn) };
    }
}

/// A thread ends. What other keys' functions allocate after this brings its heap back, so it is given up in every turn.
unsafe extern "C" fn thread_ends(turn: *mut c_void) {
    {
        let _inside = enter();
        // SAFETY: it may be called at any time, by a thread that is in no other call of mimalloc.
        unsafe { mi::mi_thread_done() };
    }
    if turn.addr() < TURNS {
        set_turn(turn.addr() + 1);
        return;
    }
    if let Some(slot) = own_slot() {
        // The C library frees some blocks after this.
        set_slot(SHARES);
        slot.depth.store(0, Ordering::Release);
        slot.is_taken.store(false, Ordering::Release);
    }
}
