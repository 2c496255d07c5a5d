//! Objects whose size is known when they are allocated only: arrays, and records.
#![allow(unsafe_code)] // Elements are at computed addresses.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::layout::GRANULE_BYTES;
use crate::mutator::Mutator;
use crate::reference::Ref;
use crate::types::Managed;

/// An array of references to objects of one type. Only ever behind a [`Ref`].
#[derive(Debug)]
pub struct Refs<T: Managed>(PhantomData<fn(*const T) -> *const T>);

impl<T: Managed> Managed for Refs<T> {}

/// Bytes that do not change once they are allocated. Only ever behind a [`Ref`].
#[derive(Debug)]
pub struct Bytes(());

impl Managed for Bytes {}

/// An object of so many references to records and so many bytes of data: for graphs whose types are not known when
/// the program is compiled. Only ever behind a [`Ref`].
#[derive(Debug)]
pub struct Record(());

impl Managed for Record {}

impl<'m, T: Managed> Ref<'m, Refs<T>> {
    /// Elements.
    #[inline]
    #[must_use]
    pub fn len(self, mutator: &Mutator) -> usize {
        mutator.space().header(self.addr(mutator)).length() as usize
    }

    /// Whether it has no elements.
    #[must_use]
    pub fn is_empty(self, mutator: &Mutator) -> bool {
        self.len(mutator) == 0
    }

    fn slot(self, mutator: &'m Mutator, index: usize) -> &'m AtomicU32 {
        let len = self.len(mutator);
        assert!(index < len, "element {index} of {len}");
        let byte = self.addr(mutator).byte() + GRANULE_BYTES + index * size_of::<u32>();
        mutator.space().slot(byte)
    }

    /// An element.
    ///
    /// # Panics
    /// There is none of that index; or the array is of another heap.
    #[inline]
    #[must_use]
    pub fn get(self, mutator: &'m Mutator, index: usize) -> Option<Ref<'m, T>> {
        let slot = self.slot(mutator, index);
        let object = crate::layout::Addr::new(slot.load(Ordering::Acquire))?;
        let object = mutator.loaded(object, slot);
        // SAFETY: as for a field: elements of an array of `T` only ever refer to live objects of type `T`.
        Some(unsafe { Ref::new(mutator, object) })
    }

    /// Changes an element.
    ///
    /// # Panics
    /// There is none of that index; or the array or object is of another heap.
    #[inline]
    pub fn set(self, mutator: &'m Mutator, index: usize, object: Option<Ref<'_, T>>) {
        let raw = object.map_or(0, |object| object.addr(mutator).granule());
        mutator.store(self.slot(mutator, index), raw);
    }
}

impl<'m> Ref<'m, Bytes> {
    /// The bytes, for as long as the mutator makes no safepoint. On an arena that serves faults by signal, a system
    /// call cannot be given them: copy them first.
    ///
    /// # Panics
    /// They are of another heap.
    #[inline]
    #[must_use]
    pub fn bytes(self, mutator: &Mutator) -> &'m [u8] {
        let len = mutator.space().header(self.addr(mutator)).length() as usize;
        // SAFETY: the object is a byte array of that length, written before it was published and never again, and it
        // stays for the borrow of the mutator.
        unsafe { std::slice::from_raw_parts(self.payload().as_ptr(), len) }
    }

    /// The same as text.
    ///
    /// # Panics
    /// They are of another heap, or no UTF-8.
    #[must_use]
    pub fn text(self, mutator: &Mutator) -> &'m str {
        std::str::from_utf8(self.bytes(mutator)).expect("a string was stored as UTF-8")
    }
}

impl<'m> Ref<'m, Record> {
    /// References, and bytes of data.
    #[must_use]
    pub fn shape(self, mutator: &Mutator) -> (usize, usize) {
        let (references, data_bytes) = mutator.space().record_parts(self.addr(mutator));
        (references as usize, data_bytes as usize)
    }

    fn slot(self, mutator: &'m Mutator, index: usize) -> &'m AtomicU32 {
        let (references, _) = self.shape(mutator);
        assert!(index < references, "reference {index} of {references}");
        let first = self.addr(mutator).byte() + 2 * GRANULE_BYTES;
        mutator.space().slot(first + index * size_of::<u32>())
    }

    /// A reference.
    ///
    /// # Panics
    /// There is none of that index; or the record is of another heap.
    #[must_use]
    pub fn get(self, mutator: &'m Mutator, index: usize) -> Option<Self> {
        let slot = self.slot(mutator, index);
        let object = crate::layout::Addr::new(slot.load(Ordering::Acquire))?;
        let object = mutator.loaded(object, slot);
        // SAFETY: as for a field: a record only ever refers to live records.
        Some(unsafe { Ref::new(mutator, object) })
    }

    /// Changes a reference.
    ///
    /// # Panics
    /// There is none of that index; or a record is of another heap.
    pub fn set(self, mutator: &'m Mutator, index: usize, object: Option<Ref<'_, Record>>) {
        let raw = object.map_or(0, |object| object.addr(mutator).granule());
        mutator.store(self.slot(mutator, index), raw);
    }

    /// The data, as words that any thread may read and write. What is left of the last word is not in it.
    ///
    /// # Panics
    /// The record is of another heap.
    #[must_use]
    pub fn data(self, mutator: &'m Mutator) -> &'m [AtomicU32] {
        let (references, data_bytes) = self.shape(mutator);
        let at = GRANULE_BYTES + references * size_of::<u32>();
        // SAFETY: within the object, whose data begins behind its references, aligned to 4 bytes; it was zeroed when
        // it was allocated, is accessed through these atomics only, and stays for the borrow of the mutator.
        unsafe {
            let first = self.payload().as_ptr().add(at).cast::<AtomicU32>();
            std::slice::from_raw_parts(first, data_bytes / size_of::<u32>())
        }
    }
}
