//! Programs that insist on the addresses that they hint at. The kernel follows a hint where nothing is; the space follows
//! it among its own addresses only, since most programs take what they get.

use std::sync::atomic::{AtomicUsize, Ordering};

use libc::c_int;

use crate::{gate, go};

/// Below it are addresses of 32 bits.
const LOW_END: usize = 4 << 30;
/// Code reaches so far by a jump.
const REACH: usize = 2 << 30;
/// So many reservations in a row that were given back at once, each for another hint: more than runtimes give back that
/// take any address in the end (Go tries 128), and fewer than those do that never will (ZGC tries thousands).
const MOST_GIVEN_BACK: usize = 256;

/// Where the last mapping is whose hint was not followed; 0 if it was given back.
static LAST: AtomicUsize = AtomicUsize::new(0);
/// How many in a row were given back.
static GIVEN_BACK: AtomicUsize = AtomicUsize::new(0);

/// Whether a hint is to be followed, wherever it is.
///
/// A program that hints at low addresses and uses them at once keeps them in 32 bits, and one that hints near its code puts code
/// there that it jumps to (LuaJIT does both). One that only reserves them (JVMs) tries others next. Go reserves its heap so, and
/// tells the kernel alone what it gives up of it.
pub fn are_meant(hint: usize, protection: c_int) -> bool {
    let is_reservation = protection == libc::PROT_NONE;
    if !is_reservation {
        return hint < LOW_END || is_near_code(hint);
    }
    // A fork waits for threads inside mimalloc, and a thread that looks for Go may wait for a fork.
    GIVEN_BACK.load(Ordering::Relaxed) >= MOST_GIVEN_BACK || !gate::is_inside() && go::is_loaded()
}

/// Whether code of the program or of its libraries, which the loader maps near this one, reaches that address.
fn is_near_code(hint: usize) -> bool {
    let own = is_near_code as fn(usize) -> bool as usize;
    // SAFETY: it reads what the kernel gave to the program when it began; 0 where that is not known.
    let program = unsafe { libc::getauxval(libc::AT_ENTRY) } as usize;
    [own, program]
        .iter()
        .any(|code| code.abs_diff(hint) < REACH)
}

/// Something was mapped in the space for a hint.
pub fn mapped(hint: Option<usize>, address: usize) {
    if hint.is_some_and(|hint| hint != address) && LAST.swap(address, Ordering::Relaxed) != 0 {
        // The one before was kept.
        GIVEN_BACK.store(0, Ordering::Relaxed);
    }
}

/// The program unmaps something at an address of the space.
pub fn unmapped(address: usize) {
    let is_last = LAST
        .compare_exchange(address, 0, Ordering::Relaxed, Ordering::Relaxed)
        .is_ok();
    if is_last {
        GIVEN_BACK.fetch_add(1, Ordering::Relaxed);
    }
}
