//! Threads that this library starts work for it from their first instruction on: already the runtime's own
//! preparations allocate.

use std::ffi::c_void;
use std::sync::OnceLock;

use libc::{c_int, pthread_attr_t, pthread_t};

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
    // SAFETY: the rest is passed on to the caller.
    let result = unsafe { create(thread, attributes, within, start) };
    if result != 0 {
        // SAFETY: there is no thread that would have it.
        drop(unsafe { Box::from_raw(start.cast::<Start>()) });
    }
    result
}
