//! Safepoints: stopping all mutators for a moment.

use std::sync::atomic::Ordering;

use crate::sync::{AtomicBool, Condvar, Mutex, MutexGuard};

#[derive(Debug, Default)]
struct State {
    /// Mutators that are at no safepoint.
    running: usize,
    is_stopping: bool,
}

/// Mutators that run, and whether they are to stop.
///
/// A mutator runs, or it rests: at a safepoint, in a blocking section, or before its first and after its last use. The
/// collector changes what all mutators rely on (region states, phases, cards) only while all rest.
#[derive(Debug, Default)]
pub struct World {
    /// Polled by mutators.
    is_requested: AtomicBool,
    state: Mutex<State>,
    all_rest: Condvar,
    goes_on: Condvar,
}

impl World {
    /// Whether mutators are to rest.
    #[inline]
    pub fn is_requested(&self) -> bool {
        self.is_requested.load(Ordering::Relaxed)
    }

    /// A mutator begins to run, when the world is not stopped. Whether it had to wait for that.
    pub fn enter(&self) -> bool {
        let mut state = self.state.lock();
        let has_waited = state.is_stopping;
        while state.is_stopping {
            self.goes_on.wait(&mut state);
        }
        state.running += 1;
        has_waited
    }

    /// A mutator rests.
    pub fn leave(&self) {
        let mut state = self.state.lock();
        state.running -= 1;
        if state.running == 0 && state.is_stopping {
            self.all_rest.notify_one();
        }
    }

    /// Waits until all mutators rest, and keeps them at it until the result is dropped. One caller at a time.
    pub fn stop(&self) -> Stopped<'_> {
        let mut state = self.state.lock();
        debug_assert!(
            !state.is_stopping,
            "the collector stops the world, and there is one"
        );
        state.is_stopping = true;
        self.is_requested.store(true, Ordering::Release);
        while state.running > 0 {
            self.all_rest.wait(&mut state);
        }
        Stopped {
            world: self,
            state: Some(state),
        }
    }
}

/// All mutators rest. Dropping this lets them go on.
#[derive(Debug)]
pub struct Stopped<'a> {
    world: &'a World,
    state: Option<MutexGuard<'a, State>>,
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        if let Some(state) = &mut self.state {
            state.is_stopping = false;
        }
        self.world.is_requested.store(false, Ordering::Release);
        drop(self.state.take());
        self.world.goes_on.notify_all();
    }
}
