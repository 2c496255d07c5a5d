//! Locks whose waiters are tasks: those of `parking_lot`, and those of `std`.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{self as real, PoisonError, TryLockError};

use crate::machine::{Wait, block, is_task, machine, step};

/// Tries until it succeeds; waits between for the lock at an address.
fn acquire<G>(address: usize, mut attempt: impl FnMut() -> Option<G>) -> G {
    step();
    loop {
        if let Some(guard) = attempt() {
            return guard;
        }
        assert!(is_task(), "a lock is held by a task that ended");
        block(Wait::Lock(address), None);
    }
}

fn release(address: usize) {
    if is_task() {
        machine(|m| m.wake(usize::MAX, |wait| wait == Wait::Lock(address)));
    }
    step();
}

fn taken<G>(result: Result<G, TryLockError<G>>) -> Option<G> {
    match result {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// As the one of `parking_lot`.
#[derive(Default)]
pub struct Mutex<T: ?Sized>(real::Mutex<T>);

/// As the one of `parking_lot`.
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    guard: Option<real::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    /// A free mutex.
    pub const fn new(value: T) -> Self {
        Self(real::Mutex::new(value))
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    fn address(&self) -> usize {
        (&raw const self.0).cast::<()>().addr()
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let guard = acquire(self.address(), || taken(self.0.try_lock()));
        MutexGuard {
            mutex: self,
            guard: Some(guard),
        }
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        step();
        taken(self.0.try_lock()).map(|guard| MutexGuard {
            mutex: self,
            guard: Some(guard),
        })
    }

    /// The value; no other task has the mutex.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.guard {
            Some(guard) => guard,
            None => unreachable!("only within a wait"),
        }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.guard {
            Some(guard) => guard,
            None => unreachable!("only within a wait"),
        }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        if self.guard.take().is_some() {
            release(self.mutex.address());
        }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.guard.fmt(f)
    }
}

/// As the one of `parking_lot`.
#[derive(Debug, Default)]
pub struct Condvar {
    /// So that each has an address of its own.
    _place: u8,
}

impl Condvar {
    /// One without waiters.
    #[must_use]
    pub const fn new() -> Self {
        Self { _place: 0 }
    }

    fn wait_for(&self) -> Wait {
        Wait::Lock((&raw const *self).addr())
    }

    /// Lets the lock go and waits; has it again afterwards.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        guard.guard = None;
        let address = guard.mutex.address();
        machine(|m| m.wake(usize::MAX, |wait| wait == Wait::Lock(address)));
        block(self.wait_for(), None);
        let mutex = guard.mutex;
        guard.guard = Some(acquire(address, || taken(mutex.0.try_lock())));
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) -> usize {
        step();
        let wait = self.wait_for();
        machine(|m| m.wake(usize::MAX, |waits| waits == wait))
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) -> bool {
        step();
        let wait = self.wait_for();
        machine(|m| m.wake(1, |waits| waits == wait)) > 0
    }
}

/// As the one of `parking_lot`.
#[derive(Default)]
pub struct RwLock<T: ?Sized>(real::RwLock<T>);

/// As the one of `parking_lot`.
#[derive(Debug)]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    address: usize,
    guard: Option<real::RwLockReadGuard<'a, T>>,
}

/// As the one of `parking_lot`.
#[derive(Debug)]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    address: usize,
    guard: Option<real::RwLockWriteGuard<'a, T>>,
}

impl<T> RwLock<T> {
    /// A free lock.
    pub const fn new(value: T) -> Self {
        Self(real::RwLock::new(value))
    }
}

impl<T: ?Sized> RwLock<T> {
    fn address(&self) -> usize {
        (&raw const self.0).cast::<()>().addr()
    }

    /// Waits for the lock, shared with other readers.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        let address = self.address();
        RwLockReadGuard {
            address,
            guard: Some(acquire(address, || taken(self.0.try_read()))),
        }
    }

    /// Waits for the lock, alone.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        let address = self.address();
        RwLockWriteGuard {
            address,
            guard: Some(acquire(address, || taken(self.0.try_write()))),
        }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

macro_rules! guards {
    ($($name:ident)*) => {$(
        impl<T: ?Sized> Deref for $name<'_, T> {
            type Target = T;

            fn deref(&self) -> &T {
                match &self.guard {
                    Some(guard) => guard,
                    None => unreachable!("taken when it is dropped"),
                }
            }
        }

        impl<T: ?Sized> Drop for $name<'_, T> {
            fn drop(&mut self) {
                drop(self.guard.take());
                release(self.address);
            }
        }
    )*};
}
guards!(RwLockReadGuard RwLockWriteGuard);

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.guard {
            Some(guard) => guard,
            None => unreachable!("taken when it is dropped"),
        }
    }
}

/// The locks of `std::sync`.
pub mod std_sync {
    use std::fmt;
    use std::sync::{LockResult, OnceLock as Real, TryLockError, TryLockResult};

    pub use super::MutexGuard;
    use crate::machine::yield_now;

    /// As the one of `std`.
    #[derive(Debug, Default)]
    pub struct Mutex<T: ?Sized>(super::Mutex<T>);

    impl<T> Mutex<T> {
        /// A free mutex.
        pub const fn new(value: T) -> Self {
            Self(super::Mutex::new(value))
        }
    }

    impl<T: ?Sized> Mutex<T> {
        /// Waits for the lock.
        ///
        /// # Errors
        /// Never: a task that panics ends the simulation.
        pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
            Ok(self.0.lock())
        }

        /// Takes the lock if it is free.
        ///
        /// # Errors
        /// It is not.
        pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
            self.0.try_lock().ok_or(TryLockError::WouldBlock)
        }
    }

    /// As the one of `std`.
    pub struct OnceLock<T>(Real<T>);

    impl<T> OnceLock<T> {
        /// One without a value.
        #[must_use]
        pub const fn new() -> Self {
            Self(Real::new())
        }

        /// The value, if there is one.
        pub fn get(&self) -> Option<&T> {
            crate::machine::step();
            self.0.get()
        }

        /// Sets the value once.
        ///
        /// # Errors
        /// There is one.
        pub fn set(&self, value: T) -> Result<(), T> {
            crate::machine::step();
            self.0.set(value)
        }

        /// The value, which is made first if there is none. `make` takes no step.
        pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
            crate::machine::step();
            self.0.get_or_init(make)
        }

        /// Waits for the value.
        pub fn wait(&self) -> &T {
            loop {
                if let Some(value) = self.get() {
                    return value;
                }
                yield_now();
            }
        }
    }

    impl<T> Default for OnceLock<T> {
        fn default() -> Self {
            Self::new()
        }
    }

    impl<T: fmt::Debug> fmt::Debug for OnceLock<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.fmt(f)
        }
    }
}
