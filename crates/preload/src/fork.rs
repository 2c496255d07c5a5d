//! Both sides of a `fork` go on with all their memory.
//!
//! Before a fork the space comes to rest. The child has a copy of everything: pages, pool and tables, and makes
//! the space its own. Until it has, the parent serves what the C library, and the handlers of others, use in the
//! child; it waits for that.

use std::cell::UnsafeCell;

use libc::c_int;

use crate::settings::{program, say};
use crate::within::Within;
use crate::{HEAP, keeper, threads};

/// What a thread that forks holds from before to after.
struct Held {
    within: Option<Within>,
    /// Both ends of a pipe by which the child says that it needs the parent no more; -1 for none.
    pipe: [c_int; 2],
}

struct Fork(UnsafeCell<Held>);

// SAFETY: used only between the closing of the space's gate and its opening, by the one thread that closed it.
unsafe impl Sync for Fork {}

static FORK: Fork = Fork(UnsafeCell::new(Held {
    within: None,
    pipe: [-1, -1],
}));

/// Asks the C library to call these around every fork. The library is loaded before all others, so in the child
/// its handler runs before all others.
pub fn start() {
    // SAFETY: the functions live as long as the process.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
}

extern "C" fn before() {
    let Some(program) = program() else { return };
    let within = Within::enter();
    if let Err(error) = program.space.before_fork() {
        say(&format!("before a fork: {error}"));
    }
    HEAP.lock();
    // SAFETY: the gate is closed, and this thread closed it.
    let held = unsafe { &mut *FORK.0.get() };
    held.within = Some(within);
    held.pipe = [-1, -1];
    if program.space.is_adopted_at_rest() {
        // SAFETY: the place has room for two descriptors.
        unsafe { libc::pipe2(held.pipe.as_mut_ptr(), libc::O_CLOEXEC) };
    }
}

extern "C" fn in_parent() {
    let Some(program) = program() else { return };
    HEAP.unlock();
    // SAFETY: the gate is still closed.
    let held = unsafe { &mut *FORK.0.get() };
    let within = held.within.take();
    let [read, write] = held.pipe;
    if read >= 0 {
        close(write);
        // Ends when the child does without the parent, or is no more.
        let mut byte = 0u8;
        // SAFETY: the byte is live.
        while unsafe { libc::read(read, (&raw mut byte).cast(), 1) } < 0
            && std::io::Error::last_os_error().raw_os_error() == Some(libc::EINTR)
        {}
        close(read);
    }
    if let Err(error) = program.space.after_fork_in_parent() {
        say(&format!("after a fork: {error}"));
    }
    drop(within);
}

extern "C" fn in_child() {
    let Some(program) = program() else { return };
    HEAP.unlock();
    // SAFETY: the gate is still closed, and there is no other thread.
    let held = unsafe { &mut *FORK.0.get() };
    let within = held.within.take();
    let [read, write] = held.pipe;
    close(read);
    threads::forget();
    match program.space.after_fork_in_child() {
        Ok(true) => keeper::start_in_child(|| close(write)),
        Ok(false) => {
            close(write);
            keeper::forget();
        }
        Err(error) => {
            say(&format!("cannot go on in the child of a fork: {error}"));
            std::process::abort();
        }
    }
    drop(within);
}

fn close(descriptor: c_int) {
    if descriptor >= 0 {
        // SAFETY: it is one end of the pipe, which nobody else knows.
        unsafe { libc::close(descriptor) };
    }
}
