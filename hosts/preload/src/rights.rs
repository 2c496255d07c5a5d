//! Functions by which a program gives up rights. Serving page faults within system calls needs some of them, so the
//! descriptors for it are opened before, while that can be done: the program may need them once it nears its budget.

use crate::keeper;
use crate::real::interpose;
use crate::reentrancy::ReentrancyGuard;
use crate::report;

fn keep() {
    // Without rights there is nothing to lose.
    if !ReentrancyGuard::is() && rustix::process::geteuid().is_root() {
        keeper::attach_now();
    }
}

/// The program is about to keep its capabilities when it changes its user. Each thread does so for itself, and the C library
/// ends a process in which a later `setgroups` succeeds in one thread and fails in another.
pub fn will_keep_capabilities() {
    if !ReentrancyGuard::is() && report::is_own_process() {
        let _within = ReentrancyGuard::enter();
        keeper::end_unless_paged("it keeps capabilities when it changes its user");
    }
}

interpose! {
    keep:
    setuid seteuid setreuid setresuid setgid setegid setregid setresgid setfsuid capset
}
