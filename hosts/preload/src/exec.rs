//! Another program takes this one's place: no thread is bound any more, and limits are the kernel's to keep.

use crate::real::interpose;
use crate::{limits, unbound};

fn hand_over() {
    unbound::unbind();
    limits::hand_over();
}

interpose! {
    hand_over:
    execve execv execvp execvpe execl execlp execle fexecve execveat
}
