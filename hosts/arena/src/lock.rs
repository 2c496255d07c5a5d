//! A mutex whose state is one word, so that a child of `fork` can go on with it: threads that waited for it in
//! the parent leave no trace but a needless wake-up.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{MutexGuard, PoisonError};

/// A mutex that a thread can give up for threads that wait.
#[derive(Debug, Default)]
pub struct Mutex<T> {
    inner: std::sync::Mutex<T>,
    waiting: AtomicUsize,
}

/// How often a thread that gives way looks whether another still waits.
const YIELDS: usize = 64;

impl<T> Mutex<T> {
    /// A free mutex.
    pub fn new(value: T) -> Self {
        Self {
            inner: std::sync::Mutex::new(value),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        if let Ok(guard) = self.inner.try_lock() {
            return guard;
        }
        self.waiting.fetch_add(1, Ordering::AcqRel);
        // A thread that panics while it holds a lock ends the process.
        let guard = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        guard
    }

    /// Lets threads that wait now go first. Not to be called by the holder of the lock.
    pub fn give_way(&self) {
        for _ in 0..YIELDS {
            if self.waiting.load(Ordering::Acquire) == 0 {
                return;
            }
            std::thread::yield_now();
        }
    }

    /// In the child of a `fork`: no thread waits here, and none but the caller has the lock.
    pub fn forget_waiting(&self) {
        self.waiting.store(0, Ordering::Release);
    }
}
