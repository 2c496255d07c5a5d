//! What a host adds around faults: an arena of regions nothing, a program's address space forks and the choice of
//! processors.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use crate::error::FaultError;
use crate::fault::Core;

/// Called by the threads of an arena. All are called without the engine's lock, and none may allocate: the thread that
/// forks may hold the allocator meanwhile.
pub trait FaultHooks: Debug + Send + Sync {
    /// The calling thread, which is one of the arena's, will take part in the work.
    fn thread_begins(&self) {}

    /// The state of a fault handler, made by its thread before it begins.
    fn handler(self: Arc<Self>) -> Box<dyn HandlerHooks>;

    /// What the pager calls before each of its turns, made by its thread before it begins.
    fn before_pager_turn(self: Arc<Self>) -> Box<dyn FnMut()>;

    /// The calling thread, which may be a handler, is about to wait for a frame.
    fn before_wait(&self);

    /// The gate is closed for a fork: resolves the faults that the fork needs, for a while.
    ///
    /// # Errors
    /// A page that the fork needs is lost.
    fn fork_pending(&self, core: &Core) -> Result<(), FaultError>;

    /// The gate is closing for a fork: a fault at `address` waits until the fork is over.
    ///
    /// # Errors
    /// The address is not mapped, or the kernel refuses.
    fn put_off(&self, core: &Core, address: usize) -> Result<(), FaultError>;

    /// No fork is under way: a page whose fault was put off, if there is one.
    fn take_put_off(&self) -> Option<usize>;
}

/// Called by one fault handler thread.
pub trait HandlerHooks {
    /// Waits until this handler may read faults, at most for `timeout`; whether it may.
    fn wait_for_turn(&mut self, timeout: Duration) -> bool;

    /// Whether the next fault is this handler's to read.
    fn has_turn(&self) -> bool;

    /// A fault of this thread is about to be resolved.
    fn before_fault(&mut self, thread: u32);

    /// Whether another fault may be there already, after one was resolved.
    fn reads_on(&self) -> bool;

    /// There are no faults for a while.
    fn idle(&mut self);
}

/// Hooks of an arena of regions, whose gate is never closed for a fork: regions are not inherited.
#[derive(Debug)]
pub struct RegionHooks;

impl FaultHooks for RegionHooks {
    fn handler(self: Arc<Self>) -> Box<dyn HandlerHooks> {
        Box::new(Self)
    }

    fn before_pager_turn(self: Arc<Self>) -> Box<dyn FnMut()> {
        Box::new(|| {})
    }

    fn before_wait(&self) {}

    fn fork_pending(&self, _: &Core) -> Result<(), FaultError> {
        std::thread::yield_now();
        Ok(())
    }

    fn put_off(&self, core: &Core, address: usize) -> Result<(), FaultError> {
        let page = core.memory.page_of(address).ok_or(FaultError::NotMapped)?;
        Ok(core.memory.wake(page)?)
    }

    fn take_put_off(&self) -> Option<usize> {
        None
    }
}

impl HandlerHooks for RegionHooks {
    fn wait_for_turn(&mut self, _: Duration) -> bool {
        true
    }

    fn has_turn(&self) -> bool {
        true
    }

    fn before_fault(&mut self, _: u32) {}

    fn reads_on(&self) -> bool {
        true
    }

    fn idle(&mut self) {}
}
