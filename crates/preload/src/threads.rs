//! Threads that this library starts work for it from their first instruction on: already the runtime's own
//! preparations allocate.
//!
//! They have stacks of their own. The C library gives a new thread the stack of one that ended, and with it that
//! thread's table of thread-local storage, which it allocated from the program's memory: who is needed to bring that
//! back may not need it first.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use libc::{c_int, pthread_attr_t, pthread_t};

use crate::kernel;
use crate::within::Within;

type Main = extern "C" fn(*mut c_void) -> *mut c_void;
type Create =
    unsafe extern "C" fn(*mut pthread_t, *const pthread_attr_t, Main, *mut c_void) -> c_int;

/// The C library's function.
static CREATE: OnceLock<Option<Create>> = OnceLock::new();

fn create() -> Option<Create> {
    *CREATE.get_or_init(|| {
        // SAFETY: the name ends with a zero; what has it is a function of this type.
        unsafe {
            let function = libc::dlsym(libc::RTLD_NEXT, c"pthread_create".as_ptr());
            (!function.is_null()).then(|| std::mem::transmute::<*mut c_void, Create>(function))
        }
    })
}

/// Finds the C library's function while there is only one thread.
pub fn start() {
    create();
}

struct Start {
    main: Main,
    argument: *mut c_void,
}

extern "C" fn within(start: *mut c_void) -> *mut c_void {
    Within::forever();
    // SAFETY: `pthread_create` made it a box and gave it to this thread alone.
    let start = unsafe { Box::from_raw(start.cast::<Start>()) };
    let Start { main, argument } = *start;
    main(argument)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    main: Main,
    argument: *mut c_void,
) -> c_int {
    let Some(create) = create() else {
        return libc::EAGAIN;
    };
    if !Within::is() {
        // SAFETY: passed on to the caller.
        return unsafe { create(thread, attributes, main, argument) };
    }
    let start = Box::into_raw(Box::new(Start { main, argument })).cast();
    // What the runtime asks for is a stack of the usual size.
    let result = on_own_stack(|attributes| {
        // SAFETY: the attributes are set; the rest is passed on to the caller.
        unsafe { create(thread, attributes, within, start) }
    });
    if result != 0 {
        // SAFETY: there is no thread that would have it.
        drop(unsafe { Box::from_raw(start.cast::<Start>()) });
    }
    result
}

/// Bytes of a stack, as the runtime asks for.
const STACK_BYTES: usize = 2 << 20;
/// Below it, for who needs more.
const GUARD_BYTES: usize = 64 << 10;
/// More threads than any arena has, with the keeper and those of forks that fail.
const MOST_STACKS: usize = 256;

/// A stack, once it is needed. A thread keeps it for good, since nobody knows when its last instruction is over; in the
/// child of a fork it is there for others.
struct Stack {
    /// Its first address; 0 if it was never used.
    start: AtomicUsize,
    is_used: AtomicBool,
}

static STACKS: [Stack; MOST_STACKS] = [const {
    Stack {
        start: AtomicUsize::new(0),
        is_used: AtomicBool::new(false),
    }
}; MOST_STACKS];

/// In the child of a `fork`, where threads of this library are none.
pub fn forget() {
    for stack in &STACKS {
        stack.is_used.store(false, Ordering::Relaxed);
    }
}

impl Stack {
    /// One that nobody uses.
    fn take() -> Option<&'static Self> {
        let is_free = |stack: &&Stack| !stack.is_used.swap(true, Ordering::AcqRel);
        let stack = STACKS.iter().find(is_free)?;
        if stack.start.load(Ordering::Relaxed) == 0 {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let flags =
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
            let bytes = GUARD_BYTES + STACK_BYTES;
            // SAFETY: a new mapping where the kernel likes.
            let mapped = unsafe { kernel::mmap(ptr::null_mut(), bytes, access, flags, (-1, 0)) };
            // SAFETY: the lowest part of the mapping, which nobody uses.
            let guard = || unsafe { kernel::mprotect(mapped, GUARD_BYTES, libc::PROT_NONE) };
            if mapped == libc::MAP_FAILED || guard() != 0 {
                stack.is_used.store(false, Ordering::Release);
                return None;
            }
            let start = mapped.expose_provenance() + GUARD_BYTES;
            stack.start.store(start, Ordering::Relaxed);
        }
        Some(stack)
    }
}

/// Creates a thread with attributes that name a stack of this library.
fn on_own_stack(create: impl FnOnce(*const pthread_attr_t) -> c_int) -> c_int {
    let Some(stack) = Stack::take() else {
        return libc::EAGAIN;
    };
    let start = ptr::with_exposed_provenance_mut(stack.start.load(Ordering::Relaxed));
    let mut attributes = MaybeUninit::<pthread_attr_t>::uninit();
    let own = attributes.as_mut_ptr();
    // SAFETY: the first call makes them, the others have what it made; the stack is mapped, and nobody else's.
    let result = unsafe {
        libc::pthread_attr_init(own);
        libc::pthread_attr_setstack(own, start, STACK_BYTES);
        let result = create(own);
        libc::pthread_attr_destroy(own);
        result
    };
    if result != 0 {
        stack.is_used.store(false, Ordering::Release);
    }
    result
}
