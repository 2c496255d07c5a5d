//! SIGBUS to the service of the address, in the thread that made the fault.
//!
//! One handler for the process serves every [`Registration`]; addresses of none go to the handler that
//! was there before, or take the default action. A handler that is installed later must pass on what it
//! does not know in the same way.
//!
//! The handler runs on the stack of the faulting thread (the alternative stacks that runtimes give their
//! threads are too small for a decompressor) and with all signals blocked, so that no other handler
//! touches managed memory meanwhile.

use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::{fmt, hint, io, mem};

/// Serves faults.
///
/// # Safety
/// `serve` runs in a signal handler, in any thread that touches the range: it must not touch memory of the
/// range, must not unwind, and must wait only for what can proceed without the interrupted code. The
/// interrupted code may be anything that touches the range.
pub unsafe trait FaultService: Send + Sync {
    /// The page at `address`, which is in the range, is needed. Returns when the access can be tried again.
    fn serve(&self, address: usize);
}

/// Ranges that can be registered at a time.
pub const MAX_REGISTRATIONS: usize = 64;

/// All places are taken, or the handler cannot be installed.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// There are [`MAX_REGISTRATIONS`] already.
    #[error("{MAX_REGISTRATIONS} ranges are registered for SIGBUS already")]
    TooMany,
    /// The system's answer.
    #[error("cannot install the SIGBUS handler: {0}")]
    Install(#[source] io::Error),
}

struct HandlerEntry {
    start: AtomicUsize,
    end: AtomicUsize,
    /// A leaked `Box<Arc<dyn FaultService>>`, or null.
    service: AtomicPtr<Arc<dyn FaultService>>,
    /// Handlers that look at this entry now.
    users: AtomicUsize,
}

static ENTRIES: [HandlerEntry; MAX_REGISTRATIONS] = [const {
    HandlerEntry {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        service: AtomicPtr::new(ptr::null_mut()),
        users: AtomicUsize::new(0),
    }
}; MAX_REGISTRATIONS];

/// Guards changes of the entries, not their use.
static CHANGES: Mutex<()> = Mutex::new(());

/// What SIGBUS did before; set before the handler is installed for good.
static PREVIOUS: OnceLock<Previous> = OnceLock::new();

struct Previous(libc::sigaction);

// SAFETY: plain numbers and a function's address, never changed.
unsafe impl Send for Previous {}
// SAFETY: as above.
unsafe impl Sync for Previous {}

/// Faults of a range are served as long as this lives.
pub struct Registration {
    entry: &'static HandlerEntry,
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let range =
            self.entry.start.load(Ordering::Relaxed)..self.entry.end.load(Ordering::Relaxed);
        write!(f, "Registration({:#x}..{:#x})", range.start, range.end)
    }
}

/// Has `service` serve SIGBUS for addresses in `range`.
///
/// # Errors
/// [`RegisterError`].
pub fn register(
    range: Range<usize>,
    service: Arc<dyn FaultService>,
) -> Result<Registration, RegisterError> {
    let _changes = CHANGES.lock().unwrap_or_else(PoisonError::into_inner);
    install().map_err(RegisterError::Install)?;
    let entry = ENTRIES
        .iter()
        .find(|entry| entry.service.load(Ordering::Acquire).is_null())
        .ok_or(RegisterError::TooMany)?;
    entry.start.store(range.start, Ordering::Relaxed);
    entry.end.store(range.end, Ordering::Relaxed);
    let service = Box::into_raw(Box::new(service));
    // Handlers read the range only after they saw the service.
    entry.service.store(service, Ordering::SeqCst);
    Ok(Registration { entry })
}

impl Drop for Registration {
    fn drop(&mut self) {
        let _changes = CHANGES.lock().unwrap_or_else(PoisonError::into_inner);
        let service = self.entry.service.swap(ptr::null_mut(), Ordering::SeqCst);
        // A handler counts itself before it looks: a handler that saw the service is among the users now.
        while self.entry.users.load(Ordering::SeqCst) > 0 {
            hint::spin_loop();
            std::thread::yield_now();
        }
        // SAFETY: it came from `Box::into_raw` and is out of the entry; no handler uses it any more.
        drop(unsafe { Box::from_raw(service) });
    }
}

fn install() -> io::Result<()> {
    if PREVIOUS.get().is_some() {
        return Ok(());
    }
    // SAFETY: all zero is a valid `sigaction`, which the calls below fill in.
    let (mut previous, mut ours): (libc::sigaction, libc::sigaction) = unsafe { mem::zeroed() };
    // SAFETY: asks only; the result goes to a structure of the right type.
    if unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut previous) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if PREVIOUS.set(Previous(previous)).is_err() {
        return Ok(());
    }
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = handle;
    ours.sa_sigaction = handler as usize;
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    // SAFETY: fills the mask of a structure on the stack.
    unsafe { libc::sigfillset(&raw mut ours.sa_mask) };
    // SAFETY: the handler keeps to what is allowed in one, as its own comments argue.
    if unsafe { libc::sigaction(libc::SIGBUS, &raw const ours, ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the location is the thread's own. The interrupted code must find its error number unchanged.
    let errno_location = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let errno = unsafe { *errno_location };
    // SAFETY: the kernel gives a valid structure to handlers with SA_SIGINFO; SIGBUS has an address.
    let (address, is_fault) = unsafe { ((*info).si_addr().addr(), (*info).si_code > 0) };
    if !(is_fault && serve(address)) {
        pass_on(signal, info, context);
    }
    // SAFETY: as above.
    unsafe { *errno_location = errno };
}

/// Serves the address, if it is registered.
fn serve(address: usize) -> bool {
    for entry in &ENTRIES {
        if entry.service.load(Ordering::Acquire).is_null() {
            continue;
        }
        entry.users.fetch_add(1, Ordering::SeqCst);
        let service = entry.service.load(Ordering::SeqCst);
        let range = entry.start.load(Ordering::Relaxed)..entry.end.load(Ordering::Relaxed);
        let is_ours = !service.is_null() && range.contains(&address);
        if is_ours {
            // SAFETY: it is not freed while this handler counts among the users.
            unsafe { &*service }.serve(address);
        }
        entry.users.fetch_sub(1, Ordering::SeqCst);
        if is_ours {
            return true;
        }
    }
    false
}

/// Does what would have been done without this module.
fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let Some(Previous(previous)) = PREVIOUS.get() else {
        return;
    };
    match previous.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => {
            // The access is made again, and then the default action follows; so does it for a signal that
            // was sent, which is sent again.
            // SAFETY: all zero is a valid `sigaction` with the default action.
            let default: libc::sigaction = unsafe { mem::zeroed() };
            // SAFETY: both calls are allowed in a handler.
            unsafe {
                libc::sigaction(signal, &raw const default, ptr::null_mut());
                if (*info).si_code <= 0 {
                    libc::raise(signal);
                }
            }
        }
        handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: an action with SA_SIGINFO holds a function of this type.
            let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                unsafe { mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: an action without SA_SIGINFO holds a function of this type.
            let handler: extern "C" fn(libc::c_int) = unsafe { mem::transmute(handler) };
            handler(signal);
        }
    }
}
