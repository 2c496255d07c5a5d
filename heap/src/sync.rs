//! The locks and atomics of what mutators and collector agree by: safepoints ([`crate::world`]) and cards
//! ([`crate::cards`]). In unit tests they are shuttle's, which runs the same code under many schedules
//! ([`protocol`](crate::protocol)).

#[cfg(test)]
use shuttle::sync;
#[cfg(not(test))]
use std::sync;

use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;

pub use sync::atomic::{AtomicBool, AtomicU8};

/// So many zeros. The memory comes from the kernel page by page, when it is used.
#[cfg(not(test))]
pub fn zeroed_bytes(len: usize) -> Box<[AtomicU8]> {
    crate::bitmap::zeroed_bytes(len)
}

/// So many zeros.
#[cfg(test)]
pub fn zeroed_bytes(len: usize) -> Box<[AtomicU8]> {
    (0..len).map(|_| AtomicU8::new(0)).collect()
}

/// A lock. That a thread panicked with it is of no consequence: what it protects is consistent at all times.
#[derive(Debug, Default)]
pub struct Mutex<T>(sync::Mutex<T>);

#[derive(Debug)]
pub struct MutexGuard<'a, T>(Option<sync::MutexGuard<'a, T>>);

/// Wakes all waiters at once. One that wakes them one after the other, each when the one before has run (as
/// `parking_lot`'s does), makes all wait for a processor when one does.
#[derive(Debug, Default)]
pub struct Condvar(sync::Condvar);

impl<T> Mutex<T> {
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("taken within `wait` only")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("taken within `wait` only")
    }
}

impl Condvar {
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.0.take().expect("taken within `wait` only");
        let held = self.0.wait(held).unwrap_or_else(PoisonError::into_inner);
        guard.0 = Some(held);
    }

    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
