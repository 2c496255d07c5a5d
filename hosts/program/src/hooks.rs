//! What a program's address space adds around faults: forks, and the choice of processors.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use rustix::thread::{Pid, gettid};
use warmswap_arena::mechanism::{Core, FaultError, FaultHooks, HandlerHooks, Mutex};
use warmswap_sys::tls::thread_vector;

use crate::affinity::{FaultAffinity, PagerAffinity, SharedAffinity};
use crate::binding::Binding;
use crate::fork::CurrentFork;

/// What the space, its fault handlers and its pager share besides the core.
#[derive(Debug, Default)]
pub struct ProgramHooks {
    /// A fork that is under way.
    pub fork: CurrentFork,
    /// Where the thread runs that makes all faults, if there is one.
    pub home: SharedAffinity,
    /// The thread that makes them, as long as it must run where its handler does.
    pub binding: Binding,
    /// Addresses that threads of the space access in all that they do.
    pub accessed: Mutex<Vec<Range<usize>>>,
}

impl FaultHooks for ProgramHooks {
    fn thread_begins(&self) {
        // It may be memory of the program's own allocator: a handler must not need another one to get on.
        self.accessed.lock().extend(thread_vector());
    }

    fn handler(self: Arc<Self>) -> Box<dyn HandlerHooks> {
        Box::new(Handler {
            number: gettid(),
            affinity: FaultAffinity::new(),
            hooks: self,
        })
    }

    fn before_pager_turn(self: Arc<Self>) -> Box<dyn FnMut()> {
        let mut follower = PagerAffinity::new();
        Box::new(move || follower.follow(&self.home))
    }

    fn before_wait(&self) {
        // The faults of other threads are not to wait along.
        self.home.call_others();
    }

    fn fork_pending(&self, core: &Core) -> Result<(), FaultError> {
        self.fork.serve(core)
    }

    fn put_off(&self, core: &Core, address: usize) -> Result<(), FaultError> {
        self.fork.put_off(core, address)
    }

    fn take_put_off(&self) -> Option<usize> {
        let fork = self.fork.load();
        fork.let_go();
        fork.take_put_off()
    }
}

/// A fault handler of a program.
struct Handler {
    number: Pid,
    affinity: Option<FaultAffinity>,
    hooks: Arc<ProgramHooks>,
}

impl HandlerHooks for Handler {
    fn wait_for_turn(&mut self, timeout: Duration) -> bool {
        self.hooks.home.wait_outside(self.number, timeout)
    }

    fn has_turn(&self) -> bool {
        self.hooks.home.lets_in(self.number)
    }

    fn before_fault(&mut self, thread: u32) {
        if let Some(affinity) = &mut self.affinity {
            affinity.serves(thread, &self.hooks.home, &self.hooks.binding);
        }
    }

    fn reads_on(&self) -> bool {
        // The one thread that makes faults has not made another yet.
        !self
            .affinity
            .as_ref()
            .is_some_and(FaultAffinity::has_one_thread)
    }

    fn idle(&mut self) {
        if let Some(affinity) = &mut self.affinity {
            affinity.rest(&self.hooks.home, &self.hooks.binding);
        }
    }
}
