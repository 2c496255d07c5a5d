//! The locks and atomics of what mutators and collector agree by: safepoints ([`crate::world`]) and cards
//! ([`crate::cards`]). In unit tests they are shuttle's, which runs the same code under many schedules
//! ([`protocol`](crate::protocol)).

#[cfg(not(test))]
pub use parking_lot::{Condvar, Mutex, MutexGuard};
#[cfg(not(test))]
pub use std::sync::atomic::{AtomicBool, AtomicU8};

#[cfg(test)]
pub use checked::{Condvar, Mutex, MutexGuard};
#[cfg(test)]
pub use shuttle::sync::atomic::{AtomicBool, AtomicU8};

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

/// Shuttle's with the interface of `parking_lot`'s.
#[cfg(test)]
mod checked {
    use std::ops::{Deref, DerefMut};

    use shuttle::sync;

    #[derive(Debug, Default)]
    pub struct Mutex<T>(sync::Mutex<T>);

    #[derive(Debug)]
    pub struct MutexGuard<'a, T>(Option<sync::MutexGuard<'a, T>>);

    #[derive(Debug, Default)]
    pub struct Condvar(sync::Condvar);

    impl<T> Mutex<T> {
        pub fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard(Some(self.0.lock().expect("no thread panics with the lock")))
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
            let held = self.0.wait(held).expect("no thread panics with the lock");
            guard.0 = Some(held);
        }

        pub fn notify_one(&self) {
            self.0.notify_one();
        }

        pub fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}
