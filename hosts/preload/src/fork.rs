//! Both sides of a `fork` go on with all their memory.
//!
//! Before a fork all threads leave mimalloc, and the space comes to rest. The child has a copy of everything: pages, pool
//! and tables, and makes the space its own. Until it has, the parent serves what the C library, and the handlers of
//! others, use in the child; it waits for that, or leaves it to a copy of itself.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::c_int;

use crate::real::RealSymbol;
use crate::reentrancy::ReentrancyGuard;
use crate::settings::{program, say};
use crate::{HEAP, ends, gate, go, keeper, large, malloc, threads};

/// The C library's lock of all its streams, which it takes in every fork after our handler. Another thread may have it
/// and wait for a page of a stream, which would have to wait for the fork: so it is taken while pages still come.
static STREAMS_LOCK: RealSymbol = RealSymbol::new(c"_IO_list_lock");
static STREAMS_UNLOCK: RealSymbol = RealSymbol::new(c"_IO_list_unlock");
/// Makes the lock a new one, in the child.
static STREAMS_RESET: RealSymbol = RealSymbol::new(c"_IO_list_resetlock");

/// Calls one of these, where the C library has it.
fn streams(function: &RealSymbol) {
    let function = function.function();
    if !function.is_null() {
        // SAFETY: what has such a name is a function without arguments; the lock counts how often a thread has it.
        unsafe { std::mem::transmute::<*mut c_void, extern "C" fn()>(function)() }
    }
}

/// What a thread that forks holds from before to after.
struct Held {
    /// What follows is taken and given back with all signals blocked: a handler that forked would wait for its own thread.
    within: ReentrancyGuard,
    /// No thread of this library has a lock of the loader's.
    held_off: Option<go::HoldOff>,
    /// The lock of all streams, and the gate of mimalloc.
    has_closed: bool,
    /// The child's descriptors that the program does not know of.
    descriptors: Vec<c_int>,
}

struct Fork(UnsafeCell<Option<Held>>);

// SAFETY: used only by the one thread that closed the space's gate, or mimalloc's where there is no space, until it opens it.
unsafe impl Sync for Fork {}

static FORK: Fork = Fork(UnsafeCell::new(None));

/// What others ask the C library to call around every fork, and what that knows them by.
type Handler = Option<unsafe extern "C" fn()>;
type Register = unsafe extern "C" fn(Handler, Handler, Handler, *mut c_void) -> c_int;

/// The C library's function, by which `pthread_atfork` does its work.
static REGISTER: RealSymbol = RealSymbol::new(c"__register_atfork");
static IS_REGISTERED: AtomicBool = AtomicBool::new(false);
/// Others than this library have handlers.
static HAS_OTHERS: AtomicBool = AtomicBool::new(false);

/// Asks the C library to call these around every fork.
///
/// Of all handlers ours are the first: so [`before`] is called last and the others first, and no handler of others runs
/// while this library is at rest. (They allocate, and wait for threads that do.)
pub fn start() {
    if !IS_REGISTERED.swap(true, Ordering::AcqRel) {
        for function in [&STREAMS_LOCK, &STREAMS_UNLOCK, &STREAMS_RESET] {
            function.function();
        }
        register(
            Some(before),
            Some(in_parent),
            Some(in_child),
            ptr::null_mut(),
        );
    }
}

fn register(before: Handler, parent: Handler, child: Handler, library: *mut c_void) -> c_int {
    let function = REGISTER.function();
    if function.is_null() {
        return libc::ENOSYS;
    }
    // SAFETY: what has that name is a function of this type; the handlers are passed on from the caller, or live as long
    // as the process.
    unsafe {
        let function = std::mem::transmute::<*mut c_void, Register>(function);
        function(before, parent, child, library)
    }
}

/// What `pthread_atfork` calls. Constructors of libraries that the program needs are called before those of this one.
#[unsafe(no_mangle)]
unsafe extern "C" fn __register_atfork(
    before: Handler,
    parent: Handler,
    child: Handler,
    library: *mut c_void,
) -> c_int {
    start();
    HAS_OTHERS.store(true, Ordering::Release);
    register(before, parent, child, library)
}

/// Whether an allocator that is linked into the program may be locked while a child's threads are made: it is not this
/// library's, and something has handlers of forks.
pub fn may_lock_allocator() -> bool {
    HAS_OTHERS.load(Ordering::Acquire) && !malloc::serves_c_library()
}

unsafe extern "C" fn before() {
    if !gate::is_inside() && !ReentrancyGuard::is() {
        large::give_up_kept();
    }
    let within = ReentrancyGuard::enter();
    let program = program();
    // A handler of a signal that interrupted mimalloc must not wait for what a thread may hold that waits for this one.
    let has_closed = !gate::is_inside();
    let mut held_off = None;
    if has_closed {
        // First of all: a thread that looks for Go waits for the loader's lock, whose holder may wait for a stream, for
        // mimalloc or for a page.
        held_off = program.map(|_| go::hold_off());
        // A thread that has this lock may allocate; one inside mimalloc uses no stream.
        streams(&STREAMS_LOCK);
        // Threads inside may wait for pages, which come until the space is at rest.
        gate::close();
    }
    let mut descriptors = Vec::new();
    if let Some(program) = program {
        if let Err(error) = program.space.before_fork() {
            say(&format!("before a fork: {error}"));
        }
        descriptors = program.space.descriptors_for_child();
    } else if !has_closed {
        return;
    }
    // SAFETY: this thread closed the space's gate, or mimalloc's.
    let held = unsafe { &mut *FORK.0.get() };
    *held = Some(Held {
        within,
        held_off,
        has_closed,
        descriptors,
    });
    HEAP.lock();
}

/// What this thread has held since before the fork.
fn held() -> Option<Held> {
    if program().is_none() && !gate::is_closed_by_this_thread() {
        return None;
    }
    HEAP.unlock();
    // SAFETY: the gate is still closed that this thread closed.
    unsafe { &mut *FORK.0.get() }.take()
}

unsafe extern "C" fn in_parent() {
    let Some(held) = held() else { return };
    // Others may allocate again; the child has its copy.
    if held.has_closed {
        gate::open();
    }
    if let Some(program) = program()
        && let Err(error) = program.space.after_fork_in_parent()
    {
        say(&format!("after a fork: {error}"));
    }
    drop(held.held_off);
    if held.has_closed {
        streams(&STREAMS_UNLOCK);
    }
    drop(held.within);
}

unsafe extern "C" fn in_child() {
    let held = held();
    // Threads of this library that are created here may have slots of the gate.
    gate::reset();
    let Some(held) = held else { return };
    if program().is_some() {
        wake_space_in_child(held.descriptors);
    }
    drop(held.held_off);
    streams(&STREAMS_RESET);
    drop(held.within);
}

fn wake_space_in_child(descriptors: Vec<c_int>) {
    let Some(program) = program() else { return };
    threads::forget();
    ends::forget();
    match program.space.after_fork_in_child() {
        Ok(true) => {
            keeper::start_in_child(descriptors.clone());
            // The keeper has them in a table of its own.
            descriptors.into_iter().for_each(close);
        }
        Ok(false) => keeper::forget(),
        Err(error) => {
            say(&format!("cannot go on in the child of a fork: {error}"));
            std::process::abort();
        }
    }
}

fn close(descriptor: c_int) {
    // SAFETY: it is one of the library's, which the program does not know of.
    unsafe { libc::close(descriptor) };
}
