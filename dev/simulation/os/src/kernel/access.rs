//! How programs reach their memory: an access is possible, or it is a fault.

use std::ffi::c_void;
use std::sync::OnceLock;

use super::{FEATURE_SIGBUS, Fault, PAGE_BYTES};
use crate::machine::{self, Wait};

/// Reads words within one page of the program's memory, once they can be read; how often the page was filled so far.
/// `check` sees the words before anything else can happen.
pub fn read(address: usize, words: usize, check: impl FnOnce(&[u64])) -> u64 {
    access(address, false, || {
        let from: *const u64 = std::ptr::with_exposed_provenance(address);
        // SAFETY: the page is registered, so it is mapped, and nothing else runs meanwhile.
        check(unsafe { std::slice::from_raw_parts(from, words) });
    })
}

/// Writes words within one page of the program's memory, once they can be written; how often the page was filled so far.
/// `make` is called before anything else can happen.
pub fn write(address: usize, words: usize, make: impl FnOnce(&mut [u64])) -> u64 {
    access(address, true, || {
        let to: *mut u64 = std::ptr::with_exposed_provenance_mut(address);
        // SAFETY: the page is registered, so it is mapped, and nothing else runs meanwhile.
        make(unsafe { std::slice::from_raw_parts_mut(to, words) });
    })
}

/// An access of the program to one page; `does` takes no step.
fn access(address: usize, is_write: bool, does: impl FnOnce()) -> u64 {
    let page = address / PAGE_BYTES;
    loop {
        machine::step();
        let fault = machine::machine(|m| m.try_access(page, is_write));
        match fault {
            Access::Possible(fills) => {
                does();
                return fills;
            }
            Access::Raises => raise(address),
            Access::Waits => wait_for(page),
        }
    }
}

/// What an access does.
enum Access {
    /// The page was filled so often.
    Possible(u64),
    /// SIGBUS.
    Raises,
    /// An event is there to be read.
    Waits,
}

impl machine::Machine {
    fn try_access(&mut self, page: usize, is_write: bool) -> Access {
        let Some(found) = self.kernel.pages.get_mut(page) else {
            panic!("a segmentation fault on page {page:#x}");
        };
        let is_protected = found.is_present && found.is_protected && is_write;
        if found.is_present && !is_protected {
            found.is_shared &= !is_write;
            return Access::Possible(found.fills);
        }
        self.kernel.counts.faults += 1;
        if self.kernel.features & FEATURE_SIGBUS != 0 {
            return Access::Raises;
        }
        let task = self.current();
        self.kernel.faults.push_back(Fault {
            page,
            is_write,
            is_protected,
            task,
        });
        self.wake(1, |wait| wait == Wait::Event);
        Access::Waits
    }
}

type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void);

/// The handler of SIGBUS that the process has; no simulation replaces it.
fn handler() -> Handler {
    static HANDLER: OnceLock<Handler> = OnceLock::new();
    *HANDLER.get_or_init(|| {
        // SAFETY: zeros are a valid value of this structure.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: asks only.
        unsafe { libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut action) };
        assert!(
            action.sa_flags & libc::SA_SIGINFO != 0,
            "no handler of SIGBUS"
        );
        // SAFETY: an action with SA_SIGINFO holds a function of this type.
        unsafe { std::mem::transmute::<usize, Handler>(action.sa_sigaction) }
    })
}

/// Calls the handler of SIGBUS.
fn raise(address: usize) {
    // SAFETY: zeros are a valid value of this structure.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    info.si_signo = libc::SIGBUS;
    info.si_code = 2;
    // SAFETY: the address of a fault stands behind three numbers of four bytes and a gap of four.
    unsafe { (&raw mut info).cast::<usize>().add(2).write(address) };
    handler()(libc::SIGBUS, &raw mut info, std::ptr::null_mut());
}

/// Whether the kernel has a page at an address, so that a system call can use it.
pub fn is_present(address: usize) -> bool {
    machine::step();
    machine::machine(|m| {
        m.kernel
            .pages
            .get(address / PAGE_BYTES)
            .is_some_and(|p| p.is_present)
    })
}

/// Waits for a page until it is brought, or now and then for no reason.
fn wait_for(page: usize) {
    let spurious_ns = machine::machine(|m| {
        let is_spurious = m.random.per_mille(m.kernel.config.spurious);
        is_spurious.then(|| m.random.below(1_000_000))
    });
    if machine::block(Wait::Page(page), spurious_ns) {
        machine::machine(|m| {
            let task = m.current();
            m.kernel.faults.retain(|fault| fault.task != task);
        });
    }
}

/// A child came to have the frame of a page, or has let go of it.
pub fn share(address: usize, is_shared: bool) {
    machine::step();
    machine::machine(|m| {
        if let Some(page) = m.kernel.pages.get_mut(address / PAGE_BYTES) {
            page.is_shared = is_shared && page.is_present;
        }
    });
}
