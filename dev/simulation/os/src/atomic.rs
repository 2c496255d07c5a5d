//! Atomics whose every access is a shared step. As all tasks run on one thread, all of them are sequentially consistent:
//! what depends on weaker orders is not found here. The orders are for statics, which several simulations of a process
//! share.

use std::fmt;
pub use std::sync::atomic::Ordering;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use crate::kernel;
use crate::machine::step;

/// A fence: a shared step.
pub fn fence(_: Ordering) {
    step();
}

macro_rules! atomic {
    ($($name:ident($value:ty)),*) => {$(
        /// As the one of `std`.
        #[derive(Default)]
        #[repr(transparent)]
        pub struct $name(std::sync::atomic::$name);

        impl $name {
            /// As in `std`.
            #[must_use]
            pub const fn new(value: $value) -> Self {
                Self(std::sync::atomic::$name::new(value))
            }

            /// As in `std`.
            #[inline]
            pub fn load(&self, _: Ordering) -> $value {
                step();
                self.0.load(Acquire)
            }

            /// As in `std`.
            #[inline]
            pub fn store(&self, value: $value, _: Ordering) {
                step();
                self.0.store(value, Release);
            }

            /// As in `std`.
            #[inline]
            pub fn swap(&self, value: $value, _: Ordering) -> $value {
                step();
                self.0.swap(value, AcqRel)
            }

            /// As in `std`.
            ///
            /// # Errors
            /// As in `std`.
            #[inline]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                _: Ordering,
                _: Ordering,
            ) -> Result<$value, $value> {
                step();
                self.0.compare_exchange(current, new, AcqRel, Acquire)
            }

            /// As in `std`.
            ///
            /// # Errors
            /// As in `std`.
            #[inline]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }

            /// As in `std`: loads and compares, so that others come between.
            ///
            /// # Errors
            /// As in `std`.
            pub fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                mut change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let mut before = self.load(failure);
                while let Some(after) = change(before) {
                    match self.compare_exchange(before, after, success, failure) {
                        Ok(before) => return Ok(before),
                        Err(now) => before = now,
                    }
                }
                Err(before)
            }

            /// As in `std`.
            pub fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }

            /// As in `std`.
            pub fn into_inner(self) -> $value {
                self.0.into_inner()
            }
        }

        impl From<$value> for $name {
            fn from(value: $value) -> Self {
                Self::new(value)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

macro_rules! arithmetic {
    ($($name:ident($value:ty): $($operation:ident)*;)*) => {$(
        impl $name {
            $(
                /// As in `std`.
                #[inline]
                pub fn $operation(&self, value: $value, _: Ordering) -> $value {
                    step();
                    self.0.$operation(value, AcqRel)
                }
            )*
        }
    )*};
}

atomic!(
    AtomicBool(bool),
    AtomicU8(u8),
    AtomicU16(u16),
    AtomicU32(u32),
    AtomicI32(i32),
    AtomicU64(u64),
    AtomicI64(i64),
    AtomicUsize(usize)
);

arithmetic!(
    AtomicBool(bool): fetch_and fetch_or fetch_xor;
    AtomicU8(u8): fetch_add fetch_sub fetch_and fetch_or;
    AtomicU16(u16): fetch_add fetch_sub fetch_and fetch_or fetch_max fetch_min;
    AtomicU32(u32): fetch_add fetch_sub fetch_and fetch_or fetch_max fetch_min;
    AtomicI32(i32): fetch_add fetch_sub fetch_and fetch_or fetch_max fetch_min;
    AtomicU64(u64): fetch_add fetch_sub fetch_and fetch_or fetch_max fetch_min;
    AtomicI64(i64): fetch_add fetch_sub fetch_and fetch_or fetch_max fetch_min;
    AtomicUsize(usize): fetch_add fetch_sub fetch_and fetch_or fetch_max fetch_min;
);

impl AtomicU8 {
    /// As in `std`. The kernel hears that the byte is written to.
    ///
    /// # Safety
    /// As in `std`.
    pub unsafe fn from_ptr<'a>(byte: *mut u8) -> &'a Self {
        kernel::was_written(byte.addr());
        // SAFETY: the type has the layout of a byte; the rest is passed on to the caller.
        unsafe { &*byte.cast() }
    }
}

/// As the one of `std`.
#[derive(Debug)]
#[repr(transparent)]
pub struct AtomicPtr<T>(std::sync::atomic::AtomicPtr<T>);

impl<T> AtomicPtr<T> {
    /// As in `std`.
    #[must_use]
    pub const fn new(value: *mut T) -> Self {
        Self(std::sync::atomic::AtomicPtr::new(value))
    }

    /// As in `std`.
    pub fn load(&self, _: Ordering) -> *mut T {
        step();
        self.0.load(Acquire)
    }

    /// As in `std`.
    pub fn store(&self, value: *mut T, _: Ordering) {
        step();
        self.0.store(value, Release);
    }

    /// As in `std`.
    pub fn swap(&self, value: *mut T, _: Ordering) -> *mut T {
        step();
        self.0.swap(value, AcqRel)
    }
}

impl AtomicU32 {
    /// The value, without a step.
    pub(crate) fn peek(&self) -> u32 {
        self.0.load(Acquire)
    }
}
