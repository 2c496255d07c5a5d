//! Functions before which no thread of the program may be bound to a processor ([`Space::unbind`]): those that create
//! processes, or deal with where threads may run. (Threads are created in `threads`, and `exec` has those that make or start
//! another program.)
//!
//! [`Space::unbind`]: warmswap_program::Space::unbind

use crate::real::interpose;
use crate::reentrancy::ReentrancyGuard;
use crate::settings::space;

/// Ends the binding of the bound thread.
pub fn unbind() {
    if !ReentrancyGuard::is()
        && let Some(space) = space()
        && space.bind_no_more()
    {
        let _within = ReentrancyGuard::enter();
        space.unbind();
    }
}

interpose! {
    unbind:
    vfork clone system popen
    sched_getaffinity sched_setaffinity pthread_getaffinity_np pthread_setaffinity_np
}
