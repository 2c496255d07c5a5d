//! Both sides of a `fork` go on with all their memory.
//!
//! Before a fork the space comes to rest. The child has a copy of everything: pages, pool and tables. Its
//! first act is to make the space its own, before any of the program's code runs there. What the C library
//! itself does in the child before that must find its data in place: its open streams, which are brought in and
//! held for the moment.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr;

use libc::c_int;

use crate::settings::{Program, program, say};
use crate::within::Within;
use crate::{HEAP, keeper};

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
    rest(program);
    HEAP.lock();
    // SAFETY: the gate is closed, and this thread closed it.
    let held = unsafe { &mut *FORK.0.get() };
    held.within = Some(within);
    held.pipe = [-1, -1];
    if program.space.has_stored_in_file() {
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
        // Ends when the child has a copy of the backing file, or is no more.
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
    match program.space.after_fork_in_child() {
        Ok(true) => keeper::start_in_child(),
        Ok(false) => keeper::forget(),
        Err(error) => {
            say(&format!("cannot go on in the child of a fork: {error}"));
            std::process::abort();
        }
    }
    close(write);
    drop(within);
}

fn close(descriptor: c_int) {
    if descriptor >= 0 {
        // SAFETY: it is one end of the pipe, which nobody else knows.
        unsafe { libc::close(descriptor) };
    }
}

/// Brings the space to rest with the C library's streams in their places.
fn rest(program: &Program) {
    loop {
        let places = if program.space.is_adopted() {
            touch_streams()
        } else {
            Vec::new()
        };
        if let Err(error) = program.space.before_fork() {
            say(&format!("before a fork: {error}"));
        }
        if places
            .iter()
            .all(|&(address, len)| program.space.is_resident(address, len))
        {
            return;
        }
        let _ = program.space.after_fork_in_parent();
    }
}

/// Offset of the pointer to its lock in a stream of glibc, on machines of 64 bits.
const LOCK_OFFSET: usize = 136;
/// Bytes of a lock.
const LOCK_BYTES: usize = 16;

unsafe extern "C" {
    fn _IO_list_lock();
    fn _IO_list_unlock();
    fn _IO_iter_begin() -> *mut c_void;
    fn _IO_iter_end() -> *mut c_void;
    fn _IO_iter_next(iterator: *mut c_void) -> *mut c_void;
    fn _IO_iter_file(iterator: *mut c_void) -> *mut c_void;
}

/// Uses every open stream and its lock, as the C library does in the child; where they are.
fn touch_streams() -> Vec<(usize, usize)> {
    let mut places = Vec::new();
    // SAFETY: these are glibc's own ways through its list, under the list's lock. A stream has its lock's
    // address at that offset since glibc 2.1.
    unsafe {
        _IO_list_lock();
        let mut at = _IO_iter_begin();
        while at != _IO_iter_end() {
            let stream = _IO_iter_file(at);
            let lock: *mut c_void = ptr::read(stream.byte_add(LOCK_OFFSET).cast());
            places.push((stream.expose_provenance(), LOCK_OFFSET + size_of::<usize>()));
            if !lock.is_null() {
                ptr::read_volatile(lock.cast::<u8>());
                places.push((lock.expose_provenance(), LOCK_BYTES));
            }
            at = _IO_iter_next(at);
        }
        _IO_list_unlock();
    }
    places
}
const _: () = assert!(
    size_of::<usize>() == 8,
    "the offset is that of machines of 64 bits"
);
