//! Threads that this library starts work for it from their first instruction on: already the runtime's own
//! preparations allocate.
//!
//! They have stacks of their own. The C library gives a new thread the stack of one that ended, and with it that
//! thread's table of thread-local storage, which it allocated from the program's memory: a thread that brings such
//! memory back must not need it first.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{c_int, pthread_attr_t, pthread_t};

use crate::ends;
use crate::gate;
use crate::heap::{Heap, STACKS_BYTES};
use crate::kept;
use crate::kernel;
use crate::real::RealSymbol;
use crate::reentrancy::ReentrancyGuard;
use crate::unbound;

type Main = extern "C" fn(*mut c_void) -> *mut c_void;
type Create =
    unsafe extern "C" fn(*mut pthread_t, *const pthread_attr_t, Main, *mut c_void) -> c_int;

/// The C library's function.
static CREATE: RealSymbol = RealSymbol::new(c"pthread_create");

fn create() -> Option<Create> {
    let function = CREATE.function();
    // SAFETY: what has that name is a function of this type.
    (!function.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, Create>(function) })
}

/// Finds the C library's function while there is only one thread.
pub fn start() {
    CREATE.function();
}

#[repr(C)]
struct Start {
    main: Main,
    argument: *mut c_void,
}

extern "C" fn within(start: *mut c_void) -> *mut c_void {
    ReentrancyGuard::forever();
    // SAFETY: `pthread_create` made it a box and gave it to this thread alone.
    let start = unsafe { Box::from_raw(start.cast::<Start>()) };
    let Start { main, argument } = *start;
    let result = main(argument);
    ends::count_own(false);
    result
}

/// The first instructions of a thread of the program: nothing of them is left when its own begin, since a thread may end
/// by unwinding, which ends here for good.
#[unsafe(naked)]
extern "C" fn counted(start: *mut c_void) -> *mut c_void {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!(
        "sub rsp, 24",
        "mov rsi, rsp",
        "call {begin}",
        "mov rax, [rsp]",
        "mov rdi, [rsp + 8]",
        "add rsp, 24",
        "jmp rax",
        begin = sym begin,
    );
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!(
        "stp x29, x30, [sp, -32]!",
        "add x1, sp, 16",
        "bl {begin}",
        "ldp x16, x0, [sp, 16]",
        "ldp x29, x30, [sp], 32",
        "br x16",
        begin = sym begin,
    );
}

/// Says where a thread of the program goes on.
unsafe extern "C" fn begin(start: *mut Start, place: *mut Start) {
    // SAFETY: `pthread_create` made `start` a box and gave it to this thread alone; `place` is on the thread's stack.
    unsafe { place.write(*Box::from_raw(start)) };
    gate::begin_thread();
    ends::begins();
    kept::thread_begins();
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
    if !ReentrancyGuard::is() {
        unbound::unbind();
        return create_counted(
            |counted, start| {
                // SAFETY: passed on to the caller.
                unsafe { create(thread, attributes, counted, start) }
            },
            Start { main, argument },
        );
    }
    ends::count_own(true);
    let start = Box::into_raw(Box::new(Start { main, argument })).cast();
    // What the runtime asks for is a stack of the usual size.
    let result = on_own_stack(|attributes| {
        // SAFETY: the attributes are set; the rest is passed on to the caller.
        unsafe { create(thread, attributes, within, start) }
    });
    if result != 0 {
        ends::count_own(false);
        // SAFETY: there is no thread that would have it.
        drop(unsafe { Box::from_raw(start.cast::<Start>()) });
    }
    result
}

/// The thread's function returns an `int`: in the same register.
type CreateC11 = unsafe extern "C" fn(*mut pthread_t, Main, *mut c_void) -> c_int;

/// The C library's function, which does not call `pthread_create` by its name.
static CREATE_C11: RealSymbol = RealSymbol::new(c"thrd_create");

#[unsafe(no_mangle)]
unsafe extern "C" fn thrd_create(
    thread: *mut pthread_t,
    main: Main,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: what has that name is a function of this type.
    let create = unsafe { std::mem::transmute::<*mut c_void, CreateC11>(CREATE_C11.or_abort()) };
    unbound::unbind();
    create_counted(
        |counted, start| {
            // SAFETY: passed on to the caller.
            unsafe { create(thread, counted, start) }
        },
        Start { main, argument },
    )
}

/// Creates a thread of the program, whose end is noticed.
fn create_counted(create: impl FnOnce(Main, *mut c_void) -> c_int, start: Start) -> c_int {
    let start = Box::into_raw(Box::new(start));
    ends::will_begin();
    let result = create(counted, start.cast());
    if result != 0 {
        ends::will_not_begin();
        // SAFETY: there is no thread that would have it.
        drop(unsafe { Box::from_raw(start) });
    }
    result
}

/// Bytes of a stack, as the runtime asks for.
const STACK_BYTES: usize = 2 << 20;
/// Below it, against use beyond its end.
const GUARD_BYTES: usize = 64 << 10;
/// More threads than any arena has, with the keeper and those of forks that fail.
const MOST_STACKS: usize = 256;
const _: () = assert!(MOST_STACKS * (GUARD_BYTES + STACK_BYTES) <= STACKS_BYTES);

/// Which stacks are used. A thread keeps its own for good, since its last instruction cannot be observed; in the
/// child of a fork it is there for others.
static IS_USED: [AtomicBool; MOST_STACKS] = [const { AtomicBool::new(false) }; MOST_STACKS];

/// In the child of a `fork`, where threads of this library are none.
pub fn forget() {
    for is_used in &IS_USED {
        is_used.store(false, Ordering::Relaxed);
    }
}

/// An unused stack.
struct Stack {
    number: usize,
    start: *mut c_void,
}

impl Stack {
    fn take() -> Option<Self> {
        let stacks = Heap::stacks()?;
        let is_free = |is_used: &AtomicBool| !is_used.swap(true, Ordering::AcqRel);
        let number = IS_USED.iter().position(is_free)?;
        let guard = stacks + number * (GUARD_BYTES + STACK_BYTES);
        let stack = Self {
            number,
            start: ptr::with_exposed_provenance_mut(guard + GUARD_BYTES),
        };
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: addresses of the heap that only this stack uses. No access is allowed to the guard. Once is enough, and
        // twice does no harm.
        let result = unsafe { kernel::mprotect(stack.start, STACK_BYTES, access) };
        if result != 0 {
            stack.give_back();
            return None;
        }
        Some(stack)
    }

    /// No thread has it.
    fn give_back(self) {
        IS_USED[self.number].store(false, Ordering::Release);
    }
}

/// Creates a thread with attributes that name a stack of this library.
fn on_own_stack(create: impl FnOnce(*const pthread_attr_t) -> c_int) -> c_int {
    let Some(stack) = Stack::take() else {
        return libc::EAGAIN;
    };
    let mut attributes = MaybeUninit::<pthread_attr_t>::uninit();
    let own = attributes.as_mut_ptr();
    // SAFETY: the first call makes them, the others have what it made; the stack is mapped, and no other thread's.
    let result = unsafe {
        libc::pthread_attr_init(own);
        libc::pthread_attr_setstack(own, stack.start, STACK_BYTES);
        let result = create(own);
        libc::pthread_attr_destroy(own);
        result
    };
    if result != 0 {
        stack.give_back();
    }
    result
}
