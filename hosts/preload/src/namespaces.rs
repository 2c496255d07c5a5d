//! Calls that the kernel refuses to a process with threads: a program of one thread that makes or enters a namespace of
//! users, or enters one of time, has none of this library's from then on, unless it is paged.

use libc::c_int;

use crate::real::RealSymbol;
use crate::reentrancy::ReentrancyGuard;
use crate::{keeper, report};

/// Asks the descriptor of a namespace for its kind, as a flag of `clone` (`NS_GET_NSTYPE` of `linux/nsfs.h`).
const GET_KIND: libc::Ioctl = 0xb703;

/// Kinds that only a process of one thread enters.
const OF_ONE_THREAD: c_int = libc::CLONE_NEWUSER | libc::CLONE_NEWTIME;

static UNSHARE: RealSymbol = RealSymbol::new(c"unshare");
static SETNS: RealSymbol = RealSymbol::new(c"setns");

/// Finds the C library's functions while there is only one thread.
pub fn start() {
    UNSHARE.function();
    SETNS.function();
}

fn be_of_one_thread() {
    if !ReentrancyGuard::is() && report::is_own_process() && keeper::is_started() {
        let _within = ReentrancyGuard::enter();
        keeper::end_unless_paged("it enters a namespace of users or of time");
    }
}

/// The kind of namespace that a descriptor stands for; none where it is no namespace's.
fn kind(fd: c_int) -> c_int {
    // SAFETY: it asks, and takes no argument.
    unsafe { libc::ioctl(fd, GET_KIND) }.max(0)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn unshare(flags: c_int) -> c_int {
    if flags & libc::CLONE_NEWUSER != 0 {
        be_of_one_thread();
    }
    type Unshare = unsafe extern "C" fn(c_int) -> c_int;
    // SAFETY: what has that name is a function of this type; the arguments are passed on from the caller.
    unsafe { std::mem::transmute::<*mut libc::c_void, Unshare>(UNSHARE.or_abort())(flags) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn setns(fd: c_int, kinds: c_int) -> c_int {
    let entered = if kinds == 0 { kind(fd) } else { kinds };
    if entered & OF_ONE_THREAD != 0 {
        be_of_one_thread();
    }
    type Setns = unsafe extern "C" fn(c_int, c_int) -> c_int;
    // SAFETY: as above.
    unsafe { std::mem::transmute::<*mut libc::c_void, Setns>(SETNS.or_abort())(fd, kinds) }
}
