//! References to objects: on the stack, and in objects.
//!
//! | type | where it lives | valid |
//! |---|---|---|
//! | [`Ref`] | in local variables | until the mutator's next safepoint, checked by the compiler |
//! | [`Field`] | in objects | as long as its object |
//! | [`Root`](crate::Root) | anywhere | until it is dropped |
#![allow(unsafe_code)] // A reference is the address of an object.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::layout::{Addr, GRANULE_BYTES};
use crate::mutator::Mutator;
use crate::types::{Managed, Object};

/// A reference to an object, for local use. Borrows the mutator, so that none is left at a safepoint, where objects
/// may move.
pub struct Ref<'m, T: Managed> {
    /// First byte of the content.
    payload: NonNull<u8>,
    of: PhantomData<(&'m Mutator, *const T)>,
}

impl<T: Managed> Clone for Ref<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Managed> Copy for Ref<'_, T> {}

impl<T: Managed> PartialEq for Ref<'_, T> {
    /// Whether both are the same object.
    fn eq(&self, other: &Self) -> bool {
        self.payload == other.payload
    }
}

impl<T: Managed> Eq for Ref<'_, T> {}

impl<T: Managed> fmt::Debug for Ref<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ref({:p})", self.payload)
    }
}

impl<'m, T: Managed> Ref<'m, T> {
    /// A reference to the object at an address of the mutator's heap.
    ///
    /// # Safety
    /// A live object of type `T` is there, in no evacuated region, and stays there until the mutator's next safepoint.
    #[inline]
    pub(crate) unsafe fn new(mutator: &'m Mutator, object: Addr) -> Self {
        // SAFETY: not null, since the base is not and the offset is within the memory.
        let payload = unsafe { NonNull::new_unchecked(mutator.space().payload(object)) };
        Self {
            payload,
            of: PhantomData,
        }
    }

    /// First byte of the content.
    #[inline]
    pub(crate) fn payload(self) -> NonNull<u8> {
        self.payload
    }

    /// The object's address in its heap.
    ///
    /// # Panics
    /// It is another heap's.
    #[inline]
    pub(crate) fn addr(self, mutator: &Mutator) -> Addr {
        // The header: an object without content at the end of the heap has no other byte within it.
        let header = self.payload.addr().get() - GRANULE_BYTES;
        let object = mutator.space().byte_of(header);
        match object.and_then(|byte| Addr::new((byte / GRANULE_BYTES) as u32)) {
            Some(object) => object,
            None => another_heap(),
        }
    }
}

/// A reference is used with the mutator of a heap that it is not of.
#[cold]
pub(crate) fn another_heap() -> ! {
    panic!("a reference or field of another heap, or a field that is not in a heap");
}

impl<T: Object> Deref for Ref<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: a live object of type `T` is there (see `new`), aligned, and stays for the borrow of the mutator. It
        // is only written to through its atomics, and `T` is `Sync`.
        unsafe { self.payload.cast().as_ref() }
    }
}

impl<'m, T: Object> Ref<'m, T> {
    /// The object, for as long as the mutator makes no safepoint.
    #[inline]
    #[must_use]
    pub fn get(self) -> &'m T {
        // SAFETY: as for `deref`; the result borrows the mutator for as long as `self` does.
        unsafe { self.payload.cast().as_ref() }
    }
}

/// A reference in an object, or none. Made empty; set once its object is on the heap.
///
/// [`Self::set`] is the write barrier, [`Self::get`] the read barrier.
pub struct Field<T: Managed> {
    /// Granule of the object's header; 0 for none.
    raw: AtomicU32,
    /// Invariant: objects of type `T` go in and come out.
    of: PhantomData<fn(*const T) -> *const T>,
}

impl<T: Managed> fmt::Debug for Field<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Field({:#x})", self.raw.load(Ordering::Relaxed))
    }
}

impl<T: Managed> Default for Field<T> {
    fn default() -> Self {
        Self::null()
    }
}

impl<T: Managed> Field<T> {
    /// Without a reference.
    #[must_use]
    pub const fn null() -> Self {
        Self {
            raw: AtomicU32::new(0),
            of: PhantomData,
        }
    }

    /// Whether there is no reference. Needs no barrier.
    #[inline]
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.raw.load(Ordering::Acquire) == 0
    }

    /// The object that it refers to.
    ///
    /// # Panics
    /// The field is in an object of another heap.
    #[inline]
    pub fn get<'m>(&self, mutator: &'m Mutator) -> Option<Ref<'m, T>> {
        let object = Addr::new(self.raw.load(Ordering::Acquire))?;
        // A field that holds a reference is in some heap: it could not have been set elsewhere.
        mutator.check_field(&raw const self.raw);
        let object = mutator.loaded(object, &self.raw);
        // SAFETY: fields of type `T` only ever refer to objects of type `T`, live ones, of the heap that they are in,
        // which is the mutator's. `loaded` gave the copy of an object that is being evacuated. Nothing that a mutator
        // can load moves before its next safepoint.
        Some(unsafe { Ref::new(mutator, object) })
    }

    /// Refers to another object, or to none, from now on.
    ///
    /// # Panics
    /// The field is not in an object of the mutator's heap, or the object is of another heap.
    #[inline]
    pub fn set(&self, mutator: &Mutator, object: Option<Ref<'_, T>>) {
        let raw = object.map_or(0, |object| object.addr(mutator).granule());
        mutator.store(&self.raw, raw);
    }

    /// Refers to `new` from now on, if it refers to `current` now; whether it did.
    ///
    /// # Panics
    /// As [`Self::set`].
    pub fn compare_and_set(
        &self,
        mutator: &Mutator,
        current: Option<Ref<'_, T>>,
        new: Option<Ref<'_, T>>,
    ) -> bool {
        // An empty field may be anywhere, and `get` does not look where.
        mutator.check_field(&raw const self.raw);
        let raw = |object: Option<Ref<'_, T>>| object.map_or(0, |o| o.addr(mutator).granule());
        let (current, new) = (raw(current), raw(new));
        // What the field holds may be the address of an object that was copied since: made the copy's by a load.
        let _ = self.get(mutator);
        let swapped = self
            .raw
            .compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire);
        if swapped.is_ok() {
            mutator.mark_card(&raw const self.raw);
        }
        swapped.is_ok()
    }
}
