//! Functions by which a program gives up rights. Serving page faults within system calls needs some of them, so the
//! descriptors for it are opened before, while that can be done: the program may need them once it nears its budget.

use crate::keeper;
use crate::real::interpose;
use crate::reentrancy::ReentrancyGuard;

fn keep() {
    // Without rights there is nothing to lose.
    if !ReentrancyGuard::is() && rustix::process::geteuid().is_root() {
        keeper::attach_now();
    }
}

interpose! {
    keep:
    setuid seteuid setreuid setresuid setgid setegid setregid setresgid setfsuid capset
}
